# SPDX-License-Identifier: GPL-2.0-or-later
"""The contributors' cluster as Misha's page describes it, from docs/examples/misha; only the grace time is shorter."""

import re

import pytest
from lab import EXAMPLES
from shares import apply

# The page's hour, in seconds here.
GRACE = 8

# Works until it is told to stop; goes on from where it was. It stays after that: a job that ends by itself in its grace
# time is over, and one that is ended by Slurm is queued again.
WORKER = """#!/bin/bash
file=/lab/out/checkpoint.$SLURM_JOB_ID
if [[ -e $file ]]; then echo "resumed at $(cat $file), restart $SLURM_RESTART_COUNT"; exit 0; fi
trap 'echo $step >$file.new; mv $file.new $file; echo "checkpoint at $step"' TERM
echo working
while true; do step=$((step + 1)); sleep 0.1; done
"""


@pytest.fixture(scope="module", autouse=True)
def applied(misha):
    text = (EXAMPLES / "misha/gpushare.conf").read_text()
    assert "GraceTime=1:00:00" in text
    apply(misha, text.replace("GraceTime=1:00:00", f"GraceTime={GRACE}"))
    misha.ok("cat >/lab/out/worker; chmod 755 /lab/out/worker", stdin=WORKER)
    # A requeued job starts again only when the credential of its first start has run out: two minutes, if nobody says
    # so.
    misha.ok("echo AuthInfo=cred_expire=5 >>/etc/slurm/extra.conf; /lab/service restart slurmctld")


@pytest.fixture(autouse=True)
def clean(misha):
    yield
    misha.cancel_all()


def reason(cluster, job):
    return cluster.ok(["squeue", "-h", "-j", job, "-o", "%r"])


# The page writes `--qos=qos_lafferty,--gres=gpu:a40:2`; these are the options that it names.
OPTIONS = [["--gres=gpu:a40:2"], ["--gpus=a40:2"], ["--gpus-per-node=a40:2"], ["--gpus-per-task=a40:1", "-n2"]]


def test_a_share_is_used_with_each_of_the_pages_options(misha):
    for options in OPTIONS:
        job = misha.sbatch("--qos=qos_lafferty", *options)
        misha.wait_state(job, "RUNNING")
        assert "gres/gpu:a40=2" in misha.ok(["scontrol", "show", "job", job]), options
        misha.cancel_all()


def test_a_qos_without_a_type_is_refused(misha):
    for options in (["--gres=gpu:2"], ["--gpus=2"], ["--gpus-per-node=2"], ["--gpus-per-task=1", "-n2"]):
        result = misha.run(["sbatch", "--qos=qos_lafferty", *options, "--wrap", "true"], "alice")
        assert result.returncode != 0 and "requires a GPU type" in result.stderr, options
    as_printed = misha.run(["sbatch", "--qos=qos_lafferty,--gres=gpu:a40:2", "--wrap", "true"], "alice")
    assert "--qos=qos_lafferty --gres=gpu:a40:2" in as_printed.stderr, "the form that works"


def test_others_are_refused(misha):
    result = misha.run(["sbatch", "--qos=qos_lafferty", "--gres=gpu:a40:2", "--wrap", "true"], "bob")
    assert result.returncode != 0 and "Invalid qos specification" in result.stderr
    result = misha.run(["sbatch", "--qos=qos_lafferty", "--gres=gpu:h100:1", "--wrap", "true"], "alice")
    assert result.returncode != 0 and "gpushare" in result.stderr, "nor is another type the group's"


def test_beyond_the_group_limit_a_job_waits_though_gpus_are_free(misha):
    first = [misha.sbatch("--qos=qos_lafferty", "--gres=gpu:a40:2") for _ in range(2)]
    for job in first:
        misha.wait_state(job, "RUNNING")
    more = misha.sbatch("--qos=qos_lafferty", "--gres=gpu:a40:1")
    misha.wait(lambda: reason(misha, more) == "QOSGrpGRES", "the job to wait for the group's GPUs")
    others = misha.sbatch("--gres=gpu:a40:16", user="bob")
    misha.wait_state(others, "RUNNING")
    assert misha.state(more) == "PENDING"
    misha.ok(["scancel", first[0]])
    misha.ok(["scancel", others])
    misha.wait_state(more, "RUNNING")


def test_a_priority_job_preempts_a_regular_one_which_resumes_from_its_checkpoint(misha):
    regular = misha.sbatch("--gres=gpu:a40:20", "--open-mode=append", script="srun /lab/out/worker", user="bob")
    misha.wait_state(regular, "RUNNING")
    misha.wait(lambda: "working" in misha.output(regular), "the worker")
    priority = misha.sbatch("--qos=qos_lafferty", "--gres=gpu:a40:2", script="sleep 5")

    misha.wait(lambda: "checkpoint at" in misha.output(regular), "SIGTERM")
    states = misha.states(regular, priority)
    assert states == {regular: "RUNNING", priority: "PENDING"}, "its grace time is not over"

    misha.wait_state(priority, "RUNNING", "COMPLETED")
    assert misha.state(regular) == "PENDING", "it is queued again"
    assert misha.finished(priority) == "COMPLETED"
    assert misha.finished(regular) == "COMPLETED"
    assert re.search(r"resumed at \d+, restart 1", misha.output(regular)), misha.output(regular)


def test_a_regular_job_does_not_preempt(misha):
    first = misha.sbatch("--gres=gpu:a40:20", user="bob")
    misha.wait_state(first, "RUNNING")
    second = misha.sbatch("--gres=gpu:a40:1", user="alice")
    misha.wait(lambda: reason(misha, second) in ("Resources", "Priority"), "the job to wait")
    assert misha.state(first) == "RUNNING"
