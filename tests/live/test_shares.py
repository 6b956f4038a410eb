# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare qos`: gpushare.conf's contributors in Slurm's database, made, kept, mended and removed."""

import json
import os
import re

import pytest
from lab import EXAMPLES
from shares import (
    FILE, NOTHING, apply, apply_until_heard, field, limits_in_slurmctld, may_use, mend, plan, qos, qoses, transactions,
    write,
)
from terminal import Terminal

MINE = "QOS=qos_mine Account=lafferty GPUs=a40:4 CPUs=32 Mem=975G Priority=1000 Preempt=normal GraceTime=90\n"


@pytest.fixture(autouse=True)
def clean(shared):
    """Every test ends with no QOS of ours and no job."""
    yield
    shared.run(["/lab/service", "start", "slurmdbd"])
    shared.cancel_all()
    apply_until_heard(shared, "# nobody\n", "--prune")
    assert qoses(shared) == {"normal"}


def lines(text):
    """Without the counters of `apply`."""
    return [re.sub(r"^\d+/\d+ ", "", line) for line in text.splitlines()]


def test_an_empty_database_gets_all_of_the_example(shared):
    before = transactions(shared)
    planned = qos(shared, "plan", "--detailed-exitcode", conf=None)
    assert planned.returncode == 1, planned.stderr
    assert transactions(shared) == before and qoses(shared) == {"normal"}, "a plan changes nothing"

    applied = qos(shared, "apply", conf=None)
    assert applied.returncode == 0, applied.stderr
    assert lines(applied.stdout) == lines(planned.stdout)[:-1], "what was planned is done"
    for line in ("+ account saxena", "+ qos qos_saxena", "+ qos qos_dijk  Preempt normal",
                 "+ qos qos_lafferty for account lafferty"):
        assert line in lines(applied.stdout), applied.stdout
    assert "+ account lafferty" not in lines(applied.stdout), "it is there"
    assert sorted(field(shared, "qos_saxena", "GrpTRES").split(",")) == [
        "cpu=160", "gres/gpu:a100=20", "gres/gpu:a40=0", "gres/gpu:h100=0", "gres/gpu=20", "mem=5000G"]
    assert field(shared, "normal", "GraceTime,PreemptMode") == "01:00:00|requeue"
    assert may_use(shared, "alice", "lafferty") == {"normal", "qos_lafferty"}
    assert may_use(shared, "bob", "yildirim") == {"normal", "qos_yildirim"}

    after = transactions(shared)
    assert qos(shared, "apply", conf=None).stdout == NOTHING
    assert qos(shared, "plan", "--detailed-exitcode", conf=None).returncode == 0
    assert transactions(shared) == after


def test_an_account_with_bars_in_its_name_is_no_other_account(shared):
    """A coordinator may name one so; sacctmgr puts bars between columns."""
    apply(shared, MINE)
    for name, parent in (("lafferty|x", "root"), ("y|lafferty", "lafferty|x")):
        shared.ok(["sacctmgr", "-i", "add", "account", name, f"parent={parent}"])
        shared.ok(["sacctmgr", "-i", "add", "user", "bob", f"account={name}"])
    try:
        assert plan(shared, MINE) == NOTHING
        shared.ok(["sacctmgr", "-i", "modify", "account", "y|lafferty", "set", "qos+=qos_mine"])
        planned = plan(shared, MINE)
        assert "account y|lafferty" in planned and "lafferty|x" not in planned, planned
        apply(shared, MINE)
        assert plan(shared, MINE) == NOTHING
    finally:
        for name in ("y|lafferty", "lafferty|x"):
            shared.ok(["sacctmgr", "-i", "delete", "account", name])


def test_one_changed_line_is_one_change(shared):
    apply(shared, MINE)
    before = transactions(shared)
    said = apply(shared, MINE.replace("a40:4 CPUs=32", "a40:8 CPUs=64"))
    assert lines(said) == [
        "~ qos qos_mine  GrpTRES cpu: 32 -> 64",
        "~ qos qos_mine  GrpTRES gres/gpu: 4 -> 8",
        "~ qos qos_mine  GrpTRES gres/gpu:a40: 4 -> 8",
    ]
    assert transactions(shared) == before + 1


