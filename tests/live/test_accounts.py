# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits on a type of GPU that are an account's and no QOS's:
no request without a type runs under one, typed ones run up to it."""

import re

import pytest

# By a name, the options that lead under a limit of one a40, who submits, and whose limit it is.
PLACES = {
    "account": (["-A", "limited"], "alice", "account 'limited'"),
    "default-account": ([], "bob", "account 'limited'"),
    "account-above": (["-A", "child"], "alice", "account 'dept'"),
    "own": (["-A", "mine"], "alice", "your association with account 'mine'"),
    "inherited": (["-A", "heirs"], "alice", "your association with account 'heirs'"),
    "partition": (["-A", "parted", "-p", "q"], "alice", "your association with account 'parted'"),
    "minutes": (["-A", "minutes"], "alice", "account 'minutes'"),
}
# What Slurm would give GPUs that no limit on a40 counts.
FORMS = {
    "gres": ("GS101", ["--gres=gpu:2"]),
    "gpus": ("GS101", ["--gpus=2"]),
    "gpus-per-task": ("GS101", ["-n2", "--gpus-per-task=1"]),
    "look-alike": ("GS102", ["--gres=gpu:mAA0zxtUzzzz:2"]),
    "ntasks-per-gpu": ("GS105", ["-n2", "--ntasks-per-gpu=1"]),
}


def submit(cluster, options, user="alice"):
    return cluster.run(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 60"], user)


def accepted(cluster, options, user="alice"):
    result = submit(cluster, options, user)
    assert result.returncode == 0, f"{options}: {result.stderr}"
    return result.stdout.strip()


def a40s(cluster):
    """The GPUs that run, by what slurmctld says that the node gave."""
    used = re.search(r"GresUsed=gpu:a40:(\d+)", cluster.ok("scontrol -d -o show node"))
    return int(used.group(1))


def is_refused(cluster, change, job, before):
    """An update changes nothing, and where a message can be given it has a number."""
    seen = len(cluster.log("slurmctld"))
    result = cluster.run(f"scontrol update job={job} {change}", "alice")
    assert result.returncode != 0, f"{change} was accepted"
    number = re.search(r"refused (GS\d+)", cluster.log("slurmctld")[seen:])
    assert number, f"{change}: {result.stderr}"
    now = cluster.fields(job)
    assert {key: now.get(key) for key in before} == before, change
    return number.group(1)


@pytest.fixture(scope="module")
def prefix(accounts):
    return "gres/" if accounts.newer_than("23.11") else "gres:"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_untyped_under_a_limit_of_an_account(accounts, place, form):
    where, user, whose = PLACES[place]
    number, options = FORMS[form]
    refused = submit(accounts, [*where, *options], user)
    assert refused.returncode != 0 and number in refused.stderr, refused.stdout + refused.stderr
    assert f"gpushare: {whose} " in refused.stderr, refused.stderr
    assert not accounts.ok(["squeue", "-h"])
    advice = re.search(r"try: (.*)", refused.stderr)
    if advice:
        words = advice.group(1).split()
        others = [word for word in [*where, *options] if not word.startswith(("--gres", "--gpus", "--ntasks-per"))]
        accepted(accounts, ["-H", *others, *words], user)
    accounts.cancel_all()


@pytest.mark.parametrize("place", [place for place in PLACES if place != "minutes"])
def test_a_typed_job_runs_up_to_the_limit(accounts, place):
    accounts.cancel_all()
    where, user, _ = PLACES[place]
    first = accepted(accounts, [*where, "--gres=gpu:a40:1"], user)
    accounts.wait_state(first, "RUNNING")
    # Limits on single jobs let any number of them run.
    of_a_job = place in ("own", "inherited")
    second = accepted(accounts, [*where, f"--gres=gpu:a40:{2 if of_a_job else 1}"], user)
    reason = "AssocMaxGRESPerJob" if of_a_job else "AssocGrpGRES"
    accounts.wait(lambda: accounts.fields(second)["Reason"] == reason, f"the second job to wait for {reason}")
    assert a40s(accounts) == 1
    accounts.cancel_all()


def test_elsewhere_nothing_changes(accounts):
    accounts.cancel_all()
    for options in (["-A", "free"], ["-A", "parted"], ["-A", "parted", "-p", "p"], []):
        job = accepted(accounts, [*options, "--gres=gpu:2"])
        accounts.wait_state(job, "RUNNING")
        accounts.cancel_all()


def test_a_reservation_may_lead_into_the_partition(accounts):
    """Which partition it has isn't seen, so the limits of all associations with that account count."""
    accounts.cancel_all()
    later = "starttime=now+10days duration=60 users=alice nodecnt=1 flags=overlap"
    accounts.ok(f"scontrol create reservation=in_q partition=q {later}")
    where = ["-H", "-A", "parted", "--reservation=in_q"]
    refused = submit(accounts, [*where, "--gres=gpu:2"])
    assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stdout + refused.stderr
    accepted(accounts, [*where, "--gres=gpu:a40:1"])
    accounts.cancel_all()
    accounts.ok("scontrol delete reservation=in_q")


