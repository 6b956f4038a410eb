# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm's QOS page of October 2009 on today's Slurm, from docs/examples/qos-2009: a case for each limit, option and
claim of the page, seen at work, under the page's name. `pytest -v` prints them as a table; in the example only times
are shorter."""

import contextlib
import re
from collections import Counter

import pytest
from lab import EXAMPLES
from shares import apply, field

# As the example has it, and here: minutes, minutes, seconds.
SHORTER = {"GrpCPUMins=100000": "GrpCPUMins=2", "GrpWall=30-0": "GrpWall=1", "GraceTime=60": "GraceTime=8"}
EXTRA = "/etc/slurm/extra.conf"
POLICY = "Job violates accounting/QOS policy"


def example():
    return (EXAMPLES / "qos-2009/gpushare.conf").read_text()


@pytest.fixture(scope="module")
def cluster(qos_2009):
    text = example()
    for old, new in SHORTER.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    apply(qos_2009, text)
    return qos_2009


@pytest.fixture(autouse=True)
def clean(cluster):
    yield
    cluster.cancel_all()


def comes_to(cluster, wanted, look):
    """Waits until LOOK gives what is wanted, or shows what it gave last."""
    found = []
    same = lambda: found.append(look()) or found[-1] == wanted
    try:
        cluster.wait(same, repr(wanted))
    except AssertionError:
        assert found[-1] == wanted


def comes_to_wait(cluster, job, reason):
    comes_to(cluster, f"PENDING {reason}", lambda: told(cluster, job, "%T %r"))


def told(cluster, job, columns):
    return cluster.ok(["squeue", "-h", "-r", "-j", job, "-o", columns])


def refused(cluster, message, *options, user="alice"):
    result = cluster.run(["sbatch", "-o", "/dev/null", *options, "--wrap", "true"], user)
    assert result.returncode != 0 and message in result.stderr, f"{options}: {result.stdout}{result.stderr}"


@contextlib.contextmanager
def instead(cluster, **settings):
    """The cluster with other values of these keys in extra.conf."""
    text = cluster.ok(["cat", EXTRA])
    kept = [line for line in text.splitlines() if line.split("=")[0] not in settings]
    restart(cluster, [*kept, *(f"{key}={value}" for key, value in settings.items())])
    try:
        yield
    finally:
        cluster.cancel_all()
        restart(cluster, text.splitlines())


def restart(cluster, lines):
    cluster.ok(["tee", EXTRA], stdin="".join(line + "\n" for line in lines))
    cluster.ok("/lab/service restart slurmctld")


# --- limits --------------------------------------------------------------------------------------------------------


def together(cluster, name, qos, options, running, reason):
    """A limit on all jobs of the QOS or on a user's: so many jobs run, and the next one waits for this reason."""
    alices = cluster.sbatch(f"--qos={qos}", f"--array=1-{running + 1}", *options)
    comes_to(cluster, {"RUNNING None": running, f"PENDING {reason}": 1},
             lambda: Counter(told(cluster, alices, "%T %r").splitlines()))
    bobs = cluster.sbatch(f"--qos={qos}", *options, user="bob")
    if name.startswith("Grp"):
        comes_to_wait(cluster, bobs, reason)
        cluster.ok(["scancel", alices])
    cluster.wait_state(bobs, "RUNNING")


def alone(cluster, qos, fits, too_much, reason):
    """A limit on one job: what is too much for it waits, though the cluster is free."""
    waits, runs = (cluster.sbatch(f"--qos={qos}", *options) for options in (too_much, fits))
    comes_to_wait(cluster, waits, reason)
    cluster.wait_state(runs, "RUNNING")


def queued(cluster, name, qos, number):
    """A limit on jobs in the queue, waiting ones too: the next one is refused."""
    cluster.sbatch(f"--qos={qos}", "-H", f"--array=1-{number}")
    for user in ("alice", "bob"):
        if user == "alice" or name.startswith("Grp"):
            refused(cluster, POLICY, f"--qos={qos}", user=user)
        else:
            cluster.sbatch(f"--qos={qos}", user=user)


def lifted(cluster, qos, partition, option, reason):
    """A partition's limit, under a QOS whose flag lifts it and under one without."""
    flagged, plain = (cluster.sbatch(f"--qos={one}", f"--partition={partition}", option) for one in (qos, "first"))
    comes_to_wait(cluster, plain, reason)
    cluster.wait_state(flagged, "RUNNING")