# By hand: sacctmgr's words, and what the plan says of it.
DRIFT = [
    ("modify qos where name=qos_mine set GrpTRES=cpu=16,node=2",
     ["GrpTRES cpu: 16 -> 32", "GrpTRES node: 2 -> none"]),
    ("modify qos where name=qos_mine set GrpTRES=mem=-1", ["GrpTRES mem: none -> 975G"]),
    ("modify qos where name=qos_mine set MaxWall=60 MaxJobsPU=3",
     ["MaxWallDurationPerJob: 01:00:00 -> none", "MaxJobsPerUser: 3 -> none"]),
    ("modify qos where name=qos_mine set Flags=NoDecay,NoReserve", ["Flags: NoDecay,NoReserve -> DenyOnLimit"]),
    ("modify qos where name=qos_mine set Flags=-1", ["Flags: none -> DenyOnLimit"]),
    ("modify qos where name=qos_mine set Preempt=", ["Preempt: none -> normal"]),
    ("modify qos where name=qos_mine set Preempt+=qos_other", ["Preempt: normal,qos_other -> normal"]),
    ("modify qos where name=qos_mine set Priority=0 GraceTime=0", ["Priority: 0 -> 1000", "GraceTime: 0 -> 00:01:30"]),
    ("modify qos where name=qos_mine set UsageFactor=0.5 PreemptMode=cancel",
     ["UsageFactor: 0.5 -> 1", "PreemptMode: cancel -> cluster"]),
    ("modify qos where name=qos_mine set Description=theirs", ["Description: 'theirs' -> 'gpushare@lab'"]),
]


def test_drift_by_hand_is_shown_and_mended(shared):
    text = MINE.replace("\n", " Flags=DenyOnLimit\n") + "QOS=qos_other\n"
    apply(shared, text)
    for words, expected in DRIFT:
        shared.ok(["sacctmgr", "-i", *words.split()])
        wanted = sorted(f"~ qos qos_mine  {line}" for line in expected)
        assert sorted(lines(plan(shared, text))[:-1]) == wanted, words
        assert sorted(lines(apply(shared, text))) == wanted, words
        assert plan(shared, text) == NOTHING, words
    # Who may use it.
    for words, expected in [
        ("modify account where name=yildirim set qos+=qos_mine", "- qos qos_mine for account yildirim"),
        ("modify user where name=bob account=yildirim set qos+=qos_mine",
         "- qos qos_mine for user bob in account yildirim"),
        ("modify user where name=alice account=lafferty set qos-=qos_mine",
         "+ qos qos_mine for user alice in account lafferty"),
        ("modify account where name=lafferty set qos=normal", "+ qos qos_mine for account lafferty"),
    ]:
        shared.ok(["sacctmgr", "-i", *words.split()])
        assert lines(plan(shared, text))[0] == expected, words
        apply(shared, text)
        assert plan(shared, text) == NOTHING, words
        assert "qos_mine" in may_use(shared, "alice", "lafferty")
        assert "qos_mine" not in may_use(shared, "bob", "yildirim")


