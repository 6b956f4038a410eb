//! What `gpushare status` prints, word for word.

use super::super::{Wanted, columns, json, local};
use super::*;
use gpushare_node::foreign::Foreign;
use gpushare_node::foreign::usage::Usage;
use gpushare_node::gpu::{Detail, DeviceNumber, Drain, Unfit};
use gpushare_node::job::JobKey;
use gpushare_node::ledger::figures::Used;
use gpushare_node::ledger::{Damage, Garbage};
use gpushare_node::mps::service::{Daemon, On, Serves};
use gpushare_node::nvml::answer::{GpuState, Measured};
use serde_json::json;

fn gpu(index: u32) -> Gpu {
    let uuid = Some("GPU-01234567-89ab".to_owned()).filter(|_| index == 0);
    Gpu {
        index,
        path: format!("/dev/nvidia{index}").into(),
        number: DeviceNumber { major: 195, minor: index },
        uuid,
    }
}

fn detail(index: u32) -> Detail {
    let Gpu { path, number, uuid, .. } = gpu(index);
    Detail { index, path, number: Some(number), uuid, pci: None, model: None, gres_type: None, unfit: None }
}

fn entry(id: u32, holding: Holding, gpus: &[u32]) -> Entry {
    let gpus = gpus.iter().map(|index| gpu(*index)).collect();
    Entry { holding, gpus, since: 1000, ..Entry::without_gpus(JobKey { id, restart: 1 }, 2001) }
}

fn details() -> Vec<Detail> {
    (0..4).map(detail).collect()
}

fn status() -> Status {
    let share = |units| Holding::Share { units, capacity: 80, allocated_gpu: Some(0), memory: None };
    let jobs = vec![entry(7, share(50), &[0]), entry(8, share(40), &[0]), entry(9, Holding::Whole, &[1, 2])];
    Status {
        node: "n1".to_owned(),
        gpus: local::totals(&details(), &[80; 4], &jobs, &Measured::default()),
        jobs,
        users: [(2001, "al\"ice".to_owned())].into(),
        failures: vec![(11, "no \\room".to_owned())],
        garbage: vec![
            Garbage { name: "x\ny".to_owned(), damage: Damage::Truncated },
            Garbage { name: "12".to_owned(), damage: Damage::OtherVersion(3) },
        ],
        daemons: vec![
            Seen { daemon: "0.2001".parse().unwrap(), pid: Some(4711), stuck: None },
            Seen { daemon: "1.all".parse().unwrap(), pid: Some(4712), stuck: Some('T') },
            Seen { daemon: "2.2002".parse().unwrap(), pid: None, stuck: None },
        ],
        used: vec![],
        own_only: false,
        now: 1000 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5,
        complaints: vec![],
    }
}

/// The output of `--json`, parsed.
fn object(status: &Status) -> serde_json::Value {
    serde_json::from_str(&gpushare_terminal::json::text(&json::object(status))).unwrap()
}

fn tables(status: &Status) -> String {
    columns::text(&lines(status, None), false)
}

#[test]
fn people_get_gpus_then_jobs_then_what_is_wrong() {
    let expected = "GPU        DEVICE          UUID  UNITS  FREE  OF  SHARES
  0  /dev/nvidia0  GPU-01234567     90     0  80       2
  1  /dev/nvidia1             -  whole     0  80       0
  2  /dev/nvidia2             -  whole     0  80       0
  3  /dev/nvidia3             -      0    80  80       0

JOB    USER  GPU  UNITS        TIME
  7  al\"ice    0     50  2-03:04:05
  8  al\"ice    0     40  2-03:04:05
  9  al\"ice    1  whole  2-03:04:05
  9  al\"ice    2  whole  2-03:04:05
GPU 0 is overcommitted: 90 units of 80
MPS daemon 0.2001 is process 4711
MPS daemon 1.all is process 4712, which can't answer (state T)
MPS daemon 2.2002 has no process
job 11 failed here: no \\room
not an entry: 'x\\ny': its last line is not 'end'
an entry that can't be read: '12': another version of gpushare wrote it, in format 3
";
    assert_eq!(tables(&status()), expected);
    let empty = Status {
        gpus: vec![],
        jobs: vec![],
        failures: vec![],
        garbage: vec![],
        daemons: vec![],
        own_only: true,
        ..status()
    };
    assert_eq!(tables(&empty), "no jobs of yours on this node\n");
    let off = Status { gpus: local::totals(&[detail(0)], &[], &[], &Measured::default()), ..empty };
    let said = tables(&off);
    assert!(said.ends_with("no shares on this node; squeue -w NODE shows its jobs\n"), "{said}");
}

