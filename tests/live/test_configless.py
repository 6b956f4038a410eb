# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes without /etc/slurm that register themselves (`slurmd --conf-server -Z`), users who may see neither nodes nor
jobs of others, and plugins of Slurm's own before gpushare's."""

import re

import pytest
from gpus import OPEN
from lab import TOP

RULES = "/etc/slurm/gpushare.conf"
TYPED = ["--qos=qos_lafferty", "--gres=gpu:a40:1"]
UNTYPED = ["--qos=qos_lafferty", "--gres=gpu:1"]


# What the nodes of 22.05 can't say themselves, since one machine has both.
NAMED = (
    "NodeName=n[1-2] NodeAddr=127.0.0.1 Port=[7001-7002] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 "
    "RealMemory=2000 Gres=gpu:a40:4,mps:400 Feature=dynamic"
)


@pytest.fixture(scope="module")
def cluster(configless):
    """slurmctld sends files that slurm.conf includes by their names alone."""
    if not configless.newer_than("23.02"):
        configless.ok(f"sed -i 's/^MaxNodeCount.*/{NAMED}/' /etc/slurm/nodes.conf")
    configless.ok("sed -i 's,^Include /etc/slurm/,Include ,' /etc/slurm/slurm.conf && /lab/service restart slurmctld")
    for node in ("n1", "n2"):
        configless.ok(f"/lab/service start slurmd {node}", timeout=90)
    yield configless
    configless.cancel_all()


def give_rules(cluster):
    rules = cluster.ok(["cat", RULES])
    for node in ("n1", "n2"):
        cluster.ok(f"cat >{RULES}", node=node, stdin=rules + "\n")


@pytest.fixture
def nodes(cluster):
    give_rules(cluster)
    yield cluster
    cluster.cancel_all()
    for node in ("n1", "n2"):
        cluster.wait(lambda: cluster.ledger(node) == {}, "an empty ledger")


def wrong(cluster, node="n1"):
    """{about: fix} of what `gpushare check` finds on a node."""
    said = cluster.run("gpushare check", node=node).stdout
    return dict(re.findall(r"^WRONG  (\S+) .*\n +fix: (.*)$", said, re.M))


def ledger(cluster, job):
    """{node: GPU} of a job."""
    return {node: gpus[job] for node in ("n1", "n2") if job in (gpus := cluster.ledger(node))}


def test_a_node_without_gpushare_conf_is_named(cluster):
    cluster.ok(f"rm -f {RULES}", node="n1")
    assert wrong(cluster) == {"gpushare.conf": "copy the controller's gpushare.conf there: Slurm sends it to no node"}
    give_rules(cluster)
    said = cluster.ok("gpushare check", node="n1")
    assert not re.search("^(WRONG|[?] +slurmd)", said, re.M), said


def test_check_reads_the_files_that_slurmctld_sent_and_names_the_controllers(nodes):
    def change(*edits):
        nodes.ok("cd /etc/slurm; " + "; ".join(f"sed -i {edit}" for edit in edits) + "; scontrol reconfigure")

    again = "; then scontrol reconfigure"
    try:
        change("s/required/optional/ plugstack.conf", "s/ConstrainDevices=yes/ConstrainDevices=no/ cgroup.conf")
        found = nodes.wait(lambda: len(wrong(nodes)) == 2 and wrong(nodes), "the nodes' new files")
        assert found == {
            "plugstack.conf": "with gpushare-slurmd on all nodes and gpushare-client on all other machines, "
            f"the controller's plugstack.conf: required spank_gpushare.so{again}",
            "ConstrainDevices": f"the controller's cgroup.conf: ConstrainDevices=yes{again}, then restart slurmd on n1",
        }
    finally:
        change("s/optional/required/ plugstack.conf", "s/ConstrainDevices=no/ConstrainDevices=yes/ cgroup.conf")
    nodes.wait(lambda: wrong(nodes) == {}, "the nodes' old files")
    assert nodes.run("gpushare check --quiet").stdout == ""


def test_packages_know_the_plugstack_conf_that_slurmctld_sent(nodes):
    script = (TOP / "packaging/needed.sh").read_text() + "needed_by_steps\n"
    said = nodes.ok(["env", "SYSCONFDIR=/etc/slurm", "bash", "-s"], node="n1", stdin=script)
    assert said == "required spank_gpushare.so"


def test_requests_are_judged_behind_other_plugins(nodes):
    for command in (["sbatch", "--wrap=true"], ["salloc", "true"], ["srun", "true"]):
        said = nodes.run([command[0], "-t5", *UNTYPED, command[1]], "alice").stderr
        assert "GS101" in said and "try: --qos=qos_lafferty --gres=gpu:a40:1" in said, said
    said = nodes.run(["sbatch", *TYPED, "--wrap=true"], "alice").stderr
    assert "Time limit specification required" in said and "gpushare" not in said, said
    assert nodes.ok(["srun", "-t5", "-w", "n1", *TYPED, OPEN], "alice") == "open=0 denied=1,2,3 other=-"
    assert nodes.ok(["srun", "-t5", "-w", "n1", OPEN], "alice") == "open=- denied=0,1,2,3 other=-"
    said = nodes.run(["gpushare", "explain", "--", "-t5", *UNTYPED], "alice").stdout
    assert "GS101" in said and "plugins require_timelimit, all_partitions may change or refuse" in said, said


def test_a_share_lives_through_restarts_and_goes_with_its_job(nodes):
    step = f"srun --gres=mps:50 {OPEN}"
    script = f"until test -e /lab/out/go; do sleep 0.2; done; {OPEN}; {step}; sleep 300"
    nodes.ok("rm -f /lab/out/go")
    job = nodes.sbatch("-t9", "-w", "n2", "--requeue", "--gres=mps:50", script=script)
    nodes.wait_state(job, "RUNNING")
    nodes.wait(lambda: ledger(nodes, job) == {"n2": 0}, "its entry")
    nodes.ok("/lab/service restart slurmd && /lab/service restart slurmctld && scontrol reconfigure", timeout=90)
    nodes.ok("touch /lab/out/go")
    told = "open=0 denied=1,2,3 other=-\n" * 2
    nodes.wait(lambda: nodes.output(job) == told, "what it and its step can open")
    assert nodes.ok(["srun", "--overlap", f"--jobid={job}", "--gres=mps:50", OPEN], "alice") == told.split("\n")[0]
    listed = nodes.status("--nodes")["nodes"]
    assert [(one["node"], one["state"]) for one in listed] == [("n1", "idle"), ("n2", "mixed")], listed
    nodes.ok(["scontrol", "requeue", job])
    nodes.wait(lambda: ledger(nodes, job) == {}, "its share's end")
    # 22.05 sometimes runs no prolog for a job that starts again so soon.
    if nodes.newer_than("23.02"):
        nodes.start_now(job)
        nodes.wait(lambda: ledger(nodes, job) == {"n2": 0}, "its second share")
    nodes.ok(["scancel", job])
    nodes.wait(lambda: ledger(nodes, job) == {}, "the second share's end")


def test_a_user_who_may_see_no_node_is_told_so(nodes):
    said = nodes.run("gpushare check", "alice")
    assert said.returncode == 2 and "it doesn't tell you, so Slurm's settings, nodes" in said.stdout, said
    assert "fix: run this as root: PrivateData in slurm.conf hides nodes from users" in said.stdout, said
    assert "QOS 'qos_lafferty', all its jobs: 0 of 4 a40s in use" in nodes.ok("gpushare mine", "alice")


def test_a_deleted_node_leaves_nothing_behind(cluster):
    if not cluster.newer_than("23.02"):
        pytest.skip("its nodes are named in slurm.conf")
    cluster.ok("/lab/service stop slurmd n2 && scontrol delete nodename=n2")
    assert "n2" not in cluster.ok("gpushare status --nodes")
    assert cluster.run("gpushare check --quiet").stdout == ""
    cluster.ok("/lab/service start slurmd n2", timeout=90)
    there = lambda: ("n2", "idle") in [(one["node"], one["state"]) for one in cluster.status("--nodes")["nodes"]]
    cluster.wait(there, "the node")