# What the file says, the column of sacctmgr, and what that shows: row by row of the page of 2009.
ROWS = {
    "grp_cpus": ("GrpTRES", "cpu=64"), "grp_cpu_mins": ("GrpTRESMins", "cpu=100000"),
    "grp_cpu_run": ("GrpTRESRunMins", "cpu=5000"), "grp_jobs": ("GrpJobs", "10"), "grp_memory": ("GrpTRES", "mem=975G"),
    "grp_nodes": ("GrpTRES", "node=3"), "grp_submit": ("GrpSubmit", "20"), "grp_wall": ("GrpWall", "30-00:00:00"),
    "job_cpus": ("MaxTRES", "cpu=16"), "job_cpu_mins": ("MaxTRESMins", "cpu=2000"), "job_nodes": ("MaxTRES", "node=2"),
    "job_wall": ("MaxWall", "12:00:00"), "user_cpus": ("MaxTRESPU", "cpu=32"), "user_jobs": ("MaxJobsPU", "5"),
    "user_nodes": ("MaxTRESPU", "node=2"), "user_submit": ("MaxSubmitPU", "8"),
    "deny": ("Flags,MaxTRES,GrpTRES", "DenyOnLimit|cpu=16|node=3"),
    "threshold": ("Flags,UsageThres", "EnforceUsageThreshold|0.300000"),
    "standby": ("Flags", "NoReserve"), "max_nodes": ("Flags", "PartitionMaxNodes"),
    "min_nodes": ("Flags", "PartitionMinNodes"), "time_limit": ("Flags", "PartitionTimeLimit"),
    "reservation": ("Flags", "RequiresReservation"), "grace": ("GraceTime", "00:01:00"),
    "half": ("UsageFactor", "0.500000"), "first": ("Priority", "1000"), "preempts": ("Preempt", "grace,standby"),
}
# What slurmctld has of them in memory; it doesn't show the others.
IN_MEMORY = {
    "grp_cpus": "GrpTRES=cpu=64(0)", "grp_cpu_mins": "GrpTRESMins=cpu=100000(0)",
    "grp_cpu_run": "GrpTRESRunMins=cpu=5000(0)", "grp_jobs": "GrpJobs=10(0)", "grp_memory": "mem=998400(0)",
    "grp_nodes": "node=3(0)", "grp_submit": "GrpSubmitJobs=20(0)", "grp_wall": "GrpWall=43200(0.00)",
    "job_cpus": "MaxTRESPJ=cpu=16", "job_cpu_mins": "MaxTRESMinsPJ=cpu=2000", "job_nodes": "MaxTRESPJ=node=2",
    "job_wall": "MaxWallPJ=720", "first": "Priority=1000",
}


def test_every_row_of_the_page_of_2009(shared):
    text = (EXAMPLES / "qos-2009/gpushare.conf").read_text()
    assert set(re.findall(r"^QOS=(\w+)", text, re.M)) == set(ROWS)
    write(shared, text)
    applied = qos(shared, "apply")
    assert applied.returncode == 0, applied.stderr
    for old, today in [
        ("GrpCpus", "GrpTRES=cpu"),
        ("GrpMemory", "GrpTRES=mem"),
        ("MaxNodesPerUser", "MaxTRESPerUser=node"),
    ]:
        assert f": {old} is now written {today}\n" in applied.stderr
    for name, (column, expected) in ROWS.items():
        assert field(shared, name, column) == expected, name
    for name, expected in IN_MEMORY.items():
        assert expected in limits_in_slurmctld(shared, name), name
    assert plan(shared, text) == NOTHING


EVERYTHING = (
    "QOS=qos_all GrpTRES=cpu=1,mem=3G,node=4,gres/gpu:h100=5 GrpTRESMins=cpu=2,mem=5000 GrpTRESRunMins=cpu=3 GrpJobs=4 "
    "GrpJobsAccrue=5 GrpSubmitJobs=6 GrpWall=7 MaxTRESPerJob=cpu=8 MaxTRESPerNode=cpu=9 MaxTRESMinsPerJob=cpu=10 "
    "MaxWallDurationPerJob=1-2:3:4 MaxTRESPerUser=cpu=12 MaxJobsPerUser=13 MaxJobsAccruePerUser=14 "
    "MaxSubmitJobsPerUser=15 "
    "MaxTRESRunMinsPerUser=cpu=16 MaxTRESPerAccount=cpu=17 MaxJobsPerAccount=18 MaxJobsAccruePerAccount=19 "
    "MaxSubmitJobsPerAccount=20 MaxTRESRunMinsPerAccount=cpu=21 MinTRESPerJob=cpu=22 MinPrioThreshold=23 Priority=24 "
    "Preempt=normal PreemptMode=requeue,within PreemptExemptTime=1:00 GraceTime=1:00:00 Flags=DenyOnLimit,"
    "EnforceUsageThreshold,NoDecay,NoReserve,OverPartQOS,PartitionMaxNodes,PartitionMinNodes,PartitionTimeLimit,"
    "RequiresReservation,UsageFactorSafe UsageFactor=0.123456 UsageThreshold=0.5 LimitFactor=2.5\n"
)


