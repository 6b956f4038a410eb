//! A job that names no GPU is answered before the rest of it is read: as the whole check would.

use super::*;
use crate::config::rules::Rules;

#[test]
fn a_rule_that_concerns_other_jobs_too_is_checked_for_all() {
    for (site, expected) in [
        ("", true),
        ("QOS=* Mode=warn", true),
        ("ExemptReservations=x", true),
        ("GetUserEnv=drop", false),
        ("QOS=* ArrayTasks=4", false),
        ("QOS=* Requeue=yes", false),
        ("QOS=* OpenMode=append", false),
        ("GpuPartitions=*", false),
        ("ShareReservations=x", false),
        ("ShareSizes=20,40", false),
        ("ShareOnlyPartitions=*", false),
        ("MaxCPUsPerGpu=1", false),
    ] {
        assert_eq!(Rules::parse(site).unwrap().policy.judges_only_gpus(), expected, "{site}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_job_that_names_no_gpu_passes_as_it_is_where_only_gpus_are_judged(
        names in proptest::array::uniform4(proptest::option::of("[a-z,-]{0,9}|x{1025}")), which in 0..11_usize,
        gres in proptest::option::of("(gres/(gpu|mps):?[0-9]?)?"), per_gpu in proptest::option::of(0_u16..2),
        numbers in proptest::option::of(0_u32..3), exclusive in proptest::bool::ANY, user_env in proptest::bool::ANY,
    ) {
        let [qos, account, partition, reservation] = names.each_ref().map(|name| name.as_deref().map(str::as_bytes));
        let batch = numbers.map(|_| Batch { user_env, array: Some(b"0-99".as_slice()), ..Batch::default() });
        let mut request = Request {
            qos, account, partition, reservation, ntasks_per_tres: per_gpu, num_tasks: numbers, min_nodes: numbers,
            exclusive, batch, ..Request::new(Spelling::Slash)
        };
        if let Some(field) = Field::ALL.get(which) {
            *request.string_mut(*field) = gres.as_deref().map(str::as_bytes);
        }
        let sites = [
            "", "GetUserEnv=drop", "QOS=* ArrayTasks=4", "GpuPartitions=*", "ShareReservations=x", "MaxCPUsPerGpu=1",
            "ShareSizes=20,40", "ShareOnlyPartitions=*", "UnitsPerGpu=80", "MemoryGRES=gpumem\nMemPerUnit=500\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=80",
            "GovernedAccounts=*", "GovernedPartitions=*", "GovernedQOS=*", "ExemptReservations=x", "Mode=default",
        ];
        let nothing_is_looked_up = Table { names: false, associations: false, ..TABLE };
        for site in sites {
            let policy = Rules::parse(site).unwrap().policy;
            if request.names_no_gpu() && policy.judges_only_gpus() {
                let verdict = judge(&request, &policy, &nothing_is_looked_up);
                proptest::prop_assert_eq!(verdict, Ok(Acceptance::default()), "{:?} {}", request, site);
            }
        }
        let named = gres.is_some() && which < Field::ALL.len();
        let long = names.iter().flatten().any(|name| name.len() > 1024);
        let list = names[0].as_ref().is_some_and(|qos| qos.contains(','));
        proptest::prop_assert_eq!(request.names_no_gpu(), !(named || per_gpu == Some(1) || long || list));
    }
}