#[test]
fn a_drained_gpu_is_shown_with_who_why_and_how_long_and_has_nothing_free() {
    let now = status().now;
    let drain = Drain {
        uuid: "-".to_owned(),
        place: "nvidia3".to_owned(),
        since: now - 2 * 86_400,
        user: "root".to_owned(),
        reason: "the fan \u{9b}is broken".to_owned(),
    };
    let mut details = details();
    details[3].unfit = Some(Unfit::Drained(Box::new(drain)));
    let gpus = local::totals(&details, &[80; 4], &status().jobs, &Measured::default());
    let status = Status { gpus, daemons: vec![], garbage: vec![], failures: vec![], ..status() };
    let text = tables(&status);
    assert!(text.contains("3  /dev/nvidia3             -      0     0  80"), "{text}");
    assert!(text.ends_with("GPU 3 is drained for 2-00:00:00 by root: the fan \\u{9b}is broken\n"), "{text}");
    let gpu = &object(&status)["gpus"][3];
    assert_eq!(gpu["free"], 0);
    assert!(gpu["fault"].as_str().unwrap().ends_with("by root: the fan \u{9b}is broken"), "{gpu}");
    assert!(gpu["fault"].as_str().unwrap().starts_with("drained for "), "{gpu}");
}

fn measured() -> Status {
    let status = status();
    let busy = GpuState {
        uuid: "GPU-01234567-89ab".to_owned(),
        memory: Some(81_000),
        used: Some(1200),
        utilization: Some(37),
        processes: Some(2),
        outside: Some(1),
        ..GpuState::default()
    };
    let faulty = GpuState { minor: Some(3), fault: Some("must|be reset".to_owned()), ..GpuState::default() };
    let limited = Holding::Share { units: 20, capacity: 80, allocated_gpu: None, memory: Some(20_250) };
    let jobs = vec![entry(7, limited, &[0]), entry(9, Holding::Whole, &[1])];
    let told = Measured { limits: false, gpus: vec![busy, faulty] };
    Status {
        gpus: local::totals(&details(), &[80; 4], &jobs, &told),
        jobs,
        failures: vec![],
        garbage: vec![],
        daemons: vec![],
        ..status
    }
}

#[test]
fn what_nvml_says_stands_beside_it() {
    let expected =
        "GPU        DEVICE          UUID  UNITS  FREE  OF  SHARES  MIB USED     OF  BUSY  PROCESSES
  0  /dev/nvidia0  GPU-01234567     20    60  80       1      1200  81000   37%          2
  1  /dev/nvidia1             -  whole     0  80       0         -      -     -          -
  2  /dev/nvidia2             -      0    80  80       0         -      -     -          -
  3  /dev/nvidia3             -      0    80  80       0         -      -     -          -

JOB    USER  GPU  UNITS        TIME    MIB
  7  al\"ice    0     20  2-03:04:05  20250
  9  al\"ice    1  whole  2-03:04:05      -
GPU 3 takes no shares, NVML says: must|be reset
";
    assert_eq!(tables(&measured()), expected);
    let told = object(&measured());
    let (busy, faulty, other) = (&told["gpus"][0], &told["gpus"][3], &told["gpus"][1]);
    assert_eq!(
        (&busy["used"], &busy["memory"], &busy["utilization"]),
        (&json!(1200), &json!(81000), &json!(37))
    );
    assert_eq!(
        (&busy["free"], &busy["whole"], &busy["uuid"]),
        (&json!(60), &json!(false), &json!("GPU-01234567-89ab"))
    );
    assert_eq!(told["jobs"][0]["memory"], 20250);
    assert_eq!(faulty["fault"], "must|be reset");
    assert_eq!(
        (&other["processes"], &other["fault"], &other["free"]),
        (&json!(null), &json!(null), &json!(0))
    );
}

