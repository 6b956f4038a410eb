# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/running-cluster.md, Migrate, on clusters with jobs: what ran before goes on and keeps its GPUs, what waited
starts, what is new is placed and fenced, and slurmctld drains no node by itself."""

import copy
import re

import client
from gpus import opened
from in_use import nothing_is_drained, others, perform
from lab import TOP
from pages import steps

PAGE, STEPS = steps("docs/running-cluster.md"), steps("docs/running-cluster.md#Migrate")
# Prints which GPUs it can open, again and again, and whenever a new step asks. That step also prints what CUDA reports,
# if there is a client. Ends when it is told to. A step that srun requests just after slurmctld's start may wait a
# minute, so srun is started again.
KEEPS = r"""
asked=0
export CLIENT=/usr/local/bin/cuda-client
until test -e /lab/out/$SLURM_JOB_ID.end; do
    /lab/open-gpus
    now=$(cat /lab/out/asked)
    if test $now != $asked; then
        timeout 5 srun --overlap sh -c 'said=$(test ! -x $CLIENT || $CLIENT | grep ^cuInit)
            echo "step: $(/lab/open-gpus) cuda=$CUDA_VISIBLE_DEVICES pipe=$CUDA_MPS_PIPE_DIRECTORY $said"' &&
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
        self.others, self.gaps = others(cluster), set()
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
            lines = set(self.cluster.output(job).splitlines()) - self.gaps
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

    def said(self, job):
        """What each of its steps has said."""
        [line] = {line for line in self.cluster.output(job).splitlines() if line.startswith("step: ")}
        return line

    def are_all_over(self):
        """The end of a test."""
        for node in ("n1", "n2"):
            self.end(node)
        assert others(self.cluster) == self.others


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


def other(found, *pairs):
    """The same steps, with other words in their commands."""
    again = [copy.copy(step) for step in found]
    for step in again:
        for old, new in pairs:
            step.command = step.command.replace(old, new)
    return again


def of_n1(found):
    """The same steps, done to n1."""
    again = other(found, ("n2", "n1"))
    for step in again:
        step.who = step.who.replace("n2", "n1")
        step.said = [line.replace("n2", "n1") for line in step.said]
    return again


def placement(number):
    """The steps of a section of the page before "Migrate"."""
    return [step for step in PAGE if step.section.startswith(number)]


def new_ones(cluster, node, request, count=4):
    """The GPUs of new jobs with shares, each of which can open its own only, in its batch step and one of srun's."""
    cluster.wait(lambda: not cluster.shares(node), f"the page's own job on {node} to be over")
    jobs = [cluster.sbatch(f"--nodelist={node}", request, script=TELLS) for _ in range(count)]
    gpus = []
    for job in jobs:
        cluster.wait(lambda: len(opened(cluster.output(job))) == 2, f"job {job}: {cluster.output(job)}")
        [gpu] = [str(row["index"]) for row in cluster.shares(node) if row["job"] == job]
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
    if cluster.cgroup == "v1":
        # While a step starts under override: docs/placement.md.
        jobs.gaps = {"open=- denied=0,1,2,3 other=-"}
    for node in ("n1", "n2"):
        for _ in range(2):
            jobs.start(node, "--gres=mps:40")
    jobs.ask()
    told = [re.search(r"cuda=(\d)", cluster.output(job)).group(1) for job in jobs.kept]
    assert told == ["0", "1"] * 2, "the site's prolog chose"
    waiting = waits(cluster, "--nodelist=n2", "--gres=mps:40", f"--dependency=afterany:{list(jobs.kept)[3]}")
    add, node = section("1", None, "state=drain"), section("1", "state=drain", "/^NodeName=n2 /d")
    back, rest = section("1", "/^NodeName=n2 /d", "rm "), section("1", "rm ")
    go(cluster, jobs, add + node)
    assert len(starts(cluster, waiting)) == 1
    assert sorted(new_ones(cluster, "n2", "--gres=mps:40")) == ["0", "1", "2", "3"]
    later = jobs.start("n1", "--gres=mps:40")
    jobs.ask()
    assert re.search("cuda=2", cluster.output(later)), "n1 is still as it was"
    # "Do the same with n1."
    moving = jobs.start("n2", "--gres=mps:40")
    both = ("n1", "n2")
    go(cluster, jobs, of_n1(node), both)
    assert sorted(new_ones(cluster, "n1", "--gres=mps:40")) == ["0", "1", "2", "3"]
    go(cluster, jobs, of_n1(section("1", "state=drain", "sed -i '2i") + back), both)
    there = [jobs.start("n1", "--gres=mps:40") for _ in range(2)]
    jobs.ask()
    told = [re.search(r"cuda=(\d)", jobs.said(job)).group(1) for job in there]
    assert told == ["0", "1"] and cluster.shares("n1") == [], "the site's prolog chose"
    go(cluster, jobs, of_n1(node), both)
    held = cluster.sbatch("--hold", "--nodelist=n1", "--gres=mps:40", script=TELLS)
    later = cluster.sbatch("--begin=now+1hour", "--nodelist=n1", "--gres=mps:40", script=TELLS)
    go(cluster, jobs, rest, both)
    assert list(jobs.kept) == [moving]
    assert cluster.run(["scontrol", "release", held], "alice").returncode != 0, "judged when it is released"
    cluster.ok(["scancel", held])
    cluster.start_now(later)
    assert len(starts(cluster, later)) == 1
    jobs.are_all_over()


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
    jobs.are_all_over()