def test_every_field_is_set_read_back_and_unset(shared):
    apply(shared, EVERYTHING)
    assert plan(shared, EVERYTHING) == NOTHING
    assert field(shared, "qos_all", "GraceTime,MaxWall,PreemptExemptTime") == "01:00:00|1-02:04:00|00:01:00"
    bare = apply(shared, "QOS=qos_all\n")
    assert len(lines(bare)) == len(EVERYTHING.split()) - 1 + 6, "each of them is one less, and of TRES each; two were 0"
    assert plan(shared, "QOS=qos_all\n") == NOTHING
    shared.ok(["sacctmgr", "-i", "add", "qos", "bare"])
    show = ["sacctmgr", "-nP", "show", "qos", "where", "name=qos_all"]
    assert shared.ok(show) == shared.ok([*show[:-1], "name=bare"]).replace("bare|", "qos_all|", 1)
    shared.ok(["sacctmgr", "-i", "delete", "qos", "bare"])


def test_members_are_added_and_dropped(shared):
    text = "QOS=qos_some Account=group Users={} GPUs=h100:1\n"
    said = lines(apply(shared, text.format("alice,bob")))
    assert said[-3:] == ["+ user alice in account group", "+ user bob in account group",
                         "+ qos qos_some for user alice in account group"] or "+ user bob in account group" in said
    assert "qos_some" in may_use(shared, "alice", "group") and "qos_some" in may_use(shared, "bob", "group")
    assert "qos_some" not in may_use(shared, "alice", "lafferty")
    assert lines(apply(shared, text.format("bob"))) == ["- qos qos_some for user alice in account group"]
    assert "qos_some" not in may_use(shared, "alice", "group")
    everybody = text.replace("Account=group Users={}", "Account=*")
    apply(shared, everybody)
    assert "qos_some" in may_use(shared, "alice", "lafferty") and "qos_some" in may_use(shared, "bob", "yildirim")
    assert plan(shared, everybody) == NOTHING
    shared.ok("sacctmgr -i delete user where account=group; sacctmgr -i delete account group")


def test_what_is_somebodys_default_stays_until_it_is_not(shared):
    apply(shared, MINE)
    shared.ok("sacctmgr -i modify user where name=alice account=lafferty set DefaultQOS=qos_mine")
    for text, whose in [(MINE.replace("=lafferty", "=yildirim"), " with account lafferty"), ("# nobody\n", "")]:
        write(shared, text)
        result = qos(shared, "apply", "--prune")
        assert result.returncode == 1, result.stdout
        line = next(line for line in result.stdout.splitlines() if line.startswith("!"))
        assert line.startswith(
            f"! qos qos_mine stays{whose}: it is the default of user alice in account lafferty; first run: "
        )
        assert "qos_mine" in may_use(shared, "alice", "lafferty")
    command = line.split("first run: ")[1].split()
    shared.ok([command[0], "-i", *command[1:]])
    assert "- qos qos_mine" in lines(apply(shared, "# nobody\n", "--prune"))


# Stands before sacctmgr in PATH: at the call that is in /lab/out/bin/stop-at slurmdbd is stopped.
STOPPER = """#!/bin/bash
if [[ $1 == -i ]]; then
    read -r left </lab/out/bin/stop-at
    echo $((left - 1)) >/lab/out/bin/stop-at
    ((left != 0)) || /lab/service stop slurmdbd >/dev/null
fi
exec /usr/bin/sacctmgr "$@"
"""


