# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare leaks` on a Slurm that has nothing of gpushare:
jobs without a type pass a limit, and it finds these and no more."""

import json
from datetime import datetime

import pytest

QOS, FREE = "qos_leaky", "qos_kept"
# A coordinator may name an account so.
ACCOUNT = "b\nc"
# A line of a job's command may look like a record of sacct's.
FORGED = "sleep 3\n9|root|root|qos_leaky|p|gres/gpu=64|gres/gpu:a40=64|x|1|2|COMPLETED|x"


@pytest.fixture(scope="module")
def history(plain):
    """Jobs under a limit of one a40, all over; and as many under one that is never passed."""
    for qos, limit in ((QOS, 1), (FREE, 4)):
        plain.ok(
            f"sacctmgr -i add qos {qos} set GrpTRES=gres/gpu:a40={limit}; sacctmgr -i modify user alice set qos+={qos}"
        )
    plain.ok(["sacctmgr", "-i", "add", "account", ACCOUNT])
    plain.ok(["sacctmgr", "-i", "add", "user", "alice", f"account={ACCOUNT}", f"qos={FREE}"])
    plain.ok(["tee", "/tmp/job.sh"], stdin=f"#!/bin/bash\n#SBATCH --qos={QOS} --gres=gpu:1 -o /dev/null\nsleep 3\n")
    jobs = {
        "typed": plain.sbatch(f"--qos={QOS}", "--gres=gpu:a40:1", script="sleep 8"),
        "untyped": plain.sbatch(f"--qos={QOS}", "--gres=gpu:2", script=FORGED),
        "in_script": plain.ok("sbatch --parsable /tmp/job.sh", "alice"),
    }
    plain.finished(jobs["untyped"])
    jobs["again"] = plain.sbatch(f"--qos={QOS}", "-G1", "--requeue", script="sleep 60")
    plain.wait_state(jobs["again"], "RUNNING")
    plain.ok(f"sleep 2; scontrol requeue {jobs['again']}")
    plain.wait_state(jobs["again"], "PENDING")
    plain.cancel_all()
    jobs["kept"] = plain.sbatch("-A", ACCOUNT, f"--qos={FREE}", "--gres=gpu:2", script="sleep 1")
    plain.finished(jobs["kept"])
    plain.wait(
        lambda: len(runs(plain)) == 5 and all(run["end"] for run in runs(plain)), "slurmdbd to know of every end"
    )
    return jobs


def seconds(text):
    return None if text in ("Unknown", "None", "") else int(datetime.fromisoformat(text).timestamp())


def runs(cluster):
    """What sacct itself says of every run of a job, in its plain form."""
    text = cluster.ok("TZ=UTC sacct -aXnPD -S now-2hours --format=JobIDRaw,QOS,Start,End,AllocTRES")
    found = []
    for line in text.splitlines():
        job, qos, start, end, given = line.split("|")
        if seconds(start):
            gpus = sum(int(part.split("=")[1]) for part in given.split(",") if part.startswith("gres/gpu="))
            found.append({"job": job, "qos": qos, "start": seconds(start), "end": seconds(end), "gpus": gpus})
    return found


def leaks(cluster, *options, user="alice", status=1):
    result = cluster.run(["env", "TZ=UTC", "gpushare", "leaks", *options], user)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status != 2 else result.stderr


def by_owner(report):
    return {limit["owner"]: limit for limit in report["limits"]}


def test_it_finds_what_ran_past_the_limit_and_nothing_else(plain, history):
    limits = by_owner(json.loads(leaks(plain, "--json")))
    assert [name for name, limit in limits.items() if limit["exceeded"]] == [QOS]
    assert limits[FREE]["over"] == [] and limits[FREE]["unseen_gpu_hours"] > 0
    under = [run for run in runs(plain) if run["qos"] == QOS]
    times = range(min(run["start"] for run in under), max(run["end"] for run in under))
    held = {time: sum(run["gpus"] for run in under if run["start"] <= time < run["end"]) for time in times}
    (over,) = limits[QOS]["over"]
    assert over["certain"]["gpu_hours_above"] == pytest.approx(
        sum(max(0, gpus - 1) for gpus in held.values()) / 3600, abs=0.001
    )
    assert over["certain"]["hours"] == pytest.approx(sum(gpus > 1 for gpus in held.values()) / 3600, abs=0.001)
    assert over["certain"]["most_held"] == max(held.values()) > 1
    assert over["at_most"] is None and over["unexplained_gpu_hours"] == 0


def test_it_says_whose_requests_they_were_and_what_works(plain, history):
    (over,) = by_owner(json.loads(leaks(plain, "--json")))[QOS]["over"]
    asked = {(one["request"], one["on_command_line"]): one for one in over["requests"]}
    assert ("--gres=gpu:2", True) in asked and ("--gpus=1", False) in asked, asked
    for one in over["requests"]:
        assert (one["user"], one["number"], one["jobs"]) == ("alice", "GS101", 1), one
        job = plain.ok(["sbatch", "-H", "--parsable", *one["command"].split(), "--wrap", "true"], "alice")
        assert "gres/gpu:a40=1" in plain.ok(["scontrol", "-o", "show", "job", job]), one
    plain.cancel_all()


def test_a_plot_is_drawn_and_a_period_without_jobs_is_no_proof(plain, history):
    plain.ok("rm -f /tmp/plot.svg", "alice")
    leaks(plain, "--plot=/tmp/plot.svg", "--csv=times")
    assert plain.ok("head -c 4 /tmp/plot.svg", "alice") == "<svg"
    assert "accounting has no job that ran from 2020-01-01" in leaks(
        plain, "--start=2020-01-01", "--end=2020-01-03", status=2
    )


@pytest.fixture
def private(plain):
    """slurmdbd shows others' jobs to its administrators only."""
    def restart(edit):
        plain.ok("/lab/service stop slurmdbd")
        plain.ok(f"sed -i '{edit}' /etc/slurm/slurmdbd.conf; /lab/service start slurmdbd")
        plain.wait(lambda: plain.run("sacctmgr -n show qos").returncode == 0, "slurmdbd to answer")

    restart("$aPrivateData=jobs")
    yield plain
    restart("/^PrivateData=/d")


