use super::super::tests::slurm;
use super::*;
use crate::slurm::{Node, Partition};

#[test]
fn partitions_with_gpus_bill_by_type() {
    let config = Config::parse("GpuWeight=a40:1,h100:7.5").unwrap();
    let billed = |weights: &str| {
        let slurm = Slurm {
            partitions: vec![Partition::read(&format!("PartitionName=p {weights}")).unwrap()],
            ..slurm(&[])
        };
        let bills = billing(&config, &slurm);
        bills.into_iter().map(|bill| (bill.met, bill.line)).collect::<Vec<_>>()
    };
    let gpus = "GRES/gpu:a40=1,GRES/gpu:h100=7.5";
    for (now, met, line) in [
        ("", false, gpus.to_owned()),
        ("TRESBillingWeights=CPU=0.5,GRES/gpu=2.0", false, format!("CPU=0.5,{gpus}")),
        ("TRESBillingWeights=gres/gpu:h100=7.50,gres/gpu:a40=1.0", true, gpus.to_owned()),
        ("TRESBillingWeights=GRES/gpu:a40=1,GRES/gpu:h100=7.5,GRES/gpu=1", false, gpus.to_owned()),
        ("TRESBillingWeights=GRES/gpu:a40=2,GRES/gpu:h100=7.5,Mem=1G", false, format!("Mem=1G,{gpus}")),
    ] {
        assert_eq!(billed(now), [(met, format!("TRESBillingWeights={line}"))], "{now}");
    }
    let new = billing(&config, &Slurm::default());
    assert_eq!(new.iter().map(|bill| bill.partition.as_str()).collect::<Vec<_>>(), ["DEFAULT"]);
    assert_eq!(billing(&config, &slurm(&[])).len(), 1, "the partition without GPUs bills as it likes");
    assert_eq!(billing(&Config::default(), &slurm(&[])), []);
}