def test_slurmdbd_goes_down_half_way_and_a_second_run_finishes(shared):
    write(shared, STOPPER, "/lab/out/stopper")
    shared.ok("mkdir -p /lab/out/bin; install -m 755 /lab/out/stopper /lab/out/bin/sacctmgr")
    text = MINE + "QOS=qos_more Account=half{0} Users=alice,bob GPUs=h100:2 Preempt=qos_mine\nQOS=qos_free Account=*\n"
    for done in range(8):
        file = text.format(done)
        write(shared, file)
        shared.ok(f"echo {done} >/lab/out/bin/stop-at")
        stopped = qos(shared, "apply", path="/lab/out/bin:")
        assert stopped.returncode == 1, stopped.stdout
        assert len(stopped.stderr.splitlines()) == 1, stopped.stderr
        what = r"gpushare: stopped at '.+'.*: slurmdbd does not answer; is it running\?; "
        assert re.match(what + rf"done: {done} of \d+ steps; run this again to do the others$", stopped.stderr)
        assert len({line.split("/")[0] for line in stopped.stdout.splitlines()}) == done
        why = "failed (exit status: 1): slurmdbd does not answer; is it running?\n"
        assert qos(shared, "plan").stderr.endswith(why)
        shared.ok(["/lab/service", "start", "slurmdbd"])
        assert apply_until_heard(shared, file) != NOTHING
        assert plan(shared, file) == NOTHING
        assert {"qos_mine", "qos_more", "qos_free"} <= may_use(shared, "alice", f"half{done}") | may_use(
            shared, "alice", "lafferty")
        apply_until_heard(shared, "# nobody\n", "--prune")


def test_what_slurmctld_missed_while_it_had_no_slurmdbd_is_said(shared):
    """A QOS that is removed and made again meanwhile is there twice, and its users are refused."""
    apply(shared, MINE)
    daemon = shared.ok("cat /run/slurm/slurmctld.pid")
    shared.ok(f"kill -STOP {daemon}")
    try:
        # 22.05's slurmdbd knows from its database where slurmctld is, and waits for an answer.
        shared.ok("/lab/service restart slurmdbd && sacctmgr -i delete qos qos_mine", timeout=120)
    finally:
        shared.ok(f"kill -CONT {daemon}")
    result = qos(shared, "apply")
    assert "+ qos qos_mine" in "\n".join(lines(result.stdout)), result.stdout
    if shared.newer_than("23.02"):
        missed = "slurmctld missed changes while it could not reach slurmdbd: it has an older 'qos_mine'"
        assert result.returncode == 1
        assert result.stderr.startswith(f"gpushare: the database matches the file, but {missed}"), result.stderr
        planned = plan(shared, MINE)
        assert planned.startswith(f"{NOTHING}! {missed}") and "scontrol reconfigure" in planned, planned
        checked = shared.run(["gpushare", "check", "--conf", FILE])
        assert checked.returncode == 1 and "WRONG  QOS" in checked.stdout and missed in checked.stdout, checked.stdout
        mend(shared)
    else:
        # It reads all of them again.
        assert result.returncode == 0, result.stderr
    assert plan(shared, MINE) == NOTHING
    shared.sbatch("--qos=qos_mine", "--gres=gpu:a40:1")


def test_only_prune_removes_and_not_what_a_job_uses(shared):
    both = MINE + "QOS=qos_gone Account=lafferty GPUs=a40:1\n"
    apply(shared, both)
    shared.ok(
        "sacctmgr -i add qos by_hand; sacctmgr -i modify user where name=bob account=yildirim set "
        "qos=normal,qos_gone,by_hand"
    )
    for words in (["plan"], ["apply"]):
        assert qos_gone(shared, *words) == "! qos qos_gone is no longer in the file; --prune removes it"
    assert {"qos_gone", "by_hand"} <= qoses(shared)

    job = shared.sbatch("-Alafferty", "--qos=qos_gone", "--gres=gpu:a40:1")
    write(shared, MINE)
    refused = qos(shared, "apply", "--prune")
    assert refused.returncode == 1
    assert "! qos qos_gone is no longer in the file, but has 1 job and stays\n" in refused.stdout
    assert refused.stderr == "gpushare: one thing was not removed, see above; run this again when it can be removed\n"
    assert "qos_gone" in qoses(shared)

    shared.ok(["scancel", job])
    shared.wait(lambda: not shared.ok(["squeue", "-h"]), "an empty queue")
    assert "- qos qos_gone" in lines(apply(shared, MINE, "--prune"))
    assert qoses(shared) == {"normal", "qos_mine", "by_hand"}, "only what bears our mark"
    # 22.05 loses the neighbours of a deleted QOS, unless it is taken out of each list before.
    assert may_use(shared, "bob", "yildirim") == {"normal", "by_hand"}
    assert may_use(shared, "alice", "lafferty") == {"normal", "qos_mine"}
    assert plan(shared, MINE) == NOTHING
    shared.ok("sacctmgr -i modify user where name=bob account=yildirim set qos=; sacctmgr -i delete qos by_hand")


