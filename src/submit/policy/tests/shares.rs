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
    // What to try: the largest share that the QOS and the site allow, if that is known.
    let shards = |sizes: &[u64], most| Policy {
        share_gres: ShareGres("shard".to_owned()),
        shares: ShareRules { sizes: sizes.to_vec(), most, ..ShareRules::default() },
        ..Policy::default()
    };
    for (qos, text, policy, expected) in [
        ("qos_all_shards", "gres/gpu:a40:2,gres/nic:1", shards(&[2, 4, 16], Some(16)), Some("shard:4,nic:1")),
        ("qos_all_shards", "gres/gpu:1", shards(&[], Some(16)), Some("shard:8")),
        ("qos_all_shards", "gres/gpu:1", shards(&[], Some(6)), Some("shard:6")),
        ("qos_shards_only", "gres/gpu:1", shards(&[], Some(6)), Some("shard:a40:6")),
        ("qos_all_shards", "gres/gpu:1", shards(&[16], Some(16)), None),
        ("qos_all_shards", "gres/gpu:1", shards(&[], None), None),
    ] {
        let refusal = refused(judge(&node(qos, text), &policy, &TABLE));
        let expected = expected.map(|share| format!("--qos={qos} --gres={share}"));
        assert_eq!(crate::submit::message::correction(&refusal), expected, "{qos} {text}");
    }
    let two = Request { min_nodes: Some(2), max_nodes: Some(2), ..node("qos_all_shards", "gres/gpu:1") };
    let refusal = refused(judge(&two, &shards(&[], Some(16)), &TABLE));
    let expected = Some("--qos=qos_all_shards -N2 --gres=shard:4".to_owned());
    assert_eq!(crate::submit::message::correction(&refusal), expected, "eight on both nodes");
    let nine = Request { min_nodes: Some(9), max_nodes: Some(9), ..two };
    let refusal = refused(judge(&nine, &shards(&[], Some(16)), &TABLE));
    assert_eq!(crate::submit::message::correction(&refusal), None, "less than one on each");
    let tasks = Request { ntasks_per_tres: Some(1), num_tasks: Some(2), ..node("qos_all_shards", "") };
    assert_eq!(rule(&tasks, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
}
