#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""second_try.py DIRECTORY [--summary]: decides which failed live tests run a second time: those whose failure shows a
symptom of the table below. Without one a failure counts at once; so does what NEVER names.

DIRECTORY has what conftest.py keeps of a run: the file `list` names the failed tests, and each of them has a directory
with the report of each failed phase, the load then, and the logs of its clusters. Prints the tests to run again, one a
line; or, with exit status 1, those for which the run fails at once. Says on standard error why. With --summary it
prints how many tests were tried again, and for which symptoms; with --failed, what failed and why, two lines a test."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Where Slurm's faults are described.
FAULTS = "docs/dev/slurm-faults.md"
# How busy the machine must be for its symptoms to count: processes that want to run, for each processor, in the last
# minute.
BUSY = 3
# What these find is theirs to find under load.
NEVER = ("tests/siege/", "tests/faults/", "tests/live/test_siege.py::")
# So many failures have one reason, as a rule.
MANY = 20


@dataclass(frozen=True)
class Symptom:
    name: str
    """Each must be in the report, or in what the test's clusters logged during the test."""
    shows: tuple
    """The section of FAULTS that describes the fault; empty if it is the machine, which must then be busy."""
    fault: str = ""


SYMPTOMS = (
    Symptom(
        "slurmctld missed the database's changes",
        (r"Invalid (account|qos)", r"Sending message type DBD_REGISTER_CTLD"),
        "slurmctld misses changes of the database",
    ),
    Symptom(
        "a job started again in the second of its kill",
        (
            r"JOB (\d+) ON \S+ CANCELLED AT (\S+) DUE TO JOB REQUEUE[\s\S]*?\[\2\.\d+\] error: "
            r"Job \1 already killed, do not launch",
        ),
        "A job that starts again in the second of its kill",
    ),
    Symptom(
        "a backup controller didn't return control",
        (r"REQUEST_CONTROL reply but backup not completely done relinquishing control",),
        "A backup controller doesn't return control",
    ),
    Symptom(
        "an epilog ran as the job's user",
        (
            r"this epilog runs as user \d+, not as root,",
            r"(?m)^E +(AssertionError: )?waited [\d.]+ s for an empty ledger",
        ),
        "An epilog as the job's user",
    ),
    Symptom(
        "overloaded: a package's build",
        (r"(?m)^E +subprocess\.TimeoutExpired: Command .*(packaging/(deb|rpm)/build|'/usr/bin/make').* timed out",),
    ),
    Symptom("overloaded: a command", (r"(?m)^E +subprocess\.TimeoutExpired: Command .* timed out",)),
    # slurmctld has answered, as its log says, and sbatch has lost the answer with the connection.
    Symptom(
        "overloaded: a connection",
        (r"(?m)^E .*error: Batch job submission failed: Broken pipe", r"\] _slurm_rpc_submit_batch_job: "),
    ),
    Symptom("overloaded: a wait", (r"(?m)^E +(AssertionError: )?waited [\d.]+ s for ",)),
)


def symptom_of(test, report):
    """The symptom for which a failed TEST runs again, by the REPORT of one of its phases; None if it doesn't."""
    if test.startswith(NEVER):
        return None
    busy = any(float(load) > BUSY for load in re.findall(r"(?m)\Aload for each processor: ([\d.]+)$", report))
    for symptom in SYMPTOMS:
        if (symptom.fault or busy) and all(re.search(one, report) for one in symptom.shows):
            return symptom
    return None


# ---- What is kept of a failure.

def folder_of(directory, test):
    return Path(directory) / re.sub(r"[^\w.=-]+", "-", test)[:200]


def sizes(logs):
    """{a log file in the directory LOGS: its size now}"""
    return {path: path.stat().st_size for path in sorted(logs.iterdir()) if path.is_file()} if logs.is_dir() else {}


def keep(directory, test, phase, text, clusters):
    """Keeps the TEXT of a failed phase and the logs of CLUSTERS, {name: (its logs, their sizes before the test)}."""
    folder = folder_of(directory, test)
    folder.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    parts = [f"load for each processor: {load:.1f}", test, text]
    # Where everything fails, all logs together are too many.
    few = sum(path.is_dir() for path in Path(directory).iterdir()) <= MANY
    for name, (logs, before) in clusters.items() if few else ():
        (folder / name).mkdir(exist_ok=True)
        for path in sizes(logs):
            content = path.read_bytes()
            (folder / name / path.name).write_bytes(content)
            # A log that has become shorter is a new one.
            begin = before.get(path, 0) if before.get(path, 0) <= len(content) else 0
            parts.append(f"== {name}: {path.name}\n{content[begin:].decode(errors='replace')}")
    (folder / phase).write_text("\n".join(parts))


def failed(directory):
    """The tests of a run that failed, in order, with the symptom for which each may run again: all its failed phases
    must show one."""
    for test in sorted(set((Path(directory) / "list").read_text().splitlines())):
        folder = folder_of(directory, test)
        reports = [path.read_text() for path in sorted(folder.iterdir()) if path.is_file()] if folder.is_dir() else []
        found = [symptom_of(test, report) for report in reports]
        yield test, found[0] if found and all(found) else None


def reasons(directory, test):
    """What a failed TEST said for people, without the marks before it."""
    reports = [path.read_text() for path in sorted(folder_of(directory, test).glob("*")) if path.is_file()]
    return [line for report in reports for line in re.findall(r"(?m)^E +(\S.*)$", report)]


def summary(tests):
    """How many TESTS were tried again, and why: pairs of a test and its symptom."""
    names = {}
    for test, symptom in tests:
        names.setdefault(symptom.name, []).append(test)
    reasons = "; ".join(f"{name}: {', '.join(ones)}" for name, ones in names.items())
    return f"{len(tests)} ({reasons})" if tests else "0"


def main(directory, *options):
    tests = list(failed(directory))
    if options == ("--summary",):
        print(summary(tests))
        return 0
    if options == ("--failed",):
        for test, _ in tests[:MANY]:
            print(test, *reasons(directory, test)[:1], sep="\n    ")
        return 0
    at_once = [test for test, symptom in tests if symptom is None]
    for test, symptom in tests:
        reason = symptom.name if symptom else "failed, and no second try"
        print(f"-- live: {reason}: {test}\n   {folder_of(directory, test)}", file=sys.stderr)
    if len(tests) > MANY:
        print(f"-- live: {len(tests)} failed, so many for one reason, as a rule", file=sys.stderr)
        at_once = at_once or [test for test, _ in tests]
    print("\n".join(at_once or [test for test, _ in tests]))
    return 1 if at_once else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
