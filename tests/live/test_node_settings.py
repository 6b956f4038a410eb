# SPDX-License-Identifier: GPL-2.0-or-later
"""One gpushare.conf for nodes that differ: in Placement, and in how many units fill a GPU, by GPU and by type."""

import re

import pytest
from gpus import OPEN

CONF = "/etc/slurm/gpushare.conf"


@pytest.fixture
def mixed(mixed_nodes):
    yield mixed_nodes
    mixed_nodes.cancel_all()


def gpus(cluster, node):
    """[(units, capacity)] of a node's GPUs."""
    return [(gpu["units"], gpu["capacity"]) for gpu in cluster.status(node=node)["gpus"]]


def share(cluster, node, units, count=1):
    """Jobs that run on the node with a share."""
    jobs = [cluster.sbatch(f"-w{node}", f"--gres=gpushare:{units}") for _ in range(count)]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    return jobs


def why(cluster, node, units):
    """What a job is told that fails on the node."""
    job = cluster.sbatch(f"-w{node}", f"--gres=gpushare:{units}")
    assert cluster.finished(job) == "FAILED"
    return cluster.output(job)


def filled(cluster, node, expected):
    cluster.wait(lambda: gpus(cluster, node) == expected, f"{expected}, not {gpus(cluster, node)}")


def units_per_gpu(cluster, was, now):
    """Changes the file, and waits until slurmctld has read it: it looks when there is something to judge."""
    read = lambda: cluster.log("slurmctld").count("gpushare.conf read again")
    before = read()
    cluster.ok(f"sed -i 's/^UnitsPerGpu={was}$/UnitsPerGpu={now}/' {CONF}")

    def seen():
        cluster.run(["sbatch", "--test-only", "--wrap", "true"], "alice")
        return read() > before

    cluster.wait(seen, "the new gpushare.conf")


def test_gpus_of_one_node_have_units_of_their_own(mixed):
    share(mixed, "n2", 12, count=3)
    filled(mixed, "n2", [(24, 24), (12, 12)])
    mixed.cancel_all()
    mixed.wait(lambda: gpus(mixed, "n2") == [(0, 24), (0, 12)], "an empty node")
    # Only the first GPU is as large, however little is on the other.
    share(mixed, "n2", 16)
    filled(mixed, "n2", [(16, 24), (0, 12)])
    assert "no GPU has 16 of its 24 units free" in why(mixed, "n2", 16)


@pytest.mark.parametrize("options, size", [
    ("--gres=gpushare:81", "80"), ("-wn2 --gres=gpushare:30", "24"), ("-wn[1-3] --gres=gpushare:20", "16"),
])
def test_what_no_node_has_is_refused(mixed, options, size):
    refused = mixed.run(["sbatch", *options.split(), "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "GS122" in refused.stderr, refused.stderr
    assert f"at most: {size}, a whole GPU\n" in refused.stderr, refused.stderr


def test_a_share_never_goes_to_a_node_whose_gpus_are_smaller(mixed):
    """n3 has 128 units in sum, and 16 on a GPU."""
    jobs = [mixed.sbatch("--gres=gpushare:40") for _ in range(9)]
    for job in jobs[:8]:
        mixed.wait_state(job, "RUNNING")
    filled(mixed, "n1", [(80, 80)] * 4)
    assert mixed.state(jobs[8]) == "PENDING"
    # gpushare.conf names nodes up to n9, of which Slurm has three.
    assert "ExcNodeList=n[2-3]" in mixed.ok(["scontrol", "show", "job", jobs[8]])
    own = mixed.sbatch("--exclude=n1", "--gres=gpushare:20")
    mixed.wait_state(own, "RUNNING")
    filled(mixed, "n2", [(20, 24), (0, 12)])
    assert gpus(mixed, "n3") == [(0, 16)] * 8


def test_nodes_have_a_placement_of_their_own(mixed):
    """On n3 Slurm gives GPUs away whole, and gpushare puts shares beside them by type."""
    whole = mixed.sbatch("-wn3", "--gres=gpu:1", script=f"{OPEN}; sleep 100")
    mixed.wait_state(whole, "RUNNING")
    jobs = [mixed.sbatch("-wn3", "--gres=gpushare:16", script=f"{OPEN}; sleep 100") for _ in range(7)]
    for job in jobs:
        mixed.wait(lambda: "open=" in mixed.output(job), f"the output of job {job}")
    opened = {re.search(r"open=(\S+)", mixed.output(job)).group(1) for job in [whole, *jobs]}
    assert opened == {str(gpu) for gpu in range(8)}
    # Eight times 16 units are Slurm's count, and one GPU is whole.
    assert "no GPU has 16 of its 16 units free" in why(mixed, "n3", 16)
    # No GPU is open on a node whose GPUs Slurm doesn't know.
    mixed.cancel_all()
    outside = mixed.sbatch("-wn1", script=OPEN)
    assert mixed.finished(outside) == "COMPLETED" and "open=- " in mixed.output(outside), mixed.output(outside)


def test_commands_know_each_node(mixed):
    for node, said in (("n1", "80 on each of 4 GPUs, as Slurm counts"), ("n2", "24,12 on 2 GPUs, as Slurm counts")):
        text = mixed.run(["gpushare", "check", "--all"], node=node).stdout
        assert re.search(rf"^ok +UnitsPerGpu +{re.escape(said)}$", text, re.M), text
    assert re.search("^ok +Placement +override: ", mixed.run(["gpushare", "check", "--all"], node="n3").stdout, re.M)
    assert "Name=gpushare Count=36 Flags=CountOnly" in mixed.ok(["gpushare", "conf", "gres"], node="n2")
    assert "Name=gpushare Count=128" in mixed.ok(["gpushare", "conf", "gres"], node="n3")
    told = mixed.status("--nodes")["nodes"]
    assert {row["node"]: row["capacity"] for row in told} == {"n1": 320, "n2": 36, "n3": 128}


def test_a_change_under_running_jobs_overbooks_nothing(mixed):
    """A share keeps its part of the GPU when units become smaller or larger."""
    old = mixed.ok(["cat", CONF])
    share(mixed, "n1", 40, count=4)
    filled(mixed, "n1", [(40, 80)] * 4)
    try:
        units_per_gpu(mixed, 80, 160)
        assert gpus(mixed, "n1") == [(80, 160)] * 4
        assert "no GPU has 90 of its 160 units free" in why(mixed, "n1", 90)
        share(mixed, "n1", 80)
        filled(mixed, "n1", [(160, 160)] + [(80, 160)] * 3)
        units_per_gpu(mixed, 160, 8)
        assert gpus(mixed, "n1") == [(8, 8)] + [(4, 8)] * 3
        share(mixed, "n1", 4, count=3)
        filled(mixed, "n1", [(8, 8)] * 4)
        assert "no GPU has 1 of its 8 units free" in why(mixed, "n1", 1)
    finally:
        mixed.ok(f"cat > {CONF}", stdin=old + "\n")
