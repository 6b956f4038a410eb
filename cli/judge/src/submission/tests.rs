use super::*;
use crate::options::{self, Source};

const OLD: Release = Release(22, 5);
const NEW: Release = Release(24, 11);
const NEWEST: Release = Release(26, 5);

fn submission(line: &str, release: Release) -> Result<Submission, OptionError> {
    let words: Vec<_> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
    let (options, _) = options::split(&words, release, Source::Line).unwrap();
    Submission::new(&options, release)
}

/// The four strings, each with a letter for its place.
fn sent(line: &str, release: Release) -> String {
    let job = submission(line, release).unwrap();
    let request = job.request(release.spelling(), 0);
    let strings = [
        ("node ", request.tres_per_node),
        ("job ", request.tres_per_job),
        ("task ", request.tres_per_task),
        ("socket ", request.tres_per_socket),
    ];
    let strings =
        strings.into_iter().filter_map(|(place, text)| Some(format!("{place}{}", text?.escape_ascii())));
    strings.collect::<Vec<_>>().join(" ")
}

/// The strings as they arrived in slurmctld of each release.
#[test]
fn options_become_the_strings_that_sbatch_sends() {
    for (line, old, new, newest) in [
        ("", "", "", ""),
        ("--gres=gpu:2", "node gres:gpu:2", "node gres/gpu:2", "node gres/gpu:2"),
        ("--gres=gpu:a40:2,mps:1", "node gres:gpu:a40:2,gres:mps:1", "node gres/gpu:a40:2,gres/mps:1", ""),
        ("--gres=", "node gres:", "node gres/", ""),
        ("--gres=gres:gpu:1", "node gres:gpu:1", "node gres/gres:gpu:1", ""),
        ("--gres=gres/gpu:1", "node gres:gres/gpu:1", "node gres/gpu:1", ""),
        ("--gres=None --gpus-per-node=2", "node gres:gpu:2", "node gres/gpu:2", ""),
        (
            "--gres=gpu:1 --gpus-per-node=a40:2",
            "node gres:gpu:a40:2,gres:gpu:1",
            "node gres/gpu:a40:2,gres/gpu:1",
            "",
        ),
        (
            "--gpus=a40:2,h100:1",
            "job gres:gpu:a40:2,gres:gpu:h100:1",
            "job gres/gpu:a40:2,gres/gpu:h100:1",
            "",
        ),
        ("-G 2", "job gres:gpu:2", "job gres/gpu:2", ""),
        ("--gpus=,2,", "job gres:gpu:2", "job gres/gpu:2", ""),
        ("--gpus=", "", "", ""),
        ("--gpus-per-socket=2", "socket gres:gpu:2", "socket gres/gpu:2", ""),
        ("--gpus-per-task=2", "task gres:gpu:2", "task gres/gpu=2", ""),
        ("--gpus-per-task=a40:2", "task gres:gpu:a40:2", "task gres/gpu:a40=2", ""),
        ("--gpus-per-task=a40", "task gres:gpu:a40", "", ""),
        ("--gpus-per-task=a40=2", "task gres:gpu:a40=2", "task gres/gpu:a40=2", ""),
        (
            "--gpus-per-task=a40:2,h100:1",
            "task gres:gpu:a40:2,gres:gpu:h100:1",
            "task gres/gpu:a40=2",
            "task gres/gpu:h100=1,gres/gpu:a40=2",
        ),
        ("--gres=gpu:1 --gres=gpu:2", "node gres:gpu:2", "node gres/gpu:2", ""),
    ] {
        assert_eq!(sent(line, OLD), old, "{line}");
        assert_eq!(sent(line, NEW), new, "{line}");
        assert_eq!(sent(line, NEWEST), if newest.is_empty() { new } else { newest }, "{line}");
    }
}