def cpu_minutes(cluster):
    """What finished jobs have used counts; who runs then is ended when slurmctld looks next, every 30 s."""
    runs = cluster.sbatch("--qos=grp_cpu_mins", user="bob")
    cluster.wait_state(runs, "RUNNING")
    used = cluster.sbatch("--qos=grp_cpu_mins", "-n128", script="sleep 2")
    cluster.finished(used)
    waits = cluster.sbatch("--qos=grp_cpu_mins")
    comes_to_wait(cluster, waits, "QOSGrpCPUMinutesLimit")
    assert cluster.finished(runs) == "TIMEOUT"
    cluster.ok("sacctmgr -i modify qos grp_cpu_mins set RawUsage=0")
    cluster.wait_state(waits, "RUNNING")


def wall(cluster):
    """The minutes of all jobs together, one after another or side by side."""
    jobs = cluster.sbatch("--qos=grp_wall", "--array=1-16", script="sleep 5")
    cluster.wait(lambda: not cluster.ok(["squeue", "-h"]), "the jobs to end")
    states = cluster.ok(["sacct", "-nXPj", jobs, "-o", "elapsedraw"]).split()
    assert len(states) == 16 and sum(map(int, states)) >= 60, states
    comes_to_wait(cluster, cluster.sbatch("--qos=grp_wall"), "QOSGrpWallLimit")


# --- options -------------------------------------------------------------------------------------------------------


def deny(cluster):
    """Today also for a limit on all jobs of the QOS that one job is over by itself;
    the page speaks of 'Max' limits only."""
    refused(cluster, POLICY, "--qos=deny", "-n17")
    refused(cluster, POLICY, "--qos=deny", "-N4")
    cluster.wait_state(cluster.sbatch("--qos=deny", "-n16", "-N3"), "RUNNING")


def threshold(cluster):
    """Who has used too much is held and runs again later; but not with PriorityWeightFairshare, with which Slurm
    compares the weighted number with the threshold. Up to 25.05 the number is 2^(-usage/share) among the users of the
    account, then it is FairShare of sshare, a rank. Either is calculated every PriorityCalcPeriod and at the start of
    slurmctld."""
    cluster.ok("sacctmgr -i modify account physics set RawUsage=0")
    cluster.finished(cluster.sbatch("--qos=first", "-N4", "--exclusive", script="sleep 2"))
    cluster.ok("/lab/service restart slurmctld")
    held = cluster.sbatch("--qos=threshold")
    comes_to_wait(cluster, held, "QOSUsageThreshold")
    cluster.wait_state(cluster.sbatch("--qos=threshold", user="bob"), "RUNNING")
    cluster.wait_state(cluster.sbatch("--qos=first"), "RUNNING")
    assert cluster.state(held) == "PENDING"
    with instead(cluster, PriorityWeightFairshare=1000):
        cluster.wait_state(cluster.sbatch("--qos=threshold"), "RUNNING")


def no_reserve(cluster):
    """A waiting job of all nodes keeps the free one free for itself, but not under this flag."""
    for qos in ("first", "standby"):
        cluster.cancel_all()
        three = cluster.sbatch("-N3", "--exclusive", "-t10")
        cluster.wait_state(three, "RUNNING")
        big = cluster.sbatch(f"--qos={qos}", "-N4", "--exclusive", "-t10")
        comes_to_wait(cluster, big, "Resources")
        small = cluster.sbatch("-N1", "--exclusive", "-t60", user="bob")
        if qos == "first":
            # Both have their time in the backfill scheduler's plan.
            plan = cluster.wait(lambda: planned(cluster, big, small), "a plan")
            assert plan[0] < plan[1], plan
            comes_to_wait(cluster, small, "Priority")
        else:
            cluster.wait_state(small, "RUNNING")
            assert cluster.state(big) == "PENDING"


def planned(cluster, *jobs):
    """When squeue --start says that they start; nothing if it does not say it of one."""
    times = [told(cluster, job, "%S") for job in jobs]
    return times if "N/A" not in times else None


def reservation(cluster):
    refused(cluster, "Invalid qos specification", "--qos=reservation")
    cluster.ok("scontrol create reservation=course starttime=now duration=60 nodes=n4 users=alice")
    try:
        cluster.wait_state(cluster.sbatch("--qos=reservation", "--reservation=course"), "RUNNING")
        cluster.cancel_all()
    finally:
        cluster.ok("scontrol delete reservation=course")


