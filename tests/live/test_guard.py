# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare guard` on clusters whose slurmctld has no plugin of gpushare's: it finds what runs beyond a limit, does
what Guard= says to the newest jobs beyond and to no other, and says what waits and would be refused."""

import json
import subprocess
import sys

import pytest
from clusters import clusters
from lab import CASES, TOP

SIEGE = TOP / "tests/siege"
sys.path.insert(0, str(SIEGE))

import guard
import scripted
import ways
from box import Box
from lab import BOXES, RELEASES

PLAIN = [SIEGE / "conf", SIEGE / "conf-plain", CASES / "guard"]
guarded = clusters("guard", conf=PLAIN)
# The same where systemd is, for the timer's unit.
with_units = clusters("guard-unit", conf=PLAIN, cgroup="v2", systemd=True, in_turn=True)
CONF = "/etc/slurm/gpushare.conf"
RULES = (SIEGE / "conf/gpushare.conf").read_text()
FIGURES = "/tmp/guard.prom"
A40S = ["-x", "h1,m1"]


@pytest.fixture
def lab(guarded):
    guarded.write(CONF, RULES)
    guarded.ok("scontrol update partition=limited qos=of_partition")  # slurmctld starts before there are QOSes
    yield guarded
    guarded.cancel_all()
    guarded.write(CONF, RULES)


def running(lab, *options, user="alice", qos="qos_lafferty", nodes=A40S):
    job = lab.sbatch(f"--qos={qos}", *options, *nodes, script="sleep 600", user=user)
    lab.wait_state(job, "RUNNING")
    return job


def over(lab):
    return guard.ask(lab)


def acting(lab, action):
    """Guard with Guard=ACTION, between its two looks."""
    lab.write(CONF, f"{RULES}Guard={action}\n")
    process = subprocess.Popen(
        lab.inside("gpushare", "guard", "--act", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Its first look is over when it sleeps.
    where = "for pid in $(grep -lx gpushare /proc/[0-9]*/comm); do cat ${pid%comm}wchan; echo; done"
    lab.wait(lambda: "nanosleep" in lab.run(where).stdout, "guard between its looks")
    return process


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, json.loads(out), err


def test_what_is_beyond_is_said_and_counted(lab):
    said = lab.run(f"gpushare guard --out {FIGURES}")
    assert (said.returncode, said.stdout) == (0, "no limit is exceeded by what runs (0 jobs)\n"), said
    assert 'gpushare_guard_over{what="limit"} 0' in lab.ok(f"cat {FIGURES}")
    within, beyond = running(lab, "--gres=gpu:a40:2"), running(lab, "--gres=gpu:1", user="bob")
    said = lab.run(f"gpushare guard --out {FIGURES}")
    assert said.returncode == 1, said
    assert said.stdout.startswith(
        "over: QOS qos_lafferty GrpTRES=gres/gpu:a40=2: 3 in use by AllocTRES and devices\n"
        f"      job {beyond} of bob has 1, beyond the limit\n      job {within} of alice has 2\n"
    ), said.stdout
    figures = lab.ok(f"cat {FIGURES}")
    for line in ('gpushare_guard_up 1', 'gpushare_guard_over{what="limit"} 1', "gpushare_guard_jobs_beyond 1"):
        assert f"{line}\n" in figures, figures
    # Guard=report does nothing, and doesn't wait for a second look.
    said = lab.run("gpushare guard --act --json", timeout=15)
    assert said.returncode == 1 and json.loads(said.stdout)["acted"] == []
    assert lab.state(beyond) == "RUNNING"
    # Users may look; only root and SlurmUser see every job, and may act.
    assert "Slurm may hide jobs from user 2001" in lab.run("gpushare guard", user="alice").stderr
    assert lab.run("gpushare guard --act", user="alice").returncode == 2


def test_the_newest_beyond_goes_and_what_changes_between_two_looks_stays(lab):
    within = running(lab, "--gres=gpu:a40:2")
    beyond = running(lab, "--gres=gpu:1", user="bob")
    raised = running(lab, "--gres=gpu:3", qos="qos_user")
    gone = running(lab, "--gres=gpu:2", qos="qos_node", nodes=["-w", "m1"])
    process = acting(lab, "cancel")
    try:
        lab.ok("sacctmgr -i modify qos qos_user set MaxTRESPerUser=gres/gpu:a40=3")
        lab.ok(["scancel", gone])
        lab.wait(lambda: "a40=3" in lab.ok("scontrol show assoc_mgr flags=qos qos=qos_user"), "the limit")
        status, report, _ = ended(process)
    finally:
        lab.ok("sacctmgr -i modify qos qos_user set MaxTRESPerUser=gres/gpu:a40=2")
    assert status == 1
    assert [(one["job"], one["user"], one["what"], one["error"]) for one in report["acted"]] == [
        (beyond, "bob", "cancelled", None)
    ], report
    assert lab.finished(beyond) == "CANCELLED"
    assert lab.state(within) == lab.state(raised) == "RUNNING"
    lab.ok(["scancel", raised])
    lab.wait(lambda: "limit" not in {one["what"] for one in over(lab)}, "no limit exceeded")


def test_a_task_of_an_array_is_requeued_and_held_alone_and_what_can_not_be_requeued_is_cancelled(lab):
    within = running(lab, "--gres=gpu:a40:1")
    array = running(lab, "--gres=gpu:1", "--array=0-1", user="bob")
    lab.wait(lambda: len(lab.ok(f"squeue -h -r -t R -j {array}").splitlines()) == 2, "both tasks")
    never = running(lab, "--gres=gpu:1", "--no-requeue", user="bob")
    status, report, _ = ended(acting(lab, "requeuehold"))
    deed, cancelled = report["acted"]
    assert (cancelled["job"], cancelled["what"], cancelled["error"]) == (never, "cancelled", None), report
    assert lab.finished(never) == "CANCELLED"
    assert (status, deed["what"], deed["error"]) == (1, "requeued and held", None), report
    assert deed["job"] in (f"{array}_0", f"{array}_1")
    other = f"{array}_{1 - int(deed['job'][-1])}"
    lab.wait(lambda: "PENDING" in lab.state(deed["job"]), "the task held")
    assert lab.state(within) == lab.state(other) == "RUNNING"
    # Held as an administrator does: its owner can't release it.
    assert lab.run(["scontrol", "release", deed["job"]], user="bob").returncode
    assert "Priority=0 " in lab.ok(["scontrol", "-o", "show", "job", deed["job"]])
    lab.wait(lambda: "limit" not in {one["what"] for one in over(lab)}, "no limit exceeded")


def findings(lab):
    """What is over a limit, by whose, of what and how many, each once."""
    over_now = [one for one in over(lab) if one["what"] == "limit"]
    return {(one["whose"], one["limit_kind"], one["tres"], one["held"], one["limit"]) for one in over_now}


def test_limits_of_a_partitions_own_qos_are_judged(lab):
    """A request without a type passes it, as it does a job's QOS."""
    in_it = ["-p", "limited"]
    running(lab, "--gres=gpu:a40:2", *in_it, qos="normal")
    assert findings(lab) == set()
    beyond = running(lab, "--gres=gpu:1", *in_it, qos="normal", user="bob")
    assert findings(lab) == {("QOS of_partition", "GrpTRES", "gres/gpu:a40", 3, 2)}
    # It comes before the same limit of the job's QOS: each counts for the one that Slurm applies to it.
    running(lab, "--gres=gpu:a40:2", qos="qos_lafferty")
    assert findings(lab) == {("QOS of_partition", "GrpTRES", "gres/gpu:a40", 3, 2)}
    status, report, _ = ended(acting(lab, "cancel"))
    assert (status, [one["job"] for one in report["acted"]]) == (1, [beyond]), report
    assert lab.finished(beyond) == "CANCELLED"


