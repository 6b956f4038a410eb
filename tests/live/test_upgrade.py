# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm is upgraded under gpushare, and gpushare under its jobs: nothing queued is lost, nothing runs without its fence
unless that was asked for, and what was forgotten is named before the restart and after it."""

import json
import os
import re

import pytest
from gpus import OPEN, entered, opened
from lab import BUILDS, TOP, UPGRADES
from shares import NOTHING

PLUGINS = ["job_submit_gpushare.so", "spank_gpushare.so", "spank_gpushare_prolog.so"]
SHARE, WHOLE = "--gres=mps:40", ["--qos=qos_titan", "--gres=gpu:titanrtx:2"]
# A step when it is asked for, and the end when that is asked for; each says which GPUs it can open.
WAITS = f"""{OPEN}; until test -e /lab/out/step; do sleep 0.1; done; srun {OPEN}; touch /lab/out/$SLURM_JOB_ID.stepped
until test -e /lab/out/end -o -e /lab/out/$SLURM_JOB_ID.end; do sleep 0.1; done"""


def put(cluster, source, target):
    cluster.write(target, source.read_bytes(), 755 if os.access(source, os.X_OK) else 644)


def install(cluster, release, names=PLUGINS):
    """The plugins built for RELEASE, into the directory of the Slurm that is installed."""
    folder = cluster.ok("dirname $(ls /usr/lib/*/slurm-wlm/auth_munge.so)")
    for name in names:
        put(cluster, BUILDS / release / name, f"{folder}/{name}")


def service(cluster, verb, *daemons):
    for daemon in daemons:
        result = cluster.run(["/lab/service", verb, daemon], timeout=90)
        assert result.returncode == 0, f"{verb} {daemon}: {result.stdout}{result.stderr}"
        if daemon == "slurmctld" and verb != "stop":
            # An srun in a job that comes before the node has registered again waits for long (seen: more than 40 s).
            cluster.wait(lambda: "N/A" not in cluster.ok(["sinfo", "-h", "-N", "-o", "%v"]), "the node's registration")


def version(cluster):
    """What slurmctld says that it is: 24.11."""
    found = cluster.ok("scontrol show config | sed -n 's/^SLURM_VERSION *= *//p'")
    return found.rsplit(".", 1)[0]


def check(cluster, *words, asks=True):
    """{about: (verdict, said)}; `asks`: Slurm can be asked."""
    result = cluster.run(["gpushare", "check", "--json", *words])
    assert result.returncode in ((0, 1) if asks else (2,)), result.stderr
    return {one["about"]: (one["status"], one["said"]) for one in json.loads(result.stdout)["findings"]}


def wrong(cluster, *words, asks=True):
    """What is wrong; where Slurm can't be asked, besides its daemons."""
    found = {about for about, (verdict, _) in check(cluster, *words, asks=asks).items() if verdict == "wrong"}
    return found if asks else found - {"slurmctld", "slurmdbd", "slurmd"}


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
    assert fenced(cluster, job)


@pytest.fixture
def busy(upgradable):
    """Contributors' shares in the database, and jobs of each kind that run, wait for a limit, or are held."""
    cluster = upgradable
    if not cluster.newer_than("23.11") and cluster.next not in ("22.05", "23.02"):
        pytest.skip("slurmctld ends when a job with mps from before 23.11 asks for a step (docs/dev/slurm-faults.md)")
    cluster.ok(["gpushare", "qos", "apply", "-i"])
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


def upgrade_the_head(cluster, old=(), named=()):
    """The controller's packages but the plugins of ours in OLD, and its daemons in Slurm's order, as far as they start;
    the node stays as it is. What `check` calls wrong before they start is NAMED."""
    cluster.ok(["/lab/upgrade"])
    install(cluster, cluster.release, old)
    # The commands of the new release can't ask the daemons of the old one.
    assert wrong(cluster, asks=False) == set(named), "it tells before the restart"
    service(cluster, "stop", "slurmctld", "slurmdbd")
    service(cluster, "start", "slurmdbd")
    if "job_submit_gpushare.so" not in old:
        service(cluster, "start", "slurmctld")
        assert version(cluster) == cluster.next


def everything_ends(cluster):
    # A job that waits for whole GPUs could be given those of shares: Slurm doesn't know where they are, and before
    # 23.11 doesn't wait for the epilog of a job that ends together with others.
    shares = [job for job in cluster.all if job != cluster.whole and cluster.state(job) == "RUNNING"]
    cluster.ok("touch /lab/out/step " + " ".join(f"/lab/out/{job}.end" for job in shares))
    cluster.wait(lambda: not set(shares) & set(cluster.ledger()), "the epilogs of shares")
    cluster.ok("touch /lab/out/end")
    assert cluster.finished(cluster.limited) == "COMPLETED"
    for job in cluster.held:
        cluster.run(["scontrol", "release", job])
    cluster.wait(lambda: not cluster.ok(["squeue", "-h"]), "an empty queue")
    ends = states(cluster, cluster.all)
    assert set(ends.values()) == {"COMPLETED"}, f"{ends}\n{cluster.log('slurmd')}"
    cluster.wait_no_shares()
    assert cluster.node_state().split()[0] == "idle", cluster.node_state()


