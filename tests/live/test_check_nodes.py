# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare check --nodes` on three nodes, each nearly a machine:
every way to ask them, their faults, and where they differ."""

import json

import pytest

NODES = ["n1", "n2", "n3"]
RULES = "/etc/slurm/gpushare.conf"
# What a site would have ssh for: a command on a node, outside of all jobs.
ENTER = '#!/bin/sh\nnode=$1; shift\nexec nsenter --mount --uts --pid --cgroup -t "$(cat /run/lab/nodes/$node)" "$@"\n'


def asked(cluster, *words):
    """{node: report or error}, the differences, the exit status."""
    result = cluster.run(["gpushare", "check", "--nodes", *words, "--json"], timeout=90)
    assert result.returncode in (0, 1), result.stderr
    said = json.loads(result.stdout)
    return {one["node"]: one for one in said["nodes"]}, said["drift"], result.returncode


# A node's sshd has a port of its own, since all of them have the box's network.
SSHD = (
    "mkdir -p -m 755 /run/sshd && /usr/sbin/sshd -f /dev/null -p {port} -h {key} -E /lab/out/sshd.{node} -o "
    "PidFile=/run/sshd.{node}.pid "
    "-o UsePAM=no -o PermitRootLogin=prohibit-password -o Banner=/root/.ssh/banner"
)
HOST = "Host {node}\n  HostName localhost\n  Port {port}\n  HostKeyAlias {node}\n"


def start_sshd(cluster, node):
    cluster.ok(SSHD.format(node=node, port=port(node), key=f"/root/.ssh/host_{node}"), node=node)


def signal_sshd(cluster, node, signal):
    cluster.ok(f"kill -{signal} $(cat /run/sshd.{node}.pid)", node=node)


def port(node):
    return 2200 + NODES.index(node)


def wrong(node):
    return [one["about"] for one in node["report"]["findings"] if one["status"] == "wrong"]


@pytest.fixture(scope="module")
def nodes(fleet):
    fleet.write("/usr/local/bin/enter", ENTER, 755)
    for node in NODES:
        fleet.ok(f"mkdir -p /lab/out/said && gpushare check --node-report >/lab/out/said/{node}.json", node=node)
    return fleet


ENTERED = ["--via", "/usr/local/bin/enter"]


@pytest.mark.parametrize("way", [ENTERED, ["--collected", "/lab/out/said"]], ids=["via", "collected"])
def test_every_node_is_asked_in_every_way(nodes, way):
    found, drift, status = asked(nodes, *way)
    assert list(found) == NODES and drift == [] and status == 0, (found, drift)
    for name, node in found.items():
        assert wrong(node) == [] and node["report"]["node"] == name
        fence, = [one for one in node["report"]["findings"] if one["about"] == "fence"]
        assert fence["status"] == "ok" and f"1 of {dict(n1=4, n2=2, n3=8)[name]} GPUs" in fence["said"], fence


def test_reports_from_standard_input_are_taken_and_missing_nodes_are_named(nodes):
    """As pdsh and clush print them, with the node's name before the line."""
    gather = "for n in n1 n3; do echo \"$n: $(enter $n gpushare check --node-report)\"; done"
    judge = "gpushare check --nodes --collected -"
    result = nodes.run(f"({gather}; echo 'n2: sh: gpushare: not found') | {judge}", timeout=90)
    assert result.returncode == 1 and "n2: no answer: sh: gpushare: not found\n" in result.stdout, result
    result = nodes.run(f"({gather}) | {judge}", timeout=90)
    assert "3 nodes: 0 with faults, 1 without an answer (n2), 0 differences\n" in result.stdout, result