def test_units_of_shares_are_judged_by_type(lab):
    """An account's limit on a type of shares counts no share that names none."""
    share = lambda text, **more: running(lab, "--account=lab", f"--gres=gpushare:{text}", qos="normal", **more)
    share("a40:20"), share("h100:60", nodes=["-w", "h1"])
    assert findings(lab) == set()
    share("5", user="bob")
    assert findings(lab) == {("account lab", "GrpTRES", "gres/gpushare:a40", 25, 20)}
    both = {one["counted_by"] for one in over(lab)}
    assert both == {"AllocTRES", "devices"}
    # Whole GPUs where only shares are limited, and shares where only GPUs are.
    running(lab, "--gres=gpu:1", qos="qos_units"), running(lab, "--gres=gpushare:10", qos="qos_user")
    uncounted = {(one["whose"], one["tres"]) for one in over(lab) if one["what"] == "uncounted"}
    assert uncounted == {("QOS qos_units", "gres/gpu"), ("QOS qos_user", "gres/gpushare")}


@pytest.mark.parametrize("qos, partition, gres, change, found", [
    ("qos_lafferty", "p", "gpu:a40:1", "GrpTRES=gres/gpu:a40=1", ("QOS qos_lafferty", "GrpTRES", "gres/gpu:a40", 2, 1)),
    ("qos_units", "p", "gpushare:20", "GrpTRES=gres/gpushare=30",
     ("QOS qos_units", "GrpTRES", "gres/gpushare", 40, 30)),
    ("bills", "billed", "gpu:a40:1", "GrpTRES=billing=7", ("QOS bills", "GrpTRES", "billing", 8, 7)),
    ("bills_each", "billed", "gpu:a40:1", "MaxTRESPerUser=billing=7",
     ("QOS bills_each", "MaxTRESPerUser", "billing", 8, 7)),
    ("normal", "limited", "gpu:a40:1", "GrpTRES=gres/gpu:a40=1", ("QOS of_partition", "GrpTRES", "gres/gpu:a40", 2, 1)),
])
def test_a_limit_that_was_lowered_counts_for_the_jobs_that_run(lab, qos, partition, gres, change, found):
    """As commands.md says: guard doesn't know when a limit changed. Under Guard=report it only says so."""
    whose = found[0].removeprefix("QOS ")
    kind = change.split("=")[0]
    before = lab.ok(f"sacctmgr -nP show qos {whose} format={kind}").strip()
    jobs = [running(lab, "-p", partition, f"--gres={gres}", qos=qos) for _ in range(2)]
    assert findings(lab) == set()
    lab.ok(f"sacctmgr -i modify qos {whose} set {change}")
    try:
        assert findings(lab) == {found}
        newest = {job["job"] for one in over(lab) for job in one["jobs"] if job["beyond"]}
        assert newest == {jobs[1]}
        assert [lab.state(job) for job in jobs] == ["RUNNING"] * 2
    finally:
        lab.ok(f"sacctmgr -i modify qos {whose} set {kind}={before}")
    assert findings(lab) == set()


