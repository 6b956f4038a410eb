# SPDX-License-Identifier: GPL-2.0-or-later
"""Moves of jobs, as sites and users do them: beside a script that writes into every update, of arrays whose tasks are
several jobs to Slurm, under names that a shell must have in quotes. Whatever a refusal says to try is run in a shell as
it stands, and works."""

import re

import pytest

LOG, COUNTS = "/var/log/slurm/slurmctld.log", "/run/slurm/gpushare-counts"
QOS = "qos_lafferty"


class Moves:
    """Held jobs, commands of alice's, and what the controller says."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.typed = f"TresPerNode={'gres/' if cluster.newer_than('23.11') else 'gres:'}gpu:a40:1"
        # 22.05 keeps the old request in an update, so no job is moved under a limit there, and has no message for one.
        self.can = cluster.newer_than("23.02")

    def held(self, *options, user="alice"):
        words = ["sbatch", "-H", "--parsable", "-o", "/dev/null", *options, "--wrap", "true"]
        return self.cluster.ok(words, user).strip()

    def split(self, *options, tasks=6):
        """An array of which Slurm has made a job for each task: an update of some does that."""
        array = self.held(f"--array=0-{tasks - 1}", *options)
        self.cluster.ok(f"scontrol update job={array}_[1-{tasks - 1}] Comment=x", "alice")
        return array

    def update(self, job, changes):
        """What the user sees of it."""
        result = self.cluster.run(f"scontrol update job={job} {changes}", "alice")
        return result.stdout + result.stderr

    def tries(self, said):
        """Runs what a message says to try."""
        command = re.search(r"try: (.*?)(; GS\d+|\n|$)", said)
        assert command, f"nothing to try: {said}"
        return self.cluster.run(command.group(1), "alice")

    def tasks(self, array, form):
        lines = self.cluster.ok(f"squeue -h -r -a -j {array} -o '%K|{form}'").splitlines()
        return {int(task): rest for task, rest in (line.split("|", 1) for line in lines)}

    def refusals(self):
        return [line for line in self.cluster.log("slurmctld").splitlines() if "gpushare: refused" in line]

    def count(self, name):
        found = re.search(rf"^{name}\s+0*(\d+)$", self.cluster.ok(f"cat {COUNTS}"), re.M)
        return int(found.group(1))


@pytest.fixture
def move(moves):
    yield Moves(moves)
    moves.cancel_all()


def test_what_another_plugin_writes_into_an_update_stops_no_move(move):
    """A comment or a wckey can't leave a job half moved, so they are no reason for GS117."""
    job = move.held("-J", "stamped", "--gres=gpu:a40:2")
    said = move.update(job, f"qos={QOS} {move.typed} JobName=mine")
    fields = move.cluster.fields(job)
    if not move.can:
        assert "GS115" in move.refusals()[-1] and fields["QOS"] == "normal"
        return
    assert not said and (fields["QOS"], fields["JobName"]) == (QOS, "mine"), (said, fields)
    assert fields["Comment"].startswith("changed"), fields
    assert fields["TresPerNode"].endswith("gpu:a40:1"), fields


@pytest.mark.parametrize("field", [
    f"Comment={'x' * 2000}", f"JobName={'x' * 2000}", "WCKey=nobodys", "Extra='(('", "AdminComment=x", "MailType=nope",
])
def test_no_field_that_may_go_with_a_move_leaves_it_half_done(move, field):
    """Slurm refuses some of these. Then the job is as it was, or it is in the QOS with the GPUs that it was given."""
    job = move.held("--gres=gpu:a40:2")
    move.update(job, f"qos={QOS} {move.typed} {field}")
    fields = move.cluster.fields(job)
    as_it_is = fields["QOS"], fields["TresPerNode"].split("gpu:")[1]
    assert as_it_is in {("normal", "a40:2"), (QOS, "a40:1")}, as_it_is


def test_what_else_is_changed_is_named_and_the_users_own_command_not_repeated(move):
    """The script changes the job's nice value, which Slurm may refuse when the QOS has changed."""
    if not move.can:
        pytest.skip("22.05 moves no job under a limit")
    job = move.held("-J", "slowed", "--gres=gpu:a40:2")
    said = move.update(job, f"qos={QOS} {move.typed}")
    assert "GS117" in said and "also changes: Nice;" in said and "try:" not in said, said
    said = move.update(job, f"qos={QOS} {move.typed} TimeLimit=5")
    assert "also changes: TimeLimit, Nice;" in said and "try:" not in said, said
    assert move.cluster.fields(job)["QOS"] == "normal"


