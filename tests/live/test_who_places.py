# SPDX-License-Identifier: GPL-2.0-or-later
"""Whoever comes first places a job: slurmd's Prolog=, the SPANK hooks in its stead, both,
or a prolog inside the job."""

import pytest
from gpus import OPEN, a_minute_later, entered, gpu_of, opened, wait_taken_back
from unrecorded import WAYS, fails_alone

HALF = "--gres=gpushare:40"


@pytest.fixture
def node(by_whom):
    by_whom.cancel_all()
    yield by_whom
    by_whom.cancel_all()
    assert by_whom.node_state().split()[0] == "idle", by_whom.node_state()
    wait_taken_back(by_whom, HALF)


def test_a_share_is_placed_fenced_and_taken_back(node):
    jobs = [node.sbatch(HALF, script=f"{OPEN}; srun --overlap {OPEN}; sleep 60") for _ in range(4)]
    for job in jobs:
        node.wait(lambda: len(opened(node.output(job))) == 2, f"output of job {job}")
    ledger = node.ledger()
    assert sorted(ledger.values()) == [0, 1, 2, 3]
    for job in jobs:
        assert opened(node.output(job)) == [{ledger[job]}] * 2
    text = node.ok(["srun", HALF, "bash", "-c", f"{OPEN}; echo gpu=$GPUSHARE_GPU"], "alice")
    assert opened(text) == [{gpu_of(text)}]
    none = node.run(["srun", OPEN], "bob")
    assert opened(none.stdout) == [set()], none.stderr


def test_a_share_never_starts_without_its_gpu(node):
    for way in WAYS[:2]:
        with way.broken(node):
            fails_alone(node, HALF, way.says)


def test_an_ssh_session_opens_no_other_gpu(node):
    job, gpu = node.start(HALF)
    found = opened(entered(node, job, "alice", OPEN))
    # A prolog inside the job comes after the extern step's fence, which then has nothing to open.
    assert found == ([set()] if node.kind == "run-in-job" else [{int(gpu)}])


def test_what_an_earlier_start_left_is_not_the_jobs(node):
    """An entry with the job's number, its user and another extern step: its GPU may be another job's by now."""
    first = node.sbatch(HALF)
    gpu = node.wait(lambda: str(node.ledger().get(first, "")), "the entry")
    job = node.sbatch("--hold", HALF, script=f"{OPEN}; sleep 60")
    left, left_by = f"/run/gpushare/jobs/{job}", "/^witness=/d; s/^end/witness=1 1\\nend/"
    node.ok(f"sed 's/^job=.*/job={job}/; {left_by}' /run/gpushare/jobs/{first} >{left}")
    node.ok(["scontrol", "release", job])
    node.wait(lambda: opened(node.output(job)), "the job's output")
    own = node.ledger()[job]
    assert opened(node.output(job)) == [{own}] and own != int(gpu)
    found = opened(entered(node, job, "alice", OPEN))
    assert found == ([set()] if node.kind == "run-in-job" else [{own}])
    assert "witness=1 1" not in node.ok(f"cat {left}")


@pytest.mark.parametrize("manager", [[], ["--stepmgr"]], ids=["slurmctld", "stepmgr"])
def test_a_share_whose_epilog_never_ran_is_taken_back_when_its_job_is_over(node, manager):
    """Also where the extern step manages the job's steps: its title differs."""
    if node.kind != "run-in-job":
        pytest.skip("the witness is the extern step's own, as in test_placements")
    first = node.sbatch(*manager, HALF)
    node.wait_state(first, "RUNNING")
    node.wait(lambda: first in node.ledger(), "the entry")
    # As Slurm 24.11 to 25.11 does now and then.
    as_alice = "#!/bin/sh\\nexec setpriv --reuid=alice --clear-groups /usr/sbin/away\\n"
    node.ok(f"mv /usr/sbin/gpushare-epilog /usr/sbin/away && printf '{as_alice}' >/usr/sbin/gpushare-epilog")
    node.ok("chmod 755 /usr/sbin/gpushare-epilog")
    try:
        node.cancel_all()
        assert first in node.ledger()
        assert f"job {first}: this epilog runs as user 2001, not as root" in node.log("syslog")
    finally:
        node.ok("mv /usr/sbin/away /usr/sbin/gpushare-epilog")
    # The step outlives the job that slurmctld shows, and is looked for once a minute.
    left = rf"grep -ls 'slurmstepd: \[{first}\.' /proc/[0-9]*/cmdline"
    node.wait(lambda: not node.run(left).stdout, f"the steps of job {first} to end")
    second = node.sbatch(*manager, HALF)
    node.wait(lambda: second in node.ledger(), "the entry")
    assert first in node.ledger(), "its epilog might still come"
    a_minute_later(node)
    third = node.sbatch(HALF)
    node.wait(lambda: third in node.ledger(), "the entry")
    assert set(node.ledger()) == {second, third}, "a job that lives keeps its GPU"
    assert f"job {first}: it has ended, but its epilog did not run; its share is released" in node.log("syslog")