def test_without_a_way_to_ask_slurmctlds_records_are_read_and_that_is_said(nodes):
    found, drift, status = asked(nodes)
    assert list(found) == NODES and drift == [] and status == 0, (found, drift)
    nodes.ok("scontrol update nodename=n2 state=down reason='GPU 2 is hot'")
    try:
        found, _, status = asked(nodes)
        assert [wrong(found[node]) for node in NODES] == [[], ["node"], []] and status == 1, found
        text = nodes.run(["gpushare", "check", "--nodes"]).stdout
        assert "GPU 2 is hot" in text and "?      nodes  only slurmctld's records" in text, text
    finally:
        nodes.ok("scontrol update nodename=n2 state=resume")
        nodes.wait(lambda: asked(nodes)[2] == 0, "n2 to be back")


def test_a_node_that_differs_and_one_with_a_fault_are_named(nodes):
    nodes.ok(f"cp {RULES} /lab/out/other.conf && echo Mode=warn >>/lab/out/other.conf")
    nodes.ok(f"mount --bind /lab/out/other.conf {RULES}", node="n2")
    nodes.ok("mkdir -p /run/gpushare && chmod 777 /run/gpushare", node="n3")
    try:
        found, drift, status = asked(nodes, *ENTERED)
        assert [wrong(found[node]) for node in NODES] == [[], [], ["ledger"]] and status == 1, found
        assert [one["said"] for one in drift] == ["n2 has a different gpushare.conf than n1, n3"], drift
        quiet = nodes.run(["gpushare", "check", "--nodes", "-q", "--color=always", *ENTERED], timeout=90).stdout
        red = "\n  \x1b[31mWRONG\x1b[0m  "
        assert quiet.startswith("n3: ") and quiet.count(red) == 2 and "3 nodes" not in quiet, quiet
        assert "\n  ok     fence  " in nodes.run(["gpushare", "check", "--nodes", "--all", *ENTERED], timeout=90).stdout
        text = nodes.run(["gpushare", "check", "--nodes", "n[1-3]", *ENTERED], timeout=90).stdout
        assert "\nn3: " in text and "WRONG  ledger" in text and "WRONG  gpushare.conf  n2 has a different" in text, text
        assert text.endswith("3 nodes: 1 with faults (n3), 0 without an answer, 1 difference\n"), text
    finally:
        nodes.ok(f"umount {RULES}", node="n2")
        nodes.ok("chmod 755 /run/gpushare", node="n3")
    assert asked(nodes, *ENTERED)[2] == 0


def test_a_node_that_does_not_answer_is_named(nodes):
    nodes.ok("rm /lab/out/said/n3.json")
    found, _, status = asked(nodes, "--collected", "/lab/out/said")
    assert "there is no /lab/out/said/n3.json" in found["n3"]["error"] and status == 1
    assert "not a list" in nodes.run(["gpushare", "check", "--nodes", "n[1"]).stderr


@pytest.mark.parametrize("way", [[], ENTERED, ["--collected", "/lab/out/said"]], ids=["records", "via", "collected"])
def test_a_check_of_all_nodes_disturbs_no_job_and_wakes_no_node(clouded, way):
    """alice's job fills a node, and any job of root's would preempt it; c1 and c2 are powered down, c2 is down, too."""
    clouded.write("/usr/local/bin/enter", ENTER, 755)
    for node in NODES:
        clouded.ok(f"mkdir -p /lab/out/said && gpushare check --node-report >/lab/out/said/{node}.json", node=node)
    clouded.ok("scontrol update nodename=c2 state=down reason='no machine'")
    job = clouded.sbatch("-w", "n1", "--exclusive", "--qos=free", "--requeue", user="alice", script="sleep 1000")
    clouded.wait_state(job, "RUNNING")
    following = "scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p'"
    before = clouded.ok(following)
    try:
        found, _, status = asked(clouded, *way)
        assert list(found) == ["c1", "c2", *NODES] and status == 0, found
        assert all("POWERED_DOWN" in found[node]["nothing"] for node in ("c1", "c2")), found
        assert [wrong(found[node]) for node in NODES] == [[], [], []], found
        assert clouded.ok(following) == before, "a job was submitted"
        told = clouded.ok(f"scontrol show job {job}")
        assert "JobState=RUNNING" in told and "Restarts=0" in told and "PreemptTime=None" in told, told
        assert "resumed" not in clouded.ok("ls /lab/out"), "a node was switched on"
        assert "POWERED_DOWN" in clouded.ok("scontrol show node c1")
        assert "DOWN+" in found["c2"]["nothing"] and "no machine" in found["c2"]["nothing"], found["c2"]
    finally:
        clouded.cancel_all()
        clouded.ok("scontrol update nodename=c2 state=undrain; scontrol update nodename=c2 state=idle")


