# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups that lend their GPUs: `Burst=` in gpushare.conf's records, with tests/siege/conf-lending. Random stories:
tests/siege/lending.py."""

import json

import pytest
from lab import TOP
from shares import FILE, NOTHING, apply, field, may_use, plan, qos, write

TEXT = (TOP / "tests/siege/conf-lending/gpushare.conf").read_text()
X, X_BURST, Y = (["-A", name[4], f"--qos={name}{more}"] for name, more in
                 (("qos_x", ""), ("qos_x", "_burst"), ("qos_y", "")))


@pytest.fixture(autouse=True)
def pairs(lending):
    apply(lending, TEXT)
    yield
    lending.cancel_all()


def borrow(cluster, gpus, *options, user="bob"):
    job = cluster.sbatch(*X_BURST, *options, f"--gres=gpu:a40:{gpus}", "-t5", script="sleep 300", user=user)
    cluster.wait_state(job, "RUNNING")
    return job


def test_a_line_makes_the_pair(lending):
    columns = "GrpTRES,MaxWall,Priority,Preempt,PreemptMode,PreemptExemptTime,GraceTime,Description"
    limits, *others = field(lending, "qos_x_burst", columns).split("|")
    assert sorted(limits.split(",")) == ["gres/gpu:a40=8", "gres/gpu:h100=0", "gres/gpu=8"]
    assert others == ["00:10:00", "0", "", "requeue", "00:00:00", "00:00:04", "gpushare@lab burst"]
    for owner in ("qos_x", "qos_y", "qos_z"):
        priority, preempts = field(lending, owner, "Priority,Preempt").split("|")
        assert priority == "1000"
        assert set(preempts.split(",")) == {"normal", "qos_x_burst", "qos_y_burst", "qos_z_burst"}
    assert may_use(lending, "alice", "x") == {"normal", "qos_x", "qos_x_burst"}
    assert plan(lending, TEXT) == NOTHING
    table = lending.ok(["gpushare", "qos", "docs"], "alice")
    assert "8 a40; borrowed, at most 00:10:00" in table and "--qos=qos_x_burst --gres=gpu:a40:2" in table


def test_an_owner_has_its_gpus_back_after_the_grace_time_and_until_then_sees_who_has_them(lending):
    job = borrow(lending, 8)
    shown = qos(lending, "show", user="alice").stdout
    assert "    lent     2 a40 to qos_x_burst\n" in shown, shown
    assert "    borrowed 2 a40 from qos_y, 2 a40 from qos_z\n" in shown, shown
    found = {one["qos"]: one for one in json.loads(qos(lending, "show", "--json").stdout)["qoses"]}
    assert found["qos_y"]["lent"] == [{"qos": "qos_x_burst", "gres_type": "a40", "gpus": 2}]
    assert found["qos_x"]["lent"] == [], "its own come first"
    mine = lending.ok(["gpushare", "mine", "--conf", FILE], "alice")
    assert "    lent: 2 a40 to qos_x_burst\n" in mine, mine
    assert "    borrowed: 2 a40 from qos_y, 2 a40 from qos_z\n" in mine, mine
    refused = lending.run(["sbatch", *X_BURST, "--gres=gpu:1", "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "GS101" in refused.stderr, "the QOS is governed like its owner's"

    owner = lending.sbatch(*Y, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait(lambda: lending.fields(job).get("PreemptTime", "None") != "None", "notice to the borrower")
    assert lending.states(job, owner) == {job: "RUNNING", owner: "PENDING"}, "its grace time is not over"
    lending.wait_state(owner, "RUNNING")
    assert lending.state(job) == "PENDING" and lending.fields(job)["Restarts"] == "1", "it is queued again"


def test_explain_offers_the_qos_with_room(lending):
    first = lending.sbatch(*X, "--gres=gpu:a40:4", script="sleep 300", user="bob")
    lending.wait_state(first, "RUNNING")
    second = lending.sbatch(*X, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait(lambda: lending.fields(second)["Reason"] == "QOSGrpGRES", "the limit")
    offer = "qos_x_burst has room: --qos=qos_x_burst --time=00:10:00 ("
    said = lending.ok(["gpushare", "explain", second, "--conf", FILE], "alice")
    assert offer in said and "00:00:04 later a batch job is requeued, others end" in said, said
    ask = ["gpushare", "explain", "--conf", FILE, "--", *X]
    assert offer in lending.ok([*ask, "--gres=gpu:a40:2"], "alice"), "of a job that doesn't exist yet, too"
    assert offer not in lending.ok([*ask, "--gres=gpu:a40:9"], "alice"), "that is more than it may borrow"
    assert offer.replace("10", "02") in lending.ok([*ask, "-t2", "--gres=gpu:a40:2"], "alice"), "its own time"
    lending.ok("sacctmgr -i modify user alice where account=x set qos-=qos_x_burst")
    assert offer not in lending.ok(["gpushare", "explain", second, "--conf", FILE], "alice"), "she may not have it"
    lending.ok("sacctmgr -i modify user alice where account=x set qos+=qos_x_burst")
    lending.ok(["scontrol", "update", "partition=p", "AllowQos=normal,qos_x"])
    assert offer not in lending.ok(["gpushare", "explain", second, "--conf", FILE], "alice"), "nor there"
    lending.ok(["scontrol", "update", "partition=p", "AllowQos=ALL"])
    # A program of Slurm's that isn't answered is no "no".
    lending.ok("mkdir -p /tmp/half && printf '#!/bin/sh\\necho slurmdbd is away >&2; exit 1\\n' >/tmp/half/sacctmgr && "
               "chmod 755 /tmp/half/sacctmgr")
    said = lending.ok(f"PATH=/tmp/half:$PATH gpushare explain {second} --conf {FILE}", "alice")
    assert "note: can't tell whether qos_x_burst has room: " in said and "QOSes: " in said, said
    lending.ok(["scontrol", "hold", second], "alice")
    assert offer not in lending.ok(["gpushare", "explain", second, "--conf", FILE], "alice"), "it would not start"
    lending.ok(["scontrol", "release", second], "alice")
    written = lending.sbatch("-A", "x", "--qos=qos_x_burst", "--time=00:10:00", "--gres=gpu:a40:2")
    lending.wait_state(written, "RUNNING")
    borrow(lending, 2)
    said = lending.ok(["gpushare", "explain", second, "--conf", FILE], "alice")
    assert offer not in said, "all GPUs are in use"


def test_who_no_longer_lends_has_its_gpus_back_too(lending):
    job = borrow(lending, 8)
    without = TEXT.replace("Burst=2x BurstTime=10:00 BurstGraceTime=4", "")
    said = apply(lending, without)
    assert "- qos qos_x_burst for account x" in said, said
    assert "! qos qos_x_burst is no longer in the file; --prune removes it; jobs that wait under it never" in said, said
    assert "qos_x_burst" in field(lending, "qos_y", "Preempt")
    refused = lending.run(["sbatch", *X_BURST, "--gres=gpu:a40:1", "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "Invalid qos" in refused.stderr, refused
    pruned = qos(lending, "apply", "--prune")
    assert pruned.returncode == 1 and "has 1 job and is preempted by qos qos_x and stays" in pruned.stdout, pruned
    owner = lending.sbatch(*Y, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait_state(owner, "RUNNING")
    lending.cancel_all()
    assert "- qos qos_x_burst\n" in apply(lending, without, "--prune")
    assert plan(lending, without) == NOTHING
    assert set(field(lending, "qos_x", "Preempt").split(",")) == {"normal", "qos_z_burst"}
    assert lending.state(job) != "RUNNING"


def test_a_plan_that_would_lock_a_group_out_is_refused(lending):
    for old, new, expected in (
        ("GPUs=a40:4 ", "GPUs=a40:6 ", "with a40:2 the QOSes add up to 10 a40, but the cluster has 8"),
        ("Preempt=normal Burst=1x", "Preempt=normal,qos_x Burst=1x", "Preempt can't name 'qos_x'"),
        ("QOS=normal", "QOS=qos_w Account=w GrpTRES=gres/gpu:a40=1\nQOS=normal", "'qos_w' can't get GPUs back"),
        ("QOS=normal", "GovernedQOS=qos_x,qos_y,qos_z\nQOS=normal", "'qos_x' is governed and 'qos_x_burst' isn't"),
        ("BurstTime=10:00 BurstGraceTime=4", "BurstTime=1 BurstGraceTime=60", "BurstTime needs to be longer"),
    ):
        assert old in TEXT
        write(lending, TEXT.replace(old, new))
        refused = qos(lending, "apply")
        assert refused.returncode == 2 and expected in refused.stderr and not refused.stdout, refused
    write(lending, TEXT.replace("Preempt=normal ", ""))
    warned = qos(lending, "plan")
    assert warned.returncode == 0 and "jobs of QOS 'normal' may keep its GPUs until they end" in warned.stderr, warned


def test_a_partition_that_gives_nothing_back_is_warned_of(lending):
    """A limit of its QOS stops the owner before Slurm preempts."""
    lending.ok("sacctmgr -i add qos part set GrpTRES=gres/gpu:a40=8")
    assert not qos(lending, "plan").stderr
    try:
        for settings, expected in (
            ("AllowQos=qos_x,qos_y,qos_y_burst,qos_z,qos_z_burst", "doesn't allow QOS 'qos_x_burst'; slurm.conf: add"),
            ("QoS=part", "QOS 'part' of partition 'side' limits GPUs: if borrowers have them all, owners wait"),
        ):
            lending.ok(f"scontrol create PartitionName=side Nodes=ALL {settings}")
            warned = qos(lending, "plan")
            assert warned.returncode == 0 and expected in warned.stderr, warned
            assert warned.stderr.count("\n") == 1, "once for all groups"
            if "QoS" not in settings:
                lending.ok("scontrol delete PartitionName=side")
        owner = in_vain(lending, "QOSGrpGRES")
        lending.ok("sacctmgr -i modify qos qos_y set flags+=OverPartQOS")
        lending.wait_state(owner, "RUNNING")
    finally:
        lending.cancel_all()
        lending.run("scontrol delete PartitionName=side; sacctmgr -i delete qos part")


def in_vain(lending, reason):
    """An owner's job, for which Slurm's REASON is all that happens: the borrower goes on."""
    job = borrow(lending, 8, "-pside")
    owner = lending.sbatch("-pside", *Y, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait(lambda: lending.fields(owner)["Reason"] == reason, reason)
    assert lending.fields(job).get("PreemptTime", "None") == "None" and lending.state(job) == "RUNNING"
    return owner


def test_what_gives_way_late_is_warned_of(lending):
    """A partition's QOS exempts borrowers, whose own QOS doesn't."""
    assert not qos(lending, "plan").stderr
    lending.ok("sacctmgr -i add qos part set PreemptExemptTime=10:00")
    try:
        lending.ok("scontrol create PartitionName=side Nodes=ALL QoS=part")
        text = TEXT.replace("=normal G", "=normal PreemptExemptTime=10:00 G")
        text = text.replace("BurstGraceTime=4", "BurstGraceTime=0")
        write(lending, text)
        warned = qos(lending, "plan")
        assert warned.returncode == 0 and warned.stderr.count("\n") == 3, warned
        for expected in ("QOS 'part' of partition 'side' has PreemptExemptTime: borrowers there keep GPUs for that",
                         "jobs of QOS 'normal' keep its GPUs for a time, because of PreemptExemptTime",
                         "with BurstGraceTime=0, borrowers have only slurm.conf's KillWait"):
            assert expected in warned.stderr, warned
        owner = in_vain(lending, "Resources")
        lending.ok("sacctmgr -i modify qos part set PreemptExemptTime=-1")
        lending.wait_state(owner, "RUNNING")
    finally:
        lending.cancel_all()
        lending.run("scontrol delete PartitionName=side; sacctmgr -i delete qos part")


def test_what_costs_jobs_their_work_is_said_before(lending):
    """A borrower's, where Slurm requeues no job by itself, and an owner's, whose group's jobs preempt each other."""
    restart = "/lab/service restart slurmctld"
    lending.ok("cp /etc/slurm/extra.conf /lab/out/; sed -i 's/^PreemptMode=.*/PreemptMode=REQUEUE,WITHIN/;"
               f"s/^JobRequeue=.*/JobRequeue=0/' /etc/slurm/extra.conf; {restart}", timeout=90)
    try:
        warned = qos(lending, "plan")
        assert warned.returncode == 0 and warned.stderr.count("\n") == 2, warned
        for expected in ("preempted batch jobs of QOS 'qos_x_burst' and 3 more end unless they ask for --requeue",
                         "PreemptMode has WITHIN: jobs of QOS 'qos_x' and 2 more end each other without notice"):
            assert expected in warned.stderr, warned
        lost = borrow(lending, 8)
        owner = lending.sbatch(*Y, "--gres=gpu:a40:2", script="sleep 300")
        lending.wait_state(owner, "RUNNING")
        assert lending.state(lost) == "PREEMPTED"
        lending.cancel_all()
        first = lending.sbatch(*Y, "--gres=gpu:a40:1", "-c64", "--nice=100", script="sleep 300")
        lending.wait_state(first, "RUNNING")
        lending.wait_state(lending.sbatch(*Y, "--gres=gpu:a40:1", "-c64", script="sleep 300"), "RUNNING")
        assert lending.state(first) == "PREEMPTED", "although it was within the quota"
        text = TEXT.replace("=normal G", "=normal Requeue=yes G")
        text = text.replace("Preempt=normal B", "GraceTime=4 Preempt=normal B") + "QOS=qos_*_burst Requeue=yes\n"
        write(lending, text)
        assert not qos(lending, "plan").stderr
    finally:
        lending.cancel_all()
        lending.ok(f"cp /lab/out/extra.conf /etc/slurm/; {restart}", timeout=90)


