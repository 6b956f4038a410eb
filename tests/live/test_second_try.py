# SPDX-License-Identifier: GPL-2.0-or-later
"""Which failed tests run a second time: each symptom is one of its own, and everything else fails at once."""

import pytest
import second_try
from lab import TOP
from second_try import BUSY, SYMPTOMS, failed, keep, main, sizes, symptom_of

TEST = "tests/live/test_surf.py::test_it[24.11]"
QUIET, LOADED = f"load for each processor: {BUSY}.0\n", f"load for each processor: {BUSY}.1\n"
REQUEUED = """
[2026-11-28T09:37:36.324] [95.batch] error: *** JOB 95 ON n1 CANCELLED AT 2026-11-28T09:37:36 DUE TO JOB REQUEUE ***
[2026-11-28T09:37:36.338] [95.batch] job 95 completed with slurm_rc = 0, job_rc = 15
[2026-11-28T09:37:36.492] error: Job 95 already killed, do not launch batch job
"""
LATE = "E           subprocess.TimeoutExpired: Command '['/box/enter', 'root', '{}']' timed out after 60 seconds"
# As they were seen: the report's lines, the log's.
SHOWN = {
    "slurmctld missed the database's changes":
        "E   sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n"
        "[2026-11-21T21:50:01.000] error: slurm_persist_conn: Sending message type DBD_REGISTER_CTLD: 11: failed",
    "a job started again in the second of its kill": REQUEUED,
    "a backup controller didn't return control":
        "error: REQUEST_CONTROL reply but backup not completely done relinquishing control.  Waiting a bit",
    "an epilog ran as the job's user":
        "E               AssertionError: waited 40 s for an empty ledger\n"
        "gpushare-epilog[756]: job 3: this epilog runs as user 2001, not as root, so a later job's prolog will release",
    "overloaded: a package's build": LATE.format("bash /lab/out/first/sources/packaging/deb/build"),
    "overloaded: a command": LATE.format("/lab/service restart slurmd"),
    "overloaded: a connection":
        "E       AssertionError: ('-n9',): sbatch: error: Batch job submission failed: Broken pipe\n"
        "[2026-11-29T14:04:49.071] _slurm_rpc_submit_batch_job: Invalid generic resource (gres) specification",
    "overloaded: a wait": "E               AssertionError: waited 40 s for the second start",
}
UNKNOWN = {
    "an assertion": "E       AssertionError: assert {0, 1} == {0}",
    "our own words": "E  AssertionError: gpushare-prolog gave it no GPU on this node",
    "a user who isn't in an account":
        "E  sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
    "a connection to a slurmctld that didn't answer":
        "E       AssertionError: ('-n9',): sbatch: error: Batch job submission failed: Broken pipe",
    "another job's end": REQUEUED.replace("Job 95", "Job 96"),
    "a later start": REQUEUED.replace("36.492", "37.492"),
    "a job that was cancelled": REQUEUED.replace(" DUE TO JOB REQUEUE", ""),
    "a wait in the source": '>               raise AssertionError(f"waited {patience} s for {what}")',
}


def test_each_fault_of_slurms_is_described():
    headings = [line[3:] for line in (TOP / second_try.FAULTS).read_text().splitlines() if line.startswith("## ")]
    assert [symptom.fault for symptom in SYMPTOMS if symptom.fault and symptom.fault not in headings] == []


def test_every_symptom_is_shown_here():
    assert list(SHOWN) == [symptom.name for symptom in SYMPTOMS]


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.name)
def test_a_symptom_is_known_and_the_machines_only_under_load(symptom):
    assert symptom_of(TEST, LOADED + SHOWN[symptom.name]) == symptom
    assert symptom_of(TEST, QUIET + SHOWN[symptom.name]) == (symptom if symptom.fault else None)


@pytest.mark.parametrize("what", UNKNOWN)
def test_another_failure_counts_at_once_under_load_too(what):
    assert symptom_of(TEST, LOADED + UNKNOWN[what]) is None


