# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare explain JOBID`: why a job waits, by Slurm's own numbers; what it says would start does start. And what of a
script's steps and names will fail, which then fails."""

import json
import re

import pytest


def explain(cluster, job, user="root"):
    return cluster.ok(["gpushare", "explain", str(job)], user)


def told(cluster, job, user="root"):
    """The only job of `--json`."""
    said = json.loads(cluster.ok(["gpushare", "explain", "--json", str(job)], user))
    (only,) = said["jobs"]
    return only


def limit(cluster, job, field, user="root"):
    (only,) = [one for one in told(cluster, job, user)["limits"] if one["field"] == field]
    return only


def waits(cluster, job, reason):
    cluster.wait(lambda: cluster.fields(job).get("Reason") == reason, f"job {job} to wait for {reason}")


def running(cluster, *options, **more):
    job = cluster.sbatch(*options, **more)
    cluster.wait_state(job, "RUNNING")
    return job


@pytest.fixture
def jobs(waiting_jobs):
    yield waiting_jobs
    waiting_jobs.cancel_all()


def test_a_job_waits_for_its_group_and_what_is_tried_starts(jobs):
    first = running(jobs, "--qos=two", "--gres=gpu:a40:1", user="alice")
    job = jobs.sbatch("--qos=two", "--gres=gpu:a40:2", user="bob")
    waits(jobs, job, "QOSGrpGRES")
    said = explain(jobs, job, "bob")
    assert said.splitlines()[0] == f"two uses 1 of its 2 a40s: alice 1 (job {first}); starts when 1 is free", said
    # Without a number it is about the caller's waiting jobs.
    assert jobs.ok(["gpushare", "explain"], "bob") == said
    assert jobs.ok(["gpushare", "explain"], "alice").startswith("you have no waiting jobs")
    for line in (
        f"job {job} of bob waits (QOSGrpGRES): the jobs of its QOS together have reached a limit on GPUs or other GRES",
        "  QOS 'two', all its jobs (GrpTRES): 1 of 2 gres/gpu:a40 in use",
        f"    by alice 1 (job {first})",
        "    the job asks for 2: it waits until 1 more is free",
        "  these limits let a job with gpu:a40:1 start now, if a node has it free",
    ):
        assert line in said.splitlines(), said
    assert limit(jobs, job, "GrpTRES") == {
        "holder": "QOS 'two'", "field": "GrpTRES", "scope": "all", "tres": "gres/gpu:a40", "limit": 2, "used": 1,
        "users": [{"user": "alice", "used": 1, "jobs": [first]}], "unseen": 0, "asks": 2,
        "verdict": {"waits": {"for_more": 1}},
    }
    options = re.search(r"try: (.*) \(a new job; then `scancel (\d+)`\)", said)
    assert options[2] == job
    running(jobs, *options[1].split(), user="bob")
    assert "these limits let no job with gpu:a40 start now" in explain(jobs, job)


def test_a_job_waits_for_its_users_other_jobs(jobs):
    first = running(jobs, "--qos=each", "--gres=gpu:a40:1")
    job = jobs.sbatch("--qos=each", "--gres=gpu:a40:1")
    waits(jobs, job, "QOSMaxGRESPerUser")
    found = limit(jobs, job, "MaxTRESPU")
    assert (found["used"], found["limit"], found["users"][0]["jobs"]) == (1, 1, [first]), found
    assert "its user's jobs have reached a limit of the QOS" in explain(jobs, job)


def test_the_gpus_that_the_partitions_nodes_have_in_use_are_the_answer(jobs):
    # In another partition with the same nodes.
    first = running(jobs, "-p", "small", "--mem=10", "--gres=gpu:a40:3", user="bob")
    job = jobs.sbatch("--mem=10", "--gres=gpu:a40:2", user="alice")
    waits(jobs, job, "Resources")
    said = explain(jobs, job, "alice")
    assert said.splitlines()[0] == (
        f"partition 'p' uses 3 of its 4 a40s: bob 3 (job {first}); starts when 1 is free"
    ), said
    running(jobs, "--mem=10", *re.search(r"try: (.*) \(", said)[1].split(), user="alice")
    assert "these limits let no job with gpu:a40 start now" in explain(jobs, job)
    later = jobs.sbatch("--mem=10", "--gres=gpu:a40:1", "--begin=now+1hour", user="alice")
    waits(jobs, later, "BeginTime")
    said = explain(jobs, later, "alice")
    assert said.startswith(f"job {later} of alice waits (BeginTime)") and "try:" not in said, said