#[test]
fn tres_per_task_is_sent_as_it_is_written() {
    for (line, release, expected) in [
        ("--tres-per-task=gres:gpu:2,cpu:1", NEW, "task gres/gpu:2,cpu:1"),
        ("--tres-per-task=gresgpu", NEW, "task gresgpu"),
        ("--tres-per-task=cpu=1 --gpus-per-task=a40:2", NEW, "task gres/gpu:a40=2,cpu=1"),
        ("--tres-per-task=gres:gpu:2", Release(23, 2), "task gres:gpu:2"),
        ("--tres-per-task=cpu=1 --gpus-per-task=a40:2", Release(23, 2), "task cpu=1,gres:gpu:a40:2"),
    ] {
        assert_eq!(sent(line, release), expected, "{line}");
    }
    assert!(submission("--tres-per-task=gres/gpu=2 --gpus-per-task=2", NEW).is_err());
}

#[test]
fn the_rest_of_a_request_is_read() {
    let job = submission(
        "-q q -A a -p p,r --reservation=v -a 0-9 -n4 --ntasks-per-gpu=2 --exclusive --requeue --open-mode=append -t \
         2:00:00",
        NEW,
    )
    .unwrap();
    let request = job.request(NEW.spelling(), 2001);
    assert_eq!(
        (request.qos, request.account, request.partition),
        (Some(&b"q"[..]), Some(&b"a"[..]), Some(&b"p,r"[..]))
    );
    assert_eq!(
        (request.reservation, request.num_tasks, request.ntasks_per_tres),
        (Some(&b"v"[..]), Some(4), Some(2))
    );
    assert_eq!((request.exclusive, request.user_id), (true, 2001));
    let expected = Batch {
        requeue: Some(true),
        open_mode: true,
        array: Some(b"0-9".as_slice()),
        time_limit: Some(120),
        user_env: false,
    };
    assert_eq!(request.batch, Some(expected));
    for (line, asks) in [
        ("--export=ALL", false),
        ("--export=nil", false),
        ("--export=NONE", true),
        ("--export=ALL,A=1", true),
        ("--export=NONE --export=ALL", false),
        ("--get-user-env --export=ALL", true),
    ] {
        let job = submission(line, NEW).unwrap();
        assert_eq!(job.request(NEW.spelling(), 2001).batch.unwrap().user_env, asks, "{line}");
    }
    let request = submission("--exclusive --oversubscribe", NEW).unwrap();
    assert!(!request.request(NEW.spelling(), 2001).exclusive);
    let request = submission("--no-requeue --exclusive=user", NEW).unwrap();
    let request = request.request(NEW.spelling(), 2001);
    assert_eq!((request.exclusive, request.batch.unwrap().requeue), (false, Some(false)));
}

#[test]
fn a_release_has_its_own_words_for_exclusive() {
    for (word, release, expected) in [
        ("allocation", Release(26, 5), Some(true)),
        ("allocation", Release(25, 11), None),
        ("topo", NEW, Some(false)),
        ("topo", OLD, None),
    ] {
        let exclusive = submission(&format!("--exclusive={word}"), release).ok();
        let exclusive = exclusive.map(|job| job.request(release.spelling(), 2001).exclusive);
        assert_eq!(exclusive, expected, "{word} {release}");
    }
}

#[test]
fn values_that_sbatch_does_not_take_are_no_request() {
    for (line, part) in [
        ("-n 0", "'0' for --ntasks"),
        ("-n 2x", "--ntasks"),
        ("--ntasks-per-gpu=99999", "--ntasks-per-gpu"),
        ("--time=soon", "'soon' for --time"),
        ("--exclusive=", "--exclusive"),
        ("--open-mode=x", "--open-mode"),
        ("--help", "submits nothing"),
        ("--uid=bob", "--user"),
    ] {
        let reason = submission(line, NEW).unwrap_err().to_string();
        assert!(reason.contains(part), "{line}: {reason}");
    }
}

