//! Limits of 0 on a type.

use super::*;

/// The limit keeps whole-node jobs from that type, and no message suggests it.
#[test]
fn a_type_with_a_limit_of_0_is_not_offered() {
    let allow = Policy { foreign_types: ForeignTypes::Allow, ..Policy::default() };
    let a40 = || (b"a40".to_vec(), Some(4));
    for (policy, qos, text, expected) in [
        (&Policy::default(), "qos_none_of_h100", "gres/gpu:1", Some(Offer::OfQos(vec![a40()]))),
        (&Policy::default(), "qos_none_of_h100", "gres/gpu:h100:1", Some(Offer::OfQos(vec![a40()]))),
        (&Policy::default(), "qos_of_nothing", "gres/gpu:1", Some(Offer::OfQos(vec![]))),
        (&allow, "qos_none_of_h100", "gres/gpu:1", Some(Offer::OfQos(vec![a40()]))),
        (&allow, "qos_of_nothing", "gres/gpu:1", Some(Offer::OfCluster(vec![b"a40".to_vec()]))),
        // It passes with a warning that it exceeds a limit; no type is foreign.
        (&allow, "qos_none_of_h100", "gres/gpu:h100:1", None),
        (&allow, "qos_of_nothing", "gres/gpu:a40:1", None),
    ] {
        let offer = match judge(&node(qos, text), policy, &TABLE) {
            Ok(accepted) => {
                let said: Vec<_> =
                    accepted.remarks.iter().filter_map(crate::submit::message::remark).collect();
                assert!(
                    said.iter().all(|text| !text.contains("h100 (0)") && !text.contains("try:")),
                    "{said:?}"
                );
                assert_eq!(said.len(), usize::from(text.contains("h100")), "{said:?}");
                None
            }
            Err(refusal) => {
                assert!(!crate::submit::message::refusal(&refusal).contains("h100 (0)"));
                Some(refusal.offer)
            }
        };
        assert_eq!(offer, expected, "{qos} {text}");
    }
}