def test_where_priority_decides_who_gives_way_plan_says_so(lending):
    """From 25.05 on."""
    if not lending.newer_than("25.05"):
        pytest.skip("PreemptMode=PRIORITY is of 25.05")
    restart = "/lab/service restart slurmctld"
    lending.ok("cp /etc/slurm/extra.conf /lab/out/; sed -i 's/^PreemptMode=.*/PreemptMode=REQUEUE,PRIORITY/' "
               f"/etc/slurm/extra.conf; {restart}", timeout=90)
    try:
        warned = qos(lending, "plan")
        assert warned.returncode == 0 and "PreemptMode in slurm.conf has PRIORITY" in warned.stderr, warned
        lost = borrow(lending, 8)
        owner = lending.sbatch(*Y, "--gres=gpu:a40:2", "--nice=2000000", script="sleep 300")
        lending.wait(lambda: lending.fields(owner)["Reason"] in ("Resources", "Priority"), "the owner's job to wait")
        assert lending.state(lost) == "RUNNING", "its priority isn't lower"
        lending.ok(["scontrol", "update", f"JobId={owner}", "Priority=4000000000"])
        lending.wait_state(owner, "RUNNING")
        assert lending.state(lost) != "RUNNING"
    finally:
        lending.cancel_all()
        lending.ok(f"cp /lab/out/extra.conf /etc/slurm/; {restart}", timeout=90)


