# SPDX-License-Identifier: GPL-2.0-or-later
"""What gpushare.conf can set for submissions, changed while slurmctld runs: modes, exemptions, shares, free QOSes."""

import contextlib
import re

import pytest
from lab import EXAMPLES

CONF = "/etc/slurm/gpushare.conf"
QOS = "--qos=qos_lafferty"


def submit(cluster, *options, user="alice"):
    return cluster.run(["sbatch", "-H", "-o", "/dev/null", "--parsable", *options, "--wrap", "sleep 60"], user)


def refused(cluster, number, *options, **how):
    result = submit(cluster, *options, **how)
    assert result.returncode != 0 and number in result.stderr, f"{options}: {result.stdout}{result.stderr}"
    return re.search(r"try: (.*)|$", result.stderr).group(1)


def accepted(cluster, *options, **how):
    """(job number, what the user was told)"""
    result = submit(cluster, *options, **how)
    assert result.returncode == 0, f"{options}: {result.stderr}"
    return result.stdout.strip(), result.stderr


def lines(cluster, text):
    return cluster.log("slurmctld").count(text)


def wait_for_line(cluster, text, more_than):
    """The file is looked at when there is something to judge, so something is."""

    def seen():
        cluster.run(["sbatch", "--test-only", "--wrap", "true"], "alice")
        return lines(cluster, text) > more_than

    cluster.wait(seen, f"'{text}' in slurmctld's log")


@contextlib.contextmanager
def configured(cluster, text):
    """The running slurmctld with TEXT as its gpushare.conf, and with the old one again afterwards."""
    old = cluster.ok(["cat", CONF])
    try:
        replace(cluster, text)
        yield
    finally:
        replace(cluster, old)
        cluster.run("scancel -u alice,bob")


def replace(cluster, content):
    before = lines(cluster, "gpushare.conf read again")
    cluster.write(CONF, content + "\n")
    wait_for_line(cluster, "gpushare.conf read again", before)


@pytest.fixture(scope="module")
def site(ways):
    ways.ok("scontrol create partition=course nodes=ALL defaulttime=10")
    ways.ok("sacctmgr -i add account staff")
    ways.ok("sacctmgr -i add user bob account=staff qos=normal,qos_lafferty defaultqos=normal")
    ways.ok("sacctmgr -i add qos savio_lowprio")
    ways.ok("sacctmgr -i modify user alice set qos+=savio_lowprio")
    for name in ("jupyterhub_course_jobset", "maintenance"):
        ways.ok(
            f"scontrol create reservation={name} starttime=now+10days duration=60 users=alice,bob "
            "nodecnt=1 flags=overlap"
        )
    yield ways
    ways.cancel_all()


def test_warn_lets_pass_and_tells(site):
    with configured(site, "QOS=qos_laff* Mode=warn"):
        job, told = accepted(site, QOS, "--gres=gpu:2")
        assert "warning: QOS 'qos_lafferty' requires a GPU type" in told and "accepted for now; GS101" in told, told
        assert site.fields(job)["TresPerNode"].endswith("gpu:2")
        assert lines(site, "accepted (warn) GS101 uid=2001 qos='qos_lafferty' asked='gpu:2'")
        refused(site, "GS101", "--qos=qos_other", "--gres=gpu:2")
        job, _ = accepted(site, "--gres=gpu:2")
        result = site.run(f"scontrol update job={job} qos=qos_lafferty", "alice")
        assert result.returncode == 0, result.stderr
        if site.newer_than("23.02"):
            assert "warning" in result.stderr and "GS101" in result.stderr, result.stderr
        if site.newer_than("24.11"):
            for both in ("qos_lafferty,qos_other", "qos_other,qos_lafferty"):
                refused(site, "GS106", f"--qos={both}", "--gres=gpu:2")
        for command in (["salloc", QOS, "--gpus=1", "true"], ["srun", QOS, "--gpus=1", "true"]):
            told = site.run(command, "alice")
            assert told.returncode == 0 and "accepted for now" in told.stderr, told.stderr