def qos_gone(cluster, *words):
    write(cluster, MINE)
    return next(line for line in qos(cluster, *words).stdout.splitlines() if "qos_gone" in line and line[0] == "!")


AT = f"gpushare: /lab/out/gpushare.conf: line"
BAD = [
    ("QOS=q GPUs=v100:1", f"{AT} 1: no node has a GPU of type 'v100'; there are a100, a40, h100"),
    ("#\nQOS=q GPUs=h100:13", f"{AT} 2: h100:13 is more than the cluster's 12"),
    ("QOS=q CPUs=1\n\nQOS=Q CPUs=2", f"{AT} 3: the owner or limits of QOS 'q' are already in line 1"),
    ("QOS=q Users=alice", f"{AT} 1: Users needs one Account"),
    ("QOS=q Account=lafferty Users=nobody-here", f"{AT} 1: this system has no user 'nobody-here'"),
    ("QOS=q MaxTRESPerUser=gres/mps=4", f"{AT} 1: gres/mps is not a TRES that this cluster counts; add it to "
                                           "AccountingStorageTRES in slurm.conf and restart slurmctld"),
    ("QOS=q Preempt=nonesuch",
     f"{AT} 1: Preempt names QOS 'nonesuch', which is neither in this file nor in Slurm's database"),
    ("QOS='q' CPUs=1", f"{AT} 1: QOS can't be '\\'q\\''; allowed is the name of one QOS"),
    ("QOS=my qos", f"{AT} 1: 'qos' is not of the form Key=Value"),
    ("QOS=a,b CPUs=1", f"{AT} 1: QOS can't be 'a,b'; allowed is the name of one QOS"),
    ("QOS=q Account=a;reboot", f"{AT} 1: Account can't be 'a;reboot'; allowed is * or names"),
    ("QOS=q GrpJobs=many", f"{AT} 1: GrpJobs can't be 'many'; allowed is a whole number"),
    ("QOS=q GrpFish=4", f"{AT} 1: unknown key 'GrpFish' here; gpushare.conf(5) lists the keys"),
]


def test_bad_input_is_one_line_and_changes_nothing(shared):
    before = transactions(shared)
    for text, expected in BAD:
        write(shared, f"{text}\n")
        for verb in ("plan", "apply"):
            result = qos(shared, verb)
            assert result.returncode == 2 and result.stdout == "", text
            assert result.stderr.splitlines()[0].startswith(expected), result.stderr
    write(shared, "QOS=q GPUs=h100:13,v100:2\n")
    assert qos(shared, "plan").stderr.splitlines()[-1] == (
        "gpushare: /lab/out/gpushare.conf has 2 mistakes, see above; nothing was changed")
    assert qos(shared, "plan", conf="/none").stderr == "gpushare: /none: there is no such file\n"
    assert transactions(shared) == before
    oversold = "QOS=a Account=lafferty GPUs=h100:12\nQOS=b Account=lafferty GPUs=h100:2\n"
    write(shared, oversold)
    result = qos(shared, "apply")
    assert result.returncode == 0, "sites sell more than they have on purpose"
    assert result.stderr == f"{AT} 2: warning: with h100:2 the QOSes add up to 14 h100, but the cluster has 12\n"


def test_slurmctld_keeps_its_rules_when_a_line_is_broken(shared):
    path = "/etc/slurm/gpushare.conf"
    good = shared.ok(["cat", path])
    line = len(good.splitlines()) + 1
    read = shared.log("slurmctld").count(f"{path} read again")

    def said(expected):
        # It looks when there is something to check.
        shared.run(["sbatch", "--test-only", "--gres=gpu:a40:1", "--wrap", "true"], "alice")
        return shared.log("slurmctld").count(f"{path}{expected}")

    try:
        write(shared, good + "\nQOS=q Requeue=perhaps\n", path)
        broken = f": line {line}: Requeue can't be 'perhaps'; allowed is yes or no; the last good rules stay in force"
        shared.wait(lambda: said(broken) == 1, "slurmctld to find the mistake")
        # A setting of the database is the command's matter.
        write(shared, good + "\nQOS=q GPUs=many\n", path)
        shared.wait(lambda: said(" read again") == read + 1, "slurmctld to take the rules")
        assert f"line {line}: GPUs can't be 'many'" in shared.run(["gpushare", "check", "--all"]).stdout
    finally:
        write(shared, good + "\n", path)