def forged(lab, lines):
    """bob's job, and alice's, whose name has LINES with the other's number as VICTIM: guard trusts neither record."""
    victim = running(lab, "--gres=gpu:a40:1", user="bob")
    forger = running(lab, "--gres=gpu:a40:1", "--job-name", lines.replace("VICTIM", victim))
    found = {(one["what"], one["jobs"][0]["job"]) for one in over(lab)}
    assert found == {("unclear", victim), ("unclear", forger)}, found
    return victim, forger


def test_a_name_that_imitates_slurms_lines_frames_nobody_and_is_told(lab):
    devices = f"     Nodes={lab.name} CPU_IDs=0 Mem=0 GRES=gpu:a40:4(IDX:0-3)"
    lines = f"x\nJobId=VICTIM JobName=y\n   UserId=bob(2002) GroupId=bob(2002)\n{devices}\n   Command=x"
    victim, forger = forged(lab, lines)
    lab.write(CONF, f"{RULES}Guard=cancel\n")
    said = lab.run("gpushare guard --act --json", timeout=15)
    assert json.loads(said.stdout)["acted"] == [] and lab.state(victim) == lab.state(forger) == "RUNNING"
    # What Slurm itself counts still counts.
    beyond = running(lab, "--gres=gpu:1", user="bob")
    assert [one["counted_by"] for one in over(lab) if one["what"] == "limit"][0] == "AllocTRES"
    assert beyond in {job["job"] for one in over(lab) for job in one["jobs"] if job["beyond"]}


def test_a_name_with_a_record_of_no_job_hides_no_devices(lab):
    """Between the forger's own record and the one that it gives its devices to."""
    none = f"   UserId=alice(2001)\n     Nodes={lab.name} CPU_IDs=0 Mem=0 GRES="
    forged(lab, f"x\n{none}\nJobId=4000000 JobName=y\n   UserId=alice(2001)\nJobId=VICTIM JobName=y")


def test_an_account_with_bars_in_its_name_hides_nothing(lab):
    """A coordinator may name one so. squeue and sacctmgr put bars between columns."""
    name = "z|normal|p|(null)|completed"
    lab.ok(f"sacctmgr -i add account '{name}' && sacctmgr -i add user bob account='{name}' qos=qos_lafferty")
    try:
        running(lab, "--gres=gpu:a40:2")
        beyond = lab.wait(lambda: lab.run(
            f"sbatch --parsable -A '{name}' --qos=qos_lafferty --gres=gpu:1 -x h1,m1 --wrap 'sleep 600'", "bob"
        ).stdout.strip(), "slurmctld to know the account")
        lab.wait_state(beyond, "RUNNING")
        found = over(lab)
        assert beyond in {job["job"] for one in found for job in one["jobs"] if job["beyond"]}, found
        assert "unclear" in {one["what"] for one in found}, found
        assert f"over: '{name}||" in lab.run("gpushare guard").stdout
    finally:
        lab.cancel_all()
        lab.ok(f"sacctmgr -i delete account '{name}'")


