# SPDX-License-Identifier: GPL-2.0-or-later
"""Whoever comes first places a job: slurmd's Prolog=, the SPANK hooks in its stead, both, or a prolog inside the job."""

import pytest
from gpus import OPEN, entered, gpu_of, opened

HALF = "--gres=gpushare:40"


@pytest.fixture
def node(by_whom):
    by_whom.cancel_all()
    yield by_whom
    by_whom.cancel_all()
    assert by_whom.node_state().split()[0] == "idle", by_whom.node_state()
    by_whom.wait(lambda: by_whom.ledger() == {}, "an empty ledger")


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


def test_an_ssh_session_opens_no_other_gpu(node):
    job = node.sbatch(HALF)
    node.wait_state(job, "RUNNING")
    gpu = node.wait(lambda: str(node.ledger().get(job, "")), "the entry")
    found = opened(entered(node, job, "alice", OPEN))
    # A prolog inside the job comes after the extern step's fence, which then has nothing to open.
    assert found == ([set()] if node.kind == "run-in-job" else [{int(gpu)}])
