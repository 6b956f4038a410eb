# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/migration.md on clusters with jobs: what ran before goes on and keeps its GPUs, what waited starts, what is new
is placed and fenced, and slurmctld drains no node by itself."""

import copy
import re

from gpus import opened
from in_use import nothing_is_drained, perform
from lab import TOP
from pages import steps

STEPS = steps(TOP / "docs/migration.md")
# Tells which GPUs it can open, again and again, and as often as it is asked by a new step; ends when it is told to. A
# step that srun asks for just after slurmctld's start can wait a minute; so srun is started again.
KEEPS = r"""
asked=0
until test -e /lab/out/$SLURM_JOB_ID.end; do
    /lab/open-gpus
    now=$(cat /lab/out/asked)
    if test $now != $asked; then
        timeout 5 srun --overlap sh -c 'echo "step: $(/lab/open-gpus) cuda=$CUDA_VISIBLE_DEVICES"' &&
            asked=$now && echo "step $now is over"
    fi
    sleep 0.2
done
"""
TELLS = r"""
/lab/open-gpus
srun --overlap sh -c '/lab/open-gpus; echo cuda=$CUDA_VISIBLE_DEVICES'
until test -e /lab/out/$SLURM_JOB_ID.end; do sleep 0.2; done
"""


class Jobs:
    """Jobs that run while Slurm's files change."""

    def __init__(self, cluster):
        self.cluster, self.asked, self.kept = cluster, 0, {}
        cluster.ok("echo 0 >/lab/out/asked")

    def start(self, node, *options):
        """One that must keep its GPUs for as long as it runs."""
        job = self.cluster.sbatch(f"--nodelist={node}", *options, script=KEEPS)
        self.cluster.wait_state(job, "RUNNING")
        self.kept[job] = node
        return job

    def ask(self):
        """Each starts a step, and has in it and all of the time what it had at first."""
        self.asked += 1
        self.cluster.ok(f"echo {self.asked} >/lab/out/asked.new && mv /lab/out/asked.new /lab/out/asked")
        for job in self.kept:
            over = f"step {self.asked} is over"
            self.cluster.wait(lambda: over in self.cluster.output(job), f"'{over}' of job {job}")
            lines = set(self.cluster.output(job).splitlines())
            assert len([line for line in lines if line.startswith("open=")]) == 1, lines
            assert len([line for line in lines if line.startswith("step: ")]) == 1, lines

    def run_on(self, where):
        assert [self.cluster.state(job) for job in self.kept] == ["RUNNING"] * len(self.kept), where

    def end(self, node):
        """Those of a node are done."""
        done = [job for job, its in self.kept.items() if its == node]
        for job in done:
            del self.kept[job]
        for job in done:
            self.cluster.ok(f"touch /lab/out/{job}.end")
            assert self.cluster.finished(job) == "COMPLETED", self.cluster.output(job)


def go(cluster, jobs, found, drained=("n2",)):
    """Does the steps FOUND. What runs on a node runs on while that is drained, and then ends."""
    assert found
    for step in found:
        perform(cluster, step)
        nothing_is_drained(cluster, f"{step.section}, line {step.line}: {step.command}", drained)
        jobs.run_on(f"line {step.line}: {step.command}")
        node = re.search(r"update node=(n\d) state=drain", step.command)
        if node or "restart slurmctld" in step.command:
            jobs.ask()
        if node:
            jobs.end(node.group(1))


def section(number, first=None, last=None):
    """The steps of a section, or those from the one whose command has FIRST to the one before LAST."""
    found = [step for step in STEPS if step.section.startswith(number)]
    where = lambda text: next(place for place, step in enumerate(found) if text in step.command)
    return found[where(first) if first else 0 : where(last) if last else len(found)]


def new_ones(cluster, node, request, count=4):
    """The GPUs of new jobs with shares, each of which can open its own only, in its batch step and one of srun's."""
    cluster.wait(lambda: not cluster.shares(node), f"the page's own job on {node} to be over")
    jobs = [cluster.sbatch(f"--nodelist={node}", request, script=TELLS) for _ in range(count)]
    gpus = []
    for job in jobs:
        cluster.wait(lambda: len(opened(cluster.output(job))) == 2, f"job {job}: {cluster.output(job)}")
        [gpu] = [row["GPU"] for row in cluster.shares(node) if row["JOB"] == job]
        assert opened(cluster.output(job)) == [{int(gpu)}] * 2
        # Whatever the GPU's number: a program counts those that it can open.
        cluster.wait(lambda: "cuda=" in cluster.output(job), f"job {job}'s step")
        assert "cuda=0\n" in cluster.output(job), cluster.output(job)
        gpus.append(gpu)
    cluster.ok("touch " + " ".join(f"/lab/out/{job}.end" for job in jobs))
    assert [cluster.finished(job) for job in jobs] == ["COMPLETED"] * count
    return gpus