def test_a_mode_is_that_of_the_qos_however_it_is_named(site):
    with configured(site, "Mode=audit\nQOS=normal Mode=enforce\nShareSizes=4"):
        for options in (["--qos=normal"], [], ["--qos=NORMAL"]):
            refused(site, "GS122", *options, "--gres=shard:3")
        accepted(site, "--qos=savio_lowprio", "--gres=shard:3")
        if site.newer_than("24.11"):
            refused(site, "GS122", "--qos=savio_lowprio,normal", "--gres=shard:3")


def test_audit_only_writes_the_log(site):
    with configured(site, "Mode=audit"):
        _, told = accepted(site, QOS, "--gres=gpu:3")
        assert told == ""
        assert lines(site, "accepted (audit) GS101 uid=2001 qos='qos_lafferty' asked='gpu:3'")


def test_default_fills_the_type_in(site):
    with configured(site, "QOS=* Mode=default"):
        job, told = accepted(site, QOS, "--gres=gpu:2")
        assert site.fields(job)["TresPerNode"].endswith("gpu:a40:2")
        assert "'gpu:2' was changed to 'gpu:a40:2' (GS151)" in told, told
        job, told = accepted(site, QOS, "-n2", "--ntasks-per-gpu=1")
        assert site.fields(job)["TresPerJob"].endswith("gpu:a40:2") and "GS151" in told, told
        refused(site, "GS103", QOS, "--gres=gpu:3090:1")
        job, _ = accepted(site, "--gres=gpu:2")
        assert site.run(f"scontrol update job={job} qos=qos_lafferty", "alice").returncode != 0
    with configured(site, "QOS=qos_lafferty Mode=default DefaultType=3090"):
        refused(site, "GS101", QOS, "--gres=gpu:2")


def test_exemptions_are_logged(site):
    conf = "ExemptUsers=bob\nExemptAccounts=staff\nExemptPartitions=q\nExemptReservations=maint*"
    with configured(site, conf):
        refused(site, "GS101", QOS, "--gres=gpu:1")
        accepted(site, QOS, "--gres=gpu:1", user="bob")
        accepted(site, QOS, "--gres=gpu:1", "--partition=q")
        refused(site, "GS101", QOS, "--gres=gpu:1", "--partition=p,q")
        if site.newer_than("24.11"):
            refused(site, "GS106", "--qos=normal,qos_lafferty", "--gres=gpu:1", "--partition=q")
        job, _ = accepted(site, QOS, "--gres=gpu:1", "--reservation=maintenance")
        for kind in ("user", "partition", "reservation"):
            assert lines(site, f"accepted (exempt {kind}) GS101"), kind
        assert site.run(f"scontrol update job={job} ReservationName=", "alice").returncode != 0, "the exemption ends"
        # A crontab's job starts again and again, be there a reservation or not.
        if site.run("command -v scrontab").returncode == 0:
            before = lines(site, "refused GS101")
            table = "#SCRON --qos=qos_lafferty --reservation=maintenance\n#SCRON --gres=gpu:1\n0 0 1 1 * /bin/true\n"
            assert site.run(["scrontab", "-"], "alice", stdin=table).returncode != 0
            assert lines(site, "refused GS101") == before + 1
    with configured(site, "ExemptAccounts=Staff"):
        accepted(site, QOS, "--gres=gpu:1", "--account=staff", user="bob")
        refused(site, "GS101", QOS, "--gres=gpu:1", user="bob")
        assert lines(site, "accepted (exempt account) GS101")


