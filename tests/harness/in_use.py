# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with jobs, on which the commands of a page are run: what each prints, and whether slurmctld has drained a
node because of it."""

import re

from waiting import wait

# What slurmctld logs when it drains a node by itself.
DRAINS = re.compile(r".*(?:drain_nodes:|state to INVAL|reported lower|Prolog error).*")


def perform(cluster, step):
    """Runs a step of a page in a cluster with nodes n1 and n2. What it prints must become what the page says. A reader
    who sees its output may go on after a failure, except of `gpushare check`: then something is WRONG."""
    where = f"{step.section}, line {step.line}: {step.who} {step.command}"
    node = step.who if step.who in ("n1", "n2") else None
    command = step.command.replace("systemctl restart slurmd", f"/lab/service restart slurmd {node}")
    command = command.replace("systemctl restart slurmctld", "/lab/service restart slurmctld")
    output = None

    def is_said():
        nonlocal output
        # A node's namespaces have no /lab/service.
        inside, user = node if "/lab/service" not in command else None, "alice" if step.who == "alice" else "root"
        result = cluster.run(f"set -o pipefail; exec 2>&1; {command}", user, node=inside)
        output = result.stdout
        may_fail = step.said and not command.startswith("gpushare check")
        return step.is_said(output) and (result.returncode == 0 or may_fail)

    if not is_said():
        assert step.looks, f"{where}\nprints\n{output}"
        shown = lambda: f"it prints {output}" + cluster.run("squeue; scontrol show node").stdout
        wait(is_said, where, more=shown)


def settled(cluster):
    """Whether every node has registered since slurmctld started, so that slurmctld has checked what they report."""
    states = re.findall(r" State=(\S+)", cluster.ok(["scontrol", "-o", "show", "nodes"]))
    return len(states) == 2 and not any(
        word in state for state in states for word in ("UNKNOWN", "NOT_RESPONDING", "*")
    )


def nothing_is_drained(cluster, where, by_hand=("n2",)):
    """Checks that only those nodes are drained that the page drains, with the reason gpushare."""
    cluster.wait(lambda: settled(cluster), f"the nodes to register after {where}")
    for line in cluster.ok(["sinfo", "-h", "-N", "-o", "%N %T %E"]).splitlines():
        node, state, reason = line.split(maxsplit=2)
        fine = state in ("idle", "mixed", "allocated", "completing") or (node in by_hand and reason == "gpushare")
        assert fine, f"after {where}: {line}\n{cluster.log('slurmctld')[-3000:]}"
    assert not DRAINS.findall(cluster.log("slurmctld")), (where, DRAINS.findall(cluster.log("slurmctld")))


def others(cluster):
    """What the site had before and no step may touch: a rule, and the lines of n20, whose name begins like n2's."""
    return cluster.ok("cd /etc/slurm && grep -H -e n20 -e ExemptUsers gpushare.conf gres.conf nodes.conf")
