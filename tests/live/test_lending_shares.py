# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups that lend GPUs (`Burst=`) on a node where jobs may also have shares of them."""

import pytest
from clusters import clusters
from lab import CASES, EXAMPLES
from shares import apply, qos, write

CONF = CASES / "lending-shares"
TEXT = (CONF / "gpushare.conf").read_text()
lending = clusters("lend-share", conf=[EXAMPLES / "follow-mps", CONF], cgroup="v2")
X_BURST, Y, Z = (["-A", one, f"--qos=qos_{one}{more}"] for one, more in (("x", "_burst"), ("y", ""), ("z", "")))


@pytest.fixture(autouse=True)
def groups(lending):
    apply(lending, TEXT)
    yield
    lending.cancel_all()


def borrow(cluster, gres, *options):
    job = cluster.sbatch(*X_BURST, f"--gres={gres}", "-t5", *options, script="sleep 300", user="bob")
    cluster.wait(lambda: cluster.ok(["squeue", "-h", "-r", "-tPD", "-o%i"]) == "", "the borrowers")
    return job


def told(cluster):
    """How many borrowers were told to end, or were requeued since."""
    lines = cluster.ok(["scontrol", "-o", "show", "job"]).splitlines()
    words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
    return sum(one.get("PreemptTime", "None") != "None" or one["Restarts"] != "0" for one in words)


def test_before_25_05_shares_give_way_one_after_another_and_plan_says_so(lending):
    borrow(lending, "mps:50", "--array=0-7")
    owner = lending.sbatch(*Y, "--gres=gpu:a40:1", script="sleep 300")
    lending.wait(lambda: told(lending), "notice")
    both = lending.newer_than("25.05")
    assert told(lending) == (2 if both else 1), "the GPU has two shares"
    said = qos(lending, "plan").stderr
    assert ("before Slurm 25.05, on nodes with whole GPUs and shares" in said) != both, said
    lending.wait_state(owner, "RUNNING")
    # Slurm before 23.11.5 gives the GPU to a second job as soon as one of its shares has ended.
    assert told(lending) == (2 if lending.newer_than("23.11") else 1), "both, and nobody else"
    assert lending.run("gpushare guard").returncode == 0


@pytest.mark.parametrize("group", [Y, Z], ids=["with GPUs", "with shares alone"])
def test_a_share_comes_back_from_a_borrower_of_whole_gpus(lending, group):
    job = borrow(lending, "gpu:a40:4")
    owner = lending.sbatch(*group, "--gres=mps:50", script="sleep 300")
    lending.wait_state(owner, "RUNNING")
    assert lending.fields(job)["Restarts"] == "1"


def test_a_group_with_shares_alone_that_would_be_locked_out_is_refused(lending):
    write(lending, TEXT.replace(" Priority=1000 Preempt=qos_x_burst,qos_y_burst", ""))
    refused = qos(lending, "plan")
    expected = "QOS 'qos_z' can't get GPUs back from borrowers; name QOS 'qos_x_burst' and 1 more in Preempt, with a"
    assert refused.returncode == 2 and expected in refused.stderr, refused
    write(lending, TEXT.replace("Account=z", "Account=*").replace(" Priority=1000 Preempt=qos_x_burst,qos_y_burst", ""))
    assert "jobs of QOS 'qos_z' may keep its GPUs until they end" in qos(lending, "plan").stderr