@pytest.mark.parametrize("test", [
    "tests/siege/test_judge.py::test_it", "tests/faults/test_churn.py::test_it", "tests/live/test_siege.py::test_it",
])
def test_siege_and_faults_are_never_tried_twice(test):
    assert not any(symptom_of(test, LOADED + shown) for shown in SHOWN.values())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run's directory, and a function that lets a test fail in it."""
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.0, 0.0))

    def fail(test, phase="call", text="", clusters=None):
        with open(tmp_path / "list", "a") as file:
            file.write(f"{test}\n")
        keep(tmp_path, test, phase, text, clusters or {})

    fail.directory = tmp_path
    return fail


def found(run):
    return {test: symptom and symptom.name for test, symptom in failed(run.directory)}


def test_every_failed_phase_must_show_one(run):
    run("a", "call", SHOWN["overloaded: a wait"])
    run("b", "call", SHOWN["overloaded: a wait"])
    run("b", "teardown", "E  AssertionError: a share is left")
    assert found(run) == {"a": "overloaded: a wait", "b": None}


def test_one_of_which_nothing_is_kept_counts_at_once(run):
    """As when the process that runs the tests has died."""
    (run.directory / "list").write_text("a\n")
    assert found(run) == {"a": None}


def test_the_logs_are_kept_and_only_those_of_the_test_count(run, tmp_path_factory):
    logs = tmp_path_factory.mktemp("cluster") / "log"
    logs.mkdir()
    (logs / "slurmd.log").write_text(REQUEUED)
    before = sizes(logs)
    run("a", clusters={"box": (logs, before)})
    assert found(run) == {"a": None}
    with open(logs / "slurmd.log", "a") as file:
        file.write(REQUEUED)
    run("b", clusters={"box": (logs, before)})
    (logs / "slurmd.log").write_text(REQUEUED[1:])
    run("c", clusters={"box": (logs, before)})
    name = "a job started again in the second of its kill"
    assert found(run) == {"a": None, "b": name, "c": name}
    assert (run.directory / "b/box/slurmd.log").read_text() == 2 * REQUEUED


def test_without_a_known_symptom_it_counts_at_once(run, capsys):
    run("a", text=SHOWN["overloaded: a wait"])
    for other in "b", "tests/siege/test_judge.py::test_it":
        run(other, text=UNKNOWN["an assertion"] if other == "b" else SHOWN["overloaded: a wait"])
        assert main(run.directory) == 1 and capsys.readouterr().out.splitlines()[-1] == other


def test_the_runs_end_says_what_failed_and_why(run, capsys):
    """A log that was cut still has that."""
    run("a", text=f"    assert x\n{UNKNOWN['an assertion']}\nE        +  where 1\nx.py:1: AssertionError")
    (run.directory / "list").open("a").write("b\n")
    main(run.directory, "--failed")
    assert capsys.readouterr().out == "a\n    AssertionError: assert {0, 1} == {0}\nb\n"


def test_what_the_run_prints(run, capsys):
    run("a", text=SHOWN["overloaded: a wait"])
    run("b", text=SHOWN["overloaded: a command"])
    assert main(run.directory) == 0 and capsys.readouterr().out == "a\nb\n"
    main(run.directory, "--summary")
    assert capsys.readouterr().out == "2 (overloaded: a wait: a; overloaded: a command: b)\n"
    run("c", text=UNKNOWN["an assertion"])
    assert main(run.directory) == 1
    output = capsys.readouterr()
    assert output.out == "c\n" and output.err.endswith(f"-- live: failed, and no second try: c\n   {run.directory}/c\n")


def test_many_failures_are_never_tried_again(run):
    for number in range(second_try.MANY + 1):
        assert number == 0 or main(run.directory) == 0
        run(f"test-{number}", text=SHOWN["overloaded: a wait"])
    assert main(run.directory) == 1