def test_a_job_waits_for_an_account_above_its_own(jobs):
    first = running(jobs, "-A", "below", "--gres=gpu:a40:1")
    job = jobs.sbatch("-A", "below", "--gres=gpu:a40:1")
    waits(jobs, job, "AssocGrpGRES")
    said = explain(jobs, job, "alice")
    assert (
        "  account 'limits', all its jobs (GrpTRES): 1 of 1 gres/gpu:a40 in use\n"
        f"    by alice 1 (job {first})\n" in said
    ), said


def test_a_job_above_a_limit_waits_forever(jobs):
    job = jobs.sbatch("--qos=two", "--gres=gpu:a40:3")
    waits(jobs, job, "QOSGrpGRES")
    said = explain(jobs, job)
    assert "the job asks for 3: that is above the limit, so it waits forever" in said, said
    running(jobs, *re.search(r"try: (.*) \(", said)[1].split())
    warned = jobs.ok(["gpushare", "explain", "--", "--qos=two", "--gres=gpu:a40:3"], "alice")
    assert "against the rules (GS114), but LimitAdvice=warn lets it pass" in warned and "note:" not in warned, warned
    jobs.ok("echo LimitAdvice=off >/lab/out/off.conf")
    before = jobs.ok(
        ["gpushare", "explain", "--conf", "/lab/out/off.conf", "--", "--qos=two", "--gres=gpu:a40:3"], "alice"
    )
    never = "note: QOS 'two' never allows more than 2 gres/gpu:a40 for all its jobs (GrpTRES), but this asks for 3"
    assert never in before, before
    below = jobs.ok(["gpushare", "explain", "--", "--qos=two", "--gres=gpu:a40:2"], "alice")
    assert "note:" not in below, below
    account = jobs.ok(["gpushare", "explain", "--", "-A", "below", "--gres=gpu:a40:2"], "alice")
    assert "note: account 'limits' never allows more than 1 gres/gpu:a40" in account, account


def test_the_partitions_own_qos_counts(jobs):
    jobs.ok("scontrol update PartitionName=small QOS=part")
    job = jobs.sbatch("-p", "small", "-n3")
    waits(jobs, job, "QOSGrpCpuLimit")
    found = limit(jobs, job, "GrpTRES")
    assert (found["holder"], found["tres"], found["limit"], found["verdict"]) == ("QOS 'part'", "cpu", 2, "never"), (
        found
    )


def test_a_job_that_takes_whole_nodes_asks_for_all_their_gpus(jobs):
    said = jobs.ok(["gpushare", "explain", "--", "--qos=two", "--exclusive"], "alice")
    assert "QOS 'two' never allows more than 2 gres/gpu:a40" in said, said
    assert "asks for 4: the job waits forever" in said, said
    job = jobs.sbatch("--qos=two", "--exclusive")
    waits(jobs, job, "QOSGrpGRES")
    said = explain(jobs, job)
    assert said.startswith("two allows at most 2 a40s for all its jobs, and it asks for 4: it never starts\n"), said
    assert "try:" not in said, said


def test_components_that_start_together_ask_together(jobs):
    job = jobs.sbatch("-H", "--qos=two", "--gres=gpu:a40:1", ":", "-H", "--qos=two", "--gres=gpu:a40:1")
    said = explain(jobs, f"{job}+0")
    assert "of 2 gres/gpu:a40 in use\n    the job asks for 2: it fits\n" in said, said
    assert "the job's other components" in said and "try:" not in said, said