def grace(cluster):
    """SIGTERM comes at once, the end after the grace time."""
    script = "srun bash -c 'trap \"echo told to end\" TERM; echo working; while true; do sleep 0.1; done'"
    preempted = cluster.sbatch("--qos=grace", "-wn4", "--exclusive", "-n1", script=script, user="bob")
    cluster.wait(lambda: "working" in cluster.output(preempted), "the job")
    preempts = cluster.sbatch("--qos=preempts", "-wn4", "--exclusive")
    cluster.wait(lambda: "told to end" in cluster.output(preempted), "SIGTERM")
    assert cluster.states(preempted, preempts) == {preempted: "RUNNING", preempts: "PENDING"}
    cluster.wait_state(preempts, "RUNNING")
    assert cluster.state(preempted) == "PENDING", "it is queued again"


def usage_factor(cluster):
    """Half of the usage is charged; what sacct has of the job is whole."""
    before = {user: used(cluster, user) for user in ("alice", "bob")}
    jobs = {user: cluster.sbatch(f"--qos={qos}", "-n64", script="sleep 4", user=user)
            for user, qos in (("alice", "half"), ("bob", "first"))}
    for user, factor in (("alice", 0.5), ("bob", 1)):
        cluster.finished(jobs[user])
        sacct = ["sacct", "-nXPj", jobs[user], "-o", "state,elapsedraw,cputimeraw"]
        cluster.wait(lambda: cluster.ok(sacct).startswith("COMPLETED"), "sacct")
        seconds, cpu_seconds = map(int, cluster.ok(sacct).split("|")[1:])
        assert cpu_seconds == 64 * seconds
        charged = lambda: used(cluster, user) - before[user]
        cluster.wait(charged, "the charge")
        assert abs(charged() - factor * cpu_seconds) <= 4, f"{user}: {charged()} of {cpu_seconds}"


def used(cluster, user):
    return int(cluster.ok(["sshare", "-nP", "-u", user, "-A", "physics", "-o", "RawUsage"]).splitlines()[-1])


# --- claims --------------------------------------------------------------------------------------------------------


def who_is_next(cluster, expected, *weights):
    """Of two jobs for the whole cluster, the second one of the QOS with priority:
    which starts first, by which weights?"""
    whole = ["-N4", "--exclusive"]
    runs = cluster.sbatch(*whole, user="bob")
    cluster.wait_state(runs, "RUNNING")
    jobs = {qos: cluster.sbatch(f"--qos={qos}", *whole) for qos in ("normal", "first")}
    for qos, weight in zip(jobs, weights):
        comes_to(cluster, weight, lambda: cluster.ok(["sprio", "-h", "-j", jobs[qos], "-o", "%Q"]).strip())
    cluster.ok(["scancel", runs])
    cluster.wait_state(jobs.pop(expected), "RUNNING")
    assert [cluster.state(job) for job in jobs.values()] == ["PENDING"]


def no_weight(cluster):
    with instead(cluster, PriorityWeightQOS=0):
        who_is_next(cluster, "normal", "0", "0")


def basic(cluster):
    with instead(cluster, PriorityType="priority/basic"):
        who_is_next(cluster, "normal")


def preempt(cluster):
    """Only whom the list names; a priority alone preempts nobody."""
    node = ["-wn4", "--exclusive"]
    for runs, waits in (("half", "preempts"), ("standby", "first")):
        cluster.cancel_all()
        victim = cluster.sbatch(f"--qos={runs}", *node, user="bob")
        cluster.wait_state(victim, "RUNNING")
        comes_to_wait(cluster, cluster.sbatch(f"--qos={waits}", *node), "Resources")
        assert cluster.state(victim) == "RUNNING"
    cluster.ok(["scancel", "-u", "alice"])
    cluster.wait_state(cluster.sbatch("--qos=preempts", *node), "RUNNING")
    assert cluster.state(victim) == "PENDING", "it is queued again"


def no_preemption(cluster):
    with instead(cluster, PreemptType="preempt/none", PreemptMode="OFF"):
        victim = cluster.sbatch("--qos=standby", "-wn4", "--exclusive", user="bob")
        cluster.wait_state(victim, "RUNNING")
        comes_to_wait(cluster, cluster.sbatch("--qos=preempts", "-wn4", "--exclusive"), "Resources")
        assert cluster.state(victim) == "RUNNING"


def precedence(cluster):
    """Of one limit that both have, the QOS's holds, be it larger; without it the association's."""
    modify = "sacctmgr -i modify user where name=alice account=physics set MaxJobs="
    cluster.ok(f"{modify}1")
    try:
        together(cluster, "MaxJobs", "first", [], 1, "AssocMaxJobsLimit")
        cluster.cancel_all()
        together(cluster, "MaxJobsPerUser", *TOGETHER["MaxJobsPerUser"])
    finally:
        cluster.ok(f"{modify}-1")


