# SPDX-License-Identifier: GPL-2.0-or-later
"""Fair-share on a cluster of different GPUs, as an administrators' guide has it, from docs/examples/fairshare.
slurmctld counts usage every five minutes and when it starts: tests that want it counted restart it."""

import re

import pytest
from lab import EXAMPLES
from shares import write

EXTRA = "/etc/slurm/extra.conf"
NODES = (EXAMPLES / "fairshare/nodes.conf").read_text()
GPUS = {kind: int(number) for kind, number in re.findall(r"Gres=gpu:(\w+):(\d+)", NODES)}
# The guide's line for ~/.bash_profile, and its command for shares.
SPRIO_FORMAT = "%.10i %10u %17r %.8Y %.6A %.9F %.9P %.T"
SSHARE = ["sshare", "-a", "--format=Account,User,NormShares,NormUsage,FairShare"]


def count_usage(cluster):
    registered = lambda: int(cluster.run("grep -c ': node .* registered with' /var/log/slurm/slurmctld.log").stdout)
    before = registered()
    cluster.ok("/lab/service restart slurmctld", timeout=60)
    if cluster.release == "23.11":
        # Before that it starts jobs without their GPUs (docs/dev/slurm-faults.md).
        cluster.wait(lambda: registered() >= before + len(GPUS), "the nodes to register")


@pytest.fixture(scope="module", autouse=True)
def counted(fairshare):
    # A new association has the lowest factor until it is counted for the first time.
    count_usage(fairshare)


@pytest.fixture(autouse=True)
def clean(fairshare):
    yield
    fairshare.cancel_all()


def shares(cluster, *more):
    """{(account, user): {column: text}} of the guide's command, and MORE columns."""
    header, *rows = cluster.ok([*SSHARE[:-1], ",".join([SSHARE[-1], *more]), "-P"], "alice").splitlines()
    names = header.split("|")[2:]
    cut = [[text.strip() for text in row.split("|")] for row in rows]
    return {(row[0], row[1]): dict(zip(names, row[2:])) for row in cut}


def used(cluster, account, user):
    """Billing seconds."""
    return int(shares(cluster, "RawUsage")[account, user]["RawUsage"])


def priorities(cluster):
    """{job: (priority, age, fair-share, partition, GPUs)} of the jobs that wait, as the guide's format shows them."""
    header, *rows = cluster.ok(["env", f"SPRIO_FORMAT={SPRIO_FORMAT}", "sprio"], "alice").splitlines()
    assert header.split() == ["JOBID", "USER", "PARTITION", "PRIORITY", "AGE", "FAIRSHARE", "PARTITION", "TRES"]
    cut = [row.split() for row in rows]
    return {row[0]: (*map(int, row[3:7]), int(row[7].removeprefix("gres/gpu="))) for row in cut}


def fill(cluster):
    """alice takes every GPU."""
    jobs = [cluster.sbatch("-Avision", "-pcompute", f"--gres=gpu:{kind}:{number}") for kind, number in GPUS.items()]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    return jobs


def let_run(cluster, jobs):
    """Until the jobs have used five seconds: a restart may take less than one."""
    times = lambda: cluster.ok(["squeue", "-h", "-j", ",".join(jobs), "-o", "%M"]).splitlines()
    cluster.wait(lambda: min(times()) >= "0:05", "five seconds")


def test_the_guides_weights(fairshare):
    lines = fairshare.ok(["scontrol", "show", "config"]).splitlines()
    found = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines if "=" in line)
    expected = {
        "PriorityType": "priority/multifactor", "PriorityWeightAge": "10000", "PriorityMaxAge": "5-00:00:00",
        "PriorityWeightFairShare": "100000", "PriorityWeightTRES": "GRES/gpu=20000", "PriorityWeightPartition": "10000",
        "PriorityDecayHalfLife": "60-00:00:00", "PriorityWeightJobSize": "0", "PriorityWeightQOS": "0",
    }
    assert {name: found[name].strip() for name in expected} == expected
    factors = {name: fairshare.ok(["scontrol", "-o", "show", "partition", name]) for name in ("compute", "develop")}
    assert "PriorityJobFactor=10 " in factors["compute"] and "PriorityJobFactor=5 " in factors["develop"]
    # What gpushare.conf's GpuWeight is for Slurm; and gpushare would have nothing otherwise.
    weights = re.search(r"^GpuWeight=(.*)$", (EXAMPLES / "fairshare/gpushare.conf").read_text(), re.M).group(1)
    billed = ",".join("GRES/gpu:{}={}".format(*word.split(":")) for word in weights.split(","))
    assert all(f"TRESBillingWeights={billed}" in text for text in factors.values())
    assert "Now:" not in fairshare.ok(["gpushare", "conf", "slurm"])


def test_the_guides_table_of_shares(fairshare):
    assert fairshare.ok(SSHARE, "alice").split()[:5] == ["Account", "User", "NormShares", "NormUsage", "FairShare"]
    found = {who: float(row["NormShares"]) for who, row in shares(fairshare).items()}
    # root itself has a share beside the two accounts' 60 and 40.
    for who, expected in {("vision", ""): 60 / 101, ("language", ""): 40 / 101, ("vision", "alice"): 1 / 2,
                          ("vision", "bob"): 1 / 2, ("language", "bob"): 1}.items():
        assert found[who] == pytest.approx(expected, abs=1e-6), who


