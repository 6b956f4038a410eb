# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits on a type of Slurm's own shards: what slurm.conf must name so that they count; and jobs that start again at
once (25.11)."""

import pytest

SHARDS = ["--qos=qos_lafferty", "--account=lab"]


@pytest.fixture(autouse=True)
def clean(share_types):
    yield
    share_types.cancel_all()


def settled(cluster, options, count=2):
    """The states of jobs of 8 shards, as soon as none waits for the scheduler."""
    jobs = [cluster.sbatch(*options.split(), script="sleep 600") for _ in range(count)]
    look = lambda: [cluster.fields(job) for job in jobs]
    done = lambda: all(one["JobState"] == "RUNNING" or "Grp" in one["Reason"] for one in look())
    cluster.wait(done, "the scheduler")
    return [one["JobState"] for one in look()]


def test_types_of_shards_count_only_where_slurm_conf_names_them(share_types):
    """Slurm gives the node's shards a type, and counts what runs without it."""
    for limit in SHARDS:
        assert settled(share_types, f"{limit} --gres=shard:a40:8") == ["RUNNING", "RUNNING"], "the limit is 8"
        guarded = share_types.run("gpushare guard")
        assert guarded.returncode == 1 and "GrpTRES=gres/shard:a40=8: 16 in use" in guarded.stdout, guarded
        share_types.cancel_all()
    [found] = share_types.findings("Gres")
    assert found["status"] == "wrong" and "limits on gres/shard:a40 don't count" in found["said"], found
    assert "Gres=…,shard:a40:N, not shard:N" in found["fix"], found
    # On each job alone a limit holds; a used minute is counted as little as what runs.
    for limits, is_wrong in (("MaxTRES=gres/shard:a40=8", False), ("GrpTRESMins=gres/shard:a40=80", True)):
        share_types.ok("sacctmgr -i modify account lab set GrpTRES=gres/shard:a40=-1; "
                       f"sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/shard:a40=-1 {limits}")
        assert bool(share_types.findings("Gres")) == is_wrong, limits
        share_types.ok(f"sacctmgr -i modify qos qos_lafferty set {limits.rpartition('=')[0]}=-1")
    share_types.ok("sacctmgr -i modify account lab set GrpTRES=gres/shard:a40=8; "
                   "sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/shard:a40=8")
    share_types.ok("sed -i 's/,shard:32/,shard:a40:32/' /etc/slurm/nodes.conf;"
                   "/lab/service restart slurmd && /lab/service restart slurmctld", timeout=90)
    for limit in SHARDS:
        assert sorted(settled(share_types, f"{limit} --gres=shard:a40:8")) == ["PENDING", "RUNNING"], limit
        share_types.cancel_all()
    assert share_types.findings("Gres") == []


def test_limits_on_types_that_governed_gres_lacks_are_told(share_types):
    """Requests without a type pass them."""
    rules = share_types.ok("cat /etc/slurm/gpushare.conf")
    try:
        share_types.write("/etc/slurm/gpushare.conf", f"{rules}\nGovernedGRES=gpu\n")
        untyped = ["sbatch", "--test-only", *SHARDS, "--gres=shard:8", "--wrap=true"]
        share_types.wait(lambda: share_types.run(untyped, "alice").returncode == 0, "the new rules")
        for limit in SHARDS:
            assert settled(share_types, f"{limit} --gres=shard:8") == ["RUNNING", "RUNNING"], "the limit is 8"
            share_types.cancel_all()
        [found] = share_types.findings("GovernedGRES")
        assert found["status"] == "wrong" and found["said"].endswith("QOS qos_lafferty, account lab"), found
        assert found["fix"].startswith("gpushare.conf: GovernedGRES=gpu,shard;"), found
    finally:
        share_types.write("/etc/slurm/gpushare.conf", rules + "\n")
    share_types.wait(lambda: share_types.run(untyped, "alice").returncode, "the old rules")
    assert share_types.findings("GovernedGRES") == []


def test_a_job_that_starts_again_at_once_stays_within_its_limit(share_types, record_property):
    """It comes before all others after a failed epilog, and its GPUs are counted again."""
    again = "--requeue=expedite --qos=qos_lafferty --gres=gpu:a40:2".split()
    if not share_types.newer_than("25.11"):
        assert share_types.run(["sbatch", *again, "--wrap", "true"], "alice").returncode
        record_property("not applicable", "25.11 and newer have it")
        return
    share_types.write("/etc/slurm/fails", "#!/bin/sh\nexit 1\n", 755)
    share_types.ok("echo Epilog=/etc/slurm/fails >>/etc/slurm/extra.conf && scontrol reconfigure")
    try:
        first = share_types.sbatch(*again, script='[ "$SLURM_RESTART_COUNT" ] && sleep 600; exit 1')
        other = share_types.sbatch("--qos=qos_lafferty", "--gres=gpu:a40:1", script="sleep 600")
        share_types.wait(lambda: "EXPEDITING" in share_types.fields(first)["JobState"], "the failed epilog")
        share_types.ok("sed -i '$d' /etc/slurm/extra.conf && scontrol reconfigure")
        share_types.ok("scontrol update nodename=ALL state=resume")
        share_types.wait_state(first, "RUNNING")
        assert share_types.fields(first)["Restarts"] == "1"
        share_types.wait(lambda: "Grp" in share_types.fields(other)["Reason"], "the limit")
        assert share_types.fields(first)["AllocTRES"].endswith("gres/gpu:a40=2")
        moved = share_types.run(f"scontrol update job={first} TresPerNode=gres/gpu:a40:4", "alice")
        assert moved.returncode, "it is running"
    finally:
        share_types.run("sed -i '/^Epilog=.etc.slurm.fails/d' /etc/slurm/extra.conf && scontrol reconfigure")