def requested(cluster):
    name = ["bash", "-c", "squeue -h -j $SLURM_JOB_ID -o %q"]
    for command in ("srun", "salloc"):
        assert cluster.run([command, "--qos=half", *name], "alice").stdout.strip() == "half"
    assert told(cluster, cluster.sbatch("--qos=half"), "%q") == "half"
    assert field(cluster, "half", "Name,UsageFactor") == "half|0.500000", "defined in Slurm's database"


# The QOS, what each job asks for, how many of them run, why the next one waits.
TOGETHER = {
    "GrpCpus": ("grp_cpus", ["-n32"], 2, "QOSGrpCpuLimit"),
    "GrpCPURunMins": ("grp_cpu_run", ["-n32", "-t60"], 2, "QOSGrpCPURunMinutesLimit"),
    "GrpJobs": ("grp_jobs", [], 10, "QOSGrpJobsLimit"),
    "GrpMemory": ("grp_memory", ["--mem=400G"], 2, "QOSGrpMemLimit"),
    "GrpNodes": ("grp_nodes", ["-N1", "--exclusive"], 3, "QOSGrpNodeLimit"),
    "MaxCpusPerUser": ("user_cpus", ["-n16"], 2, "QOSMaxCpuPerUserLimit"),
    "MaxJobsPerUser": ("user_jobs", [], 5, "QOSMaxJobsPerUserLimit"),
    "MaxNodesPerUser": ("user_nodes", ["-N1", "--exclusive"], 2, "QOSMaxNodePerUserLimit"),
}
PAGE = {
    **{name: lambda cluster, name=name: together(cluster, name, *TOGETHER[name]) for name in TOGETHER},
    # The QOS, what fits, what is too much, why that waits.
    "MaxCpusPerJob": lambda c: alone(c, "job_cpus", ["-n16"], ["-n17"], "QOSMaxCpuPerJobLimit"),
    "MaxCPUMinsPerJob": lambda c: alone(
        c, "job_cpu_mins", ["-n16", "-t125"], ["-n16", "-t126"], "QOSMaxCpuMinutesPerJobLimit"),
    "MaxNodesPerJob": lambda c: alone(c, "job_nodes", ["-N2"], ["-N3"], "QOSMaxNodePerJobLimit"),
    "MaxWallDurationPerJob": lambda c: alone(
        c, "job_wall", ["-t12:00:00"], ["-t12:01:00"], "QOSMaxWallDurationPerJobLimit"),
    # The QOS, how many jobs in the queue. (The page forgets to say of the second that it is a user's.)
    "GrpSubmitJobs": lambda c: queued(c, "GrpSubmitJobs", "grp_submit", 20),
    "MaxSubmitJobsPerUser": lambda c: queued(c, "MaxSubmitJobsPerUser", "user_submit", 8),
    "GrpCPUMins": cpu_minutes,
    "GrpWall": wall,
    "DenyOnLimit": deny,
    "EnforceUsageThreshold, UsageThreshold": threshold,
    "NoReserve": no_reserve,
    # The QOS, the partition, what it does not take, why that waits without the flag.
    "PartitionMaxNodes": lambda c: lifted(c, "max_nodes", "small", "-N2", "PartitionNodeLimit"),
    "PartitionMinNodes": lambda c: lifted(c, "min_nodes", "large", "-N1", "PartitionNodeLimit"),
    "PartitionTimeLimit": lambda c: lifted(c, "time_limit", "short", "-t2:00:00", "PartitionTimeLimit"),
    "RequiresReservaton": reservation,
    "GraceTime": grace,
    "UsageFactor": usage_factor,
    "Priority": lambda c: who_is_next(c, "first", "0", "100000"),
    "Preempt": preempt,
}
CLAIMS = {
    "jobs request a QOS by --qos": requested,
    "priority counts for nothing without PriorityWeightQOS": no_weight,
    "priority counts for nothing without priority/multifactor": basic,
    "nobody is preempted without preempt/qos": no_preemption,
    "limits of a QOS take precedence over the association's": precedence,
}


def test_every_setting_of_the_example_is_a_row():
    settings = set(re.findall(r" (?!Account|Flags)(\w+)=", example()))
    flags = set(",".join(re.findall(r" Flags=(\S+)", example())).split(","))
    assert settings | flags == set(", ".join(PAGE).split(", "))


@pytest.mark.parametrize("row", [*PAGE, *CLAIMS])
def test_the_page(cluster, row):
    {**PAGE, **CLAIMS}[row](cluster)
