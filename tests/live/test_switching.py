# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/running-cluster.md on a cluster with running jobs: each placement is switched on, changed for the others,
and switched off; slurmctld drains no node by itself, and no job ends."""

from os.path import commonprefix

from in_use import nothing_is_drained, others, perform
from pages import steps

STEPS = steps("docs/running-cluster.md")
FOLLOW, OVERRIDE, OWN, OFF = "3456"
# Every placement is the first somewhere, and follows every other one.
ORDERS = {
    "22.05": [FOLLOW, OVERRIDE, OWN],
    "24.11": [OWN, FOLLOW, OVERRIDE],
    "26.05": [OVERRIDE, FOLLOW, OWN, OVERRIDE],
}
KEEPS = "trap 'exit 0' TERM; touch /lab/out/$SLURM_JOB_ID.runs; while ! test -e /lab/out/end; do sleep 0.2; done"

# What all nodes count shares by.
SHARES = "grep ^ShareGRES= /etc/slurm/gpushare.conf || true"


def of(section):
    """The steps of a section. Override has those of follow, with its own commands in the place of the likest ones."""
    found = [step for step in STEPS if step.section.startswith(section)]
    if section != OVERRIDE:
        return found
    instead = {}
    for step in found:
        like = max(of(FOLLOW), key=lambda other: len(commonprefix([step.command, other.command])))
        assert like.line not in instead and not step.said
        instead[like.line] = step
    assert len(instead) == 3
    return [instead.get(step.line, step) for step in of(FOLLOW)]


def test_every_way_drains_nothing(in_use):
    cluster, before = in_use, others(in_use)
    kept = [cluster.sbatch("--nodelist=n1", f"--gres=gpu:{gpus}", script=KEEPS) for gpus in ("a40:1", "2")]
    short = cluster.sbatch("--nodelist=n2", "--gres=gpu:a40:1", script="sleep 3")
    cluster.wait_state(kept[1], "RUNNING")
    cluster.wait_state(short, "RUNNING")
    for section in ["1", "2", *(one for on in ORDERS.get(cluster.release, ORDERS["24.11"]) for one in (on, OFF)), "7"]:
        shares = cluster.ok(SHARES)
        for step in of(section):
            perform(cluster, step)
            nothing_is_drained(cluster, f"{step.section}, line {step.line}: {step.command}")
            assert [cluster.state(job) for job in kept] == ["RUNNING"] * 2, (step.line, step.command)
        assert section != OFF or cluster.ok(SHARES) == shares, "other nodes may have own"
    cluster.ok("touch /lab/out/end")
    assert [cluster.finished(job) for job in (*kept, short)] == ["COMPLETED"] * 3
    assert others(cluster) == before
