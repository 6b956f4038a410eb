//! Limits on `billing`, of a QOS and of an account, where partitions bill GPUs by type, alike or not at all.

use super::*;
use crate::submit::message;

#[test]
fn under_a_limit_on_billing_a_type_is_named_where_it_is_billed() {
    for whose in ["qos=qos_billed", "account=billed qos=normal"] {
        for (options, expected) in [
            ("p=billed node=gres/gpu:2", Some(Rule::TypeMissing)),
            ("p=billed job=gres/gpu:2", Some(Rule::TypeMissing)),
            ("p=billed node=gres/gpu:a40:2", None),
            ("p=billed node=gres/gpu:h100:2", None),
            ("p=billed node=gres/gpu:mAA0zxtUzzzz:2", Some(Rule::TypeUnknown)),
            ("p=billed node=gresgpu", Some(Rule::Unreadable)),
            ("p=billed n=4 per-gpu=2", Some(Rule::NtasksPerGpuAlone)),
            ("p=billed node=gres/mps:20", None),
            ("p=billed_shares node=gres/mps:20", Some(Rule::TypeMissing)),
            ("p=billed_shares node=gres/gpu:2", None),
            ("p=main,billed node=gres/gpu:2", Some(Rule::TypeMissing)),
            ("p=main node=gres/gpu:2", None),
            ("p=main", None),
            ("p=alike node=gres/gpu:2", None),
            ("p=alike job=gres/gpu:a40:2 node=gres/gpu:h100:1", Some(Rule::CountedTwoWays)),
            ("p=alike task=gres/gpu:1 n=3 per-node=2 N=2", Some(Rule::TasksUneven)),
            ("p=main job=gres/gpu:a40:2 node=gres/gpu:h100:1", None),
        ] {
            let options = format!("{whose} {options}");
            assert_eq!(rule(&asked(&options), &Policy::default()), expected, "{options}");
        }
    }
}

#[test]
fn who_governs_by_name_is_left_alone_by_limits_on_billing() {
    let named = Policy { governed: Governed::Names(patterns("other")), ..Policy::default() };
    assert_eq!(rule(&asked("qos=qos_billed p=billed node=gres/gpu:2"), &named), None);
    for accounts in [GovernedAccounts::Off, GovernedAccounts::Names(patterns("other"))] {
        let policy = Policy { accounts, ..Policy::default() };
        assert_eq!(rule(&asked("qos=normal account=billed p=billed node=gres/gpu:2"), &policy), None);
    }
}

#[test]
fn a_list_of_qoses_is_judged_by_the_limits_on_billing_in_it() {
    for (list, expected) in [("normal,qos_billed", Some(Rule::TypeMissing)), ("normal,listed_by_name", None)]
    {
        let options = format!("qos={list} p=billed node=gres/gpu:2");
        assert_eq!(rule(&asked(&options), &Policy::default()), expected, "{list}");
    }
}

/// A QOS that is governed for its GPUs, and allows shares of any type, which the partition bills by type.
#[test]
fn shares_that_are_billed_by_type_name_it() {
    for (partition, expected) in [("billed_shares", Some(Rule::TypeMissing)), ("billed", None)] {
        let options = format!("qos=qos_shares_billed p={partition} node=gres/mps:20");
        assert_eq!(rule(&asked(&options), &Policy::default()), expected, "{partition}");
    }
}

#[test]
fn the_message_offers_the_clusters_types() {
    let refusal =
        refused(judge(&asked("qos=qos_billed p=billed node=gres/gpu:2"), &Policy::default(), &TABLE));
    assert_eq!(refusal.offer, Offer::OfCluster(vec![b"a40".to_vec(), b"h100".to_vec()]));
    assert_eq!(message::correction(&refusal).as_deref(), Some("--qos=qos_billed --gres=gpu:TYPE:2"));
}

#[test]
fn a_move_to_where_types_are_billed_names_them_again() {
    let policy = Policy::default();
    for whose in ["qos=qos_billed", "account=billed qos=normal"] {
        for (job, change, expected) in [
            ("p=main node=gres/gpu:2", "p=billed", Some(Rule::OldRequestStays)),
            ("p=main node=gres/gpu:a40:2", "p=billed", Some(Rule::NotRestated)),
            ("p=main node=gres/gpu:a40:2", "p=billed node=gres/gpu:a40:2", None),
            ("p=main node=gres/gpu:2", "p=main", None),
            ("p=billed node=gres/gpu:a40:2", "node=gres/gpu:2", Some(Rule::TypeMissing)),
            ("p=billed node=gres/gpu:a40:2", "node=gres/gpu:a40:1", None),
        ] {
            let job = format!("{whose} {job}");
            let verdict = changed(asked(change), &asked(&job), &policy);
            assert_eq!(broken(verdict), expected, "{job}: {change}");
        }
    }
}