#[test]
fn who_goes_round_mps_is_said_where_shares_have_it() {
    let said = |minor| {
        let daemon = Daemon { on: On::Gpu(minor), serves: Serves::User(2001) };
        let daemons = vec![Seen { daemon, pid: Some(77), stuck: None }];
        let status = Status { daemons, ..measured() };
        (
            tables(&status).contains("GPU 0: 1 of its processes bypass MPS"),
            object(&status)["gpus"][0]["without_mps"].clone(),
        )
    };
    assert_eq!((said(0), said(1)), ((true, json!(1)), (false, json!(null))));
}

#[test]
fn foreign_processes_and_idle_jobs_are_shown() {
    let (pid, start, user_id) = (4711, 1, 2002);
    let foreign = vec![
        Foreign { pid, start, user_id, job: None },
        Foreign { pid: 4712, start, user_id: 2003, job: Some(8) },
    ];
    let mut status = measured();
    status.gpus[0].foreign = Some(foreign);
    let used = |id, minor| Used { key: JobKey { id, restart: 1 }, minor, used: 2000, looked: 2065 };
    // Uses of an earlier start, and of a GPU that the job doesn't have.
    let other = Used { key: JobKey { id: 9, restart: 0 }, ..used(9, 1) };
    status.used = vec![used(7, 0), used(9, 0), other];
    let text = tables(&status);
    let expected = "JOB    USER  GPU  UNITS        TIME    MIB  IDLE
  7  al\"ice    0     20  2-03:04:05  20250  1:05
  9  al\"ice    1  whole  2-03:04:05      -     -
GPU 0 has foreign processes, in none of its jobs: 4711 (user 2002), 4712 (user 2003, job 8)
GPU 3 takes no shares, NVML says: must|be reset
";
    assert!(text.ends_with(expected), "{text}");
    let told = object(&status);
    assert_eq!(told["gpus"][0]["foreign"][1], json!({"pid": 4712, "user_id": 2003, "job": 8}));
    assert_eq!(
        (&told["jobs"][0]["gpus"][0]["idle"], &told["jobs"][1]["gpus"][0]["idle"]),
        (&json!(65), &json!(null))
    );
}

#[test]
fn what_a_jobs_processes_use_stands_beside_its_limit() {
    let mut status = measured();
    status.gpus[0].usage = [(7, Usage { memory: Some(812), busy: Some(30) })].into();
    let expected = "
JOB    USER  GPU  UNITS        TIME    MIB  MIB USED  BUSY
  7  al\"ice    0     20  2-03:04:05  20250       812   30%
  9  al\"ice    1  whole  2-03:04:05      -         -     -
";
    assert!(tables(&status).contains(expected), "{}", tables(&status));
    let place = &object(&status)["jobs"][0]["gpus"][0];
    assert_eq!((&place["used"], &place["utilization"]), (&json!(812), &json!(30)));
}