@pytest.mark.parametrize("program, prints", [
    ("squeue", "echo 'squeue: something new'"), ("sacctmgr", "echo 'a|b'"), ("scontrol", "echo nonsense"),
    ("sacctmgr", "exit 1"), ("sacctmgr", "exit 0"),
])
def test_what_can_not_be_read_is_an_error_and_nothing_is_done(lab, program, prints):
    job = running(lab, "--gres=gpu:4")
    lab.write(CONF, f"{RULES}Guard=cancel\n")
    lab.ok("mkdir -p /tmp/odd && rm -f /tmp/odd/*")
    lab.write(f"/tmp/odd/{program}", f"#!/bin/sh\n{prints}\n", mode=755)
    lab.ok(f"gpushare guard --out {FIGURES} || true")
    for words in ("--act", "--waiting", f"--out {FIGURES}"):
        said = lab.run(f"PATH=/tmp/odd:$PATH gpushare guard {words}", timeout=15)
        assert (said.returncode, said.stdout) == (2, ""), (words, said)
        assert said.stderr.startswith("gpushare: ") and len(said.stderr.splitlines()) == 1, said.stderr
    figures = lab.ok(f"cat {FIGURES}")
    assert "gpushare_guard_up 0\n" in figures and "gpushare_guard_over" not in figures, figures
    assert "gpushare_guard_last_success_timestamp_seconds 1" in figures, figures
    assert lab.state(job) == "RUNNING"


def test_without_rules_or_slurmctld_nothing_is_done(lab):
    job = running(lab, "--gres=gpu:4")
    lab.write(CONF, f"{RULES}Guard=kill\n")
    said = lab.run("gpushare guard --act")
    assert said.returncode == 2 and "Guard can't be 'kill'; allowed is report, requeuehold or cancel" in said.stderr
    lab.write(CONF, f"{RULES}Guard=cancel\n")
    lab.ok("/lab/service stop slurmctld")
    try:
        said = lab.run("gpushare guard --act")
        assert said.returncode == 2 and "scontrol ping" in said.stderr, said
    finally:
        lab.ok("/lab/service start slurmctld", timeout=90)
    lab.wait_state(job, "RUNNING")


def test_what_waits_is_told_with_the_command_that_helps(lab):
    """As a site does: jobs are in the queue when the plugin comes."""
    hold = lambda *options, user="alice": lab.sbatch("-H", *options, user=user)
    untyped = hold("--qos=qos_lafferty", "--gres=gpu:2")
    by_job = hold("--qos=qos_lafferty", "--gpus=1", "-N1", user="bob")
    array = hold("--qos=qos_lafferty", "--gres=gpu:1", "--array=0-3")
    by_task = hold("--qos=qos_lafferty", "-n2", "--gpus-per-task=1")
    account = hold("--account=capped", "--gres=gpu:1")
    for fine in (["--gres=gpu:2"], ["--qos=qos_lafferty", "--gres=gpu:a40:2"], ["--qos=qos_lafferty"]):
        hold(*fine)
    cron = "#SCRON --qos=qos_lafferty --gres=gpu:1\n0 0 1 1 * /bin/true\n"
    has_cron = lab.run("command -v scrontab").returncode == 0  # not Debian's 22.05
    if has_cron:
        lab.ok(["scrontab", "-"], user="bob", stdin=cron)
    # A job that is requeued waits for a while, and is checked as any other.
    requeued = running(lab, "--gres=gpu:1")
    lab.ok(["scontrol", "requeuehold", requeued])
    lab.wait(lambda: "PENDING" in lab.state(requeued), "it to wait")

    said = lab.run("gpushare guard --waiting --json")
    assert said.returncode == 1, said
    told = {one["job"].split("_")[0]: one for one in json.loads(said.stdout)["waiting"]}
    crons = [job for job, one in told.items() if "scrontab" in one["state"]]
    assert len(crons) == has_cron and set(told) == {untyped, by_job, array, by_task, account, requeued, *crons}, told
    assert all(told[job]["command"].startswith("scrontab -e -u bob") for job in crons)
    assert told[untyped]["message"] == "GS101" and told[by_task]["command"].startswith(f"scancel {by_task} ")

    lab.ok("cp /etc/slurm/extra.conf /tmp/; echo JobSubmitPlugins=gpushare >>/etc/slurm/extra.conf")
    lab.ok("/lab/service restart slurmctld", timeout=90)
    try:
        for job in (untyped, by_job, array, by_task, account, requeued):
            lab.ok(told[job]["command"])
        if has_cron:
            lab.ok(["scrontab", "-r"], user="bob")
        said = lab.run("gpushare guard --waiting")
        assert said.returncode == 0 and said.stdout.startswith("today's rules would refuse none"), said
        # Before 23.02 no such job can be changed, and each is submitted again.
        if lab.newer_than("23.02"):
            assert "a40" in lab.fields(untyped)["TresPerNode"] and "a40" in lab.fields(by_job)["TresPerJob"]
    finally:
        lab.ok("cp /tmp/extra.conf /etc/slurm/; /lab/service restart slurmctld", timeout=90)


