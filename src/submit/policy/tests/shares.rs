//! Shares under QOSes: which limits count them, and what whole GPUs may do there.

use super::*;

#[test]
fn shares_are_counted_or_refused_under_a_governed_qos() {
    for (qos, text, expected) in [
        ("qos_lafferty", "gres/mps:40", Some(Rule::ShareUncounted)),
        ("qos_lafferty", "gres/shard:a40:2", Some(Rule::ShareUncounted)),
        ("qos_lafferty", "gres/mps:0", None),
        ("qos_counted", "gres/mps:40", None),
        ("qos_counted", "gres/mps:a40:40", None),
        ("qos_counted", "gres/mps:p100:40", Some(Rule::TypeUnknown)),
        ("qos_shards", "gres/shard:2", Some(Rule::TypeMissing)),
        ("qos_shards", "gres/shard:a40:2", None),
        ("qos_shards", "gres/shard:h100:2", Some(Rule::TypeForeign)),
        ("normal", "gres/mps:40", None),
    ] {
        assert_eq!(rule(&node(qos, text), &Policy::default()), expected, "{qos} {text}");
    }
    // What the QOS has instead, or the types of the share.
    for (qos, text, gres) in [("qos_lafferty", "gres/mps:40", "gpu"), ("qos_shards", "gres/shard:2", "shard")]
    {
        let refusal = refused(judge(&node(qos, text), &Policy::default(), &TABLE));
        assert_eq!(refusal.gres, gres.as_bytes(), "{qos} {text}");
    }
    let gpu_only = Policy { gres: GovernedGres(vec!["gpu".to_owned()]), ..Policy::default() };
    assert_eq!(rule(&node("qos_lafferty", "gres/mps:40"), &gpu_only), None);
}

#[test]
fn shares_are_no_gpus_and_have_rules_of_their_own() {
    let both = Request { ntasks_per_tres: Some(1), ..node("qos_counted", "gres/mps:40") };
    assert_eq!(rule(&both, &Policy::default()), Some(Rule::NtasksPerGpuAlone), "a share is no typed GPU");
    let allow = Policy { foreign_types: ForeignTypes::Allow, ..Policy::default() };
    assert_eq!(rule(&node("qos_lafferty", "gres/mps:40"), &allow), None);
    // A limit on shares, and none that counts whole GPUs.
    for (qos, text, expected) in [
        ("qos_shards_only", "gres/gpu:1", Some(Rule::GpuUncounted)),
        ("qos_shards_only", "gres/gpu:a40:1", Some(Rule::GpuUncounted)),
        ("qos_shards_only", "gres/shard:a40:1", None),
        ("qos_all_shards", "gres/gpu:a40:1", Some(Rule::GpuUncounted)),
        ("qos_all_shards", "gres/gpu:0", None),
        ("qos_all_shards", "gres/shard:1", None),
        ("qos_all_shards", "gres/mps:1", Some(Rule::ShareUncounted)),
        ("qos_no_shards", "gres/gpu:1", None),
        ("qos_sum_and_shards", "gres/gpu:a40:1", None),
        ("qos_sum_and_shards", "gres/gpu:1", None),
    ] {
        assert_eq!(rule(&node(qos, text), &Policy::default()), expected, "{qos} {text}");
    }
    assert_eq!(rule(&node("qos_all_shards", "gres/gpu:1"), &allow), None);
    let tasks = Request { ntasks_per_tres: Some(1), num_tasks: Some(2), ..node("qos_all_shards", "") };
    assert_eq!(rule(&tasks, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
}