def test_a_partition_that_does_not_allow_the_qos_or_account(jobs):
    conf = "/etc/slurm/extra.conf"

    def explained(*options):
        said = jobs.run(["gpushare", "explain", "--", "--gres=gpu:a40:1", *options], "alice")
        return said.returncode, said.stdout

    try:
        jobs.ok("scontrol update PartitionName=small AllowQos=normal")
        status, said = explained("-p", "small", "--qos=two")
        assert status == 0 and "note: partition 'small' doesn't allow QOS 'two': the job waits until" in said, said
        assert "note:" not in explained("-p", "small,p", "--qos=two")[1] + explained("-p", "small")[1]
        job = jobs.sbatch("-p", "small", "--qos=two")
        jobs.wait(lambda: "QOS" in jobs.ok(["squeue", "-h", "-j", job, "-O", "Reason:40"]), "Slurm's reason")
        jobs.ok(f"cp -a {conf} {conf}.good; echo EnforcePartLimits=ALL >>{conf}; scontrol reconfigure")
        jobs.wait(lambda: "ALL" in jobs.ok("scontrol show config | grep EnforcePart"), "slurmctld to have it")
        jobs.ok("scontrol update PartitionName=small AllowAccounts=limits AllowQos=normal")
        status, said = explained("-p", "small,p", "--qos=two")
        assert (status, said) == (1, "Slurm says no: partition 'small' doesn't allow QOS 'two'\n"), said
        assert jobs.run("sbatch -p small,p --qos=two --wrap true", "alice").returncode, "so does Slurm"
        assert explained("-p", "small")[0] == 1, "its account"
    finally:
        jobs.ok(f"test ! -e {conf}.good || mv {conf}.good {conf}; scontrol reconfigure")
        jobs.ok("scontrol update PartitionName=small AllowAccounts=ALL AllowQos=ALL")


def test_jobs_that_go_before_it_are_counted(jobs):
    running(jobs, "--mem=10", "--gres=gpu:a40:3", user="bob")
    waiting = [jobs.sbatch("--mem=10", f"--nice={nice}", "--gres=gpu:a40:2") for nice in (0, 100)]
    for job, count in zip(waiting, (0, 1)):
        said = explain(jobs, job)
        assert said.count("note: 1 waiting job in its partition has a higher priority") == count, said


def test_a_task_and_a_component_are_told_of_by_their_numbers(jobs):
    array = jobs.sbatch("--qos=each", "--gres=gpu:a40:1", "-a0-2")
    jobs.wait(lambda: "RUNNING" in jobs.ok(["squeue", "-h", "-j", f"{array}_0", "-O", "State"]), "the first task")
    assert told(jobs, f"{array}_0")["state"] == "RUNNING"
    jobs.wait(lambda: told(jobs, f"{array}_2").get("reason") == "QOSMaxGRESPerUser", "the others to wait")
    assert told(jobs, f"{array}_2")["job"] == f"{array}_[1-2]"
    explained = json.loads(jobs.ok(["gpushare", "explain", "--json", array]))
    assert sorted(one["state"] for one in explained["jobs"]) == ["PENDING", "RUNNING"]
    het = jobs.sbatch("-H", ":", "-n2")
    assert told(jobs, f"{het}+1")["job"] == f"{het}+1"


def test_who_may_not_see_others_jobs_is_told_the_sum(jobs):
    conf = "/etc/slurm/slurm.conf"
    running(jobs, "--qos=two", "--gres=gpu:a40:2")
    job = jobs.sbatch("--qos=two", "--gres=gpu:a40:1", user="bob")
    waits(jobs, job, "QOSGrpGRES")
    try:
        jobs.ok(f"echo PrivateData=jobs,usage >>{conf} && scontrol reconfigure")
        jobs.wait(lambda: not jobs.ok(["squeue", "-h", "-u", "alice"], "bob"), "alice's jobs to be hidden")
        said = explain(jobs, job, "bob")
        assert "2 of 2 gres/gpu:a40 in use\n    by jobs that Slurm doesn't show you 2\n" in said, said
        assert "limits of accounts are not visible to you (PrivateData=usage)" in said, said
        assert "alice" not in said and "by alice 2" in explain(jobs, job), said
        hidden = jobs.run(["gpushare", "explain", job], "alice")
        # By slurmdbd's own settings, and by release.
        by_accounting = (
            f"job {job} of bob is pending according to the accounting database; slurmctld doesn't show it to you "
            "(PrivateData=jobs)\n"
        )
        assert hidden.stdout == by_accounting or hidden.stderr.startswith(f"gpushare: Slurm shows no job {job}: "), (
            hidden
        )
    finally:
        jobs.ok(f"sed -i /^PrivateData=/d {conf} && scontrol reconfigure")


