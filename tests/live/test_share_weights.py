# SPDX-License-Identifier: GPL-2.0-or-later
"""GpuWeight: a second on a whole GPU costs the same in fair-share whether a job has it whole or as shares."""

import collections
import re

import pytest
from test_check import check

ETC = "/etc/slurm"
WEIGHT = 8
# Units that fill a GPU, in each example.
UNITS = {"follow-mps": 100, "own": 80, "override": 80}


@pytest.fixture(scope="module")
def billed(weighed):
    """The cluster with what `gpushare conf` prints for a weight, and users in an account."""
    gres_type = re.search(r"Gres=(?:gpu:(\w+)|)", weighed.ok(f"grep -m1 Gres= {ETC}/nodes.conf"))[1] or "a40"
    for line in ("account acct", "user root,alice,bob account=acct"):
        weighed.run(f"sacctmgr -i add {line}")  # some examples have them
    weighed.ok(f"echo GpuWeight={gres_type}:{WEIGHT} >>{ETC}/gpushare.conf")
    printed = weighed.ok("gpushare conf slurm")
    weighed.write(f"{ETC}/extra.conf", printed + "\n")
    [weights] = re.findall(r"^# Add to PartitionName=p: (TRESBillingWeights=.*)$", printed, re.M)
    weighed.ok(f"sed -i 's|^PartitionName=p .*|& {weights}|' {ETC}/nodes.conf")
    weighed.ok("for s in slurmctld slurmd; do /lab/service restart $s || exit; done", timeout=60)
    weighed.type, weighed.share = gres_type, weighed.ok(["sinfo", "-h", "-o", "%G"]).split(",")[-1].split(":")[0]
    weighed.wait_idle()
    return weighed


@pytest.fixture(autouse=True)
def clean(billed):
    yield
    billed.cancel_all()


def whole(cluster, user):
    """A whole GPU; under `own`, which has no gres/gpu, all its units."""
    gres = f"{cluster.share}:{UNITS[cluster.kind]}" if cluster.kind == "own" else f"gpu:{cluster.type}:1"
    return cluster.sbatch(f"--gres={gres}", user=user)


def bill(cluster, job):
    cluster.wait_state(job, "RUNNING")
    said = cluster.ok(["squeue", "-h", "-j", job, "-O", "tres-alloc:200"])
    return int(dict(re.findall(r"(\w+)=(\d+)", said)).get("billing", 0))


def usage(cluster):
    """Billing seconds of each user, in all accounts."""
    found = collections.Counter()
    for row in cluster.ok(["sshare", "-ahP", "-o", "User,RawUsage"]).split():
        user, count = row.split("|")
        found[user] += int(count)
    return found


def test_shares_are_billed_by_the_unit(billed):
    units = UNITS[billed.kind]
    assert bill(billed, whole(billed, "alice")) == WEIGHT
    for part in (1, 2, 4):
        assert bill(billed, billed.sbatch(f"--gres={billed.share}:{units // part}", user="bob")) == WEIGHT // part
    findings, _ = check(billed)
    assert findings["TRESBillingWeights"]["status"] == "ok", findings["TRESBillingWeights"]
    printed = billed.ok("gpushare conf slurm")
    assert "PartitionName=p has it: " in printed and "# Add to PartitionName=" not in printed, printed
    if billed.kind == "follow-mps" and billed.newer_than("23.11"):
        assert "LL_SHARED_GRES" in billed.ok("scontrol show config"), "as conf has printed"


def reason(cluster, job):
    return cluster.ok(["squeue", "-h", "-j", job, "-o", "%r"]).strip()


def test_one_limit_counts_whole_gpus_and_shares(billed):
    """What qos.md says: a limit on billing, beside those on types and on shares."""
    units = UNITS[billed.kind]
    limits = f"gres/{billed.share}={2 * units}"
    gpus = "" if billed.kind == "own" else f"GPUs={billed.type}:2"
    if gpus:
        limits += f",billing={2 * WEIGHT}"
    billed.ok(f"echo 'QOS=both Account=acct {gpus} GrpTRES={limits}' >>{ETC}/gpushare.conf")
    billed.ok("gpushare qos apply -i")

    def submit(gres, user):
        return billed.sbatch("--qos=both", "--account=acct", f"--gres={gres}", user=user)

    gpu = f"{billed.share}:{units}" if billed.kind == "own" else f"gpu:{billed.type}:1"
    half = f"{billed.share}:{units // 2}"
    running = [submit(gpu, "alice")]
    # Under `override`, Slurm gives it a GPU without knowing where shares are.
    billed.wait(lambda: running[0] in billed.ledger(), "its entry")
    running += [submit(half, "bob") for _ in range(2)]
    for job in running:
        billed.wait_state(job, "RUNNING")
    waiting = [submit(gpu, "alice"), submit(half, "bob")]
    for job in waiting:
        billed.wait(lambda job=job: reason(billed, job).startswith("QOSGrp"), f"job {job} waits for the limit")
    assert billed.run("gpushare guard").returncode == 0
    billed.ok(f"scancel {running[2]}")
    billed.wait_state(waiting[1], "RUNNING")
    assert reason(billed, waiting[0]).startswith("QOSGrp")


def seconds(cluster, job):
    minutes, seconds = cluster.ok(["squeue", "-h", "-j", job, "-o", "%M"]).split(":")
    return 60 * int(minutes) + int(seconds)


def test_who_has_a_gpu_in_shares_uses_as_much_as_who_has_it_whole(billed):
    units = UNITS[billed.kind]
    before = usage(billed)
    jobs = [whole(billed, "alice")]
    # Under `override`, Slurm gives it a GPU without knowing where shares are.
    billed.wait(lambda: jobs[0] in billed.ledger(), "its entry")
    jobs += [billed.sbatch(f"--gres={billed.share}:{units // 2}", user="bob") for _ in range(2)]
    billed.wait_state(jobs[2], "RUNNING")
    billed.wait(lambda: min(seconds(billed, job) for job in jobs) >= 10, "ten seconds")
    first, *halves = (seconds(billed, job) for job in jobs)
    billed.ok("/lab/service restart slurmctld", timeout=60)  # it counts usage every five minutes, and when it starts
    used = {user: count - before[user] for user, count in usage(billed).items()}
    assert used["alice"] >= 10 * WEIGHT, used
    # As much for the same time.
    later = WEIGHT * (first - sum(halves) / 2)
    assert abs(used["alice"] - used["bob"] - later) <= 2 * WEIGHT, (used, first, halves)
