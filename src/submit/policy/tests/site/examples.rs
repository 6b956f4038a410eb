//! The sites' policies in docs/examples, each with a request that it refuses and one that it accepts.

use super::caps::asked;
use super::*;
use crate::config::{self, rules::Rules};

#[test]
fn each_example_refuses_and_accepts() {
    let (missing, cpus) = (Some(Rule::GpuMissing), Some(Rule::TooManyCpus));
    for (example, options, expected) in [
        ("alpine", "p=aa100 n=8", missing),
        ("alpine", "p=amilan n=64", None),
        ("alpine", "p=amilan,aa100 n=8", missing),
        ("alpine", "p=aa100 node=gres/gpu:a100:1 n=22", cpus),
        ("alpine", "p=aa100 node=gres/gpu:3 n=63 mem=237G", None),
        ("alpine", "p=ami100 node=gres/gpu:1 mem=80G", Some(Rule::TooMuchMemory)),
        ("niflheim", "p=a100el8 n=32", missing),
        ("niflheim", "p=sm3090_devel n=1", missing),
        ("niflheim", "p=xeon24el8 n=24", None),
        ("niflheim", "p=a100el8 node=gres/gpu:1 n=32", None),
        ("niflheim", "p=a100el8 job=gres/gpu:1 n=32", None),
        ("greene", "p=v100 n=4", missing),
        ("greene", "p=v100 node=gres/gpu:v100:1 c=20 mem=200G", None),
        ("greene", "p=v100 node=gres/gpu:v100:1 c=21", cpus),
        ("greene", "p=gpu_misc_v100 node=gres/gpu:v100:1 c=11", cpus),
        ("greene", "p=cds_dgx_d node=gres/gpu:v100:1 c=10 mem=250G", None),
        ("greene", "p=cs_a100_2 node=gres/gpu:a100:1 c=28 mem=251G", Some(Rule::TooMuchMemory)),
        ("greene", "p=mi50 node=gres/gpu:1", Some(Rule::TypeMissing)),
        ("greene", "p=cpu n=48", None),
        ("surf", "node=gres/mps:40", Some(Rule::ShareReservation)),
        ("surf", "node=gres/mps:40 reservation=jupyterhub_course_x", None),
        ("savio", "qos=qos_lafferty node=gres/gpu:1", Some(Rule::TypeMissing)),
        ("savio", "qos=qos_lafferty node=gres/gpu:A40:1", None),
    ] {
        let file = format!("{}/docs/examples/{example}/gpushare.conf", env!("CARGO_MANIFEST_DIR"));
        let policy = config::load(std::path::Path::new(&file), Rules::parse).unwrap().unwrap().0.policy;
        assert_eq!(rule(&asked(options), &policy), expected, "{example}: {options}");
    }
}