def test_from_native_mps(with_mps):
    cluster = with_mps
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        for _ in range(2):
            jobs.start(node, "--gres=mps:25")
    jobs.ask()
    waiting = waits(cluster, "--nodelist=n2", "--gres=mps:25", f"--dependency=afterany:{list(jobs.kept)[3]}")
    # "Then enable own node by node, with 100 and 400 units in place of 80 and 320."
    go(cluster, jobs, section("3", None, "/^NodeName=n2 /d") + other(placement("5"), ("=80", "=100"), ("320", "400")))
    assert sorted(new_ones(cluster, "n2", "--gres=gpushare:50")) == ["0", "1", "2", "3"]
    assert cluster.state(waiting) == "PENDING", "as the page says"
    jobs.start("n2", "--gres=gpushare:50")
    # "To go back on n2, drain it, and then".
    go(cluster, jobs, section("4", "state=drain", "echo NodeName=n2") + section("3", "/^NodeName=n2 /d"))
    assert len(starts(cluster, waiting)) == 1
    jobs.start("n2", "--gres=mps:25")
    jobs.start("n1", "--gres=mps:25")
    jobs.ask()
    jobs.are_all_over()


# As github.com/ualberta-rcg/SoftMig has it for sites: a part of a GPU becomes shards, 8 for a GPU.
FRACTIONS = r"""
function slurm_job_submit(job, partitions, user)
    local form, parts = string.match(job.tres_per_node or "", "^(gres[:/])gpu:a40%.(%d):1$")
    if form then
        job.tres_per_node = form .. "shard:" .. math.floor(8 / tonumber(parts))
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
"""


def test_from_native_shard(with_shard):
    cluster = with_shard
    jobs = Jobs(cluster)
    for node in ("n1", "n2"):
        for request in ("shard:4", "gpu:a40:1"):
            jobs.start(node, f"--gres={request}")
    jobs.ask()
    waiting = waits(cluster, "--nodelist=n2", "--gres=shard:4", f"--dependency=afterany:{list(jobs.kept)[3]}")
    # "With `ShareGRES=shard` and without the second command."
    [first, second, *rest] = section("3", None, "/^NodeName=n2 /d")
    assert "GresTypes" in second.command
    go(cluster, jobs, other([first, *rest], ("ShareGRES=gpushare", "ShareGRES=shard")))
    go(cluster, jobs, section("4", None, "/^NodeName=n2 /d"))
    assert len(starts(cluster, waiting)) == 1
    assert f"job {waiting}: whole GPU" in cluster.log("syslog"), "its size is not known, as the page says"
    new_ones(cluster, "n2", "--gres=shard:8")
    jobs.start("n1", "--gres=shard:4")
    jobs.ask()
    shards_by_lua(cluster, jobs)
    go(cluster, jobs, section("4", "state=drain", "echo NodeName=n2") + section("4", "/^NodeName=n2 /d"))
    jobs.start("n2", "--gres=shard:4")
    jobs.ask()
    assert cluster.shares("n2") == []
    jobs.are_all_over()


def shards_by_lua(cluster, jobs):
    """"gpushare then records as many shards as lua has written." """
    cluster.write("/etc/slurm/job_submit.lua", FRACTIONS)
    cluster.ok("sed -i s/^JobSubmitPlugins=/JobSubmitPlugins=lua,/ /etc/slurm/extra.conf")
    cluster.ok("/lab/service restart slurmctld")
    part = jobs.start("n2", "--gres=gpu:a40.4:1")
    assert [row["units"] for row in cluster.shares("n2") if row["job"] == part] == [2]


