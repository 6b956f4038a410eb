//! NVIDIA's MPS on this node: whether gpushare's daemons can run, and what a site's own daemon, or settings from before
//! gpushare, would do to shares.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use gpushare::word::Word;
use gpushare_node::config::{ComputeMode, Mps, NodeConfig, Placement};
use gpushare_node::mps::others::{Other, Whose};
use gpushare_node::mps::{self, How, MpsError, UNREAD};
use gpushare_node::nvml::answer::{GpuState, Mode};
use gpushare_node::proc::beginning;
use gpushare_node::supervise::LONGEST;

use super::finding::{Finding, listed};
use crate::slurm::Settings;

const ABOUT: &str = "Mps";
/// The variables by which a program finds its daemon and its GPUs.
const VARIABLES: [&str; 4] = [
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_VISIBLE_DEVICES",
];
const LONGEST_SCRIPT: u64 = 1 << 20;

const FIX_UNREAD: &str = "send the daemon get_default_device_pinned_mem_limit 0 by hand and report its answer; until \
                          then set MemPerUnit= or Mps=off";
const FIX_UNIT: &str = "see journalctl -u 'gpushare-mps-*'; shares work meanwhile";

/// Users' files in their daemons' directories are on the file system of `MpsDir`.
pub fn mps_dir(config: &NodeConfig) -> Option<Finding> {
    let about = "MpsDir";
    if config.mps != Mps::PerUser && !config.mps_whole_gpus {
        return None;
    }
    let device = |path: &Path| path.ancestors().find_map(|path| Some(path.metadata().ok()?.dev()));
    let shown = config.mps_dir.display();
    Some(if device(&config.mps_dir) == device(Path::new(gpushare_node::config::RUN_DIR)) {
        let said = "is on the file system of the ledger, and its users can fill it; see docs/mps.md";
        Finding::unknown(about, format!("{shown} {said}"))
    } else {
        Finding::ok(about, format!("{shown}, on a file system of its own"))
    })
}

/// Whether a prolog that waits for a broken daemon is done before gpushare ends it.
pub fn time(config: &NodeConfig) -> Option<Finding> {
    let waits = |timeout| mps::longest_wait(&NodeConfig { mps_timeout: timeout, ..config.clone() });
    let longest = waits(config.mps_timeout);
    if longest <= LONGEST {
        return None;
    }
    let mut shorter = (1..=600).rev().map(|tenths| Duration::from_millis(100 * tenths));
    let fits = shorter.find(|it| waits(*it) <= LONGEST)?.as_millis();
    let said = format!(
        "{} ms: for a daemon that doesn't answer a prolog may wait {} s, but gpushare ends it after {} s, and its job \
         fails",
        config.mps_timeout.as_millis(),
        longest.as_secs(),
        LONGEST.as_secs()
    );
    Some(Finding::wrong("MpsTimeout", said, format!("gpushare.conf: MpsTimeout={fits} or less")))
}

/// Checks NVIDIA's daemons. To find out whether one daemon can serve several users, it must be started for a moment.
pub fn mps(config: &NodeConfig, is_root: bool) -> Vec<Finding> {
    let about = ABOUT;
    if !config.runs_daemons() {
        return Vec::new();
    }
    let word = if config.mps == Mps::Off { "for whole GPUs" } else { config.mps.word() };
    let program = config.mps_control.display();
    if !config.mps_control.exists() {
        let said = format!("{word}, but there is no {program}");
        let fix = "install nvidia-cuda-mps (or the driver's package with it), or gpushare.conf: MpsControl";
        return vec![Finding::wrong(about, said, fix)];
    }
    if !is_root {
        return vec![Finding::unknown(about, format!("{word} with {program}; only root can try it"))];
    }
    vec![match mps::inspect::try_out(config) {
        Ok(Some(How { notice: Some(notice), .. })) => {
            Finding::wrong(about, format!("{word}: {program} works, but {notice}"), FIX_UNIT)
        }
        Ok(Some(How { unread: Some(said), .. })) => {
            Finding::wrong(about, format!("{word}: {program} {UNREAD}: {said}"), FIX_UNREAD)
        }
        Ok(how) => {
            let unit = if how.is_some_and(|how| how.unit.is_some()) { " as a systemd unit" } else { "" };
            Finding::ok(about, format!("{word}: {program} starts{unit}, accepts limits, and ends"))
        }
        Err(error) => {
            let fix = match error {
                MpsError::NoMultiuser(..) => {
                    "gpushare.conf: Mps=per-user; or a driver with a multi-user server"
                }
                _ => "run it by hand, as NVIDIA's documentation says",
            };
            Finding::wrong(about, error.to_string(), fix)
        }
    }]
}