#[test]
fn only_the_jobs_that_are_wanted_and_their_gpus_are_shown() {
    let shown = |users: &[&str], jobs: &[u32]| {
        let mut status = status();
        status.jobs[1].user_id = 2002;
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        let wanted = Wanted { users, jobs: jobs.to_vec() };
        status.keep_jobs(|job, user, user_id| wanted.has(job, user, Some(user_id)));
        let of = |view| {
            let text = columns::text(&lines(&status, Some(view)), false);
            let cell = |line: &str| line.split_whitespace().next().unwrap().parse::<u32>().ok();
            text.lines().skip(1).map_while(cell).collect::<Vec<_>>()
        };
        (of(View::Jobs), of(View::Gpus))
    };
    assert_eq!(shown(&["al\"ice"], &[]), (vec![7, 9, 9], vec![0, 1, 2]));
    assert_eq!(shown(&["2002"], &[]), (vec![8], vec![0]));
    assert_eq!(shown(&["2002", "2001"], &[9, 8]), (vec![8, 9, 9], vec![0, 1, 2]));
    assert_eq!(shown(&["eve"], &[]), (vec![], vec![]));
}

#[test]
fn one_table_is_shown_where_one_is_asked_for() {
    let shown = |view| columns::text(&lines(&measured(), view), false);
    let gpus = shown(Some(View::Gpus));
    assert!(
        gpus.starts_with("GPU ") && !gpus.contains("JOB") && gpus.contains("GPU 3 takes no share"),
        "{gpus}"
    );
    let jobs = shown(Some(View::Jobs));
    assert!(jobs.starts_with("JOB ") && !jobs.contains("DEVICE") && jobs.contains("\n  9  "), "{jobs}");
}

#[test]
fn the_object_has_what_the_tables_have_whatever_a_name_holds() {
    let mut status = status();
    status.gpus.truncate(1);
    status.jobs.remove(1);
    status.users = [(2001, "al\"ice\u{7f}\u{9b}".to_owned())].into();
    let device = |index: u32, uuid: Option<&str>| {
        let device = format!("/dev/nvidia{index}");
        json!({"index": index, "device": device, "uuid": uuid, "idle": null, "used": null, "utilization": null})
    };
    let job = |id: u32, holding: &str, units: Option<u32>, gpus: serde_json::Value| {
        let capacity = units.map(|_| 80);
        json!({
            "job": id, "restart": 1, "user_id": 2001, "user": "al\"ice\u{7f}\u{9b}", "holding": holding, "units": units,
            "capacity": capacity, "since": 1000, "memory": null, "gpus": gpus,
        })
    };
    let expected = json!({
        "node": "n1",
        "time": 184_845,
        "gpus": [{
            "index": 0, "device": "/dev/nvidia0", "uuid": "GPU-01234567-89ab", "capacity": 80, "units": 90, "free": 0,
            "shares": 2, "whole": false, "used": null, "memory": null, "utilization": null, "processes": null,
            "without_mps": null, "fault": null, "foreign": null,
        }],
        "jobs": [
            job(7, "share", Some(50), json!([device(0, Some("GPU-01234567-89ab"))])),
            job(9, "whole", None, json!([device(1, None), device(2, None)])),
        ],
        "failures": [{"job": 11, "reason": "no \\room"}],
        "garbage": [
            {"name": "x\ny", "reason": Damage::Truncated.to_string()},
            {"name": "12", "reason": Damage::OtherVersion(3).to_string()},
        ],
        "mps": [
            {"minor": 0, "job": null, "user_id": 2001, "pid": 4711, "running": true},
            {"minor": 1, "job": null, "user_id": null, "pid": 4712, "running": false},
            {"minor": 2, "job": null, "user_id": 2002, "pid": null, "running": false},
        ],
        "own_jobs_only": false,
    });
    assert_eq!(object(&status), expected);
    let text = gpushare_terminal::json::text(&json::object(&status));
    assert!(text.starts_with("{\n  \"node\": \"n1\",\n  \"time\": 184845,\n"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn times_are_shown_as_squeue_shows_them() {
    for (seconds, expected) in [(5, "0:05"), (65, "1:05"), (3605, "1:00:05"), (86_400, "1-00:00:00")] {
        assert_eq!(elapsed(seconds), expected);
    }
}