/// Tasks, minimum and maximum of nodes, tasks per node and CPUs per task, as they arrived in slurmctld of each release.
#[test]
fn options_become_the_numbers_that_sbatch_sends() {
    let shown = |line: &str, release: Release| {
        let job = submission(line, release).unwrap();
        let request = job.request(release.spelling(), 0);
        let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let numbers = [
            request.num_tasks,
            request.min_nodes,
            request.max_nodes,
            request.ntasks_per_node.map(u32::from),
            request.cpus_per_task.map(u32::from),
            request.sockets_per_node.map(u32::from),
        ];
        numbers.map(number).join(" ")
    };
    for (line, old, new) in [
        ("", "- - - - - -", ""),
        ("-n4 -c2", "4 - - - 2 -", ""),
        ("-N2", "- 2 2 - - -", ""),
        ("-N1-4", "- 1 4 - - -", ""),
        ("-N1-4 -n2", "2 1 2 - - -", ""),
        ("-N4 -n2", "2 2 2 - - -", ""),
        ("-N2,4-8:2", "- 2 8 - - -", ""),
        ("-w n[1-2,07]", "- 3 - - - -", ""),
        ("-w /some/file", "- - - - - -", ""),
        ("-N1 --sockets-per-node=2", "2 1 1 - - 2", ""),
        ("-N2 -B 2:4:1", "16 2 2 - - 2", ""),
        ("-N2 --ntasks-per-node=2", "4 2 2 2 - -", "- 2 2 2 - -"),
        ("--ntasks-per-node=2", "2 - - 2 - -", "- - - 2 - -"),
        ("-n4 --ntasks-per-node=2", "4 - - 2 - -", "4 2 - 2 - -"),
        ("--gpus=2 --gpus-per-node=1", "- 2 2 - - -", ""),
        ("--gpus=2 --gpus-per-task=1", "2 - - - - -", ""),
        ("--gpus-per-node=2 --gpus-per-task=1 -n4", "4 - - 2 - -", ""),
        ("--gpus=2 -N1-8", "- 1 2 - - -", ""),
        ("--gpus-per-task=1 -N2", "2 2 2 - - -", ""),
        ("--gpus-per-task=1 -N2 -c2", "- 2 2 - 2 -", ""),
        ("--ntasks-per-gpu=2 -N2", "4 2 2 - - -", ""),
        ("--ntasks-per-gpu=2 --gpus=2", "4 - - - - -", ""),
        ("--ntasks-per-gpu=2 --gres=gpu:2 -N2", "8 2 2 - - -", ""),
        ("--ntasks-per-gpu=2 -n4 -N1-4", "4 1 2 - - -", ""),
    ] {
        assert_eq!(shown(line, OLD), old, "{line}");
        assert_eq!(shown(line, NEW), if new.is_empty() { old } else { new }, "{line}");
    }
    let job = submission("--gres=gpu:1 --cpus-per-gpu=4 --mem-per-gpu=2G", NEW).unwrap();
    let request = job.request(NEW.spelling(), 0);
    assert_eq!(request.cpus_per_tres, Some(&b"gres/gpu:4"[..]));
    assert_eq!(request.mem_per_tres, Some(&b"gres/gpu:2048"[..]));
    for line in ["-N x", "-N 4-2", "--mem-per-gpu=x", "--mem-per-gpu=1X", "--cpus-per-gpu=0"] {
        assert!(submission(line, NEW).is_err(), "{line}");
    }
}

#[test]
fn the_cluster_decides_about_binding_only_where_the_job_does_not() {
    for (line, alone, by_default) in [
        ("", false, true),
        ("--gres-flags=enforce-binding", true, true),
        ("--gres-flags=disable-binding", false, false),
        ("--gres-flags=one-task-per-sharing,Disable-Binding", false, false),
        ("--gres-flags=enforce-binding --gres-flags=one-task-per-sharing", false, true),
    ] {
        let mut job = submission(line, NEW).unwrap();
        assert_eq!(job.request(NEW.spelling(), 0).enforces_binding, alone, "{line}");
        job.enforce_binding_by_default();
        assert_eq!(job.request(NEW.spelling(), 0).enforces_binding, by_default, "{line}");
    }
}
