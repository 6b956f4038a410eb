# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/switching.md on a cluster with running jobs: each placement is switched on, changed for the others, and switched off;
slurmctld drains no node by itself, and no job ends."""

import re

from lab import TOP
from pages import steps
from waiting import wait

STEPS = steps(TOP / "docs/switching.md")
FOLLOW, OVERRIDE, OWN, OFF = "3456"
# Every placement is the first somewhere, and follows every other one.
ORDERS = {"22.05": [FOLLOW, OVERRIDE, OWN], "24.11": [OWN, FOLLOW, OVERRIDE], "26.05": [OVERRIDE, FOLLOW, OWN, OVERRIDE]}
# What slurmctld says where it drains a node by itself.
DRAINS = re.compile(r".*(?:drain_nodes:|state to INVAL|reported lower|Prolog error).*")
KEEPS = "trap 'exit 0' TERM; touch /lab/out/$SLURM_JOB_ID.runs; while ! test -e /lab/out/end; do sleep 0.2; done"


def perform(cluster, step):
    where = f"{step.section}, line {step.line}: {step.who} {step.command}"
    node = step.who if step.who in ("n1", "n2") else None
    command = step.command.replace("systemctl restart slurmd", f"/lab/service restart slurmd {node}")
    command = command.replace("systemctl restart slurmctld", "/lab/service restart slurmctld")
    output = None

    def is_said():
        nonlocal output
        # A node's namespaces have no /lab/service.
        inside = node if "/lab/service" not in command else None
        result = cluster.run(f"exec 2>&1; {command}", "alice" if step.who == "alice" else "root", node=inside)
        output = result.stdout
        return step.is_said(output) and (result.returncode == 0 or step.said)

    if not is_said():
        assert step.looks, f"{where}\nprints\n{output}"
        shown = lambda: f"it prints {output}" + cluster.run("squeue; scontrol show node").stdout
        wait(is_said, where, more=shown)


def settled(cluster):
    """Whether every node has registered since slurmctld was started, so that slurmctld has judged what it reports."""
    states = re.findall(r" State=(\S+)", cluster.ok(["scontrol", "-o", "show", "nodes"]))
    return len(states) == 2 and not any(word in state for state in states for word in ("UNKNOWN", "NOT_RESPONDING", "*"))


def nothing_is_drained(cluster, where):
    cluster.wait(lambda: settled(cluster), f"the nodes to register after {where}")
    for line in cluster.ok(["sinfo", "-h", "-N", "-o", "%N %T %E"]).splitlines():
        node, state, reason = line.split(maxsplit=2)
        fine = state in ("idle", "mixed", "allocated", "completing") or (node, reason) == ("n2", "gpushare")
        assert fine, f"after {where}: {line}\n{cluster.log('slurmctld')[-3000:]}"
    assert not DRAINS.findall(cluster.log("slurmctld")), (where, DRAINS.findall(cluster.log("slurmctld")))


def test_every_way_drains_nothing(in_use):
    cluster = in_use
    kept = [cluster.sbatch("--nodelist=n1", f"--gres=gpu:{gpus}", script=KEEPS) for gpus in ("a40:1", "2")]
    short = cluster.sbatch("--nodelist=n2", "--gres=gpu:a40:1", script="sleep 3")
    cluster.wait_state(kept[1], "RUNNING")
    cluster.wait_state(short, "RUNNING")
    for section in ["1", "2", *(one for on in ORDERS.get(cluster.release, ORDERS["24.11"]) for one in (on, OFF)), "7"]:
        for step in (step for step in STEPS if step.section.startswith(section)):
            perform(cluster, step)
            nothing_is_drained(cluster, f"{step.section}, line {step.line}: {step.command}")
            assert [cluster.state(job) for job in kept] == ["RUNNING"] * 2, (step.line, step.command)
    cluster.ok("touch /lab/out/end")
    assert [cluster.finished(job) for job in (*kept, short)] == ["COMPLETED"] * 3