def test_whole_gpus_are_told_as_the_job_sees_them(jobs):
    job = running(jobs, "--qos=two", "--gres=gpu:a40:2", script="echo $SLURM_JOB_GPUS; sleep 100")
    seen = jobs.wait(lambda: jobs.output(job).strip(), "the job's variable")
    (place,) = told(jobs, job, "alice")["places"]
    assert ",".join(map(str, place["gpus"])) == seen and place["units"] is None
    assert f"GPUs {seen}, whole" in explain(jobs, job, "alice")


def test_a_job_that_is_over_and_one_that_never_was_are_a_sentence(jobs):
    job = jobs.sbatch(script="true")
    assert jobs.finished(job) == "COMPLETED"
    assert re.fullmatch(rf"job {job} of alice has ended: COMPLETED, at \S+", explain(jobs, job))
    unknown = jobs.run(["gpushare", "explain", "999999"])
    assert unknown.returncode == 2, unknown.stderr
    assert unknown.stderr.startswith("gpushare: Slurm shows no job 999999: "), unknown.stderr


def test_a_job_that_is_held_after_it_ran_waits(jobs):
    job = running(jobs, "--requeue", "--qos=two", "--gres=gpu:a40:1", user="alice")
    jobs.ok(["scontrol", "requeue", "State=SpecialExit", job])
    jobs.wait(lambda: told(jobs, job)["state"] == "SPECIAL_EXIT", "the job to be held")
    said = explain(jobs, job)
    assert "waits (job requeued in special exit state): it was requeued and is held" in said and "expects" not in said


def test_every_task_of_an_array_that_is_over_is_named(jobs):
    array = jobs.sbatch("-a0-2", script="exit $((SLURM_ARRAY_TASK_ID == 1))")
    jobs.wait(lambda: not jobs.ok(["squeue", "-h", "-t", "PD,R,CG", "-j", array]), "its tasks to end")

    def ends():
        told_of_all = json.loads(jobs.ok(["gpushare", "explain", "--json", array]))["jobs"]
        return {one["job"].removeprefix(f"{array}_"): one["state"] for one in told_of_all}

    jobs.ok("f=/etc/slurm/extra.conf; cp -a $f $f.good; echo MinJobAge=2 >>$f; scontrol reconfigure")
    try:
        jobs.wait(lambda: jobs.run(["squeue", "-h", "-j", array]).returncode, "slurmctld to forget it", 120)
        jobs.wait(lambda: len(ends()) == 3 and "RUNNING" not in ends().values(), "accounting")
        assert ends() == {"0": "COMPLETED", "1": "FAILED", "2": "COMPLETED"}
    finally:
        jobs.ok("f=/etc/slurm/extra.conf; mv $f.good $f; scontrol reconfigure")


def test_a_number_without_its_letters_is_a_message(jobs):
    assert jobs.ok(["gpushare", "explain", "101"]) == jobs.ok(["gpushare", "explain", "GS101"])
    both = jobs.ok(["gpushare", "explain", "GS101", "gs102"])
    assert "GS101: " in both and "GS102: " in both
    assert jobs.run(["gpushare", "explain", "--json", "GS101"]).returncode == 2
    assert "GS101: " in jobs.ok(["gpushare", "explain", "GS"])


def test_a_typo_in_the_rules_is_one_short_line(jobs):
    jobs.ok("echo Moode=warn >/lab/out/typo.conf")
    result = jobs.run(["gpushare", "explain", "--conf", "/lab/out/typo.conf", "--", "-n1"])
    expected = "line 1: unknown key 'Moode' here; did you mean Mode? gpushare.conf(5) lists the keys\n"
    assert result.returncode == 2 and result.stderr.endswith(expected), result.stderr


