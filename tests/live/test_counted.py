# SPDX-License-Identifier: GPL-2.0-or-later
"""What slurmctld counts against what it gives: requests and updates that name their types and would still run beyond a
limit. Jobs have no processes; slurmctld's own record says what they got."""

import contextlib
import re

import pytest


class Counted:
    """Submitting and updating, and what ran."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.prefix = "gres/" if cluster.newer_than("23.11") else "gres:"
        # Up to 23.11 Slurm counts what it picked.
        self.predicts = cluster.newer_than("24.05")
        self.moves = cluster.newer_than("23.02")

    def submit(self, options, user="alice"):
        return self.cluster.run(f"sbatch --parsable -o /dev/null {options} --wrap 'sleep 60'", user)

    def job(self, options, user="alice"):
        result = self.submit(options, user)
        assert result.returncode == 0, f"{options}: {result.stderr}"
        return result.stdout.strip()

    def refused(self, number, options):
        """Refused with that message; what it says to try is accepted. Returns the job of that."""
        result = self.submit(options)
        assert result.returncode != 0 and number in result.stderr, f"{options}: {result.stdout}{result.stderr}"
        advice = re.search(r"try: (.*)", result.stderr)
        return advice and self.job(advice.group(1).replace("TYPE", "a40"))

    def update(self, job, changes):
        return self.cluster.run(f"scontrol update job={job} {changes.replace('{P}', self.prefix)}", "alice")

    def update_refused(self, number, job, changes):
        """Refused with that message, and no field has changed."""
        before, seen = self.cluster.fields(job), len(self.cluster.log("slurmctld"))
        result = self.update(job, changes)
        assert result.returncode != 0, f"{changes} was accepted"
        assert f"refused {number}" in self.cluster.log("slurmctld")[seen:], (changes, result.stderr)
        now = self.cluster.fields(job)
        same = ("QOS", "Account", "Partition", "Reservation", "TresPerNode", "TresPerJob", "TresPerTask", "NumTasks")
        assert {key: now.get(key) for key in same} == {key: before.get(key) for key in same}, changes
        return result.stderr

    def given(self, job, tres="gres/gpu"):
        """How many a running job has."""
        fields = self.cluster.fields(job)
        if fields["JobState"] != "RUNNING":
            return 0
        found = re.search(rf"(^|,){tres}=(\d+)", fields.get("AllocTRES") or fields["TRES"])
        return int(found.group(2)) if found else 0

    def decided(self, job):
        """Waits until Slurm has started the job, or says why not."""
        fields = lambda: self.cluster.fields(job)
        self.cluster.wait(lambda: fields()["JobState"] == "RUNNING" or fields()["Reason"] != "None", "a decision")

    def runs(self, job):
        self.cluster.wait_state(job, "RUNNING")
        return self.given(job)

    @contextlib.contextmanager
    def rules(self, more):
        """gpushare.conf with these lines as well."""
        conf = self.cluster.ok("cat /etc/slurm/gpushare.conf") + "\n"
        self.write(conf + more + "\n")
        try:
            yield
        finally:
            self.write(conf)

    def write(self, content):
        read = lambda: self.cluster.log("slurmctld").count("gpushare.conf read again")
        before = read()
        self.cluster.write("/etc/slurm/gpushare.conf", content)

        def seen():
            self.cluster.run("sbatch --test-only --wrap true", "alice")
            return read() > before

        self.cluster.wait(seen, "the new gpushare.conf")


@pytest.fixture
def count(counted):
    yield Counted(counted)
    counted.cancel_all()


def test_a_share_whose_name_begins_with_gpu_counts_under_an_account(count):
    """The QOS counts every such share, the account those of one type."""
    count.refused("GS101", "--qos=with_shares -A lab --gres=gpushare:40")
    count.refused("GS102", "--qos=with_shares -A lab --gres=gpushare:mAA0zxtUzzzz:40")
    job = count.job("--qos=with_shares -A lab --gres=gpushare:a40:40")
    reason = lambda: count.cluster.fields(job)["Reason"]
    count.cluster.wait(lambda: reason().startswith("Assoc"), "the account's limit")


@pytest.mark.parametrize("limit", ["--qos=three", "-A capped", "--qos=five"])
def test_gpus_per_task_are_no_more_than_were_counted(count, limit):
    """Since 24.05 Slurm counts the tasks' GPUs once, and on each node picks for as many tasks as the job allows there.
    26.05 needs no odd option for that."""
    odd = "--gpus-per-task=a40:1"
    for options in (
        f"-n3 -c4 --ntasks-per-node=2 {odd}", f"-N2 -n3 -c2 --ntasks-per-node=2 --ntasks-per-core=1 {odd}",
        f"-N2 -n5 -c4 --ntasks-per-node=4 --ntasks-per-core=1 {odd}", f"-n5 -c8 --ntasks-per-node=4 {odd}",
    ):
        if count.predicts:
            count.refused("GS118", f"{limit} {options}")
            continue
        job = count.job(f"{limit} {options}")
        count.decided(job)
        assert count.given(job) <= {"-A": 2, "--qos=three": 3, "--qos=five": 5}[limit.split()[0]]
        count.cluster.ok(f"scancel {job}")


def test_full_nodes_of_tasks_run_and_are_all_counted(count):
    for options, gpus in (
        ("-n4 -c4 --ntasks-per-node=2", 4), ("-N2 -n4 -c2 --ntasks-per-node=2 --ntasks-per-core=1", 4),
        ("-n3 -c4", 3), ("-N2 --ntasks-per-node=2 -c2", 4), ("-N2 -n2 --ntasks-per-node=1 -c8", 2),
    ):
        job = count.job(f"--qos=eight {options} --gpus-per-task=a40:1")
        assert count.runs(job) == gpus, options
        count.cluster.ok(f"scancel {job}")


def test_no_update_leaves_a_node_with_more_tasks_than_are_counted(count):
    if not count.predicts:
        pytest.skip("Slurm counts what it picked")
    job = count.job("-H --qos=three -N2 -n2 --ntasks-per-node=1 --gpus-per-task=a40:1")
    count.update_refused("GS117", job, "TasksPerNode=2")
    count.cluster.ok(f"scontrol release {job}", "alice")
    assert count.runs(job) == 2
    job = count.job("-H --qos=three -n2 --ntasks-per-node=2 --gpus-per-task=a40:1")
    count.update_refused("GS118", job, "NumTasks=3")


@pytest.mark.parametrize("limit", ["--qos=one_of_all", "-A total"])
def test_a_limit_on_all_gpus_is_one_on_what_runs(count, limit):
    """Slurm puts a GPU on each node that a job gets, and counts the one that it asked for."""
    for gpus in ("--gpus=1", "--gpus=a40:1", "--gpus=h100:1"):
        result = count.submit(f"{limit} -p all -n70 {gpus}")
        if result.returncode:
            assert not count.predicts or "node configuration" in result.stderr, result.stderr
            continue
        job = result.stdout.strip()
        count.decided(job)
        assert count.given(job) <= 1, count.cluster.fields(job)
        count.cluster.ok(f"scancel {job}")
    if count.predicts:
        count.refused("GS118", f"{limit} -n3 -c4 --ntasks-per-node=2 --gpus-per-task=1")
        count.refused("GS105", f"{limit} -n8 --ntasks-per-gpu=2")
    for fine in (
        "--gres=gpu:1", "--gpus=1", "-n2 --gpus=1", "--gpus-per-task=1 -n1", "-n4 --ntasks-per-gpu=4 --gpus=1",
    ):
        job = count.job(f"{limit} {fine}")
        assert count.runs(job) == 1, fine
        count.cluster.ok(f"scancel {job}")


def test_whole_gpus_pass_no_limit_on_shares(count):
    for request in ("--gres=gpu:1", "--gres=gpu:a40:1", "--gpus=1", "-n2 --gpus-per-task=a40:1"):
        count.refused("GS119", f"--qos=only_shares {request}")
    count.refused("GS105", "--qos=only_shares -n2 --ntasks-per-gpu=1")
    job = count.job("--qos=only_shares --gres=gpushare:40")
    count.cluster.wait_state(job, "RUNNING")
    count.cluster.ok(f"scancel {job}")
    with count.rules("ForeignTypes=allow"):
        count.job("--qos=only_shares --gres=gpu:a40:1")
    with count.rules("ShareSizes=20,40,80"):
        job = count.refused("GS119", "--qos=only_shares --gpus=a40:2")
        assert job, "the largest share that the QOS allows is what to try"
        count.cluster.wait_state(job, "RUNNING")
        assert count.given(job, "gres/gpushare") == 40


def test_gpus_for_the_whole_job_run_in_each_of_several_partitions(count):
    """A partition that takes one node is no reason to refuse what runs in the other."""
    for partitions in ("small,p", "p,small", "p"):
        job = count.job(f"--qos=eight -p {partitions} --gpus=a40:8 -n2")
        assert count.runs(job) == 8, partitions
        count.cluster.ok(f"scancel {job}")
        count.cluster.wait_idle()
    # Slurm refuses a maximum of nodes above the partition's.
    job = count.job("--qos=eight -p small --gpus=a40:4")
    assert count.runs(job) == 4
    count.cluster.ok(f"scancel {job}")
    count.cluster.wait_idle()
    count.cluster.ok("sacctmgr -i modify qos eight set flags=PartitionMaxNodes")
    try:
        job = count.job("--qos=eight -p small --gpus=a40:8 -n2")
        assert count.runs(job) == 8
    finally:
        count.cluster.ok("sacctmgr -i modify qos eight set flags=-1")


@pytest.fixture
def begun_later(count):
    """A job that waits for a time, so nobody releases it: bounded in CPUs, so that Slurm refuses a change of its nodes
    when it has changed its names."""

    def submit(options):
        job = count.job(f"--begin=now+1hour {options}")
        assert count.update(job, "NumCPUs=1-1").returncode == 0
        return job

    return submit


HALF = {
    "qos": ("-p p --gres=gpu:4", "qos=three TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1"),
    "qos-by-cpus": ("-p p --gres=gpu:4 --cpus-per-gpu=2", "qos=three TresPerNode={P}gpu:a40:2"),
    "account": ("-p p --gres=gpu:4", "account=capped TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1"),
    "partition": ("-p p -N1-2", "partition=g TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1"),
    "reservation": (
        "-p p --qos=three --reservation=maint1 --gres=gpu:4",
        "ReservationName= TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1",
    ),
}


@pytest.mark.parametrize("move", HALF)
def test_an_update_of_which_slurm_takes_half_is_refused(count, begun_later, move):
    """Slurm makes the number of nodes and CPUs from the GPUs, and refuses these after it has changed the names."""
    if move == "reservation":
        later = "starttime=now+10days duration=60 users=alice nodes=n2 flags=ignore_jobs"
        count.cluster.run(f"scontrol create reservation=maint1 {later}")
    options, change = HALF[move]
    said = count.update_refused("GS115", begun_later(options), change)
    if move.startswith("qos") and count.moves:
        again = re.search(r"submit it again with: ([^;]*)", said).group(1)
        count.cluster.ok(f"scancel {count.job(again)}")


def test_half_an_update_of_one_task_of_an_array_is_refused(count):
    array = count.job("--begin=now+1hour --array=0-3 --gres=gpu:4")
    assert count.update(f"{array}_1", "NumCPUs=1-1").returncode == 0
    change = "qos=three TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1"
    assert count.update(f"{array}_1", change).returncode
    assert set(count.cluster.ok(f"squeue -h -r -j {array} -o %q").split()) == {"normal"}


def test_a_typed_job_moves_with_its_gpus_named_again(count):
    if not count.moves:
        pytest.skip("22.05 moves no job under a limit")
    for options in ("--gres=gpu:a40:2", "--array=0-3 --gres=gpu:a40:2"):
        job = count.job(f"-H {options}")
        result = count.update(job, "qos=three TresPerNode={P}gpu:a40:1")
        assert result.returncode == 0, result.stderr
        shown = count.cluster.ok(f"squeue -h -r -j {job} -o '%q %b'")
        assert set(shown.splitlines()) == {"three gres/gpu:a40:1"}, shown


@pytest.mark.parametrize("other", ["Dependency=afterok:999999", "Features=nope", "Nice=-5", "EndTime=now+1hour"])
def test_tasks_whose_gpus_are_counted_change_by_a_command_of_its_own(count, other):
    """Slurm refuses the other when it has changed the tasks, and keeps the count of the old ones' GPUs: three ran, one
    was counted."""
    if not count.predicts:
        pytest.skip("Slurm counts what it picked")
    for limit in ("--qos=three", "-A capped", "--qos=one_of_all"):
        job = count.job(f"-H {limit} -n1 --gpus-per-task=a40:1")
        count.update_refused("GS117", job, f"NumTasks=3 {other}")
        count.update_refused("GS117", job, "TasksPerNode=1")
        count.cluster.ok(f"scancel {job}")
    job = count.job("-H --qos=three -n1 --gpus-per-task=a40:1")
    assert count.update(job, "NumTasks=3").returncode == 0
    count.cluster.ok(f"scontrol release {job}", "alice")
    assert count.runs(job) == 3


def test_a_share_outlives_no_reservation_for_shares(count):
    """Slurm holds what waits for a reservation that has ended; its user may release it. Under priority/basic, a change
    of its nice value releases it too."""
    with count.rules("ShareReservations=course"):
        resv = "reservation=course_1"
        count.cluster.ok(f"scontrol create {resv} starttime=now duration=60 users=alice nodes=n2 flags=ignore_jobs")
        share = f"--{resv} -t 5 --gres=gpushare:a40:40"
        jobs = [count.job(f"{options} {share}") for options in ("-H --requeue", "--begin=now+1hour")]
        assert {count.cluster.fields(job)["Requeue"] for job in jobs} == {"0"}, "it may start again"
        count.cluster.ok(f"scontrol update {resv} endtime=now+2")
        ended = lambda: count.cluster.run(f"scontrol show {resv}").returncode
        count.cluster.wait(ended, "the end of the reservation", patience=90)
        for job in jobs:
            # 22.05's PriorityType is priority/basic by itself.
            renices = [] if count.cluster.newer_than("23.02") else [f"scontrol update job={job} Nice=1"]
            for release in [f"scontrol release {job}", *renices]:
                seen = len(count.cluster.log("slurmctld"))
                result = count.cluster.run(release, "alice")
                assert result.returncode, release
                assert "refused GS121" in count.cluster.log("slurmctld")[seen:], result.stderr


def test_an_update_of_many_large_jobs_ends_after_some(count):
    """It depends on their number of nodes, which slurmctld doesn't show, whether they may move. So for each of them it
    reads the variables from its disk, under its locks: 12 times 1 MB."""
    variables = " ".join(f"V{number}=$(printf %0120000d 0)" for number in range(9))
    array = count.cluster.ok(
        f"env {variables} sbatch --parsable -H --array=0-11 -o /dev/null --qos=eight --gpus=a40:1 --wrap true", "alice"
    ).strip()
    assert count.update(f"{array}_[0-11]", "Comment=x").returncode == 0
    for task in range(11):  # each is a record of its own
        assert count.update(f"{array}_{task}", f"Comment={task}").returncode == 0
    seen = len(count.cluster.log("slurmctld"))
    result = count.update(array, "partition=all")
    log = count.cluster.log("slurmctld")[seen:]
    assert result.returncode and log.count("refused GS120") == 1, result.stderr + log
    assert ("GS120" in result.stderr) == count.moves, result.stderr
    moved = count.cluster.ok(f"squeue -h -r -j {array} -o '%K %P'").splitlines()
    moved = [line.split()[0] for line in moved if line.endswith(" all")]
    assert 5 <= len(moved) <= 9, moved
    rest = ",".join(str(task) for task in range(12) if str(task) not in moved)
    assert count.update(f"{array}_{rest.split(',')[0]}", "partition=all").returncode == 0
    for _ in range(2):
        count.update(array, "Comment=y")  # nothing that a rule judges
    assert count.cluster.log("slurmctld")[seen:].count("refused GS120") == 1


def test_more_than_an_account_allows_is_said(count):
    words = "-A capped --gres=gpu:a40:3"
    said = "'gpu:a40:3' is more than account 'capped' allows at once"
    result = count.submit(words)
    assert result.returncode == 0 and said in result.stderr and "GS114" in result.stderr, result.stderr
    reason = lambda: count.cluster.fields(result.stdout.strip())["Reason"]
    count.cluster.wait(lambda: reason().startswith("Assoc"), "the account's limit")
    assert said in count.cluster.run(f"gpushare explain -- {words} --wrap=true", "alice").stdout
    result = count.submit("-A capped --gres=gpu:a40:2")
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_more_than_a_limit_under_denyonlimit_is_said_to_be_refused(count):
    count.cluster.ok("sacctmgr -i modify qos eight set flags=DenyOnLimit")
    words = "--qos=eight -N3 --gres=gpu:a40:3"
    try:
        refused = lambda: count.submit(words).returncode
        count.cluster.wait(refused, "slurmctld to know the flag")
        said = count.submit(words).stderr
        assert "Slurm itself refuses it (DenyOnLimit); GS114" in said, said
        assert "DenyOnLimit" in count.cluster.run(f"gpushare explain -- {words}", "alice").stdout
    finally:
        count.cluster.ok("sacctmgr -i modify qos eight set flags=-1")