def test_moves_under_an_account(accounts, prefix):
    """Into the account, into the partition of an association with a limit, and more GPUs for a job that is there."""
    accounts.cancel_all()
    untyped = accepted(accounts, ["-H", "-A", "free", "--gres=gpu:4"])
    typed = accepted(accounts, ["-H", "-A", "free", "--gres=gpu:a40:4"])
    bare = accepted(accounts, ["-H", "-A", "free"])
    # 22.05 keeps parts of the old request, so nothing is moved there.
    moved = "GS110" if accounts.newer_than("23.02") else "GS115"
    for job, change, number in [
        (untyped, "account=limited", "GS115"),
        (untyped, "account=child", "GS115"),
        (untyped, "account=mine", "GS115"),
        (untyped, "account=parted partition=q", "GS115"),
        (typed, "account=limited", moved),
        (bare, "account=limited", "GS115"),
        (bare, f"account=limited TresPerNode={prefix}gpu:a40:2", "GS115"),
        (untyped, f"account=limited TresPerNode={prefix}gpu:a40:2", "GS115"),
        (typed, f"account=limited TresPerNode={prefix}gpu:mAA0zxtUzzzz:2", "GS102"),
    ]:
        assert is_refused(accounts, change, job, {"Account": "free", "Partition": "p"}) == number, change
    parted = accepted(accounts, ["-H", "-A", "parted", "--gres=gpu:4"])
    assert is_refused(accounts, "partition=q", parted, {"Partition": "p"}) == "GS115"
    there = accepted(accounts, ["-H", "-A", "limited", "--gres=gpu:a40:1"])
    assert is_refused(accounts, f"TresPerNode={prefix}gpu:4", there, {"Account": "limited"}) == "GS101"
    # Out of it, and without any change, as before.
    accounts.ok(f"scontrol update job={there} priority=7; scontrol hold {there}")
    accounts.ok(f"scontrol update job={there} account=free", "alice")
    accounts.cancel_all()


def test_a_job_has_no_more_nodes_than_gpus(accounts):
    """Slurm counts what is asked for the whole job, and gives every node one."""
    accounts.cancel_all()
    job = accepted(accounts, ["-H", "-A", "limited", "--gpus=a40:1"])
    assert "NumNodes=1-1" in accounts.ok(["scontrol", "-o", "show", "job", job])
    accounts.cancel_all()


def test_a_move_with_its_gpus_named_again_runs_up_to_the_limit(accounts, prefix):
    if not accounts.newer_than("23.02"):
        pytest.skip("22.05 keeps parts of the old request: such a move is no sure way there")
    accounts.cancel_all()
    jobs = [accepted(accounts, ["-H", "-A", "free", "--gres=gpu:a40:4"]) for _ in range(2)]
    for job in jobs:
        accounts.ok(f"scontrol update job={job} account=limited TresPerNode={prefix}gpu:a40:1", "alice")
        accounts.ok(f"scontrol release {job}")
    accounts.wait_state(jobs[0], "RUNNING")
    accounts.wait(lambda: accounts.fields(jobs[1])["Reason"] == "AssocGrpGRES", "the second to wait")
    assert a40s(accounts) == 1
    accounts.cancel_all()


def test_without_the_plugin_more_runs_than_the_account_has(plain):
    plain.cancel_all()
    plain.ok("sacctmgr -i modify account acct set GrpTRES=gres/gpu:a40=1")
    job = plain.sbatch("--gres=gpu:4")
    plain.wait_state(job, "RUNNING")
    assert a40s(plain) == 4
    plain.cancel_all()


def test_check_lists_them(accounts):
    said = accounts.run(["gpushare", "check", "--all"]).stdout
    line = re.search(r"^ok +GovernedAccounts +(.*)$", said, re.MULTILINE)
    assert line, said
    for name in ("limited", "dept", "alice in mine", "heirs", "alice in parted", "minutes"):
        assert name in line.group(1), line.group(1)
    assert "free" not in line.group(1) and "alice in heirs" not in line.group(1), line.group(1)
