//! Tests of the pipeline, with their own ledger.

mod failures;
mod nvml;
mod over;
mod own_mps;

use super::*;
use crate::choose::NothingFits;
use crate::config::{Nodes, UnitsPerGpu};
use crate::fake::SOON;
use crate::job::Noted;
use crate::ledger::Witness;
use crate::nvml::answer::GpuState;

/// Four "GPUs" that every machine has, listed in another order than that of their minors.
const FILES: &str = "GpuFile=/dev/zero,/dev/null,/dev/full,/dev/random";

fn config(lines: &str) -> NodeConfig {
    let placement = if lines.contains("Placement") { "" } else { "Placement=override\n" };
    let files = if lines.contains("GpuFile") { "" } else { FILES };
    Nodes::parse(&format!("{placement}UnitsPerGpu=80\n{files}\n{lines}")).unwrap().all
}

/// An mps share of the node's 320 units, as Slurm reports it under `override`.
fn job(id: u32, units: u32) -> NodeJob {
    NodeJob {
        key: JobKey { id, restart: 0 },
        user_id: 2001,
        percent: Some((units * 100 / 320).max(1)),
        noted: Some(Noted { gres: "mps".to_owned(), units }),
        gpus: vec![0],
        gpu_mps: false,
    }
}

fn whole(id: u32, gpus: &[u32]) -> NodeJob {
    NodeJob { percent: None, noted: None, gpus: gpus.to_vec(), ..job(id, 1) }
}

struct Place {
    dir: tempfile::TempDir,
    ledger: Ledger,
    config: NodeConfig,
    proc: Option<std::path::PathBuf>,
    measured: Option<Measured>,
    /// Jobs that slurmctld no longer has.
    over: Vec<u32>,
    /// The device node that NVML makes.
    makes: Option<PathBuf>,
    now: u64,
    name: &'static str,
}

struct Answers<'a> {
    measured: Option<Measured>,
    over: &'a [u32],
    /// The device node that NVML makes.
    makes: Option<&'a Path>,
}

impl Ask for Answers<'_> {
    fn wait(&mut self) {
        if let Some(path) = self.makes {
            std::os::unix::fs::symlink("/dev/null", path).unwrap();
        }
    }

    fn measured(&mut self) -> Option<Measured> {
        self.measured.take()
    }

    fn over(&mut self, jobs: &[JobKey]) -> Vec<JobKey> {
        jobs.iter().copied().filter(|key| self.over.contains(&key.id)).collect()
    }
}