@pytest.mark.parametrize("words, why", [
    ("-p nosuch --gres=gpu:a40:1", "Invalid partition name specified: "),
    ("--gres=gpu:h100:1", "Requested node configuration is not available: no node that is up "),
    ("--gres=gpu:A40:1", "Requested node configuration is not available: no node that is up "),
    ("--gres=gpu:a40:5", "Requested node configuration is not available: no node that is up "),
    ("--mem=800G", "Requested node configuration is not available: no node that is up "),
    ("--gpus-per-task=a40:1", "Failed to validate job spec. --gpus-per-task "),
    ("--qos=part", "Invalid qos specification: "),
    ("--qos=nosuch", "Invalid qos specification: "),
    ("-A nosuch", "Invalid account or account/partition combination specified: "),
    ("--reservation=nosuch", "Requested reservation is invalid: "),
])
def test_what_slurm_will_not_have_is_said(jobs, words, why):
    result = jobs.run(f"gpushare explain -- {words}", "alice")
    assert result.stdout.startswith(f"Slurm says no: {why}") and result.returncode == 1, result
    assert jobs.run(f"sbatch {words} --wrap true", "alice").returncode != 0


# The QOS that gets the flag, and a job beyond a limit of an account, or of a partition's QOS.
DENIED = [("normal", "-A below --gres=gpu:a40:2"), ("part", "--qos=two -n4 -p small")]


@pytest.mark.parametrize("qos, words", DENIED)
def test_a_limit_that_denies_is_a_refusal_and_one_that_does_not_is_a_note(jobs, qos, words):
    """Slurm tests the limits of both QOSes and of accounts if one of the QOSes has the flag."""
    jobs.ok("scontrol update PartitionName=small QOS=part")

    def explained():
        return jobs.run(f"gpushare explain -- {words}", "alice")

    def submitted():
        return jobs.run(f"sbatch --parsable {words} --wrap true", "alice")

    try:
        said = explained()
        assert said.returncode == 0 and "waits forever" in said.stdout and submitted().returncode == 0, said
        jobs.ok(f"sacctmgr -i modify qos {qos} set flags+=DenyOnLimit")
        jobs.wait(lambda: submitted().returncode != 0, "slurmctld to have the flag")
        said = explained()
        assert said.returncode == 1 and "DenyOnLimit" in said.stdout, said
    finally:
        jobs.ok(f"sacctmgr -i modify qos {qos} set flags-=DenyOnLimit")
        jobs.ok("scontrol update PartitionName=small QOS=")


# What limits a job's time, what undoes it, and Slurm's reason for a job that waits.
WALLS = [
    ("sacctmgr -i modify qos two set MaxWall={}", "-1", "QOSMaxWallDurationPerJobLimit",
     "QOS 'two' never allows more than 10 minutes for one job (MaxWallPJ), but this asks for 20: "
     "the job waits forever"),
    ("scontrol update PartitionName=small MaxTime={}", "UNLIMITED", "PartitionTimeLimit",
     "partition 'small' allows at most 10 minutes, but this asks for 20: the job waits forever"),
]


@pytest.mark.parametrize("limit, none, reason, line", WALLS, ids=["qos", "partition"])
def test_more_time_than_is_allowed_is_said(jobs, limit, none, reason, line):
    words = "--qos=two -p small --gres=gpu:a40:1"
    jobs.ok(limit.format(10))
    try:
        jobs.wait(lambda: line in explained(jobs, f"-t20 {words}"), "slurmctld to have the limit")
        assert "minutes" not in explained(jobs, f"-t10 {words}") + explained(jobs, words)
        waits(jobs, jobs.sbatch("-t20", *words.split(), user="alice"), reason)
        jobs.cancel_all()
        # Backfill starts what is content with less, but asks QOSes before it lowers the time.
        said = explained(jobs, f"-t20 --time-min=10 {words}")
        job = jobs.sbatch("-t20", "--time-min=10", *words.split(), user="alice")
        if "qos" in limit:
            assert line in said
            waits(jobs, job, reason)
        else:
            assert "minutes" not in said
            jobs.wait_state(job, "RUNNING")
            assert "TimeLimit=00:10:00 " in jobs.ok(f"scontrol show job {job}")
            refused = jobs.run(f"gpushare explain -- -t20 --time-min=11 {words}", "alice")
            assert refused.returncode == 1 and "Invalid time-min specification" in refused.stdout, refused
    finally:
        jobs.ok(limit.format(none))