#[test]
fn a_unit_of_a_share_bills_its_part_of_the_gpu() {
    let line = |rules: &str, nodes: &[&str], weights: &str| {
        let config = Config::parse(rules).unwrap();
        let slurm = Slurm {
            nodes: nodes.iter().map(|text| Node::read(&format!("{text} Partitions=p")).unwrap()).collect(),
            partitions: vec![Partition::read(&format!("PartitionName=p {weights}")).unwrap()],
            ..slurm(&[])
        };
        let said = |bill: Bill| {
            let weights = bill.line.strip_prefix("TRESBillingWeights=").unwrap().to_owned();
            (bill.met, bill.unknown, weights)
        };
        billing(&config, &slurm).pop().map(said).unwrap_or_default()
    };
    let follow = "Placement=follow\nUnitsPerGpu=100\nGpuWeight=a40:8,h100:32\n";
    let gpus = "GRES/gpu:a40=8,GRES/gpu:h100=32";
    let own = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80\n";
    for (rules, nodes, now, met, unknown, weights) in [
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:400"][..],
            "",
            false,
            false,
            format!("{gpus},GRES/mps=0.08"),
        ),
        // The dearest node, and the dearest GPU of a node.
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:400", "NodeName=n2 Gres=gpu:H100:1,gpu:a40:1,mps:200"],
            "TRESBillingWeights=Mem=1G,GRES/mps=1",
            false,
            false,
            format!("Mem=1G,{gpus},GRES/mps=0.32"),
        ),
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:400"],
            "TRESBillingWeights=gres/mps=0.080,GRES/gpu:a40=8,GRES/gpu:h100=32",
            true,
            false,
            format!("{gpus},GRES/mps=0.08"),
        ),
        // A node without shares: what it bills for them is the site's.
        (follow, &["NodeName=n1 Gres=gpu:a40:4"], "TRESBillingWeights=GRES/mps=1", false, false, {
            format!("GRES/mps=1,{gpus}")
        }),
        // Rounded up: 12 units weigh a whole GPU.
        (
            "Placement=follow\nUnitsPerGpu=24,12,0\nGpuWeight=a40:8,h100:32\n",
            &["NodeName=n1 Gres=gpu:a40:3,mps:36"],
            "",
            false,
            false,
            format!("{gpus},GRES/mps=0.666667"),
        ),
        // Which entry is for which type?
        (
            "Placement=follow\nUnitsPerGpu=24,12,0\nGpuWeight=a40:8,h100:32\n",
            &["NodeName=n1 Gres=gpu:a40:2,gpu:h100:1,mps:36"],
            "",
            false,
            true,
            gpus.to_owned(),
        ),
        // One of two nodes: the other's shares may cost too little.
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:400", "NodeName=n2 Gres=gpu:v100:4,mps:400"],
            "",
            false,
            true,
            format!("{gpus},GRES/mps=0.08"),
        ),
        // The site's weights by type stay, but not beside one for all.
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:a40:400"],
            "TRESBillingWeights=GRES/mps:a40=0.08,GRES/gpu:a40=8,GRES/gpu:h100=32",
            true,
            false,
            format!("GRES/mps:a40=0.08,{gpus}"),
        ),
        (
            follow,
            &["NodeName=n1 Gres=gpu:a40:4,mps:a40:400"],
            "TRESBillingWeights=GRES/mps:a40=0.08,GRES/mps=0.08,GRES/gpu:a40=8,GRES/gpu:h100=32",
            false,
            false,
            format!("{gpus},GRES/mps=0.08"),
        ),
        // Slurm's own shares, where gpushare places nothing, may not even be counted.
        (
            "UnitsPerGpu=100\nGpuWeight=a40:8,h100:32\n",
            &["NodeName=n1 Gres=gpu:a40:4,mps:400"],
            "",
            false,
            false,
            gpus.to_owned(),
        ),
        (
            "Placement=follow\nUnitsPerGpu=a40:40,h100:80\nGpuWeight=a40:8,h100:32\n",
            &["NodeName=n1 Gres=gpu:a40:2,gpu:h100:1,mps:160"],
            "",
            false,
            false,
            format!("{gpus},GRES/mps=0.4"),
        ),
    ] {
        assert_eq!(line(rules, nodes, now), (met, unknown, weights), "{rules} {nodes:?} {now}");
    }
    // Without gres/gpu, the type is that of the share's GRES, or the only one.
    let typed = ["NodeName=n1 Gres=gpushare:h100:320"];
    let untyped = ["NodeName=n1 Gres=gpushare:320"];
    let two = format!("{own}GpuWeight=a40:8,h100:32");
    assert_eq!(line(&two, &typed, ""), (false, false, "GRES/gpushare=0.4".into()));
    assert_eq!(line(&format!("{own}GpuWeight=a40:8"), &untyped, "").2, "GRES/gpushare=0.1");
    assert_eq!(line(&two, &untyped, ""), (true, true, String::new()), "unknown");
    let sites = line(&two, &untyped, "TRESBillingWeights=GRES/gpushare=1");
    assert_eq!(sites, Default::default(), "the site's own weight: nothing is said");
    let typed_by_site = line(&two, &typed, "TRESBillingWeights=GRES/gpushare:h100=0.4");
    assert_eq!(typed_by_site, Default::default(), "nothing is compared, so nothing is right");
    assert!(line(&two, &untyped, "TRESBillingWeights=GRES/gpushare=0").1, "which is none");
    // Each node has its own units, and another type's weight is none.
    let one = format!("{own}GpuWeight=a40:8\nNodeName=n2 UnitsPerGpu=40\n");
    assert_eq!(line(&one, &untyped, "").2, "GRES/gpushare=0.1");
    assert_eq!(line(&one, &["NodeName=n2 Gres=gpushare:160"], "").2, "GRES/gpushare=0.2");
    assert!(line(&one, &["NodeName=n1 Gres=gpushare:v100:320"], "").1);
    let list = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=40,80\nGpuWeight=a40:8";
    assert_eq!(line(list, &["NodeName=n1 Gres=gpushare:120"], "").2, "GRES/gpushare=0.2", "the dearest");
    // As gpushare.conf spells it; Slurm ignores case.
    let spelled = "Placement=own\nShareGRES=gpuShare\nUnitsPerGpu=80\nGpuWeight=a40:8";
    let printed = line(spelled, &["NodeName=n1 Gres=gpuShare:320"], "");
    assert_eq!(printed, (false, false, "GRES/gpuShare=0.1".into()));
    let again = line(spelled, &["NodeName=n1 Gres=gpuShare:320"], "TRESBillingWeights=GRES/gpuShare=0.1");
    assert_eq!(again, (true, false, "GRES/gpuShare=0.1".into()));
    let new = billing(&Config::parse(&format!("{own}GpuWeight=a40:8")).unwrap(), &Slurm::default());
    assert_eq!(new[0].line, "TRESBillingWeights=GRES/gpu:a40=8,GRES/gpushare=0.1");
}

#[test]
fn shares_are_spread_over_the_nodes_of_a_partition() {
    let own = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80\n";
    let two = ["NodeName=n1 Gres=gpushare:320 Partitions=p,q", "NodeName=n2 Gres=gpushare:320 Partitions=p"];
    let found = |rules: &str, nodes: &[&str], more: &str, parameters: &str| -> Vec<String> {
        let slurm = Slurm {
            nodes: nodes.iter().map(|text| Node::read(text).unwrap()).collect(),
            partitions: vec![
                Partition::read(&format!("PartitionName=p {more}")).unwrap(),
                Partition::read("PartitionName=q").unwrap(),
            ],
            ..slurm(&[("SelectTypeParameters", parameters)])
        };
        let config = Config::parse(rules).unwrap();
        filled_in_order(&config, &slurm).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(found(own, &two, "LLN=NO", "CR_CORE"), ["p"]);
    assert_eq!(found(own, &two, "LLN=YES", "CR_CORE"), [""; 0]);
    assert_eq!(found(own, &two, "LLN=NO", "CR_CORE,CR_LLN"), [""; 0]);
    assert_eq!(found(own, &two[..1], "LLN=NO", "CR_CORE"), [""; 0], "one node");
    assert_eq!(found(own, &two, "LLN=NO OverSubscribe=EXCLUSIVE", "CR_CORE"), [""; 0], "whole nodes");
    let small = ["NodeName=n1 Gres=gpushare:80 Partitions=p", "NodeName=n2 Gres=gpushare:80 Partitions=p"];
    assert_eq!(found(own, &small, "LLN=NO", "CR_CORE"), [""; 0], "a GPU each");
    let off = format!("{own}NodeName=n2 Placement=off\n");
    assert_eq!(found(&off, &two, "LLN=NO", "CR_CORE"), [""; 0], "gpushare places on one");
}