def test_a_job_has_the_factors_of_the_guides_table(fairshare):
    fill(fairshare)
    everything = sum(GPUS.values())
    asked = {}
    for gpus in (1, 4, 12):
        for partition in ("compute", "develop"):
            job = fairshare.sbatch("-Avision", f"-p{partition}", f"--gres=gpu:a40:{gpus}", user="bob")
            asked[job] = (10000 if partition == "compute" else 5000, gpus * 20000 // everything)
    found = fairshare.wait(lambda: priorities(fairshare).keys() >= asked.keys() and priorities(fairshare), "sprio")
    standing = float(shares(fairshare)["vision", "bob"]["FairShare"])
    for job, (partition, gpus) in asked.items():
        priority, age, fair, *rest = found[job]
        assert rest == [partition, gpus]
        assert fair == pytest.approx(100000 * standing, abs=1) and age <= 1
        assert priority == pytest.approx(age + fair + partition + gpus, abs=2), "their sum"


def test_a_heavy_user_falls_behind_a_light_one(fairshare):
    before = shares(fairshare)
    assert before["vision", "alice"]["FairShare"] == before["vision", "bob"]["FairShare"], "nobody has used anything"
    heavy = fill(fairshare)
    first = fairshare.sbatch("-Avision", "-pcompute", "--gres=gpu:a40:12")
    second = fairshare.sbatch("-Avision", "-pcompute", "--gres=gpu:a40:12", user="bob")
    elsewhere = fairshare.sbatch("-Alanguage", "-pcompute", "--gres=gpu:a100:4", user="bob")
    ours = {first, second, elsewhere}
    waiting = fairshare.wait(lambda: priorities(fairshare).keys() >= ours and priorities(fairshare), "sprio")
    assert waiting[first] == waiting[second], "before it is counted, who came first is first"

    let_run(fairshare, heavy)
    count_usage(fairshare)
    after = shares(fairshare)
    assert float(after["vision", "alice"]["NormUsage"]) == pytest.approx(1), "of all that was used"
    standing = [float(after[who]["FairShare"]) for who in
                (("language", "bob"), ("vision", "bob"), ("vision", "alice"))]
    assert standing[0] > standing[1] > standing[2], after
    waiting = fairshare.wait(lambda: priorities(fairshare).keys() >= ours and priorities(fairshare), "sprio")
    assert waiting[second][0] > waiting[first][0], "the light one's, though it came later"
    assert waiting[second][2] > waiting[first][2]
    assert waiting[elsewhere][2] > waiting[second][2], "a group that had less of its share goes before both"
    fairshare.ok(["scancel", *heavy])
    fairshare.wait_state(second, "RUNNING")
    assert fairshare.state(first) == "PENDING"


# What is asked for in language, and what a second of it is counted as.
BILLED = [(["--gres=gpu:a40:2"], 2), (["--gres=gpu:a100:2"], 8), (["--gres=gpu:1", "-wa100"], 4), ([], 0)]


def test_types_of_gpus_are_billed_differently(fairshare):
    before = used(fairshare, "language", "bob")
    jobs = [
        fairshare.sbatch("-Alanguage", "-pcompute", *options, script="sleep 3", user="bob") for options, _ in BILLED
    ]
    seconds = []
    for job, (options, weight) in zip(jobs, BILLED):
        assert fairshare.finished(job) == "COMPLETED"
        shown = fairshare.ok(["scontrol", "show", "job", job])
        ask = ["sacct", "-nXP", "-j", job, "--format=state,elapsedraw,alloctres"]
        row = fairshare.wait(lambda: (out := fairshare.ok(ask)).startswith("COMPLETED") and out.split("|"), "sacct")
        assert ("billing=" not in row[2] if weight == 0 else f"billing={weight}" in row[2].split(",")), (options, row)
        assert weight == 0 or re.search(rf"TRES=.*billing={weight}\b", shown), shown
        seconds.append(int(row[1]))
    expected = sum(weight * time for (_, weight), time in zip(BILLED, seconds))
    counted = lambda: abs(used(fairshare, "language", "bob") - before - expected) <= sum(weight for _, weight in BILLED)
    fairshare.wait(counted, f"{expected} billing seconds, each job's time rounded")


def last_counted(cluster):
    return int(cluster.ok(["stat", "-c", "%Y", "/var/lib/slurm/slurmctld/priority_last_decay_ran"]))


# Slurm's shortest: it counts in minutes.
SHORTER = (("PriorityDecayHalfLife=60-0", "PriorityDecayHalfLife=1"), ("PriorityMaxAge=5-0", "PriorityMaxAge=1"))


def test_waiting_adds_priority_and_usage_halves(fairshare):
    """The last one here: the shorter times stay."""
    text = fairshare.ok(["cat", EXTRA]) + "\n"
    for old, new in SHORTER:
        assert old in text
        text = text.replace(old, new)
    jobs = fill(fairshare)
    waiting = fairshare.sbatch("-Avision", "-pcompute", "--gres=gpu:a40:12", user="bob")
    waits = lambda: "AccrueTime=Unknown" not in fairshare.ok(["scontrol", "show", "job", waiting])
    fairshare.wait(waits, "slurmctld to note that it waits")
    let_run(fairshare, jobs)
    write(fairshare, text, EXTRA)
    count_usage(fairshare)
    age = priorities(fairshare)[waiting][1]
    assert 100 < age <= 10000, "a part of the minute; of five days it would be nothing yet"

    fairshare.cancel_all()
    found = []
    for _ in range(2):
        count_usage(fairshare)
        found.append((used(fairshare, "vision", "alice"), last_counted(fairshare)))
    (before, then), (after, now) = found
    assert before > 50 and now > then
    assert after == pytest.approx(before / 2 ** ((now - then) / 60), rel=0.02, abs=2), found