/// Daemons that no epilog ends: gpushare's own if their record was removed, and those that it didn't start. On a
/// node without shares, this only shows the latter.
pub fn others(config: &NodeConfig, found: &[Other]) -> Vec<Finding> {
    let of = |whose: Whose| found.iter().filter(move |other| other.whose == whose);
    let described = |Other { pid, user_id, pipe, .. }: &Other| {
        format!("process {pid} of user {user_id} (pipes in {})", pipe.display())
    };
    let left = |used: bool| {
        let (all, sessions): (Vec<String>, Vec<String>) =
            of(Whose::Forgotten { used }).map(|other| (described(other), other.pid.to_string())).unzip();
        let said = format!("an MPS daemon whose record was removed: {}", listed(&all));
        let command = format!("pkill -KILL -s {}", sessions.join(","));
        (!all.is_empty()).then(|| match used {
            false => Finding::wrong(ABOUT, format!("{said}. No job here can use it"), command),
            true => {
                let until = "It may still serve jobs of its user here; once they have ended";
                Finding::unknown(ABOUT, format!("{said}. {until}: {command}"))
            }
        })
    };
    let of_the_site: Vec<String> = of(Whose::Site).map(described).collect();
    [left(false), left(true), self::of_the_site(config, &of_the_site)].into_iter().flatten().collect()
}

fn of_the_site(config: &NodeConfig, all: &[String]) -> Option<Finding> {
    let said = format!("an MPS daemon that gpushare didn't start: {}", listed(all));
    (!all.is_empty()).then(|| match config.placement {
        Placement::Off => Finding::ok(ABOUT, said),
        _ => {
            let may = "Programs that reach it may use its GPUs and limits instead of their share's";
            Finding::unknown(ABOUT, format!("{said}. {may}, see docs/running-cluster.md"))
        }
    })
}

/// A TaskProlog runs after spank_gpushare.so, so a variable that it prints replaces the share's.
pub fn task_prolog(config: &NodeConfig, settings: &Settings) -> Option<Finding> {
    let about = "TaskProlog";
    let path = settings.get(about);
    if config.placement == Placement::Off {
        return None;
    }
    let bytes = beginning(Path::new(path), LONGEST_SCRIPT).ok()??;
    let text = String::from_utf8_lossy(&bytes);
    let code = || text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let named: Vec<_> = VARIABLES.iter().filter(|name| code().any(|line| line.contains(**name))).collect();
    let said = format!(
        "{path} names {}. It runs after gpushare's plugin, so what it sets replaces what the share has, see \
         docs/running-cluster.md",
        listed(&named)
    );
    (!named.is_empty()).then(|| Finding::unknown(about, said))
}

/// Compute modes in which not every share can compute: a site's own prolog may have set one.
pub fn compute_mode(config: &NodeConfig, gpus: &[GpuState]) -> Option<Finding> {
    let about = "ComputeMode";
    let of = |mode: Mode| -> Vec<String> {
        gpus.iter().filter(|gpu| gpu.mode == Some(mode)).map(|gpu| gpu.uuid.clone()).collect()
    };
    let fix = "nvidia-smi -c DEFAULT, and take what sets the mode out of your own prolog";
    let prohibited = of(Mode::Prohibited);
    if !prohibited.is_empty() {
        let said = format!("{}: no program can compute there", in_mode(&prohibited, Mode::Prohibited));
        return Some(Finding::wrong(about, said, fix));
    }
    let exclusive = of(Mode::ExclusiveProcess);
    let is_meant = config.compute_mode == ComputeMode::Exclusive || config.mps == Mps::Multiuser;
    if exclusive.is_empty() || is_meant {
        return None;
    }
    let who = match config.mps {
        Mps::PerUser => "one user's shares can compute at a time",
        _ => "one process can compute at a time, unless an MPS daemon of your own serves all",
    };
    let said = format!("{}: there, {who}; {fix}", in_mode(&exclusive, Mode::ExclusiveProcess));
    Some(Finding::unknown(about, said))
}