impl Place {
    fn new(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path().join("gpushare"));
        Place {
            ledger,
            dir,
            config: config(lines),
            proc: None,
            measured: None,
            over: Vec::new(),
            makes: None,
            now: 1_000_000,
            name: "n1",
        }
    }

    fn place(&self, job: &NodeJob) -> Result<Placed, PlaceError> {
        let mut roots = Roots::at(self.dir.path());
        if let Some(proc) = &self.proc {
            roots.proc.clone_from(proc);
        }
        let slurm_conf = self.dir.path().join("slurm.conf");
        let Place { ledger, config, .. } = self;
        let node = Node { config, ledger, roots: &roots, slurm_conf: &slurm_conf, name: Some(self.name) };
        let mut ask =
            Answers { measured: self.measured.clone(), over: &self.over, makes: self.makes.as_deref() };
        place(node, job, &mut ask, self.now)
    }

    fn index(&self, job: &NodeJob) -> u32 {
        match self.place(job).unwrap() {
            Placed::NotOurs => panic!("job {} is ours", job.key.id),
            Placed::Before(entry) | Placed::Now(entry, _) => entry.gpus[0].index,
        }
    }

    fn failure(&self, id: u32) -> Option<String> {
        self.ledger.find(id).ok().flatten().and_then(|entry| entry.failure)
    }

    fn witness(&self, id: u32, pid: u32, start: u64) {
        let locked = self.ledger.lock(SOON).unwrap();
        crate::ledger::extern_step::note(&locked, JobKey { id, restart: 0 }, Witness { pid, start }).unwrap();
    }

    fn notices(&self, job: &NodeJob) -> Vec<Notice> {
        match self.place(job).unwrap() {
            Placed::Now(_, notices) => notices,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn eight_shares_go_two_on_each_of_four_gpus() {
    let node = Place::new("");
    let found: Vec<u32> = (1..=8).map(|id| node.index(&job(id, 40))).collect();
    assert_eq!(found, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn a_change_of_scale_overbooks_nothing() {
    let mut node = Place::new("Overcommit=refuse");
    (1..=4).for_each(|id| assert_eq!(node.index(&job(id, 50)), id - 1));
    // 50 of 80 units are 63 of 100, rounded up.
    node.config.units_per_gpu = Some(UnitsPerGpu::Each(100));
    let noted = |id, units: u32| NodeJob { percent: Some((units * 100 / 400).max(1)), ..job(id, units) };
    assert!(matches!(node.place(&noted(5, 38)), Err(PlaceError::Nowhere { why: NothingFits::Full, .. })));
    assert_eq!(node.index(&noted(6, 37)), 0);
    node.config.units_per_gpu = Some(UnitsPerGpu::ByIndex(vec![8, 8, 4, 0]));
    let noted = |id, units: u32| NodeJob { percent: Some((units * 100 / 20).max(1)), ..job(id, units) };
    assert_eq!(node.index(&noted(7, 3)), 1, "the first is full, the third too small, the last takes none");
    assert!(matches!(node.place(&noted(8, 9)), Err(PlaceError::TooLarge { units: 9, capacity: 8 })));
    node.config.units_per_gpu = Some(UnitsPerGpu::ByIndex(vec![8, 8]));
    assert!(matches!(node.place(&noted(9, 1)), Err(PlaceError::UnitsListed { listed: 2, gpus: 4 })));
    assert_eq!(
        node.place(&whole(10, &[3])).map(|placed| matches!(placed, Placed::Now(..))).ok(),
        None,
        "a share is there"
    );
}

#[test]
fn no_share_is_on_a_gpu_that_is_smaller_however_full_the_others_are() {
    let mut node = Place::new("Placement=override");
    node.config.units_per_gpu = Some(UnitsPerGpu::ByIndex(vec![24, 16, 16, 16]));
    let noted = |id| NodeJob { percent: Some(20 * 100 / 72), ..job(id, 20) };
    assert_eq!([node.index(&noted(1)), node.index(&noted(2))], [0, 0]);
}

#[test]
fn placing_twice_gives_the_same_gpu_and_releasing_twice_is_no_error() {
    let node = Place::new("");
    assert_eq!(node.index(&job(1, 40)), 0);
    assert_eq!(node.index(&job(1, 40)), 0);
    assert_eq!(node.index(&job(2, 40)), 1);
    assert_eq!(release(&node.ledger, 1, Some(0)).unwrap(), Some(JobKey { id: 1, restart: 0 }));
    assert_eq!(release(&node.ledger, 1, Some(0)).unwrap(), None);
    assert_eq!(release(&node.ledger, 99, None).unwrap(), None);
    assert_eq!(node.index(&job(3, 40)), 0);
}

#[test]
fn a_requeued_job_does_not_count_twice() {
    let node = Place::new("Overcommit=refuse");
    let first = job(1, 80);
    let second = NodeJob { key: JobKey { id: 1, restart: 1 }, ..first.clone() };
    node.index(&first);
    node.index(&second);
    assert_eq!(release(&node.ledger, 1, Some(0)).unwrap(), None, "a late epilog leaves the second start");
    for id in 2..=4 {
        node.index(&job(id, 80));
    }
    let full = node.place(&job(5, 1));
    assert!(matches!(full, Err(PlaceError::Nowhere { units: 1, capacity: 80, why: NothingFits::Full })));
}

#[test]
fn an_entry_of_an_old_job_with_the_same_number_is_not_taken_over() {
    let node = Place::new("");
    let old = NodeJob { user_id: 2002, ..job(1, 20) };
    node.index(&job(9, 80));
    assert_eq!(node.index(&old), 1);
    assert!(matches!(node.place(&job(1, 80)), Ok(Placed::Now(..))));
    let found = node.ledger.find(1).unwrap().map(|entry| (entry.user_id, entry.units()));
    assert_eq!(found, Some((2001, 80)));
    assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
    assert_eq!(node.ledger.find(1).unwrap(), None);
}

#[test]
fn an_epilog_that_names_the_next_start_takes_the_last_one_back() {
    let node = Place::new("");
    node.index(&job(1, 80));
    assert_eq!(release(&node.ledger, 1, Some(1)).unwrap(), Some(JobKey { id: 1, restart: 0 }));
    assert!(node.ledger.list().unwrap().entries.is_empty());
}

#[test]
fn a_full_node_is_overcommitted_and_says_so() {
    let node = Place::new("");
    for id in 1..=4 {
        node.index(&job(id, 80));
    }
    assert!(matches!(node.notices(&job(5, 16))[..], [Notice::Overcommitted]));
}

#[test]
fn jobs_without_gpus_and_nodes_without_a_placement_are_left_alone() {
    let node = Place::new("Placement=follow");
    assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
    assert_eq!(node.ledger.find(1).unwrap(), None, "Slurm tells the steps of a share");
    let node = Place::new("Placement=own\nShareGRES=gpushare");
    assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
    assert_eq!(node.ledger.find(1).unwrap(), None, "nobody notes shares: its steps ask");
    std::fs::write(node.dir.path().join("slurm.conf"), "JobSubmitPlugins=gpushare").unwrap();
    assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
    let entry = node.ledger.find(1).unwrap().unwrap();
    assert_eq!((entry.has_gpus(), entry.failure), (false, None), "its steps needn't ask");
    for (text, is_noted) in [
        ("#JobSubmitPlugins=gpushare\nJobSubmitPlugins=lua # gpushare", false),
        ("include more.conf\nInclude none.conf\nInclude bad/%h.conf", false),
        ("\u{e9}=1\njobsubmitplugins = lua,job_submit/gpushare", true),
        ("Include more.conf \nInclude none.conf\nInclude yes.conf", true),
    ] {
        for (name, text) in [("slurm", text), ("more", "ClusterName=a"), ("yes", "JobSubmitPlugins=gpushare")]
        {
            std::fs::write(node.dir.path().join(format!("{name}.conf")), text).unwrap();
        }
        assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
        assert_eq!(node.ledger.find(1).unwrap().is_some(), is_noted, "{text}");
    }
    let node = Place::new("Placement=own\nShareGRES=gpushare\nGpuFile=/dev/nvidia_none");
    std::fs::create_dir(node.dir.path().join("dev")).unwrap();
    assert!(matches!(node.place(&whole(1, &[])), Ok(Placed::NotOurs)));
    assert!(!node.ledger.is_there(), "a machine without GPUs, of a cluster with one gpushare.conf");
    let off = Place { config: NodeConfig::default(), ..node };
    assert!(matches!(off.place(&job(1, 40)), Ok(Placed::NotOurs)));
}

#[test]
fn a_gpu_that_a_job_has_whole_gets_no_share() {
    let node = Place::new("");
    node.index(&whole(1, &[0, 2]));
    let found: Vec<u32> = (2..=5).map(|id| node.index(&job(id, 40))).collect();
    assert_eq!(found, [1, 3, 1, 3]);
}

#[test]
fn a_whole_gpu_with_shares_is_a_collision() {
    let node = Place::new("");
    node.index(&job(1, 40));
    let hit = node.place(&whole(2, &[0]));
    assert!(matches!(hit, Err(PlaceError::Collision(ref keys)) if keys[0].id == 1), "{hit:?}");
    let node = Place { config: config("OnCollision=run"), ..node };
    assert!(matches!(node.notices(&whole(2, &[0]))[..], [Notice::Collision(_)]));
}

#[test]
fn follow_records_what_slurm_charged() {
    let node = Place::new("Placement=follow");
    let share = |id, gpu| NodeJob { percent: Some(50), noted: None, gpus: vec![gpu], ..job(id, 40) };
    assert_eq!(node.index(&share(1, 3)), 3);
    assert_eq!(node.index(&share(2, 3)), 3);
    assert!(matches!(node.place(&share(3, 9)), Err(PlaceError::NoSuchGpu(9))));
    node.index(&whole(4, &[1]));
    let notices = node.notices(&share(5, 1));
    assert!(
        matches!(notices[..], [Notice::HeldWhole(JobKey { id: 4, .. })]),
        "Slurm knows better: {notices:?}"
    );
    assert!(matches!(node.notices(&whole(6, &[3]))[..], [Notice::Collision(_)]));
}

#[test]
fn many_at_once_are_spread_evenly_and_nothing_is_booked_twice() {
    let node = Place::new("Overcommit=refuse");
    std::thread::scope(|scope| {
        for id in 1..=80 {
            let node = &node;
            scope.spawn(move || node.index(&job(id, 4)));
        }
    });
    let entries = node.ledger.list().unwrap().entries;
    assert_eq!(entries.len(), 80);
    for index in 0..4 {
        let here = entries.iter().filter(|entry| entry.gpus[0].index == index);
        assert_eq!(here.map(Entry::units).sum::<u32>(), 80, "GPU {index}");
    }
}

#[test]
fn a_gpu_that_vanishes_takes_no_share_and_the_others_go_on() {
    let node = Place::new("GpuFile=/dev/zero,/dev/no-such-gpu,/dev/full,/dev/random");
    let found: Vec<u32> = (1..=6).map(|id| node.index(&job(id, 40))).collect();
    assert_eq!(found, [0, 2, 3, 0, 2, 3], "and 40 units of 320 are still 40");
    let notices = node.notices(&job(7, 40));
    assert!(notices.iter().any(|notice| matches!(notice, Notice::LeftOut { index: 1, .. })), "{notices:?}");
    assert!(matches!(node.place(&whole(8, &[1])), Err(PlaceError::Unfit { index: 1, .. })));
    let follow = Place::new("GpuFile=/dev/zero,/dev/no-such-gpu\nPlacement=follow");
    let allocated_gpu = NodeJob { percent: Some(50), gpus: vec![1], ..job(9, 40) };
    assert!(matches!(follow.place(&allocated_gpu), Err(PlaceError::Unfit { index: 1, .. })));
    let gone = Place::new("GpuFile=/dev/no-such-gpu");
    assert!(matches!(gone.place(&job(10, 40)), Err(PlaceError::Devices(DeviceError::NoneThere(..)))));
}

#[test]
fn a_drained_gpu_takes_no_share_and_its_jobs_keep_theirs() {
    let node = Place::new("");
    assert_eq!(node.index(&job(1, 40)), 0);
    let file = node.dir.path().join("var/lib/gpushare/drained");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "- zero 1 root the fan is broken\n- random 1 root hot\n").unwrap();
    let found: Vec<u32> = (2..=5).map(|id| node.index(&job(id, 40))).collect();
    assert_eq!(found, [1, 2, 1, 2]);
    assert!(matches!(node.place(&job(1, 40)).unwrap(), Placed::Before(entry) if entry.gpus[0].index == 0));
    assert_eq!(node.notices(&job(6, 40)).len(), 1, "only that a GPU is overcommitted, as no other was left");
    assert_eq!(node.index(&whole(7, &[3])), 3, "Slurm gave it");
    let follow = Place { config: config("Placement=follow"), ..node };
    let allocated_gpu = NodeJob { percent: Some(50), ..job(8, 40) };
    let error = follow.place(&allocated_gpu).unwrap_err().to_string();
    assert_eq!(error, "Slurm names GPU 0, /dev/zero: drained by root: the fan is broken");
    std::fs::write(&file, "").unwrap();
    assert_eq!(follow.index(&NodeJob { percent: Some(50), ..job(9, 40) }), 0);
}

#[test]
fn a_gpu_in_mig_mode_takes_no_share_and_is_left_to_slurm_as_a_whole() {
    let node = Place::new("");
    // The first GPU, /dev/zero, is 1:5.
    let instance = node.dir.path().join("proc/driver/nvidia/capabilities/gpu5/mig/gi1");
    std::fs::create_dir_all(instance).unwrap();
    let found: Vec<u32> = (1..=4).map(|id| node.index(&job(id, 40))).collect();
    assert_eq!(found, [1, 2, 3, 1]);
    assert!(node.notices(&job(5, 40)).is_empty(), "it was meant so");
    assert_eq!(node.index(&whole(6, &[0])), 0);
    let follow = Place { config: config("Placement=follow"), ..node };
    let allocated_gpu = NodeJob { percent: Some(50), ..job(7, 40) };
    assert!(matches!(
        follow.place(&allocated_gpu),
        Err(PlaceError::Unfit { index: 0, why: Unfit::MigEnabled, .. })
    ));
}

#[test]
fn the_order_of_gres_conf_counts_where_slurm_counts_gpus() {
    let text = "NodeName=n1 Name=gpu File=/dev/full,/dev/zero\n";
    let follow = Place::new("Placement=follow\nGpuFile=auto");
    std::fs::write(follow.dir.path().join("gres.conf"), text).unwrap();
    let second = NodeJob { percent: Some(50), gpus: vec![1], ..job(1, 40) };
    match follow.place(&second).unwrap() {
        Placed::Now(entry, _) => assert_eq!(entry.gpus[0].path, Path::new("/dev/zero")),
        other => panic!("{other:?}"),
    }
    std::fs::write(follow.dir.path().join("gres.conf"), "Name=gpu File=/dev/nvidia[0\n").unwrap();
    let unread = follow.place(&NodeJob { key: JobKey { id: 2, restart: 0 }, ..second });
    assert!(matches!(unread, Err(PlaceError::Devices(DeviceError::GresConf(_)))));
}