def test_shares_only_in_reservations_that_match(site):
    """SURF's cli_filter, where no user can leave it out; the patterns as they stand there."""
    with configured(site, "ShareReservations=jhl_homework_gpu,jupyterhub_course_"):
        advice = refused(site, "GS121", "--gres=shard:2")
        accepted(site, *advice.replace("NAME", "jupyterhub_course_jobset").split())
        refused(site, "GS121", "--gres=shard:2", "--reservation=maintenance")
        job, _ = accepted(site, "--gres=shard:2", "--reservation=jupyterhub_course_jobset")
        result = site.run(f"scontrol update job={job} ReservationName=maintenance", "alice")
        assert result.returncode != 0 and site.fields(job)["Reservation"] == "jupyterhub_course_jobset"
        job, _ = accepted(site, "--gres=gpu:1")
        result = site.run(f"scontrol update job={job} Gres=shard:2", "alice")
        assert result.returncode != 0
        if site.newer_than("23.02"):
            assert "GS121" in result.stderr, result.stderr


def test_shares_of_certain_sizes(site):
    with configured(site, "ShareSizes=2,4,8"):
        advice = refused(site, "GS122", "--gres=shard:3")
        assert advice == "--gres=shard:4"
        accepted(site, advice)
        accepted(site, "--gres=gpu:3")
        if site.newer_than("23.02"):
            prefix = "gres/" if site.newer_than("23.11") else "gres:"
            assert refused(site, "GS122", "-n2", f"--tres-per-task={prefix}shard:2") == "-n2 --gres=shard:2"


def test_partitions_for_shares_refuse_whole_gpus(site):
    with configured(site, "ShareOnlyPartitions=course\nShareSizes=4"):
        for options in (["--gres=gpu:1"], ["--gpus=a40:1"], ["-n2", "--ntasks-per-gpu=1"], ["--exclusive"]):
            refused(site, "GS123", "--partition=course", *options)
            refused(site, "GS123", "--partition=p,course", *options)
            accepted(site, *options)
        accepted(site, "--partition=course", "--gres=shard:4")
        accepted(site, "--partition=course")
        advice = refused(site, "GS123", "--reservation=maintenance", "--gres=gpu:1")
        accepted(site, *advice.replace("NAME", "p").split(), "--reservation=maintenance", "--gres=gpu:1")
        for options in (["--gres=gpu:1"], ["-n2", "--ntasks-per-gpu=1"]):
            job, _ = accepted(site, *options)
            assert site.run(f"scontrol update job={job} partition=course", "alice").returncode != 0, options
        prefix = "gres/" if site.newer_than("23.11") else "gres:"
        job, _ = accepted(site)
        into = f"partition=course TresPerNode={prefix}shard:4"
        assert site.run(f"scontrol update job={job} {into}", "alice").returncode, "Slurm may keep GPUs it doesn't show"
        job, _ = accepted(site, "--gres=shard:4")
        site.ok(f"scontrol update job={job} {into}", "alice")


FREE = (EXAMPLES / "savio/gpushare.conf").read_text()


def test_a_free_qos_sets_what_its_users_forget(site):
    """What Savio's page asks of its users: requeue, append, and 8 tasks at once of an array of long ones."""
    with configured(site, FREE):
        job, told = accepted(site, "--qos=savio_lowprio", "--array=0-127", "--time=3:00:00")
        assert all(number in told for number in ("GS152", "GS153", "GS154")), told
        found = site.fields(job)
        assert (found["Requeue"], found["ArrayTaskThrottle"]) == ("1", "8"), found
        _, told = accepted(site, "--qos=savio_lowprio", "--array=0-127", "--time=1:00:00")
        assert "GS154" not in told, told
        job, told = accepted(site, "--qos=savio_lowprio", "--no-requeue", "--open-mode=truncate", "--array=0-127%4")
        assert told == "" and site.fields(job)["Requeue"] == "0", told
        _, told = accepted(site, "--array=0-127")
        assert told == "", "another QOS"


def test_a_requeued_job_of_a_free_qos_adds_to_its_output(site):
    with configured(site, FREE):
        job = site.sbatch("--qos=savio_lowprio", script="echo started; sleep 60")
        site.wait(lambda: site.output(job) == "started\n", "the first start")
        site.ok(f"scontrol requeue {job}")
        site.wait_state(job, "PENDING")
        site.ok("sleep 3")  # until the first start's epilog is over
        site.start_now(job)
        site.wait(lambda: site.output(job).count("started") == 2, "the second start")


