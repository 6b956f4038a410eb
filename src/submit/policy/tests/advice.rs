//! Requests for more than a limit ever allows.

use super::accounts::ground;
use super::*;

#[test]
fn more_than_an_association_ever_has_is_said() {
    for (options, beyond) in [
        ("account=acct qos=normal node=gres/gpu:a40:1", None),
        ("account=acct qos=normal node=gres/gpu:a40:2", Some(("acct", false, 1))),
        ("account=acct qos=normal task=gres/gpu:a40:1 n=2", Some(("acct", false, 1))),
        ("account=acct qos=normal node=gres/gpu:h100:2", None),
        ("account=mine qos=normal job=gres/gpu:A40:3", Some(("mine", true, 2))),
        ("account=mine qos=normal job=gres/gpu:h100:3", None),
        ("account=child qos=normal job=gres/gpu:a40:3", Some(("dept", false, 2))),
        ("account=child qos=normal job=gres/gpu:h100:9", Some(("dept", false, 8))),
        ("account=free qos=normal job=gres/gpu:a40:9", None),
        // The QOS's own limit on the type counts instead.
        ("account=acct qos=qos_lafferty node=gres/gpu:a40:2", None),
        // Each partition may have another association.
        ("account=parted qos=normal p=q node=gres/gpu:a40:2", Some(("parted", true, 1))),
        ("account=parted qos=normal p=q,main node=gres/gpu:a40:2", None),
        ("account=acct qos=normal p=q,main node=gres/gpu:a40:2", None),
        ("account=acct qos=normal,free node=gres/gpu:a40:2", None),
        // It may get another QOS.
        ("account=acct reservation=r node=gres/gpu:a40:5", None),
    ] {
        let judged = |limit_advice| {
            let policy = Policy { limit_advice, ..Policy::default() };
            match judge(&asked(options), &policy, &TABLE) {
                Ok(accepted) => Ok(accepted.remarks),
                Err(refusal) => Err(refusal),
            }
        };
        let said = |refusal: Box<Refusal>| {
            let Offer::OfQos(limits) = refusal.offer else { panic!("{options}") };
            (refusal.rule, refusal.ground, limits.first().and_then(|(_, most)| *most))
        };
        let named = options.split_whitespace().find_map(|option| option.strip_prefix("account=")).unwrap();
        let expected =
            beyond.map(|(account, own, most)| (Rule::BeyondLimit, ground(account, own, named), Some(most)));
        let warned = judged(LimitAdvice::Warn).unwrap().into_iter().map(|remark| match remark {
            Remark::Passed(refusal, Because::Warn) => said(refusal),
            other => panic!("{options}: {other:?}"),
        });
        assert_eq!(warned.collect::<Vec<_>>(), expected.iter().cloned().collect::<Vec<_>>(), "{options}");
        assert!(judged(LimitAdvice::Refuse).is_ok(), "{options}: the QOS of a partition may raise it");
        let audited = Policy { mode: Mode::Audit, ..Policy::default() };
        let audited = accepted(judge(&asked(options), &audited, &TABLE)).remarks;
        assert!(
            audited.iter().all(|remark| matches!(remark, Remark::Passed(_, Because::Audit))),
            "{options}"
        );
        assert_eq!(judged(LimitAdvice::Off).map(|remarks| remarks.len()).ok(), Some(0), "{options}");
    }
}