def rules_hold(cluster):
    assert cluster.ok(["gpushare", "qos", "plan"]) == NOTHING.strip()
    refused = cluster.run(["sbatch", "--qos=qos_titan", "--gres=gpu:1", "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stderr


def test_slurm_is_upgraded_under_running_and_waiting_jobs(busy):
    assert wrong(busy, "--for", busy.next) == set(PLUGINS[:2]), "the plugins of now are not for the next"
    assert check(busy, "--for", busy.release)["spank_gpushare.so"][0] == "ok"
    upgrade_the_head(busy, named=set())
    # The node is as it was: an old slurmd, with the old plugin, under the new slurmctld.
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


def test_with_the_old_plugin_slurmctld_does_not_start_and_no_job_is_lost(busy):
    upgrade_the_head(busy, old=PLUGINS[:1], named=PLUGINS[:1])
    refused = busy.run(["/lab/service", "start", "slurmctld"])
    assert refused.returncode != 0
    log = busy.log("slurmctld")
    for line in (
        f"/job_submit_gpushare.so version ({busy.release}.",
        "error: Couldn't load specified plugin name for job_submit/gpushare: Incompatible plugin version",
        "fatal: failed to initialize job_submit plugin",
    ):
        assert line in log
    assert wrong(busy, asks=False) == {"job_submit_gpushare.so"}, "and while nothing runs"
    install(busy, busy.next, PLUGINS[:1])
    service(busy, "start", "slurmctld")
    assert [busy.state(job) for job in busy.all] == ["RUNNING"] * 2 + ["PENDING"] * 5
    rules_hold(busy)
    service(busy, "restart", "slurmd")
    everything_ends(busy)


def complains(cluster, text):
    return (
        re.search(rf"Incompatible Slurm plugin \S+/spank_gpushare.so version \({cluster.release}\.", text)
        and "Failed to load plugin spank_gpushare.so. Aborting." in text
    )


def test_with_the_old_required_plugin_no_slurmd_starts_and_no_job_is_lost(busy):
    upgrade_the_head(busy, old=PLUGINS[1:2], named=PLUGINS[1:2])
    refused = busy.run(["/lab/service", "restart", "slurmd"], timeout=60)
    assert refused.returncode != 0 and complains(busy, busy.log("slurmd"))
    assert "error: slurmd initialization failed" in busy.log("slurmd")
    for command in (["srun", SHARE, "true"], ["sbatch", SHARE, "--wrap", "true"]):
        told = busy.run(command, "alice")
        assert told.returncode != 0 and complains(busy, told.stderr), told.stderr
    # What ran goes on meanwhile, until slurmctld gives the node up (SlurmdTimeout).
    assert busy.state(busy.running) == "RUNNING"
    install(busy, busy.next, PLUGINS[1:2])
    service(busy, "start", "slurmd")
    starts_fenced(busy, busy.held[0])
    everything_ends(busy)


def test_a_required_plugin_that_stops_fitting_loses_no_job(busy):
    """As when somebody installs the wrong build under a slurmd that runs.
    Whether the node is drained is a matter of which of the job's steps fails first."""
    upgrade_the_head(busy)
    service(busy, "restart", "slurmd")
    install(busy, busy.release, PLUGINS[1:2])
    job = busy.held[0]
    busy.ok(["scontrol", "release", job])
    if busy.next == "23.02":
        busy.wait(lambda: busy.node_state() == "draining batch job complete failure", "the node to be drained")
        assert busy.state(job) == "COMPLETED" and not busy.output(job), "lost, but never without its fence"
        return
    reason = ["squeue", "-h", "-j", job, "-o", "%r"]
    busy.wait(lambda: "launch failed requeued held" in busy.ok(reason), "the job to be held")
    assert wrong(busy) - {"node"} == {"spank_gpushare.so"}
    busy.wait(lambda: job not in busy.ledger(), "the epilog")
    assert not busy.output(job)
    install(busy, busy.next, PLUGINS[1:2])
    state = busy.node_state()
    if state != "mixed none":
        assert state == "draining batch job complete failure"
        busy.ok(["scontrol", "update", f"node={busy.name}", "state=resume"])
    busy.wait(lambda: busy.state(job) == "PENDING", "the requeue")
    busy.start_now(job)
    starts_fenced(busy, job)
    everything_ends(busy)


@pytest.mark.parametrize(
    "upgradable", [(*step, kind) for step in UPGRADES for kind in ("surf", "own")], indirect=True, ids="-".join
)
def test_an_optional_plugin_that_does_not_fit_leaves_jobs_without_a_fence_and_check_says_so(upgradable):
    """Not as it should be, but as it is: what docs/upgrade.md warns of."""
    upgradable.ok("sed -i s/required/optional/ /etc/slurm/plugstack.conf")
    assert wrong(upgradable) <= {"plugstack.conf", "QOS"} and "plugstack.conf" in wrong(upgradable)
    upgrade_the_head(upgradable, old=PLUGINS[1:2], named=["plugstack.conf", *PLUGINS[1:2]])
    service(upgradable, "restart", "slurmd")
    share = "--gres=gpushare:40" if upgradable.kind == "own" else SHARE
    jobs = [upgradable.sbatch(share, script=f"{OPEN}; sleep 60") for _ in range(2)]
    for job in jobs:
        upgradable.wait(lambda: opened(upgradable.output(job)), f"output of job {job}")
    assert sorted(upgradable.ledger().values()) == [0, 1], "the prolog has placed them"
    expected = {0, 1, 2, 3} if upgradable.kind == "own" else {0}
    assert [opened(upgradable.output(job)) for job in jobs] == [[expected]] * 2
    verdict, said = check(upgradable)["spank_gpushare.so"]
    assert verdict == "wrong" and said.endswith("jobs run WITHOUT A FENCE"), said


def test_a_micro_upgrade_needs_another_plugin_for_slurmctld_and_none_for_nodes(upgradable):
    upgradable.ok(["gpushare", "qos", "apply", "-i"])
    micro = upgradable.ok("slurmctld -V").split()[1]
    later = micro.rsplit(".", 1)[0] + "." + str(int(micro.rsplit(".", 1)[1]) + 1)
    assert wrong(upgradable, "--for", micro) == set()
    assert wrong(upgradable, "--for", later) == {"job_submit_gpushare.so"}
    found = check(upgradable, "--for", upgradable.release)
    assert found["job_submit_gpushare.so"][0] == "unknown" and found["spank_gpushare.so"][0] == "ok"
    assert wrong(upgradable) == set()
    # As if its packages had come.
    for daemon in ("slurmctld", "slurmd"):
        path = f"/usr/local/sbin/{daemon}"
        upgradable.ok(f"printf '#!/bin/sh\necho slurm-wlm {later}\n' >{path} && chmod 755 {path}")
    assert wrong(upgradable) == {"slurmctld", "slurmd", "job_submit_gpushare.so"}
    upgradable.ok("rm /usr/local/sbin/slurmctld /usr/local/sbin/slurmd")


def entry(cluster, job, version):
    """Makes the job's entry one of another format."""
    cluster.ok(f"sed -i 's/^gpushare-ledger 5$/gpushare-ledger {version}/' /run/gpushare/jobs/{job}")
    assert f"another version of gpushare wrote it, in format {version}" in cluster.ok(["gpushare", "status"])


def test_gpushare_is_upgraded_under_running_jobs(busy):
    folder = "/usr/sbin"
    install(busy, busy.release)
    for name in ("gpushare-prolog", "gpushare-epilog", "gpushare-nvml"):
        put(busy, BUILDS / busy.release / name, f"{folder}/{name}")
    service(busy, "restart", "slurmctld")
    busy.ok("touch /lab/out/step")
    busy.wait(lambda: busy.run(["test", "-e", f"/lab/out/{busy.running}.stepped"]).returncode == 0, "a later step")
    assert fenced(busy, busy.running) == 2
    starts_fenced(busy, busy.held[0])
    everything_ends(busy)


@pytest.mark.parametrize("version", [4, 6])
def test_a_share_in_another_format_keeps_its_gpu_and_has_no_more_steps(busy, version):
    """The ledger of an older or a newer gpushare, of a job that runs. Its epilog takes the share back."""
    entry(busy, busy.running, version)
    other = busy.held[0]
    busy.ok(["scontrol", "release", other])
    assert busy.finished(other) == "FAILED", "no share is placed beside one that can't be read"
    assert "can't read the entries of jobs that may be running: '" in busy.output(other)
    busy.ok("touch /lab/out/step /lab/out/end")
    assert busy.finished(busy.running) == "COMPLETED"
    lines = busy.output(busy.running)
    assert len(opened(lines)) == 1
    assert f"this job can't have its GPU here: reading /run/gpushare/jobs/{busy.running}" in lines
    busy.wait_no_shares()
    busy.held.remove(other), busy.all.remove(other)
    everything_ends(busy)
    for job in busy.held:
        lines = opened(busy.output(job))
        assert len(lines) == 2 and lines[0] == lines[1] and len(lines[0]) == 1, "shares are placed again"