@pytest.mark.parametrize("split", ["", "0-1", "0-4"], ids=["not split", "several left", "one task left"])
def test_the_advice_for_a_whole_array_moves_every_task(move, split):
    """Slurm itself gives a QOS and GPUs only to the first of its jobs."""
    if not move.can:
        pytest.skip("22.05 moves no job under a limit")
    array = move.held("--array=0-5", "--gres=gpu:a40:2")
    if split:
        move.cluster.ok(f"scontrol update job={array}_[{split}] Comment=x", "alice")
    result = move.tries(move.update(array, f"qos={QOS}"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert set(move.tasks(array, "%q %b").values()) == {f"{QOS} gres/gpu:a40:2"}


def test_a_typed_move_of_an_array_that_is_one_job_moves_every_task(move):
    """For it slurmctld puts the tasks into the update, which nobody asked for."""
    if not move.can:
        pytest.skip("22.05 moves no job under a limit")
    array = move.held("--array=0-5", "--gres=gpu:a40:2")
    assert not move.update(array, f"qos={QOS} {move.typed}")
    assert set(move.tasks(array, "%q %b").values()) == {f"{QOS} gres/gpu:a40:1"}


def test_the_advice_for_some_tasks_moves_each(move):
    if not move.can:
        pytest.skip("22.05 moves no job under a limit")
    array = move.split("--gres=gpu:a40:2")
    result = move.tries(move.update(f"{array}_[2-3,5]", f"qos={QOS}"))
    assert result.returncode == 0, result.stderr
    moved = {task for task, qos in move.tasks(array, "%q").items() if qos == QOS}
    assert moved == {2, 3, 5}, move.tasks(array, "%q %b")


def test_the_advice_for_tasks_that_lost_their_gpus_moves_each(move):
    """Slurm gives the account to all of them, and the GPUs of the same command to the first."""
    if not move.can:
        pytest.skip("22.05 moves no job under a limit")
    array = move.split("--gres=gpu:a40:4")
    said = move.update(f"{array}_[2-5]", f"account=capped {move.typed}")
    assert "only to the first of several tasks" in said, said
    assert move.tries(said).returncode == 0
    tasks = move.tasks(array, "%a %b")
    assert {tasks[task].split(":")[0] for task in (2, 3, 4, 5)} == {"capped gres/gpu"}, tasks
    assert all(":a40:" in tasks[task] for task in (2, 3, 4, 5)), tasks


def test_a_move_of_several_tasks_reaches_only_the_first_of_them(plain):
    """Slurm's own fault, without gpushare, and the command reports success. On 22.05 all get the QOS."""
    move = Moves(plain)
    array = move.split("--gres=gpu:a40:2")
    assert not move.update(f"{array}_[2-5]", f"qos={QOS} {move.typed}")
    tasks = move.tasks(array, "%q %b")
    assert {task for task, has in tasks.items() if has.endswith("gpu:a40:1")} == {2}, tasks
    assert {task for task, has in tasks.items() if has.startswith(QOS)} == ({2} if move.can else {2, 3, 4, 5}), tasks
    plain.cancel_all()


def test_a_refused_update_of_many_tasks_is_one_line_and_one_count(move):
    """slurmctld checks each of an array's jobs, within one request. The same command again is another request."""
    array = move.split("--gres=gpu:2", tasks=200)
    counted = move.count("GS115 refused")
    move.cluster.ok(f": >{LOG}")
    for times in (1, 2, 3):
        said = move.update(array, f"qos={QOS}")
        assert len(move.refusals()) == times, move.refusals()
        assert move.count("GS115 refused") == counted + times
        if move.can:
            assert said.count("GS115, see") == 1, said
    audit = move.cluster.ok("gpushare audit --json")
    assert re.search(r'"refused": *3\b', audit), audit


def test_what_passes_for_many_tasks_is_one_line_too(move):
    array = move.split("--gres=gpu:2", tasks=50)
    conf = move.cluster.ok("cat /etc/slurm/gpushare.conf") + "\n"
    try:
        move.cluster.write("/etc/slurm/gpushare.conf", conf + "Mode=audit\n")
        untyped = f"sbatch -H -o /dev/null --qos={QOS} --gres=gpu:1 --wrap true"
        move.cluster.wait(lambda: not move.cluster.run(untyped, "alice").returncode, "the new rules")
        move.cluster.ok(f": >{LOG}")
        said = move.update(array, "account=capped")
        assert not said and set(move.tasks(array, "%a").values()) == {"capped"}, said
        passed = [line for line in move.cluster.log("slurmctld").splitlines() if "accepted (audit)" in line]
        assert len(passed) == 1, passed
    finally:
        move.cluster.write("/etc/slurm/gpushare.conf", conf)
        move.cluster.wait(lambda: move.cluster.run(untyped, "alice").returncode, "the old rules")


def test_a_refused_update_of_a_het_job_is_one_line_and_one_message(move):
    job = move.cluster.ok(
        "sbatch -H --parsable -o /dev/null --gres=gpu:2 : --gres=gpu:2 : --gres=gpu:1 --wrap true", "alice"
    ).strip()
    seen = len(move.refusals())
    said = move.update(job, f"qos={QOS}")
    assert len(move.refusals()) == seen + 1, move.refusals()
    assert said.count("GS115, see") == (2 if move.can else 0), said


@pytest.mark.parametrize("option", [
    "--qos='two words'", "--qos=größe", "--qos='a$b;c'", "--account='two words'",
])
def test_what_is_to_try_under_any_name_works_in_a_shell(move, option):
    """Names are shown as they are; the log stays plain ASCII."""
    sbatch = "sbatch -H -o /dev/null --wrap true"
    refused = move.cluster.run(f"{sbatch} {option} --gres=gpu:1", "alice")
    name = option.split("=")[1].strip("'")
    assert f"'{name}'" in refused.stderr and "GS101" in refused.stderr, refused.stderr
    words = re.search(r"try: (.*)", refused.stderr).group(1)
    accepted = move.cluster.run(f"{sbatch} {words}", "alice")
    assert accepted.returncode == 0, f"{words}: {accepted.stderr}"
    explained = move.cluster.run(f"gpushare explain -- {option} --gres=gpu:1", "alice")
    assert f"'{name}'" in explained.stdout and f"try: {words}" in explained.stdout, explained.stdout + explained.stderr
    assert move.refusals()[-1].isascii()


def test_gpushare_conf_can_name_what_has_a_blank(move):
    conf = move.cluster.ok("cat /etc/slurm/gpushare.conf") + "\n"

    def refused(qos):
        words = ["sbatch", "-H", "-o", "/dev/null", f"--qos={qos}", "--gres=gpu:1", "--wrap", "true"]
        return "GS101" in move.cluster.run(words, "alice").stderr

    try:
        rules = conf.replace("GovernedQOS=auto", 'GovernedQOS="two words",größe')
        move.cluster.write("/etc/slurm/gpushare.conf", rules)
        move.cluster.wait(lambda: not refused(QOS), "the new rules")
        assert refused("two words") and refused("größe") and not refused("a$b;c")
        assert move.cluster.findings("GovernedQOS")[0]["status"] == "ok"
    finally:
        move.cluster.write("/etc/slurm/gpushare.conf", conf)
        move.cluster.wait(lambda: refused(QOS), "the old rules")


def test_a_type_that_slurm_does_not_count_is_named_as_such(move):
    """What the message asks of the administrator is enough, from 23.11 on without a restart."""
    words = ["sbatch", "-H", "-o", "/dev/null", f"--qos={QOS}", "--gres=gpu:l40:1", "--wrap", "true"]
    said = move.cluster.run(words, "alice").stderr
    assert "GS102" in said and "missing in AccountingStorageTRES" in said, said
    move.cluster.ok("sed -i '/^AccountingStorageTRES=/s|$|,gres/gpu:l40|' /etc/slurm/*.conf")
    restart = "scontrol reconfigure" if move.cluster.newer_than("23.11") else "/lab/service restart slurmctld"
    move.cluster.ok(restart, timeout=60)
    move.cluster.wait(lambda: "GS103" in move.cluster.run(words, "alice").stderr, "the type to be counted")