def test_a_partitions_default_time_is_more_than_is_allowed(jobs):
    limit, none, _, line = WALLS[0]
    jobs.ok(f"scontrol create PartitionName=slow Nodes=ALL DefaultTime=20; {limit.format(10)}")
    try:
        jobs.wait(lambda: line in explained(jobs, "--qos=two -p slow --gres=gpu:a40:1"), "slurmctld to have the limit")
    finally:
        jobs.ok(f"scontrol delete PartitionName=slow; {limit.format(none)}")


def test_a_limit_on_time_counts_as_slurm_counts_it(jobs):
    """With UsageFactorSafe when it starts jobs, as it is when it refuses them; an association's if no QOS has one."""
    words = "--qos=two --gres=gpu:a40:1"
    jobs.ok("sacctmgr -i modify qos two set MaxWall=10 UsageFactor=2 flags+=UsageFactorSafe,DenyOnLimit")
    try:
        said = "QOS 'two' never allows more than 10 minutes for one job (MaxWallPJ), but this asks for {}: "
        later = said.format(16) + "the job waits forever"
        jobs.wait(lambda: later in jobs.run(f"gpushare explain -- -t8 {words}", "alice").stdout, "the limit")
        waits(jobs, jobs.sbatch("-t8", *words.split(), user="alice"), "QOSMaxWallDurationPerJobLimit")
        refused = jobs.run(f"gpushare explain -- -t20 {words}", "alice")
        assert said.format(20) + "the QOS has DenyOnLimit" in refused.stdout and refused.returncode == 1, refused
        assert jobs.run(f"sbatch -t20 {words} --wrap true", "alice").returncode != 0
        least = f"-t20 --time-min=5 {words}"
        refused = jobs.run(f"gpushare explain -- {least}", "alice")
        assert said.format(20) + "the QOS has DenyOnLimit" in refused.stdout and refused.returncode == 1, refused
        assert jobs.run(f"sbatch {least} --wrap true", "alice").returncode != 0
        jobs.ok("sacctmgr -i modify qos two set MaxWall=-1 UsageFactor=1 flags-=UsageFactorSafe,DenyOnLimit")
        jobs.ok("sacctmgr -i modify user alice set MaxWall=10")
        own = "the user's association with account '"
        jobs.wait(lambda: own in explained(jobs, f"-t20 {words}"), "the association's limit")
        waits(jobs, jobs.sbatch("-t20", *words.split(), user="alice"), "AssocMaxWallDurationPerJobLimit")
    finally:
        jobs.run("sacctmgr -i modify qos two set MaxWall=-1 UsageFactor=1 flags-=UsageFactorSafe,DenyOnLimit")
        jobs.ok("sacctmgr -i modify user alice set MaxWall=-1")


def explained(jobs, words):
    return jobs.ok(f"gpushare explain -- {words}", "alice")


@pytest.mark.parametrize("program, line", [
    ("scontrol", "note: can't tell whether limits stop it: "), ("sbatch", "note: can't tell what Slurm itself says: "),
])
def test_what_slurm_could_not_be_asked_is_said(jobs, program, line):
    """slurmctld stops answering after the first questions."""
    jobs.ok(f"mkdir -p /tmp/half.{program}")
    jobs.write(f"/tmp/half.{program}/{program}", f"""#!/bin/sh
case "$*" in *assoc_mgr*|*test-only*)
    echo "allocation failure: Unable to contact slurm controller (connect failure)" >&2; exit 1
esac
exec /usr/bin/{program} "$@"
""", 755)
    ask = "gpushare explain -- --qos=two --gres=gpu:a40:1"
    assert "can't tell" not in jobs.ok(ask, "alice")
    said = jobs.ok(f"PATH=/tmp/half.{program}:$PATH {ask}", "alice")
    assert line in said and "Unable to contact slurm controller" in said, said