def test_a_heterogeneous_job_gives_way_with_all_its_components_or_guard_reports_it(lending):
    """Slurm preempts none of them if one may not be preempted."""
    def both(*second):
        command = ["sbatch", "--parsable", "-o/dev/null", *X_BURST, "--gres=gpu:a40:8", "-t5", ":", "-wh1", "-t5",
                   *second, "--wrap", "sleep 300"]
        job = lending.ok(command, "bob")
        lending.wait_state(job, "RUNNING")
        return job

    def guard():
        said = lending.run(["gpushare", "guard", "--json", "--conf", FILE]).stdout
        return [(one["what"], one["whose"], one["jobs"][0]["job"]) for one in json.loads(said)["over"]]

    job = both(*X_BURST)
    assert not guard()
    owner = lending.sbatch(*Y, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait_state(owner, "RUNNING")
    lending.cancel_all()
    job = both(*X)
    assert guard() == [("kept", "QOS qos_x_burst", f"{job}+0")]
    owner = lending.sbatch(*Y, "--gres=gpu:a40:2", script="sleep 300")
    lending.wait(lambda: lending.fields(owner)["Reason"] == "Resources", "Slurm's try")
    assert lending.fields(job).get("PreemptTime", "None") == "None" and lending.state(job) == "RUNNING"


def test_without_preemption_nothing_is_lent(lending):
    lending.ok("cp /etc/slurm/extra.conf /lab/out/; sed -i 's/^PreemptMode=.*/PreemptMode=OFF/;/^PreemptType/d' "
               "/etc/slurm/extra.conf; /lab/service restart slurmctld", timeout=90)
    try:
        write(lending, TEXT)
        refused = qos(lending, "plan")
        assert refused.returncode == 2 and "Burst needs PreemptType=preempt/qos in" in refused.stderr
        assert lending.findings("PreemptType")[0]["status"] == "wrong"
        lines = lending.ok(["gpushare", "conf", "slurm"])
        assert "\nPreemptType=preempt/qos\n" in lines and "\nPreemptMode=REQUEUE\n" in lines, lines
    finally:
        lending.ok("cp /lab/out/extra.conf /etc/slurm/; /lab/service restart slurmctld", timeout=90)
    assert plan(lending, TEXT) == NOTHING