def waits(cluster, *options):
    """A job that waits for another one, which it follows."""
    job = cluster.sbatch(*options, script=TELLS)
    assert cluster.state(job) == "PENDING"
    return job


def starts(cluster, job):
    """The GPUs that a job could open which waited."""
    assert cluster.wait_state(job, "RUNNING", "FAILED", "COMPLETED") == "RUNNING", cluster.output(job)
    cluster.wait(lambda: len(opened(cluster.output(job))) == 2, f"job {job}: {cluster.output(job)}")
    first, second = opened(cluster.output(job))
    assert first == second
    cluster.ok(f"touch /lab/out/{job}.end")
    assert cluster.finished(job) == "COMPLETED"
    return first


def test_from_scripts_of_a_site(with_scripts):
    cluster = with_scripts
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        for _ in range(2):
            jobs.start(node, "--gres=mps:40")
    jobs.ask()
    told = [re.search(r"cuda=(\d)", cluster.output(job)).group(1) for job in jobs.kept]
    assert told == ["0", "1"] * 2, "the site's prolog chose"
    waiting = waits(cluster, "--nodelist=n2", "--gres=mps:40", f"--dependency=afterany:{list(jobs.kept)[3]}")
    add, node, rest = section("1", None, "state=drain"), section("1", "state=drain", "rm "), section("1", "rm ")
    go(cluster, jobs, add + node)
    assert len(starts(cluster, waiting)) == 1
    assert sorted(new_ones(cluster, "n2", "--gres=mps:40")) == ["0", "1", "2", "3"]
    later = jobs.start("n1", "--gres=mps:40")
    jobs.ask()
    assert re.search("cuda=2", cluster.output(later)), "n1 is still as it was"
    # "Do the same with n1."
    moving = jobs.start("n2", "--gres=mps:40")
    again = [copy.copy(step) for step in node]
    for step in again:
        step.command, step.who = step.command.replace("n2", "n1"), step.who.replace("n2", "n1")
    go(cluster, jobs, again + rest, ("n1", "n2"))
    assert list(jobs.kept) == [moving]
    assert sorted(new_ones(cluster, "n1", "--gres=mps:40")) == ["0", "1", "2", "3"]
    jobs.end("n2")


def test_from_lua(with_lua):
    cluster = with_lua
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        jobs.start(node, "--gres=gpu:a40:1")
    jobs.ask()
    # Both were accepted by the script; gpushare would refuse the second.
    held = [cluster.sbatch("--hold", *options, script=TELLS) for options in (["--gres=gpu:a40:1"], ["--gpus=1"])]
    go(cluster, jobs, section("2"))
    cluster.ok(["scontrol", "release", *held], "alice")
    assert [len(starts(cluster, job)) for job in held] == [1, 1]
    jobs.ask()
    for node in ("n1", "n2"):
        jobs.end(node)


def test_from_native_mps(with_mps):
    cluster = with_mps
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        for _ in range(2):
            jobs.start(node, "--gres=mps:25")
    jobs.ask()
    waiting = waits(cluster, "--nodelist=n2", "--gres=mps:25", f"--dependency=afterany:{list(jobs.kept)[3]}")
    go(cluster, jobs, section("3"))
    assert sorted(new_ones(cluster, "n2", "--gres=gpushare:50")) == ["0", "1", "2", "3"]
    assert cluster.state(waiting) == "PENDING", "as the page says"
    cluster.ok(["scancel", waiting], "alice")
    jobs.start("n1", "--gres=mps:25")
    jobs.ask()
    jobs.end("n1")


def test_from_native_shard(with_shard):
    cluster = with_shard
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        for request in ("shard:4", "gpu:a40:1"):
            jobs.start(node, f"--gres={request}")
    jobs.ask()
    waiting = waits(cluster, "--nodelist=n2", "--gres=shard:4", f"--dependency=afterany:{list(jobs.kept)[3]}")
    go(cluster, jobs, section("4"))
    assert len(starts(cluster, waiting)) == 1
    assert f"job {waiting}: whole GPU" in cluster.log("syslog"), "its size is not known, as the page says"
    new_ones(cluster, "n2", "--gres=shard:8")
    jobs.start("n1", "--gres=shard:4")
    jobs.ask()
    jobs.end("n1")