def test_what_a_user_may_use_is_shown_with_who_uses_it(jobs):
    """The QOSes were made by sacctmgr alone."""
    first = running(jobs, "--qos=two", "--gres=gpu:a40:1", user="alice")
    said = jobs.ok(["gpushare", "mine"], "bob")
    assert said.splitlines()[0] == "account acct (default)", said
    for lines in (
        "  QOS normal (default): no limit on GPUs\n    write: --gres=gpu:1\n",
        f"  QOS two\n    QOS 'two', all its jobs: 1 of 2 a40s in use: alice 1 (job {first})\n"
        "    write: --qos=two --gres=gpu:a40:1\n",
    ):
        assert lines in said + "\n", said
    assert "each" not in said and "part" not in said, "bob may not use them"
    own = json.loads(jobs.ok(["gpushare", "mine", "--json"], "alice"))
    below, = [one for one in own["accounts"] if one["account"] == "below"]
    limit, = below["qoses"][0]["limits"]
    assert (limit["holder"], limit["limit"], limit["tres"]) == ("account 'limits'", 1, "gres/gpu:a40"), below
    assert below["qoses"][0]["write"] == ["--account=below --gres=gpu:a40:1"], below
    # What it says to write is accepted.
    for one in own["accounts"]:
        for options in [options for qos in one["qoses"] for options in qos["write"]]:
            jobs.ok(f"sbatch {options} --wrap true", "alice")
    assert jobs.run(["gpushare", "mine", "--user", "daemon"]).returncode == 2
    waiting = jobs.sbatch("--qos=two", "--gres=gpu:a40:2", user="bob")
    jobs.wait(lambda: f"job {waiting}" in jobs.ok(["gpushare", "explain", "--user", "bob"]), "its line")
    # A QOS that only another partition admits.
    jobs.ok("scontrol update PartitionName=p AllowQos=normal")
    try:
        said = jobs.ok(["gpushare", "mine"], "alice")
        lines = [line for line in said.splitlines() if "--qos=two " in line]
        assert lines and all("--partition=" in line for line in lines), said
    finally:
        jobs.ok("scontrol update PartitionName=p AllowQos=ALL")
    # Held, so it doesn't start when GPUs are free.
    held = jobs.sbatch("-H", "--qos=two", "--gres=gpu:a40:2", user="bob")
    said = jobs.ok(["gpushare", "explain", held])
    assert said.startswith(f"job {held} of bob waits (JobHeldUser)"), said


def test_lines_below_the_first_command_are_named(jobs):
    script = "#!/bin/bash\n#SBATCH --qos=two\ncd /\n#SBATCH --gres=gpu:a40:1\n"
    jobs.ok("cat >/lab/out/below.sh", stdin=script)
    said = jobs.ok(["gpushare", "explain", "/lab/out/below.sh"], "alice")
    assert "note: line 4: sbatch doesn't read `#SBATCH --gres=gpu:a40:1`: line 3 is a command" in said, said


def test_steps_that_will_fail_are_named_and_fail(jobs):
    script = "#!/bin/bash\n#SBATCH --qos=two --gpus=a40:1\nsrun --gres=gpu:1 true\nsrun --gres=gpu:a40:1 echo typed\n" \
        "unset SLURM_GPUS\nsrun --gres=gpu:1 echo unset\n"
    jobs.ok("cat >/lab/out/steps.sh", stdin=script)
    said = jobs.ok(["gpushare", "explain", "/lab/out/steps.sh"], "alice")
    assert said.count("note: ") == 1, said
    assert "note: line 3: `srun --gres=gpu:1 true` will fail: --gpus=a40:1 names" in said, said
    job = jobs.ok("sbatch --parsable -o /lab/out/%j /lab/out/steps.sh", "alice").split(";")[0]
    jobs.finished(job)
    output = jobs.output(job)
    printed = [line for line in output.splitlines() if not line.startswith("srun:")]
    assert output.count("Invalid GRES specification") == 1 and printed == ["typed", "unset"], output


def test_a_share_that_runs_is_told_with_its_gpu(explained_shares):
    cluster = explained_shares
    gres, units = ("gpushare", 80) if cluster.kind == "own" else ("mps", 100)
    job, gpu = cluster.start(f"--gres={gres}:{units // 2}")
    for user in ("root", "alice"):
        (place,) = told(cluster, job, user)["places"]
        assert (place["gpus"], place["units"], place["capacity"]) == ([int(gpu)], units // 2, units), place
    assert f"GPU {gpu}, {units // 2} of its {units} units" in explain(cluster, job)
    assert "(from this node's ledger)" in explain(cluster, job)
    elsewhere = cluster.ok(["env", "SLURMD_NODENAME=login", "gpushare", "explain", job])
    assert ("which GPU only the node knows" in elsewhere) == (cluster.kind == "own"), elsewhere
    cluster.tidy()