fn in_mode(gpus: &[String], mode: Mode) -> String {
    format!("{} in compute mode {}", listed(gpus), mode.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use gpushare_machine::config::Config;

    fn node(lines: &str) -> NodeConfig {
        Config::parse(lines).unwrap().of_node("n1").clone()
    }

    const OWN: &str = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80\n";

    #[test]
    fn a_sites_own_daemon_is_shown_and_matters_beside_shares() {
        let found = [Other { pid: 4711, user_id: 0, pipe: "/run/site-mps".into(), whose: Whose::Site }];
        let words = "didn't start: process 4711 of user 0 (pipes in /run/site-mps)";
        for (lines, status) in [("Placement=off", Status::Ok), (OWN, Status::Unknown)] {
            let findings = others(&node(lines), &found);
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert!(finding.said.contains(words) && finding.status == status, "{finding:?}");
            assert_eq!(others(&node(lines), &[]), []);
        }
    }

    #[test]
    fn only_a_daemon_that_no_job_can_use_is_to_be_ended() {
        let left = |pid, used| {
            let pipe = "/run/gpushare/mps/0.2001/pipe".into();
            Other { pid, user_id: 2001, pipe, whose: Whose::Forgotten { used } }
        };
        let found = others(&node("Placement=off"), &[left(7, false), left(8, true), left(9, false)]);
        let [Finding { status: Status::Wrong(fix), said, .. }, used] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(said.contains("process 7 of") && said.contains("process 9 of"), "{said}");
        assert_eq!(fix.to_string(), "pkill -KILL -s 7,9");
        assert!(
            used.status == Status::Unknown && used.said.ends_with("have ended: pkill -KILL -s 8"),
            "{used:?}"
        );
    }

    #[test]
    fn a_timeout_that_a_prolog_cannot_wait_for_is_shown() {
        let verdict = |lines: &str| match time(&node(&format!("{OWN}{lines}")))?.status {
            Status::Wrong(fix) => Some(fix.to_string().rsplit_once("MpsTimeout=")?.1.to_owned()),
            status => Some(format!("{status:?}")),
        };
        let fix = |said: &str| Some(format!("{said} or less"));
        assert_eq!(verdict("Mps=per-user"), None, "the default fits");
        assert_eq!(verdict("MpsTimeout=60000"), None, "no daemon is started");
        assert_eq!(verdict("Mps=per-user\nMpsTimeout=5500"), None);
        assert_eq!(verdict("Mps=per-user\nMpsTimeout=5600"), fix("5500"));
        assert_eq!(verdict("Mps=multiuser\nMpsTimeout=60000\nNvmlTimeout=10000"), fix("5000"));
    }

    #[test]
    fn a_task_prolog_that_may_replace_a_shares_variables_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("task-prolog");
        let settings = Settings::parse(&format!("TaskProlog = {}", path.display()));
        let named = |lines: &str| task_prolog(&node(lines), &settings).map(|finding| finding.said);
        assert_eq!(named(OWN), None, "no file");
        for (text, expected) in [
            (&b"#!/bin/sh\necho export CUDA_MPS_PIPE_DIRECTORY=/run/site-mps\n"[..], true),
            (b"\x7fELF\xff\0CUDA_VISIBLE_DEVICES=\0", true),
            (b"#!/bin/sh\n # CUDA_VISIBLE_DEVICES is Slurm's\necho export TMPDIR=/scratch\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(named(OWN).is_some(), expected, "{text:?}");
            assert_eq!(named("Placement=off"), None);
        }
        assert_eq!(task_prolog(&node(OWN), &Settings::parse("TaskProlog = (null)")), None);
    }

    #[test]
    fn a_compute_mode_that_keeps_shares_away_is_shown() {
        let gpu = |mode| GpuState { uuid: "GPU-a".to_owned(), mode, ..GpuState::default() };
        let per_user = format!("{OWN}Mps=per-user\n");
        let managed = format!("{per_user}UserMix=deny\nComputeMode=exclusive\n");
        let multiuser = format!("{OWN}Mps=multiuser\n");
        let exclusive = Some(Mode::ExclusiveProcess);
        for (lines, mode, words) in [
            (OWN, None, None),
            (OWN, Some(Mode::Default), None),
            (OWN, exclusive, Some("one process")),
            (&per_user, exclusive, Some("one user's")),
            (&managed, exclusive, None),
            (&multiuser, exclusive, None),
            (&multiuser, Some(Mode::Prohibited), Some("no program")),
        ] {
            let found = compute_mode(&node(lines), &[gpu(Some(Mode::Default)), gpu(mode)]);
            let said = found.as_ref().map(|finding| finding.said.as_str());
            assert_eq!(said.is_some(), words.is_some(), "{lines} {said:?}");
            assert!(said.unwrap_or_default().contains(words.unwrap_or_default()), "{said:?}");
            let is_wrong = found.is_some_and(|finding| matches!(finding.status, Status::Wrong(_)));
            assert_eq!(is_wrong, mode == Some(Mode::Prohibited), "{lines}");
        }
    }
}