SITE = "/run/site-mps"
# Of each MPS control daemon of a node its process and its directory.
DAEMONS = r"""
for folder in /proc/[0-9]*; do
    [[ "$(tr '\0' ' ' 2>/dev/null <$folder/cmdline)" == *nvidia-cuda-mps-control\ -[df]* ]] || continue
    echo ${folder##*/} $(tr '\0' '\n' <$folder/environ | sed -n s/^CUDA_MPS_PIPE_DIRECTORY=//p)
done 2>/dev/null"""


def daemons(cluster, node):
    """{directory: process}"""
    return {folder: pid for pid, folder in map(str.split, cluster.ok(DAEMONS, node=node).splitlines())}


def clients(cluster, node, log):
    """The processes that a daemon has taken as its clients."""
    return re.findall(r"NEW CLIENT (\d+) from user 2001", cluster.ok(["cat", f"{log}/control.log"], node=node))


def strangers(cluster, node):
    """What `gpushare check` says of daemons that gpushare didn't start: (status, text) of each."""
    found = cluster.findings("Mps", node=node)
    return [(one["status"], one["said"]) for one in found if "didn't start" in one["said"]]


def test_from_an_mps_daemon_of_the_site(with_daemon):
    cluster, nodes = with_daemon, ("n1", "n2")
    client.install_cuda(cluster)
    for node in nodes:
        # A box's nodes share its files, as machines do not.
        cluster.ok(f"mkdir -p {SITE} && mount -t tmpfs -o mode=755 tmpfs {SITE}", node=node)
    jobs = Jobs(cluster)
    for node in nodes:
        for _ in range(2):
            jobs.start(node, "--gres=mps:25")
    jobs.ask()
    assert all(jobs.said(job).endswith(f"pipe={SITE} cuInit=805") for job in jobs.kept)
    before = {node: daemons(cluster, node) for node in nodes}
    assert [list(found) for found in before.values()] == [[SITE], [SITE]]
    taken = len(clients(cluster, "n1", SITE))
    waiting = waits(cluster, "--nodelist=n2", "--gres=mps:25", f"--dependency=afterany:{list(jobs.kept)[3]}")
    go(cluster, jobs, section("5", None, "disable --now"))
    assert daemons(cluster, "n2") == {} and strangers(cluster, "n2") == []
    go(cluster, jobs, section("5", "state=resume", "/^NodeName=n2 /d"))
    assert len(starts(cluster, waiting)) == 1
    new_ones(cluster, "n2", "--gres=mps:50")

    # New shares reach gpushare's daemon, and no other is there.
    run = f"{client.CUDA_CLIENT}; srun --overlap {client.CUDA_CLIENT}; sleep 60"
    share = cluster.sbatch("--nodelist=n2", "--gres=mps:50", script=run)
    cluster.wait(lambda: cluster.output(share).count("cuInit=") == 2, f"programs of job {share}")
    programs = re.findall(r"^pid=(\d+)", cluster.output(share), re.M)
    cluster.wait(lambda: len(daemons(cluster, "n2")) == 1, "the daemons of earlier shares to end")
    [folder] = daemons(cluster, "n2")
    assert re.fullmatch(r"/run/gpushare/mps/\d\.2001/pipe", folder)
    assert set(programs) <= set(clients(cluster, "n2", folder.replace("pipe", "log"))), cluster.output(share)
    assert cluster.output(share).count("cuInit=805") == 2
    cluster.ok(["scancel", share], "alice")

    # The other node is as it was; and back.
    assert daemons(cluster, "n1") == before["n1"]
    [(status, said)] = strangers(cluster, "n1")
    assert status == "ok" and f"process {before['n1'][SITE]} of user 0 (pipes in {SITE})" in said, said
    jobs.start("n2", "--gres=mps:25")
    go(cluster, jobs, section("5", "state=drain", "sed -i '2i") + section("5", "/^NodeName=n2 /d"))
    again = jobs.start("n2", "--gres=mps:25")
    jobs.ask()
    assert jobs.said(again).endswith(f"pipe={SITE} cuInit=805") and list(daemons(cluster, "n2")) == [SITE]
    assert len(clients(cluster, "n1", SITE)) > taken
    jobs.are_all_over()
