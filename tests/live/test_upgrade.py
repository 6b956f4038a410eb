# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm is upgraded under gpushare, and gpushare under its jobs: nothing queued is lost, nothing runs without its fence
unless that was asked for, and what was forgotten is named before the restart and after it."""

import json
import os
from pathlib import Path

import pytest
from gpus import OPEN, opened
from lab import TOP
from shares import NOTHING

HEAD = ("slurmdbd", "slurmctld")
PLUGINS = ["job_submit_gpushare.so", "spank_gpushare.so", "spank_gpushare_prolog.so"]
SHARE, WHOLE = "--gres=mps:40", ["--qos=qos_titan", "--gres=gpu:titanrtx:2"]
# A step when it is asked for, and the end when that is asked for; each says which GPUs it can open.
WAITS = f"""{OPEN}; until test -e /lab/out/step; do sleep 0.1; done; srun {OPEN}; touch /lab/out/$SLURM_JOB_ID.stepped
until test -e /lab/out/end; do sleep 0.1; done"""


def built(release):
    return Path(os.environ.get("GPUSHARE_BUILD", TOP / "target/lab")) / release


def put(cluster, source, target):
    """A file into the cluster, as installers should: by rename."""
    name = f"/lab/out/{source.name}.put"
    # /lab/out is a folder of this machine.
    out = Path(os.environ.get("GPUSHARE_LAB_DIR", "/var/cache/gpushare-lab")) / "run" / cluster.name / "out"
    (out / f"{source.name}.put").write_bytes(source.read_bytes())
    mode = 755 if os.access(source, os.X_OK) else 644
    cluster.ok(f"install -m {mode} {name} {target}.new && mv {target}.new {target}")


def install(cluster, release, names=PLUGINS):
    """The plugins built for RELEASE, into the directory of the Slurm that is installed."""
    folder = cluster.ok("dirname $(ls /usr/lib/*/slurm-wlm/auth_munge.so)")
    for name in names:
        put(cluster, built(release) / name, f"{folder}/{name}")


def service(cluster, verb, *daemons):
    for daemon in daemons:
        result = cluster.run(["/lab/service", verb, daemon], timeout=90)
        assert result.returncode == 0, f"{verb} {daemon}: {result.stdout}{result.stderr}"


def version(cluster):
    """What slurmctld says that it is: 24.11."""
    found = cluster.ok("scontrol show config | sed -n 's/^SLURM_VERSION *= *//p'")
    return found.rsplit(".", 1)[0]


def check(cluster, *words):
    """{about: (verdict, said)}"""
    result = cluster.run(["gpushare", "check", "--json", *words])
    assert result.returncode in (0, 1), result.stderr
    return {one["about"]: (one["verdict"], one["said"]) for one in json.loads(result.stdout)["findings"]}


def wrong(cluster, *words):
    return {about for about, (verdict, _) in check(cluster, *words).items() if verdict == "wrong"}


def states(cluster, jobs):
    """What the database says of jobs, once it says of none that it is yet to end."""
    def ended():
        rows = cluster.ok(["sacct", "-nPX", "-j", ",".join(jobs), "-o", "JobID,State"]).split()
        found = dict(row.split("|") for row in rows)
        return found if len(found) == len(jobs) and not {"RUNNING", "PENDING"} & set(found.values()) else None
    return cluster.wait(ended, "the database")


def fenced(cluster, job):
    """Every line that the job has written says that it can open its own GPU and no other; how many there are."""
    gpu = cluster.ledger()[job]
    lines = opened(cluster.output(job))
    assert all(line == {gpu} for line in lines), cluster.output(job)
    return len(lines)


def starts_fenced(cluster, job):
    cluster.ok(["scontrol", "release", job])
    cluster.wait_state(job, "RUNNING")
    cluster.wait(lambda: opened(cluster.output(job)), f"output of job {job}")
    assert fenced(cluster, job) == 1


@pytest.fixture
def busy(upgradable):
    """Contributors' shares in the database, and jobs of each kind that run, wait for a limit, or are held."""
    cluster = upgradable
    cluster.ok(["gpushare", "qos", "apply"])
    cluster.running = cluster.sbatch(SHARE, script=WAITS)
    cluster.wait(lambda: opened(cluster.output(cluster.running)), "the first job")
    cluster.whole = cluster.sbatch(*WHOLE, script=WAITS)
    cluster.wait_state(cluster.whole, "RUNNING")
    cluster.limited = cluster.sbatch(*WHOLE, script=WAITS, user="bob")
    cluster.held = [cluster.sbatch("--hold", SHARE, script=WAITS) for _ in range(4)]
    cluster.all = [cluster.running, cluster.whole, cluster.limited, *cluster.held]
    cluster.wait(
        lambda: cluster.ok(["squeue", "-h", "-j", cluster.limited, "-o", "%r"]).startswith("QOSGrp"), "the QOS's limit"
    )
    assert wrong(cluster) == set()
    return cluster


def upgrade_the_head(cluster):
    """The controller's packages, and its daemons in Slurm's order; the node stays as it is."""
    cluster.ok(["/lab/upgrade"])
    service(cluster, "stop", "slurmctld", "slurmdbd")
    service(cluster, "start", *HEAD)
    assert version(cluster) == cluster.next


def everything_ends(cluster):
    cluster.ok("touch /lab/out/step /lab/out/end")
    for job in cluster.held:
        cluster.run(["scontrol", "release", job])
    cluster.wait(lambda: not cluster.ok(["squeue", "-h"]), "an empty queue")
    assert set(states(cluster, cluster.all).values()) == {"COMPLETED"}
    cluster.wait(lambda: cluster.ledger() == {}, "an empty ledger")
    assert cluster.node_state().split()[0] == "idle", cluster.node_state()


def rules_hold(cluster):
    assert cluster.ok(["gpushare", "qos", "plan"]) == NOTHING.strip()
    refused = cluster.run(["sbatch", "--qos=qos_titan", "--gres=gpu:1", "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stderr


def test_slurm_is_upgraded_under_running_and_waiting_jobs(busy):
    assert wrong(busy, "--for", busy.next) == set(PLUGINS), "the plugins of now are not for the next"
    assert check(busy, "--for", busy.release)["spank_gpushare.so"][0] == "ok"
    busy.ok(["/lab/upgrade"])
    assert wrong(busy) == {"slurmctld", "slurmd"}, "all fits what is installed, and the daemons are to be restarted"
    assert wrong(busy, "--for", busy.next) == set()
    service(busy, "stop", "slurmctld", "slurmdbd")
    service(busy, "start", *HEAD)
    # The node is as it was: an old slurmd, with the old plugin, under the new slurmctld.
    assert version(busy) == busy.next
    assert [busy.state(job) for job in busy.all] == ["RUNNING"] * 2 + ["PENDING"] * 5
    rules_hold(busy)
    starts_fenced(busy, busy.held[0])
    assert wrong(busy) == {"slurmd"}
    service(busy, "restart", "slurmd")
    assert wrong(busy) == set()
    starts_fenced(busy, busy.held[1])
    # Jobs of before have steps of the new release.
    busy.ok("touch /lab/out/step")
    for job in (busy.running, busy.held[0]):
        busy.wait(lambda: busy.run(["test", "-e", f"/lab/out/{job}.stepped"]).returncode == 0, f"a step of job {job}")
        assert fenced(busy, job) == 2
    assert busy.state(busy.limited) == "PENDING", "the QOS's limit holds"
    rules_hold(busy)
    everything_ends(busy)