def test_nothing_is_applied_unasked(shared):
    apply(shared, MINE)
    less = MINE.replace("a40:4", "a40:3").replace("Account=lafferty", "Account=lafferty Users=alice")
    write(shared, less)
    before = transactions(shared)
    command = ["gpushare", "qos", "apply", "--conf", FILE]
    refused = shared.run(command, stdin="")
    assert (refused.returncode, refused.stdout) == (2, "") and "--immediate" in refused.stderr, refused
    asked = shared.inside("env", "TERM=xterm", *command, user="root")
    for answer, status in (("n\r", 1), ("\r", 1), ("y\r", 0)):
        assert transactions(shared) == before
        with Terminal(asked, rows=50, columns=120) as terminal:
            terminal.wait(lambda: "Apply these changes? (y/N)" in terminal.text(), "the question")
            shown = terminal.text().replace("\r", "")
            assert "\nThis removes:\n- qos qos_mine for account lafferty\n" in shown, shown
            terminal.type(answer)
            assert os.WEXITSTATUS(terminal.wait_end()) == status, terminal.text()
    assert "gres/gpu:a40=3" in field(shared, "qos_mine", "GrpTRES").split(",")
    # There is nothing to ask.
    assert shared.ok(command) == NOTHING.strip()


def test_show_has_what_the_database_has(shared):
    write(shared, MINE)
    apply_until_heard(shared, "# nobody\n", "--prune")
    write(shared, MINE)
    shown = qos(shared, "show", user="alice").stdout
    assert "    missing  not in Slurm's database yet: gpushare qos apply\n" in shown and "quota" not in shown, shown
    assert "+ qos qos_mine" in [
        f"+ {line['what']}" for line in json.loads(qos(shared, "plan", "--json").stdout)["changes"]
    ]
    apply(shared, MINE)
    [told] = json.loads(qos(shared, "show", "--json", user="alice").stdout)["qoses"]
    assert told["in_database"] and told["differs"] == [] and "gres/gpu:a40=4" in told["settings"]["GrpTRES"], told
    assert told["members"] == ["alice", "root"]
    write(shared, MINE.replace("a40:4", "a40:2"))
    shown = qos(shared, "show").stdout
    assert "    quota    4 a40, 32 CPUs, 975G memory\n" in shown, shown
    assert "             ~ qos qos_mine  GrpTRES gres/gpu:a40: 4 -> 2\n" in shown, shown
    assert json.loads(qos(shared, "plan", "--json").stdout)["changes"][0] == {
        "step": 1, "action": "change", "what": "qos qos_mine  GrpTRES gres/gpu: 4 -> 2"}


def test_users_may_look_and_not_change(shared):
    write(shared, MINE)
    refused = qos(shared, "apply", user="alice")
    assert refused.returncode == 1
    assert re.match(r"gpushare: stopped at 'qos qos_mine': .*done: 0 of \d steps", refused.stderr), refused.stderr
    apply(shared, MINE)
    table = qos(shared, "docs", user="alice").stdout
    assert "qos_mine  4 a40, 32 CPUs, 975G memory  --qos=qos_mine --gres=gpu:a40:2\n" in table
    options = table.split("975G memory")[1].split()
    job = shared.sbatch(*options, "-n3")
    shared.wait_state(job, "RUNNING")
    shown = qos(shared, "show", user="alice").stdout
    for line in ("owner    account lafferty", "members  alice, root", "quota    4 a40, 32 CPUs, 975G memory",
                 "in use   3 of 32 CPUs, 2 of 4 a40, 90M of 975G memory; 1 job"):
        assert f"    {line}\n" in shown, shown
    assert qos(shared, "show", "nonesuch").stderr == "gpushare: /lab/out/gpushare.conf has no managed QOS 'nonesuch'\n"
