# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare fit` on a Slurm that has nothing of gpushare: it reads what the real sacct prints of a job and its steps.
No GPU's memory can be measured here, so the test writes it into slurmdbd's database, as slurmstepd would report it."""

import json

import pytest
from database import cluster_name, statement

GIB = 1 << 30


def used(cluster, job, step, gib, percent):
    """STEP, a number of Slurm's, used so much of its GPU."""
    name = cluster_name(cluster)
    tres = "(select id from tres_table where type='gres' and name='{}')"
    value = f"concat(s.tres_usage_in_tot, ',', {tres.format('gpumem')}, '={gib * GIB},', " \
            f"{tres.format('gpuutil')}, '={percent}')"
    statement(cluster, f"update `{name}_step_table` s join `{name}_job_table` j on s.job_db_inx = j.job_db_inx "
              f"set s.tres_usage_in_tot = {value} where j.id_job = {job} and s.id_step = {step}")


def fit(cluster, *options, status=0):
    result = cluster.run(["env", "TZ=UTC", "gpushare", "fit", "--start=now-1hours", *options], "alice")
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status != 2 else result.stderr


@pytest.fixture(scope="module")
def job(plain):
    """A job with one GPU, which has ended with a step."""
    job = plain.sbatch("--gres=gpu:1", script="srun sleep 3")
    plain.finished(job)
    # The job, its script, perhaps what it is besides, and its step.
    ends = lambda: plain.ok("sacct -anPD -S now-1hours -o end").splitlines()
    plain.wait(lambda: len(ends()) >= 3 and "Unknown" not in ends(), "slurmdbd to show every end")
    return job


def test_it_finds_the_share_that_a_job_with_its_steps_needed(plain, job):
    # Without a GPU, Slurm measures none.
    said = fit(plain, status=2)
    assert "accounting has no GPU memory of any of the 1 jobs with GPUs" in said and "AutoDetect=nvml" in said, said
    if not plain.newer_than("23.02"):
        return
    # The script and its step had that at once: more than a quarter of an a40.
    used(plain, job, -5, 2, 3)
    used(plain, job, 0, 9, 40)
    report = json.loads(fit(plain, "--json"))
    begin, end = plain.ok(f"SLURM_TIME_FORMAT=%s sacct -nPX -j {job} -o start,end").split("|")
    (asked,) = report["requests"]
    assert asked["request"] == "--gres=mps:50" and asked["gpu_type"] == "a40", report
    assert (asked["user"], asked["jobs"], asked["jobs_low_utilization"]) == ("alice", 1, 1), report
    assert report["fit"]["gpu_hours"] == pytest.approx((int(end) - int(begin)) / 3600, abs=0.001)
    assert "  a40  50 of 100 units  23040     1 " in fit(plain)