def test_the_timers_unit_looks_and_acts(with_units):
    lab, figures = with_units, "/var/lib/prometheus/node-exporter/gpushare-guard.prom"
    for kind in ("service", "timer"):
        lab.write(f"/etc/systemd/system/gpushare-guard.{kind}", (TOP / f"packaging/gpushare-guard.{kind}").read_text())
    lab.ok("systemctl daemon-reload")
    said = lab.run("systemd-analyze verify --man=no /etc/systemd/system/gpushare-guard.{service,timer}")
    assert "gpushare" not in said.stdout + said.stderr, said
    lab.write(CONF, RULES)
    # Without node_exporter nobody reads figures, and guard looks all the same.
    lab.ok("systemctl start gpushare-guard.service")
    lab.ok(f"mkdir -p {figures.rsplit('/', 1)[0]}")
    within, beyond = running(lab, "--gres=gpu:a40:2"), running(lab, "--gres=gpu:1", user="bob")
    lab.ok("systemctl start gpushare-guard.service")
    assert 'gpushare_guard_over{what="limit"} 1\n' in lab.ok(["cat", figures])
    assert lab.state(beyond) == "RUNNING"
    assert "--act does nothing: gpushare.conf has Guard=report" in lab.ok("journalctl -o cat -u gpushare-guard")
    lab.write(CONF, f"{RULES}Guard=cancel\n")
    lab.ok("systemctl start gpushare-guard.service", timeout=60)
    assert lab.finished(beyond) == "CANCELLED" and lab.state(within) == "RUNNING"
    assert "gpushare_guard_acted 1\n" in lab.ok(["cat", figures])
    limit = "beyond QOS qos_lafferty GrpTRES=gres/gpu:a40=2: cancelled"
    assert f"job {beyond} of bob, {limit}" in lab.ok("journalctl -o cat -u gpushare-guard")
    # A look that fails is a failed unit.
    lab.write(CONF, "Guard=x\n")
    assert lab.run("systemctl start gpushare-guard.service").returncode == 1
    assert "gpushare_guard_up 0\n" in lab.ok(["cat", figures])
    lab.ok("systemctl reset-failed gpushare-guard.service")


# One way of each kind; tests/siege/run --plain --guard --ways has all of them.
SOME = [
    "untyped, --gres", "untyped, a job array", "another type, no limit on it", "a type that hashes alike",
    "scontrol update qos=", "cleared, then moved", "--gpus=a40:1 over two nodes, more tasks than CPUs",
    "--gpus of one type beside --gres of another", "--exclusive, a node of another type, no limit on it",
    "an account's GrpTRES, untyped", "a user's MaxTRES, untyped", "exempt by a reservation, then moved out",
]


@pytest.mark.parametrize("release", RELEASES)
def test_guard_finds_what_the_siege_finds_without_the_plugin(release):
    box = Box(f"{BOXES}-guard-ways-{release.replace('.', '')}", release, [SIEGE / "conf", SIEGE / "conf-plain"])
    try:
        box.guard = guard.Tally()
        chosen = [way for way in ways.every() if way.title in SOME]
        assert len(chosen) == len(SOME)
        words = [outcome.word for _, outcome in scripted.ways(box, chosen)]
        assert words.count("open") >= 6, words
        assert not box.guard.missed and not box.guard.alarms, (str(box.guard), box.guard.missed, box.guard.alarms)
        assert box.guard.found["limit"] > 6 and box.guard.found["foreign"] > 3, str(box.guard)
    finally:
        box.close()
