//! `gpushare leaks` with Slurm's commands replaced by tests/data/leaks/bin, which answer from tests/data/leaks/month.
//! docs/leaks.md and docs/leaks.svg have what is printed and drawn. After a change of the picture:
//! `GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare-cli --test leaks`
#![allow(clippy::unwrap_used, reason = "a test")]

mod made;

use std::path::Path;
use std::process::Command;

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Standard output and error, and the exit status, in a time zone.
fn leaks_in(zone: &str, options: &[&str]) -> (String, Option<i32>) {
    let data = top().join("tests/data/leaks");
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&rules, "# the defaults\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    command.args(["leaks", "--conf"]).arg(rules.path()).args(options);
    if !options.contains(&"--start") {
        command.args(["--start", "2026-10-01", "--end", "2026-11-01"]);
    }
    let path = format!("{}:/usr/bin:/bin", data.join("bin").display());
    let output = command.env("PATH", path).env("MONTH", data.join("month")).env("TZ", zone).output().unwrap();
    (
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        output.status.code(),
    )
}

fn leaks(options: &[&str]) -> (String, Option<i32>) {
    leaks_in("UTC", options)
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = std::fs::read_to_string(top().join("docs/leaks.md")).unwrap();
    let blocks: Vec<&str> = page.split("```\n").skip(1).step_by(2).collect();
    for (block, options) in [(0, &[][..]), (1, &["--csv"])] {
        let (text, code) = leaks(options);
        let shown = blocks[block].split_once('\n').unwrap();
        assert!(shown.0.starts_with("$ gpushare leaks"), "{}", shown.0);
        // The page leaves out the notes at the end.
        let (begin, is_all) = shown.1.strip_suffix("…\n").map_or((shown.1, true), |begin| (begin, false));
        assert!(text.starts_with(begin) && (!is_all || text == begin), "{options:?}\n{text}");
        assert_eq!(code, Some(1), "{options:?}");
    }
}

#[test]
fn a_day_without_excess_has_status_0() {
    let (text, code) = leaks(&["--start", "2026-10-28", "--end", "2026-10-29"]);
    assert!(text.contains("limits on GPU types: 3, none exceeded\n"), "{text}");
    assert_eq!(code, Some(0));
}

#[test]
fn the_picture_is_the_one_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot.svg");
    assert_eq!(leaks(&["--plot", path.to_str().unwrap()]).1, Some(1));
    let (drawn, kept) = (std::fs::read_to_string(path).unwrap(), top().join("docs/leaks.svg"));
    if std::env::var_os("GPUSHARE_WRITE_DOCS").is_some() {
        std::fs::write(&kept, &drawn).unwrap();
    }
    assert!(
        std::fs::read_to_string(kept).unwrap_or_default() == drawn,
        "docs/leaks.svg is not what is drawn"
    );
}

/// The same days in a time zone whose clocks went back on one of them.
#[test]
fn hours_are_counted_once_where_the_clocks_change() {
    let (here, _) = leaks(&["--json", "--start", "2026-10-05T22:00", "--end", "2026-10-29T23:00"]);
    let zone = "CET-1CEST,M3.5.0,M10.5.0/3";
    let (there, _) = leaks_in(zone, &["--json", "--start", "2026-10-06", "--end", "2026-10-30"]);
    let hours = |text: &str| {
        text.lines().filter(|line| line.contains("hours")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(there.contains("2026-10-06T00:00:00+02:00") && there.contains("2026-10-30T00:00:00+01:00"));
    assert_eq!(hours(&here), hours(&there));
}

/// Slurm's commands for a cluster with three jobs; sacct shows each job on every day on which it ran.
const SACCT: &str = r#"#!/bin/bash
[[ $1 == --version ]] && { echo slurm 24.11.5; exit; }
for word; do case $word in --delimiter=*) d=${word#*=} ;; uts*) t+=("${word#uts}") ;; esac; done
[[ $SLURM_TIME_FORMAT == %s && $* == "-anPDX "* ]] || exit 1
jobs="1 gres/gpu=2 $((FIRST - 43200)) $((FIRST + 216000))
2 gres/gpu:a40=1,gres/gpu=1 $((FIRST + 86400)) $((FIRST + 90000))
3 gres/gpu=1 $((FIRST + 340000)) Unknown"
while read -r job asked start end; do
    ((start < t[1])) && [[ $end == Unknown || $end -gt ${t[0]} ]] || continue
    allocated="gres/gpu:a40=${asked##*=},gres/gpu=${asked##*=},node=1"
    words=("$job" u acct q p "$asked" "$allocated" n1 "$start" "$end" COMPLETED "sbatch x
a line more")
    printf '%s' "${words[0]}"; printf "$d%s" "${words[@]:1}"; echo
done <<<"$jobs"
[[ ! $BROKEN ]] || { echo "sacct: error: slurmdbd is away" >&2; exit 1; }
"#;
const SACCTMGR: &str = r#"#!/bin/bash
case $* in
    "show config")
        printf 'PrivateData = jobs\n\nSlurmDBD configuration:\nPrivateData = %s\nSlurmUser = slurm(1)\n' "$PRIVATE" ;;
    *"show tres"*) printf 'gres|gpu|1001\ngres|gpu:a40|1002\n' ;;
    *"show qos"*) echo 'q|gres/gpu:a40=1|||||||||' ;;
    *" user= "*) echo 'root|||normal||||||||' ;;
    *"show assoc"*) echo 'acct|u||q|q|||||||' ;;
esac
"#;
const SCONTROL: &str = "#!/bin/bash\ncase $* in\n*config) echo 'ClusterName = fake' ;;\n*partition) echo \
                        'PartitionName=p QoS=N/A' ;;\n*) echo 'NodeName=n1 Gres=gpu:a40:4' ;;\nesac\n";
/// 1 January 2025, UTC.
const FIRST: u32 = 1_735_689_600;

fn asked(options: &[&str], private: &str, broken: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("sacct", SACCT),
        ("sacctmgr", SACCTMGR),
        ("scontrol", SCONTROL),
        ("id", "#!/bin/bash\necho u\n"),
        ("gpushare.conf", "# the defaults\n"),
    ] {
        let path = folder.path().join(name);
        made::program(&path, text);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpushare"));
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let period = ["leaks", "--start", "2025-01-01", "--end", "2025-01-05", "--conf"];
    command
        .args(period)
        .arg(folder.path().join("gpushare.conf"))
        .args(options)
        .env("TZ", "UTC")
        .env("PATH", path)
        .env("FIRST", FIRST.to_string());
    let output = command.env("PRIVATE", private).env("BROKEN", broken).output().unwrap();
    (
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        output.status.code(),
    )
}

#[test]
fn a_job_of_several_days_is_counted_once() {
    let (text, status) = asked(&["--json"], "none", "");
    assert_eq!(status, Some(1), "{text}");
    // Two GPUs for 60 hours of the period, of which one hour has a further GPU; the last job has the limit's one.
    for part in [
        "\"jobs\": 3,",
        "\"gpu_hours_above\": 61.0,",
        "\"hours\": 60.0,",
        "\"most_held\": 3,",
        "jobs without an end in accounting: 1.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_slurm_does_not_say_is_an_error_and_no_answer() {
    for (private, broken, part) in [
        ("jobs", "", "slurmdbd.conf has PrivateData=jobs, so 'u' sees only some of it"),
        ("none", "yes", "failed (exit status: 1): sacct: error: slurmdbd is away"),
    ] {
        let (text, status) = asked(&[], private, broken);
        assert!(status == Some(2) && text.contains(part) && text.lines().count() == 1, "{text}");
    }
}