def test_a_broken_edit_changes_nothing_and_is_logged_once(site):
    with configured(site, "GovernedQOS=normal"):
        for edit, problem in (
            (f"echo GouvernedQOS=x > {CONF}", "unknown key 'GouvernedQOS'"),
            (f": > {CONF}", "the file is empty"),
            (f"rm {CONF}", "is gone; its last rules stay in force"),
            (f"mkdir {CONF}", "Is a directory"),
        ):
            before = lines(site, problem)
            site.ok(edit)
            wait_for_line(site, problem, before)
            for _ in range(3):
                refused(site, "GS101", "--qos=normal", "--gres=gpu:1")
                accepted(site, QOS, "--gres=gpu:1")
            assert lines(site, problem) == before + 1
        site.ok(f"rmdir {CONF}; touch {CONF}")


def test_an_edit_in_place_counts_when_it_is_done(site):
    """A file that is written line by line is never taken for a policy half-way."""
    with configured(site, "GovernedQOS=normal"):
        before = lines(site, "gpushare.conf read again")
        site.ok(
            f"echo '# a new beginning' > {CONF}; for i in 1 2 3 4 5 6 7 8; do sleep 0.3; echo '# line' >> {CONF}; "
            "runuser -u alice -- sbatch --qos=normal --gres=gpu:1 --wrap true && exit 1; done; "
            f"echo GovernedQOS=normal,savio_lowprio >> {CONF}"
        )
        wait_for_line(site, "gpushare.conf read again", before)
        assert lines(site, "gpushare.conf read again") == before + 1
        refused(site, "GS101", "--qos=savio_lowprio", "--gres=gpu:1")


def test_the_database_may_be_down(site):
    site.ok("/lab/service stop slurmdbd")
    try:
        refused(site, "GS101", QOS, "--gres=gpu:1")
        accepted(site, QOS, "--gres=gpu:a40:1")
        site.ok("/lab/service restart slurmctld", timeout=60)
        refused(site, "GS101", QOS, "--gres=gpu:1")
        accepted(site, QOS, "--gres=gpu:a40:1")
    finally:
        site.ok("/lab/service start slurmdbd")


def test_a_user_without_association_is_refused(site):
    for qos in ([], [QOS]):
        result = site.run(
            ["runuser", "-u", "daemon", "--", "sbatch", "--chdir=/tmp", *qos, "--gres=gpu:1", "--wrap", "true"]
        )
        assert result.returncode != 0, result.stdout
    assert site.run("/lab/service status slurmctld").returncode == 0


def test_an_update_after_slurm_filled_in_its_defaults_for_each_gpu(site):
    """slurmctld writes them into the waiting job as CpusPerTres=gpu:2, with no prefix: nobody asked for that."""
    prefix = "gres/" if site.newer_than("23.11") else "gres:"
    site.ok("scontrol create partition=defaults nodes=ALL JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=100")
    try:
        within = ["NumNodes=1-1", f"TresPerNode={prefix}gpu:a40:2", "NumTasks=2"]
        into = [f"qos=qos_lafferty TresPerNode={prefix}gpu:a40:1"]
        for changes in (within, into):
            qos = [] if "qos=" in changes[0] else [QOS]
            job = site.sbatch("-p", "defaults", *qos, "--gres=gpu:a40:1", "--begin=now+1hour")
            site.ok(f"scontrol update job={job} partition=defaults")
            job = site.sbatch("-p", "defaults", *qos, "--gres=gpu:a40:1", "--dependency", f"after:{job}")
            fields = site.wait(lambda job=job: ("CpusPerTres" in site.fields(job)) and site.fields(job), "the defaults")
            assert fields["CpusPerTres"] == "gpu:2", fields
            for change in changes:
                result = site.run(f"scontrol update job={job} {change}", "alice")
                assert result.returncode == 0 or not site.newer_than("23.02"), f"{change}: {result.stderr}"
    finally:
        site.cancel_all()
        site.ok("scontrol delete partition=defaults")