@pytest.fixture(scope="module")
def by_ssh(reachable):
    """Three nodes that root reaches by ssh with a key, as a site's administrator does."""
    reachable.ok(
        "mkdir -p -m 700 /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 && usermod -p '*' root"
    )
    reachable.ok("cd /root/.ssh && cp id_ed25519.pub authorized_keys && echo Authorized use only >banner")
    reachable.write("/root/.ssh/config", "".join(HOST.format(node=node, port=port(node)) for node in NODES), 600)
    reachable.write("/etc/pdsh/rcmd_default", "ssh\n")  # bookworm's has rsh
    for node in NODES:
        reachable.ok(f"ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/host_{node}")
        reachable.ok(f"echo {node} $(cut -d' ' -f1,2 /root/.ssh/host_{node}.pub) >>/root/.ssh/known_hosts")
        start_sshd(reachable, node)
    return reachable


WAYS = ["ssh", "pdsh", "clush", "ssh -q -l root"]


@pytest.mark.parametrize("way", WAYS)
def test_every_node_is_asked_by_real_programs(by_ssh, way):
    found, drift, status = asked(by_ssh, "--via", way)
    assert list(found) == NODES and drift == [] and status == 0, (found, drift)
    for name, node in found.items():
        assert wrong(node) == [] and node["report"]["node"] == name, node
        fence, = [one for one in node["report"]["findings"] if one["about"] == "fence"]
        assert fence["status"] == "ok" and f"1 of {dict(n1=4, n2=2, n3=8)[name]} GPUs" in fence["said"], fence


# What keeps a node from answering, what undoes it, and what its line has to say.
UNREACHABLE = {
    "no sshd": (
        lambda cluster: signal_sshd(cluster, "n2", "TERM"),
        lambda cluster: start_sshd(cluster, "n2"),
        "Connection refused",
    ),
    "an sshd that hangs": (
        lambda cluster: signal_sshd(cluster, "n2", "STOP"),
        lambda cluster: signal_sshd(cluster, "n2", "CONT"),
        "imed out",
    ),
    "another key": (
        lambda cluster: cluster.ok(
            "mv /root/.ssh/known_hosts /root/known && grep -v '^n2 ' /root/known >/root/.ssh/known_hosts"
        ),
        lambda cluster: cluster.ok("mv /root/known /root/.ssh/known_hosts"),
        "Host key verification failed",
    ),
    "no gpushare": (
        lambda cluster: cluster.ok("mount --bind /dev/null /usr/bin/gpushare", node="n2"),
        lambda cluster: cluster.ok("umount /usr/bin/gpushare", node="n2"),
        "Permission denied",
    ),
}


@pytest.mark.parametrize("way", ["ssh", "pdsh", "clush"])
@pytest.mark.parametrize("reason", UNREACHABLE)
def test_a_node_that_cannot_be_reached_is_one_line_and_the_rest_is_judged(by_ssh, way, reason):
    begin, end, said = UNREACHABLE[reason]
    begin(by_ssh)
    try:
        found, drift, status = asked(by_ssh, "--via", way)
        text = by_ssh.run(["gpushare", "check", "--nodes", "--via", way], timeout=90).stdout
    finally:
        end(by_ssh)
    error = found["n2"]["error"]
    assert said in error and len(error.splitlines()) == 1 and status == 1, error
    assert [wrong(found[name]) for name in ("n1", "n3")] == [[], []] and drift == [], found
    assert [line for line in text.splitlines() if line.startswith("n2")] == [f"n2: no answer: {error}"], text
    assert text.endswith("3 nodes: 0 with faults, 1 without an answer (n2), 0 differences\n"), text