def test_who_may_not_see_all_is_told_so(history, private):
    assert "PrivateData" not in leaks(private, user="root")
    if private.newer_than("26.05"):
        # It doesn't tell slurmdbd's setting.
        assert "if slurmdbd.conf has PrivateData" in leaks(private)
        return
    said = leaks(private, status=2)
    assert "PrivateData=jobs" in said and "AdminLevel=Operator" in said, said


def test_accounting_is_enough(plain, history):
    whole = json.loads(leaks(plain, "--start=now-1hours", "--json"))
    plain.ok("/lab/service stop slurmctld")
    try:
        alone = json.loads(leaks(plain, "--start=now-1hours", "--json"))
    finally:
        plain.ok("/lab/service start slurmctld")
        plain.wait(lambda: plain.node_state().startswith("idle"), "slurmctld to be back")
    assert alone["limits"] == whole["limits"] and alone["cluster"] == whole["cluster"]
    assert any("nodes are those of /etc/slurm/slurm.conf" in remark for remark in alone["remarks"])


@pytest.fixture
def unrecorded(plain):
    """slurmctld no longer has GPUs among what it accounts; the database still has the limits."""
    def restart(edit):
        plain.ok(f"/lab/service stop slurmctld; sed -i '{edit}' /etc/slurm/slurm.conf; /lab/service start slurmctld")

    restart("s/^AccountingStorageTRES/#&/")
    yield plain
    restart("s/^#AccountingStorageTRES/AccountingStorageTRES/")


def test_gpus_that_accounting_does_not_have_are_no_none(history, unrecorded):
    since = unrecorded.ok("date -u +%FT%T")
    unrecorded.ok(["sbatch", "--wait", f"--qos={QOS}", "--gres=gpu:1", "-o", "/dev/null", "--wrap", "sleep 3"], "alice")
    unrecorded.wait(lambda: "COMPLETED" in unrecorded.ok(f"sacct -aXnP -S {since} -o state"), "the job in accounting")
    for option in ((), ("--json",), ("--csv",)):
        said = leaks(unrecorded, f"--start={since}", *option, status=2)
        assert "AccountingStorageTRES didn't have gres/gpu when they ran" in said, said
