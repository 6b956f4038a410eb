//! Tests of the lines for nodes of every placement.

use std::path::PathBuf;

use super::*;
use crate::slurm;
use gpushare_node::gpu::Unfit;

fn node(models: &[&str]) -> Vec<Detail> {
    let detail = |(index, model): (u32, &&str)| Detail {
        index,
        path: PathBuf::from(format!("/dev/nvidia{index}")),
        number: None,
        uuid: None,
        pci: None,
        model: Some((*model).to_owned()).filter(|model| !model.is_empty()),
        gres_type: None,
        unfit: None,
    };
    (0..).zip(models).map(detail).collect()
}

/// The lines that aren't comments; the last is slurm.conf's.
fn lines(rules: &str, details: &[Detail]) -> Vec<String> {
    let config = Config::parse(rules).unwrap();
    let known = known_types(&config, "n1", &Slurm::default());
    let mut details = details.to_vec();
    for detail in &mut details {
        detail.gres_type = Some(type_of(detail.model.as_deref().unwrap_or_default(), &known));
    }
    let all = text(config.of_node("n1"), "n1", &Inventory { details }).unwrap();
    let last = all.lines().last().unwrap_or_default().to_owned();
    all.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .chain([last])
        .collect()
}

#[test]
fn each_placement_has_the_lines_of_its_example() {
    let a40 = ["NVIDIA A40"; 4];
    let gpus = "NodeName=n1 Name=gpu Type=a40 File=/dev/nvidia[0-3]";
    for (rules, expected) in [
        ("# off", vec!["AutoDetect=off", gpus, "# NodeName=n1 … Gres=gpu:a40:4"]),
        (
            "Placement=follow\nUnitsPerGpu=100",
            vec![
                "AutoDetect=off",
                gpus,
                "NodeName=n1 Name=mps Count=400 Flags=all_sharing",
                "# NodeName=n1 … Gres=gpu:a40:4,mps:400",
            ],
        ),
        (
            "Placement=follow\nShareGRES=shard\nUnitsPerGpu=8",
            vec![
                "AutoDetect=off",
                gpus,
                "NodeName=n1 Name=shard Count=32",
                "# NodeName=n1 … Gres=gpu:a40:4,shard:32",
            ],
        ),
        (
            "NodeName=n[1-2] Placement=follow UnitsPerGpu=24,24,12,0",
            vec![
                "AutoDetect=off",
                gpus,
                "NodeName=n1 Name=mps Count=24 File=/dev/nvidia0 Flags=all_sharing",
                "NodeName=n1 Name=mps Count=24 File=/dev/nvidia1 Flags=all_sharing",
                "NodeName=n1 Name=mps Count=12 File=/dev/nvidia2 Flags=all_sharing",
                "# NodeName=n1 … Gres=gpu:a40:4,mps:60",
            ],
        ),
        (
            "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=a40:24",
            vec!["NodeName=n1 Name=gpushare Count=96 Flags=CountOnly", "# NodeName=n1 … Gres=gpushare:96"],
        ),
        (
            "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80",
            vec!["NodeName=n1 Name=gpushare Count=320 Flags=CountOnly", "# NodeName=n1 … Gres=gpushare:320"],
        ),
        // As at SURF: each of 4 GPUs has 80 units, and Slurm allocates a quarter of what it counts.
        (
            "Placement=override\nUnitsPerGpu=80",
            vec![
                "AutoDetect=off",
                gpus,
                "NodeName=n1 Name=mps Count=1280",
                "# NodeName=n1 … Gres=gpu:a40:4,mps:1280",
            ],
        ),
    ] {
        assert_eq!(lines(rules, &node(&a40)), expected, "{rules}");
    }
}

#[test]
fn a_type_is_called_as_it_is_called_elsewhere() {
    let known =
        Types { here: Vec::new(), elsewhere: ["a40", "a4", "TitanRTX", "h100"].map(str::to_owned).to_vec() };
    for (model, gres_type) in [
        ("NVIDIA A40", "a40"),
        ("NVIDIA TITAN RTX", "TitanRTX"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100_sxm4_40gb"),
        ("", "gpu"),
    ] {
        assert_eq!(type_of(model, &known), gres_type, "{model}");
    }
    let config = Config::parse("QOS=x GPUs=a40:1").unwrap();
    let slurm = |gres| Slurm {
        nodes: vec![slurm::Node::read(&format!("NodeName=n1 Gres={gres}")).unwrap()],
        ..Slurm::default()
    };
    for (gres, model, gres_type) in [
        ("gpu:big:4", "NVIDIA A40", "big"),
        ("gpu:big:2,gpu:a100:2", "NVIDIA A40", "a40"),
        ("gpu:4", "NVIDIA A40", "a40"),
    ] {
        assert_eq!(type_of(model, &known_types(&config, "n1", &slurm(gres))), gres_type, "{gres}");
    }
}

#[test]
fn unlike_gpus_have_a_line_each() {
    let details = node(&["NVIDIA A40", "NVIDIA A40", "NVIDIA H100", "NVIDIA A40"]);
    let found = lines("QOS=x GPUs=a40:1,h100:1", &details);
    assert_eq!(
        found,
        [
            "AutoDetect=off",
            "NodeName=n1 Name=gpu Type=a40 File=/dev/nvidia[0-1]",
            "NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia2",
            "NodeName=n1 Name=gpu Type=a40 File=/dev/nvidia3",
            "# NodeName=n1 … Gres=gpu:a40:3,gpu:h100:1",
        ]
    );
}

#[test]
fn a_gpu_that_takes_no_share_is_said() {
    let mut details = node(&["NVIDIA A40"; 2]);
    details[1].unfit = Some(Unfit::MigEnabled);
    let config = Config::default();
    let said = text(&config.node, "n1", &Inventory { details }).unwrap();
    assert!(
        said.lines().any(|line| line.starts_with("# /dev/nvidia1: ") && line.contains("no share")),
        "{said}"
    );
}

#[test]
fn files_are_a_range_where_they_follow() {
    let files =
        |paths: &[&str]| super::files(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    assert_eq!(files(&["/dev/nvidia0"]), "/dev/nvidia0");
    assert_eq!(files(&["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3"]), "/dev/nvidia[0-1,3]");
    assert_eq!(files(&["/dev/nvidia2", "/dev/nvidia0"]), "/dev/nvidia[2,0]");
    assert_eq!(files(&["/dev/a1", "/dev/b2"]), "/dev/a1,/dev/b2");
    assert_eq!(files(&["/dev/x", "/dev/y"]), "/dev/x,/dev/y");
}
