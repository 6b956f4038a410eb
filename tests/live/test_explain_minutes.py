# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare explain` of limits on minutes: what is used, by whom, what a job needs, when enough has decayed; by Slurm's
own numbers. What it says would start does start."""

import json
import math
import re

import pytest
from test_explain_jobs import explain, limit, running, told

USED_UP = "QOSGrpGRESMinutes"


@pytest.fixture
def jobs(minutes):
    yield minutes
    minutes.cancel_all()


def waits(cluster, job, reason):
    cluster.wait(lambda: re.fullmatch(reason, cluster.fields(job).get("Reason", "")), f"job {job} to wait for {reason}")


def use_up(cluster, *options):
    """Three seconds of four GPUs are 120 minutes under the QOSes `spent` and `kept`."""
    job = cluster.sbatch(*options, "-t1", "--gres=gpu:a40:4", script="sleep 3")
    assert cluster.finished(job) == "COMPLETED"
    # slurmctld counts them before slurmdbd knows whose they are.
    cluster.wait(lambda: "COMPLETED" in cluster.ok(["sacct", "-nXj", job, "-o", "State"]), "accounting of its end")


# Options, whose limit it is, its field, and Slurm's reason.
STOPPED = {
    "of-a-qos": ("--qos=left", "QOS 'left'", "GrpTRESMins", USED_UP),
    "of-an-account": ("-A below", "account 'limits'", "GrpTRESMins", "AssocGrpGRESMinutes"),
    "running": ("--qos=running", "QOS 'running'", "GrpTRESRunMins", "QOSGrpGRESRunMinutes"),
    "of-a-user": ("--qos=each", "QOS 'each'", "MaxTRESRunMinsPU", "MaxGRESRunMinsPerUser"),
    "of-a-job": ("--qos=one", "QOS 'one'", "MaxTRESMinsPJ", "QOSMaxGRESMinutesPerJob"),
    "of-a-job-of-an-account": (
        "-A small", "the user's association with account 'small'", "MaxTRESMinsPJ", "AssocMaxGRESMinutesPerJob",
    ),
}


@pytest.mark.parametrize("case", STOPPED)
def test_a_job_that_needs_more_minutes_than_are_left_starts_with_the_time_that_is_tried(jobs, case):
    options, holder, field, reason = STOPPED[case]
    is_tested = case != "of-a-user" or jobs.newer_than("24.05")
    # It may use 40 minutes of 100, and the other asks for 80.
    running(jobs, *options.split(), "-t20", "--gres=gpu:a40:2")
    job = jobs.sbatch(*options.split(), "-t40", "--gres=gpu:a40:2")
    if not is_tested:
        jobs.wait_state(job, "RUNNING")
        return
    waits(jobs, job, reason)
    found = limit(jobs, job, field, "alice")
    assert (found["holder"], found["tres"], found["asks"]) == (holder, "gres/gpu:a40", 80), found
    said = explain(jobs, job, "alice")
    assert "minutes of a40s" in said.splitlines()[0] and "the minutes of GPUs or other GRES" in said, said
    update, = re.findall(r"try: `(.*)`: with that it can start now", said)
    assert f"TimeLimit={told(jobs, job)['shorter']}" in update, said
    jobs.ok(update, "alice")
    jobs.wait_state(job, "RUNNING")


def test_used_minutes_decay_and_the_job_then_starts(jobs):
    use_up(jobs, "--qos=spent")
    job = jobs.sbatch("--qos=spent", "-t1", "--gres=gpu:a40:1", user="bob")
    waits(jobs, job, USED_UP)
    found = limit(jobs, job, "GrpTRESMins", "bob")
    used = found["used"]
    assert used >= 100 == found["limit"] and found["verdict"] == {"waits": {"for_more": used + 1 - 100}}, found
    assert [user["user"] for user in found["users"]] == ["alice"] and found["users"][0]["used"] >= 120, found
    # Half of it is gone in a minute, and slurmctld counts every minute.
    assert found["minutes"]["enough_in"] == 60 * math.ceil(math.log((used + 1) / 100) / 0.693), found
    assert f"spent has used {used} of its 100 minutes of a40s: in the last 30 days alice" in explain(jobs, job, "bob")
    waits(jobs, jobs.sbatch("--qos=spent", "-t1", "--gres=gpu:a40:1", user="bob"), USED_UP)
    jobs.ok("mkdir -m 777 /tmp/once && printf '#!/bin/sh\\necho $* >>/tmp/once/log\\nexec %s \"$@\"' "
            "$(command -v sacct) >/tmp/once/sacct && chmod 755 /tmp/once/sacct")
    both = jobs.ok("PATH=/tmp/once:$PATH gpushare explain", "bob")
    assert both.count("in the last 30 days by alice") == 2, both
    assert jobs.ok("cat /tmp/once/log").count("-q spent") == 1, "accounting is asked once"
    asked = jobs.ok(["gpushare", "explain", "--", "--qos=spent", "-t1", "--gres=gpu:a40:1"], "bob")
    assert "note: spent has used" in asked, asked
    # Without accounting it is unknown who used them, and the limit is told all the same.
    jobs.ok("mkdir /tmp/none")
    jobs.write("/tmp/none/sacct", "#!/bin/sh\nexit 1\n", 755)
    asked = jobs.ok("PATH=/tmp/none:$PATH gpushare explain -- --qos=spent -t1 --gres=gpu:a40:1", "bob")
    assert "note: spent has used" in asked and "alice" not in asked, asked
    mine = jobs.ok(["gpushare", "mine"], "bob")
    whom = r"in the last 30 days alice \d{3}(, bob \d+)?"
    counted = r"QOS 'spent', all its jobs: \d+ of 100 minutes of a40s used"
    assert re.search(rf"{counted}: {whom}; half decays in 60 s", mine), mine
    jobs.write("/tmp/spent.conf", "QOS=spent GrpTRESMins=gres/gpu:a40=100 UsageFactor=600\n")
    shown = jobs.ok(["gpushare", "qos", "show", "--conf", "/tmp/spent.conf"], "bob")
    assert re.search(r"in use +\d+ of 100 a40 minutes; ", shown), shown
    assert re.search(r"minutes +a40 alice \d{3}(, bob \d+)? in the last 30 days; half decays in 60 s\n", shown), shown
    jobs.wait(lambda: jobs.state(job) in ("RUNNING", "COMPLETED"), "enough to decay", 300)


def test_minutes_that_do_not_decay_are_an_administrators(jobs):
    use_up(jobs, "--qos=kept", "-A", "below")
    job = jobs.sbatch("--qos=kept", "-t1", "--gres=gpu:a40:1", user="bob")
    waits(jobs, job, USED_UP)
    assert limit(jobs, job, "GrpTRESMins")["minutes"]["enough_in"] is None
    assert "used minutes don't decay; ask an administrator" in explain(jobs, job, "bob").splitlines()[0]
    mine = jobs.ok(["gpushare", "mine"], "bob")
    counted = r"QOS 'kept', all its jobs: 1\d\d of 100 minutes of a40s used"
    assert re.search(rf"{counted}: in the last 30 days alice 1\d\d; used minutes don't decay", mine), mine
    # The account has its users' minutes from slurmctld.
    other = jobs.sbatch("-A", "below", "-t1", "--gres=gpu:a40:1", user="bob")
    waits(jobs, other, "AssocGrpGRESMinutes")
    found = limit(jobs, other, "GrpTRESMins", "bob")
    assert (found["holder"], [user["user"] for user in found["users"]]) == ("account 'limits'", ["alice"]), found
    jobs.ok("sacctmgr -i modify qos kept set RawUsage=0 && sacctmgr -i modify account limits set RawUsage=0")
    for one in (job, other):
        jobs.wait_state(one, "RUNNING", "COMPLETED")


def test_a_job_without_a_time_limit_is_asked_for_its_partitions(jobs):
    job = jobs.sbatch("--qos=one", "-p", "short", "--gres=gpu:a40:4")
    waits(jobs, job, "QOSMaxGRESMinutesPerJob")
    assert limit(jobs, job, "MaxTRESMinsPJ")["asks"] == 80
    job = jobs.sbatch("--qos=one", "--gres=gpu:a40:4")
    waits(jobs, job, "QOSMaxGRESMinutesPerJob")
    assert "and it has no time limit: it never starts" in explain(jobs, job).splitlines()[0]


def test_a_request_is_judged_by_its_minutes(jobs):
    def answers(*options):
        said = jobs.run(["gpushare", "explain", "--", "--qos=one", "--gres=gpu:a40:2", *options], "alice")
        sent = jobs.run(["sbatch", "--qos=one", "--gres=gpu:a40:2", *options, "--wrap", "true"], "alice")
        return said.stdout, (said.returncode, sent.returncode)

    said, status = answers("-t40")
    never = "never allows more than 60 minutes of gres/gpu:a40 for one job (MaxTRESMinsPJ), but this asks for 80"
    assert f"QOS 'one' {never}" in said and "waits forever" in said and status == (0, 0), said
    assert "note:" not in answers("-t30")[0]
    # Backfill starts what is content with less.
    assert "note:" not in answers("-t40", "--time-min=30")[0]
    jobs.cancel_all()
    job = jobs.sbatch("--qos=one", "--gres=gpu:a40:2", "-t40", "--time-min=30", user="alice")
    jobs.wait_state(job, "RUNNING")
    jobs.cancel_all()
    jobs.ok("sacctmgr -i modify qos one set flags+=DenyOnLimit")
    try:
        jobs.wait(lambda: answers("-t40")[1][1], "slurmctld to have the flag")
        said, status = answers("-t40")
        assert status == (1, 1) and "DenyOnLimit" in said, said
        said, status = answers("-t40", "--time-min=30")
        assert status == (1, 1) and "DenyOnLimit" in said, said
        assert answers()[1] == (0, 0), "slurmctld gives it a time limit that fits"
    finally:
        jobs.ok("sacctmgr -i modify qos one set flags-=DenyOnLimit")


def test_the_plain_report_has_the_minutes_as_json_has_them(jobs):
    job = jobs.sbatch("--qos=one", "-t40", "--gres=gpu:a40:2")
    waits(jobs, job, "QOSMaxGRESMinutesPerJob")
    only, = json.loads(jobs.ok(["gpushare", "explain", "--json", job]))["jobs"]
    assert only["limits"][0]["minutes"] == {"kept": 0, "enough_in": None, "reset": "", "half_life": 0}, only
    assert only["shorter"] == 30, only
    said = explain(jobs, job)
    assert "  QOS 'one', one job (MaxTRESMinsPJ): at most 60 minutes of gres/gpu:a40\n" in said, said
    assert "    the job asks for 80 (for its time limit): that is above the limit, so it waits forever\n" in said, said
