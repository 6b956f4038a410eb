# SPDX-License-Identifier: GPL-2.0-or-later
"""slurmd or slurmstepd is killed at steps of a job's start, and no share is lost: after it jobs can fill the node.

With GPUSHARE_KILLED=everywhere that is each step and both daemons, 5 minutes a cluster; else those between the prolog's
choice and the end of the extern step's start, where neither an epilog nor a process told of the job.
"""

import os
import re

import client
import pytest
from gpus import OPEN, wait_taken_back
from lab import TOP

PLUGIN, AT = "/lab/out/die-at.so", "/lab/out/die-at"
PROLOG = "/usr/sbin/gpushare-prolog"
FULL, MOST = "--gres=gpushare:80", "--gres=gpushare:60"
# Before and after gpushare's own prolog, which has its variables.
WRAPPER = f"""#!/bin/bash
at() {{ read -r step hook whom slurmd 2>/dev/null <{AT} && [[ $hook == $1 ]] && rm {AT} && kill -KILL $slurmd; }}
at before_prolog
{PROLOG}.real
at after_prolog
exit 0
"""
# What a job's two slurmstepds run of a plugin, in their order.
EXTERN = ["init", "init_post_opt", "task_post_fork"]
BATCH = ["init", "init_post_opt", "user_init", "task_init_privileged", "task_post_fork"]  # task_init is the user's
STEPS = [*(("extern", hook) for hook in EXTERN), *(("batch", hook) for hook in BATCH)]
EVERYWHERE = os.environ.get("GPUSHARE_KILLED") == "everywhere"
FEW = [("after_prolog", "slurmd"), ("job_prolog", "slurmd"), ("init", "both"), ("task_post_fork", "slurmd")]


def points(kind):
    """In a start of a job on a node of this KIND: in which step, at which hook, who is killed."""
    every = [("none", "before_prolog", "slurmd"), ("none", "after_prolog", "slurmd")] if kind != "hooks-only" else []
    every += [("none", "job_prolog", "slurmd")] if kind != "run-in-job" else []
    every += [(step, hook, whom) for step, hook in STEPS for whom in ("slurmd", "slurmstepd", "both")]
    # Slurm's own loss: slurmd waits for the step's program to end, or for a prolog that nobody runs any more.
    every = [point for point in every if point[1:] != ("task_post_fork", "slurmstepd")]
    if kind == "run-in-job":
        every = [point for point in every if (point[0], point[2]) != ("extern", "slurmstepd")]
    return every if EVERYWHERE else [point for point in every if point[0] != "batch" and point[1:] in FEW]


@pytest.fixture(scope="module")
def node(by_whom, tmp_path_factory):
    """The node with a plugin that kills, after gpushare's, and a prolog that does round gpushare's."""
    library = tmp_path_factory.mktemp("plugin") / "die-at.so"
    client.compiled(TOP / "tests/live/tools/die-at.c", by_whom.release, library, "-shared", "-fPIC")
    client.install(by_whom, library, PLUGIN)
    by_whom.ok(f"echo required {PLUGIN} >>/etc/slurm/plugstack.conf")
    by_whom.ok(f"mv {PROLOG} {PROLOG}.real && cat >{PROLOG} && chmod 755 {PROLOG}", stdin=WRAPPER)
    by_whom.ok("/lab/service restart slurmd", timeout=80)
    yield by_whom


def killed(node, step, hook, whom):
    """A job is started and killed so; then it is ended and the node taken back into service."""
    slurmd = node.ok(f"cat /run/slurm/slurmd-{node.name}.pid")
    node.ok(f"echo {step} {hook} {whom} {slurmd} >{AT}")
    job = node.sbatch("--no-requeue", FULL)
    node.wait(lambda: node.run(["test", "-e", AT]).returncode, f"{whom} to be killed in {step} {hook}")
    if whom != "slurmstepd":
        # As slurmctld does by itself after SlurmdTimeout. It sends a node that is down no epilog.
        node.ok(["scontrol", "update", f"NodeName={node.name}", "State=DOWN", "Reason=test"])
        # Where that has not ended it yet.
        node.run(["scancel", job])
        node.wait_state(job, "NODE_FAIL", "CANCELLED", "FAILED")
        # A node that stays away longer than slurmctld tries to reach it: what it still has to send is gone.
        node.ok("/lab/service restart slurmctld", timeout=80)
        node.ok("/lab/service start slurmd", timeout=80)
        # Refused where ReturnToService has done that.
        node.run(["scontrol", "update", f"NodeName={node.name}", "State=RESUME"])
        node.wait(lambda: node.node_state().startswith("idle"), "the node")
    node.run(["scancel", job])


def test_who_lives_is_never_taken_for_over(node):
    """A job, one of an array, one that is suspended, one of an array that waits for it;
    none has a process that stands for it."""
    jobs = [node.sbatch(MOST), node.sbatch("--array=5", MOST), node.sbatch(MOST), node.sbatch("--array=1,2%1", MOST)]
    node.wait(lambda: len(node.ledger()) == 4, "four jobs")
    before = node.ledger()
    assert sorted(before.values()) == [0, 1, 2, 3]
    entries = "/run/gpushare/jobs/*"
    node.wait(lambda: node.run(f"grep -h ^witness= {entries}").stdout.count("\n") == 4, "four extern steps")
    # With RunInJob 26.05 never ends a job that was suspended.
    suspended = [jobs[0]] if node.kind != "run-in-job" else []
    for job in suspended:
        node.ok(["scontrol", "suspend", job])
    node.ok(
        f"cp -r /run/gpushare/jobs /tmp/with-witnesses && sed -i /^witness=/d {entries} && "
        "echo Overcommit=refuse >>/etc/slurm/gpushare.conf"
    )
    try:
        # Slurm has room for it, and no GPU has.
        late = node.sbatch(FULL)
        assert node.finished(late) == "FAILED"
        assert "no GPU has 80 of its 80 units free" in node.output(late)
        hooks = node.kind == "hooks-only"
        said = node.log("slurmd" if hooks else "syslog")
        assert node.ledger() == before and "is not known" not in said
        assert ("spank/gpushare: " if hooks else "gpushare-prolog[") in said
    finally:
        node.ok("sed -i /Overcommit=refuse/d /etc/slurm/gpushare.conf")
        for job in suspended:
            node.ok(["scontrol", "resume", job])
            node.wait_state(job, "RUNNING")
        # Without a witness a share is taken back only if a job finds no room, also one that Slurm's own fault left.
        node.ok("cp -r /tmp/with-witnesses/. /run/gpushare/jobs && rm -r /tmp/with-witnesses")
        node.cancel_all()
    wait_taken_back(node, FULL)


def test_no_share_is_lost_wherever_a_start_was_killed(node):
    lost = {}
    for point in points(node.kind):
        killed(node, *point)
        node.wait(lambda: not node.ok(["squeue", "-h"]), f"the end of the job killed at {point}", patience=90)
        jobs = [node.sbatch(FULL, script=f"{OPEN}; sleep 60") for _ in range(4)]
        for job in jobs:
            node.wait(lambda: node.output(job), f"output of job {job} after {point}")
        said = [node.output(job).splitlines()[0] for job in jobs]
        if sorted(re.findall("open=(.) ", " ".join(said))) != list("0123"):
            lost[point] = said
        node.cancel_all()
    assert not lost
    wait_taken_back(node, FULL)
