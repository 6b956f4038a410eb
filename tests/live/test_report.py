# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare report` beside sreport, after jobs of groups that lend: the same to the second. slurmdbd sums full hours,
so the test moves the jobs into the past."""

import json

import pytest
from database import RESERVATIONS, make_older
from lab import TOP
from shares import apply

TEXT = (TOP / "tests/siege/conf-lending/gpushare.conf").read_text()
TYPES = ("gres/gpu:a40", "gres/gpu:h100", "gres/gpu")
START = "--start=now-5hours"
ODD = "a|<script>"
BROKEN = "b\n|c"


def sreport(cluster, report, columns, *conditions):
    hour = int(cluster.ok("date +%s")) // 3600
    text = cluster.ok([
        "sreport", "-nP", "-t", "Seconds", f"--tres={','.join(TYPES)}", "cluster", report,
        f"start=uts{(hour - 5) * 3600}", f"end=uts{hour * 3600}", f"format={columns}", *conditions,
    ])
    # The name of an account may have a line break.
    whole = text.replace(BROKEN, "BROKEN")
    rows = [line.rsplit("|", columns.count(",")) for line in whole.splitlines()]
    return [[BROKEN if column == "BROKEN" else column for column in row] for row in rows]


def gpu_type(tres):
    return tres.removeprefix("gres/gpu").removeprefix(":") or "any"


def report(cluster, *options, status=0):
    result = cluster.run(["env", "TZ=UTC", "gpushare", "report", START, *options], "root")
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status == 0 else result.stderr


@pytest.fixture(scope="module")
def history(lending):
    """Jobs that end, borrow, are preempted, requeued, suspended, one that never starts, and some in accounts that a
    coordinator named and that were deleted; two hours ago."""
    apply(lending, TEXT)
    lending.ok("sacctmgr -i add coordinator account=z names=alice")
    for account in (ODD, BROKEN, "gone"):
        lending.ok(["sacctmgr", "-i", "add", "account", account, "parent=z"], "alice")
        lending.ok(["sacctmgr", "-i", "add", "user", "bob", f"account={account}"])
        job = lending.sbatch("-A", account, "--qos=qos_z", "--gres=gpu:h100:1", script="sleep 1", user="bob")
        lending.finished(job)
    x, x_burst, y = (["-A", qos[4], f"--qos={qos}"] for qos in ("qos_x", "qos_x_burst", "qos_y"))
    lending.ok(["sbatch", "-H", *x, "--gres=gpu:a40:1", "-o", "/dev/null", "--wrap", "true"], "alice")
    borrower = lending.sbatch(*x_burst, "--gres=gpu:a40:8", "-t5", script="sleep 300", user="bob")
    lending.wait_state(borrower, "RUNNING")
    lending.ok("sleep 3")
    owner = lending.sbatch(*y, "--gres=gpu:a40:2,gpu:h100:0", script="sleep 300")
    lending.wait_state(owner, "RUNNING")
    lending.ok(f"scontrol suspend {owner}; sleep 2; scontrol resume {owner}")
    again = lending.sbatch(*x, "--gres=gpu:a40:3", "--requeue", script="sleep 300", user="bob")
    lending.wait_state(again, "RUNNING")
    lending.ok(f"sleep 2; scontrol requeue {again}")
    lending.finished(lending.sbatch(*y, "--gres=gpu:h100:2", script="sleep 2", user="bob"))
    lending.ok("sacctmgr -i delete account gone")
    lending.cancel_all()
    running = "sacct -anPXD -s R -S now-1hours -E now -o jobid,end"
    lending.wait(lambda: "Unknown" not in lending.ok(running), "slurmdbd to know of every end")
    make_older(lending, 2)
    lending.wait(lambda: sreport(lending, "AccountUtilizationByUser", "Account,Login,TresName,Used"),
                 "slurmdbd to sum the hours")


def test_it_is_equal_to_sreport_to_the_second(lending, history):
    found = json.loads(report(lending, "--json"))
    assert found["differences"] == []
    told = {(account, user, gpu_type(tres)): int(used)
            for account, user, tres, used in sreport(lending, "AccountUtilizationByUser", "Account,Login,TresName,Used")
            if int(used)}
    assert {account for account, *_ in told} >= {"root", "x", "y", ODD, BROKEN, "gone"}
    assert {(one["account"], "", one["gpu_type"]): one["used"] for one in found["accounts"]} \
        == {key: used for key, used in told.items() if not key[1]}
    for account in ("x", "y"):
        of_group = json.loads(report(lending, "--json", f"--account={account}"))
        users = {(one["user"], one["gpu_type"]): one["used"] for one in of_group["groups"][0]["users"]}
        assert users == {(user, of): used for (name, user, of), used in told.items()
                         if name == account and user and of != "any"}
    of_z = json.loads(report(lending, "--json", "--account=z"))
    assert of_z["differences"] == []
    assert [(one["user"], one["used"]) for one in of_z["groups"][0]["users"]] == [("bob", told["z", "", "h100"])]
    fields = ("gpus", "allocated", "down", "planned_down", "idle", "planned", "reported")
    rows = sreport(lending, "Utilization", "TresName,TresCount,Allocated,Down,PlannedDown,Idle,Planned,Reported")
    assert {one["gpu_type"]: [one[field] for field in fields] for one in found["gpus"]} \
        == {gpu_type(tres): [int(number) for number in numbers] for tres, *numbers in rows}
    groups = {one["name"]: one for one in found["groups"]}
    sums = {(name, of["gpu_type"]): of for name, one in groups.items() for of in one["types"]}
    # Everything is owned by a group, or used by jobs of others.
    for of in ("a40", "h100"):
        rest = found["others"].get(of, 0)
        assert sum(one["used"] for (_, known), one in sums.items() if known == of) + rest == told["root", "", of]
    assert all(one["owned"] == one["used"] - one["borrowed"] + one["lent"] + one["idle"] for one in sums.values())
    assert sums["qos_y", "a40"]["lent"] > 0 < sums["qos_x", "a40"]["borrowed"]
    lent = {(loan["qos"], loan["gpu_type"]): loan["used"] for loan in groups["qos_y"]["lent_to"]}
    assert lent["qos_x_burst", "a40"] == sums["qos_y", "a40"]["lent"]
    if lending.newer_than("24.11"):
        columns = "Account,Login,TresName,Used,QOS"
        for qos in ("qos_x", "qos_y", "qos_z"):
            rows = sreport(lending, "AccountUtilizationByUser", columns, f"QosLevel={qos},{qos}_burst")
            of_qos = sum(int(used) for account, _, tres, used, _ in rows if (account, tres) == ("root", "gres/gpu:a40"))
            assert of_qos == sums[qos, "a40"]["used"], qos


def test_a_group_has_a_page_with_its_users_only(lending, history):
    report(lending, "--qos=qos_y", "--html=/lab/out/page.html")
    page = lending.ok("cat /lab/out/page.html")
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>") and "<svg" in page
    assert "qos_x_burst" in page, "who has its GPUs, by group"
    assert "refused" in page.lower() and "not asked" in page
    asked = lending.run(["sbatch", "-A", "y", "--qos=qos_y", "--gres=gpu:1", "--wrap", "true"], "alice")
    assert asked.returncode != 0 and "GS101" in asked.stderr
    log = lending.ok("scontrol show config | sed -n 's/^SlurmctldLogFile *= *//p'").strip()
    # The hour of these lines isn't over yet.
    before = lending.ok("date -d -2hours +%FT%T.000")
    lending.ok(f"sed 's/^[[][^]]*/[{before}/' {log} >/lab/out/older.log")
    for qos, refused in (("qos_y", 1), ("qos_z", 0)):
        found = json.loads(report(lending, "--json", f"--qos={qos}", "--log=/lab/out/older.log"))
        assert found["groups"][0]["refused"] == refused, qos


def test_it_writes_through_no_link(lending, history):
    lending.ok("ln -s /etc/nothing /lab/out/link")
    said = report(lending, "--qos=qos_z", "--html=/lab/out/link", status=2)
    assert said.startswith("gpushare: /lab/out/link: Too many levels of symbolic links")
    assert lending.run(["test", "-e", "/etc/nothing"]).returncode == 1
    report(lending, "--account=z", "--html=/lab/out/odd.html")
    page = lending.ok("cat /lab/out/odd.html")
    assert "a|&lt;script&gt;" in page and "<script" not in page


def test_bad_input_is_one_line(lending, history):
    for option, expected in (
        ("--qos=qos_w", "gpushare: --qos 'qos_w': the database has no such QOS"),
        ("--account=w", "gpushare: --account 'w': cluster lab has no such account"),
        ("--end=2020-01-01T00:30", "gpushare: '2020-01-01T00:30' is not a full hour"),
        ("--log=/nowhere", "gpushare: --log: /nowhere: No such file"),
        ("--html=/nowhere/page", "gpushare: /nowhere/page: No such file"),
    ):
        said = report(lending, option, status=2)
        assert said.startswith(expected) and len(said.splitlines()) == 1, said


def test_idle_reserved_gpus_are_told_as_sreport_has_them(lending, history):
    made = lending.run("scontrol create reservation=night StartTime=now Duration=10 TRES=gres/gpu:a40=2 Accounts=x")
    if not lending.newer_than("24.11"):
        assert made.returncode != 0 and "not supported with reservations" in made.stderr, made
        return
    lending.ok("sleep 3; scontrol delete reservation=night")
    make_older(lending, 2, RESERVATIONS)
    columns, of = "Name,TresName,Idle", ["sreport", "-nP", "-t", "Seconds", f"--tres={','.join(TYPES)}"]
    day = ["start=now-5hours", "end=now", f"format={columns}"]
    rows = lending.wait(lambda: lending.ok([*of, "reservation", "Utilization", *day]).splitlines(), "sreport's sum")
    told = {gpu_type(tres): int(idle) for _, tres, idle in (row.split("|") for row in rows)}
    assert told["a40"] >= 6 and told["any"] == told["a40"], told
    found = json.loads(report(lending, "--json"))
    assert {one["gpu_type"]: one["idle"] for one in found["reserved"]} == told
    differ = {(one["account"], one["gpu_type"]): one["sreport"] - one["jobs"] for one in found["differences"]}
    assert differ == {(account, of): told["a40"] for account in ("root", "x") for of in ("a40", "any")}
    assert "note: reservation night: sreport counts its 0.00" in report(lending)


def test_a_group_appears_once_and_who_sees_too_little_is_told(lending, history):
    lending.ok("sacctmgr -i modify account y set GrpTRES=gres/gpu:a40=2")
    try:
        found = json.loads(report(lending, "--json"))
        assert [one["name"] for one in found["groups"]] == ["qos_x", "qos_y", "qos_z"]
        assert any("account y has limits on GPUs too: it is shown as qos_y" in one for one in found["remarks"])
    finally:
        lending.ok("sacctmgr -i modify account y set GrpTRES=gres/gpu:a40=-1")
    conf = "/etc/slurm/slurmdbd.conf"
    more = f"echo PrivateData=usage >>{conf}"
    lending.ok(f"cp -p {conf} /lab/out/ && {more} && /lab/service restart slurmdbd", timeout=90)
    try:
        said = lending.run(["gpushare", "report", START], "alice")
        if lending.newer_than("25.11"):
            assert "if slurmdbd.conf has PrivateData, which this Slurm release doesn't show" in said.stdout, said
        else:
            assert said.returncode == 2 and "has PrivateData=usage, so 'alice' sees only some" in said.stderr, said
        lending.ok("/lab/service stop slurmdbd", timeout=90)
        for command in (["report"], ["mine"], ["explain", "--", "--gres=gpu:a40:1"]):
            said = lending.run(["gpushare", *command], "alice")
            assert said.returncode == 2 and said.stderr.endswith("slurmdbd does not answer; is it running?\n"), said
            assert said.stderr.count("\n") == 1, said
    finally:
        lending.ok(f"cp -p /lab/out/slurmdbd.conf {conf} && /lab/service restart slurmdbd", timeout=90)
