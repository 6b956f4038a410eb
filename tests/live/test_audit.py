# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare audit` tells exactly what slurmctld let pass and refused: by user, form of request, message and job."""

import json
import re

import pytest
from test_audit_forms import OURS, Checked
from test_rules import CONF, QOS, accepted, configured, refused, replace, submit

LOG = "/var/log/slurm/slurmctld.log"


@pytest.fixture(scope="module")
def lab(ways):
    """The group's account and QOS are alice's and bob's."""
    (account,) = set(ways.ok("sacctmgr -nP show assoc where user=alice format=account").split())
    ways.run("sacctmgr -i modify user bob set qos+=qos_lafferty")
    ways.account = account
    yield ways
    ways.cancel_all()


@pytest.fixture
def log(lab):
    """slurmctld's log, empty: it is opened for appending."""
    lab.ok(f"rm -f {LOG}?*; : >{LOG}")
    return LOG


def audit(cluster, *options, user="root", status=1):
    result = cluster.run(["gpushare", "audit", *options], user)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status != 2 else result.stderr


def told(cluster, *options, **how):
    """{(user, message, request, *jobs): (audited, warned, refused, exempt)}"""
    report = json.loads(audit(cluster, "--json", *options, **how))
    return {
        (one["user"], one["number"], one["request"], *sorted(one["jobs"])):
            tuple(one[what] for what in ("audited", "warned", "refused", "exempt"))
        for one in report["requests"]
    }


def test_each_mode_is_told_of_and_nothing_else(lab, log):
    with configured(lab, "Mode=audit"):
        for name in ("train", "eval"):
            accepted(lab, QOS, "--gres=gpu:2", "-J", name)
        accepted(lab, QOS, "--gpus=2", "-J", "half", user="bob")
        accepted(lab, QOS, "--gres=gpu:a40:1", user="bob")
        accepted(lab, "--gres=gpu:1")
    with configured(lab, "Mode=warn"):
        accepted(lab, QOS, "--gres=gpu:2", "-J", "train")
        job, _ = accepted(lab, "--gres=gpu:1", "-J", "moved", user="bob")
        assert lab.run(f"scontrol update job={job} qos=qos_lafferty", "bob").returncode == 0
    with configured(lab, "Mode=enforce"):
        refused(lab, "GS101", QOS, "--gpus-per-task=1", "-n2", "-J", "half", user="bob")
        refused(lab, "GS103", QOS, "--gres=gpu:3090:1", "-J", "old")
    with configured(lab, "ExemptUsers=bob"):
        accepted(lab, QOS, "--gres=gpu:4", "-J", "free", user="bob")
    moved = next(iter(one for one in told(lab) if "moved" in one))
    assert told(lab) == {
        ("alice", "GS101", "--gres=gpu:2", "eval", "train"): (2, 1, 0, 0),
        ("bob", "GS101", "--gpus=2", "half"): (1, 0, 0, 0),
        moved: (0, 1, 0, 0),
        ("bob", "GS101", "--gpus-per-task=1", "half"): (0, 0, 1, 0),
        ("alice", "GS103", "--gres=gpu:3090:1", "old"): (0, 0, 1, 0),
        ("bob", "GS101", "--gres=gpu:4", "free"): (0, 0, 0, 1),
    }
    report = json.loads(audit(lab, "--json"))
    assert (report["would_be_refused"], report["users_would_be_refused"]) == (5, 2)
    assert {(one["account"], one["qos"], one["user_id"]) for one in report["requests"]} == {
        (lab.account, "qos_lafferty", 2001), (lab.account, "qos_lafferty", 2002)}
    # What to ask for instead is what slurmctld takes.
    for one in report["requests"]:
        if "moved" in one["jobs"] and not lab.newer_than("23.02"):
            assert one["instead"] is None, "no job can move there"
        elif "moved" in one["jobs"]:
            assert one["instead"].startswith(f"scontrol update job={job} qos=qos_lafferty TresPerNode="), one
        elif not one["exempt"]:
            assert submit(lab, *one["instead"].split(), user=one["user"]).returncode == 0, one
    text = audit(lab)
    assert "2 users would be refused if you switched to enforce today.\n" in text
    assert "train, eval --gres=gpu:2 GS101: --qos=qos_lafferty --gres=gpu:a40:2\n" in re.sub("  +", " ", text)
    assert len(audit(lab, "--csv").splitlines()) == 7
    assert "slurmctld logged nothing from" in audit(lab, "--end=now-1days", "--start=now-2days", status=2)


def test_no_text_of_a_users_forges_an_entry(lab, log):
    entry = "job_submit/gpushare: refused GS101 uid=2002 qos='q' asked='gpu:9' user='bob'"
    names = [f"x' try='' {entry}", f"\"GS101\" \x1b[2J\x1b]0;x\x07 {entry}", f"x\n[2026-11-24T12:00:00.000] {entry}"]
    with configured(lab, "Mode=audit"):
        for name in names:
            result = submit(lab, QOS, "--gres=gpu:2", "-J", name)
            assert result.returncode == 0, result.stderr
            submit(lab, QOS, f"--gres=gpu:{entry}", "-J", "ask")
            submit(lab, QOS, f"--gres=gpu:2,{entry}".replace("=", "_"), "-J", "ask")
    found = told(lab)
    assert {user for user, *_ in found} == {"alice"} and all(counts[2] == 0 for counts in found.values()), found
    assert sum(counts[0] for one, counts in found.items() if one[2] == "--gres=gpu:2") >= 3
    for output in (audit(lab), audit(lab, "--csv"), audit(lab, "--json")):
        assert "\x1b" not in output and "\x07" not in output


def test_every_form_of_the_time_is_read(lab, log):
    conf = "/etc/slurm/slurm.conf"
    old = lab.ok(["cat", conf])
    check = Checked(lab, "file")
    formats = ["iso8601", "iso8601_ms", "rfc5424", "rfc5424_ms", "short", "thread_id", "clock"]
    if lab.newer_than("23.11"):
        formats += ["rfc3339", "iso8601,format_stderr"]
    try:
        for number, form in enumerate(formats, 1):
            lab.write(conf, f"{old}\nLogTimeFormat={form}\n")
            lab.ok("/lab/service stop slurmctld; /lab/service start slurmctld")
            lab.wait(lambda: lab.run("scontrol ping").returncode == 0, "slurmctld to be back")
            lab.ok(f": >{log}")
            refused(lab, "GS101", QOS, "--gres=gpu:2", "-J", form)
            if "," not in form:
                check(f"file {form}", lab.ok(f"grep -m1 '{OURS}refused' {log}"))
            assert told(lab, status=0) == {("alice", "GS101", "--gres=gpu:2", form): (0, 0, 1, 0)}, form
            report = json.loads(audit(lab, "--json", status=0))
            (one,) = report["requests"]
            assert (one["first"] is None) == (form == "clock"), form
            assert any("have no date" in remark for remark in report["remarks"]) == (form == "clock"), form
            if form != "clock":
                assert "logged nothing from" in audit(lab, "--end=now-1days", "--start=now-2days", status=2), form
        check.all()
    finally:
        lab.write(conf, old + "\n")
        lab.ok("/lab/service stop slurmctld; /lab/service start slurmctld")
        lab.wait(lambda: lab.run("scontrol ping").returncode == 0, "slurmctld to be back")


def test_the_log_is_read_and_others_can_be_named(lab, log):
    refused(lab, "GS101", QOS, "--gres=gpu:2", "-J", "first")
    lab.ok(f"gzip -c {log} >{log}.2.gz; : >{log}")
    refused(lab, "GS101", QOS, "--gres=gpu:2", "-J", "second")
    lab.ok(f"cp {log} {log}.1; : >{log}")
    refused(lab, "GS101", QOS, "--gres=gpu:2", "-J", "third")
    of = lambda *names: {("alice", "GS101", "--gres=gpu:2", *names): (0, 0, len(names), 0)}
    assert told(lab, status=0) == of("third")
    assert told(lab, f"{log}.1", log, status=0) == of("second", "third")
    assert "it is compressed: zcat" in audit(lab, f"{log}.2.gz", log, status=2)
    said = lab.ok(f"ls -tr {log}* | xargs zcat -f | gpushare audit --csv -")
    assert all(name in said for name in ("first", "second", "third")), said
    assert "No such file" in audit(lab, "/no/such.log", status=2)
    lab.ok(f"rm {log}.2.gz {log}.1")


def test_without_a_log_the_counts_say_how_often(lab, log):
    old = lab.ok(["cat", CONF])
    counts = "/run/slurm/audit.counts"
    lab.ok(f"chmod 600 {log}; rm -f {counts}")
    lab.ok(f"test -d {counts.rsplit('/', 1)[0]}")
    assert "or name a log" in audit(lab, user="alice", status=2)
    try:
        lab.write(CONF, f"{old}\nRefusalCounts={counts}\n")
        lab.ok("/lab/service stop slurmctld; /lab/service start slurmctld")
        lab.wait(lambda: lab.run("scontrol ping").returncode == 0, "slurmctld to be back")
        refused(lab, "GS101", QOS, "--gres=gpu:2")
        lab.ok(f"chmod 600 {log}")
        report = json.loads(audit(lab, "--json", user="alice", status=0))
        assert report["from_counts"] and report["refused"] == 1
        assert [(one["number"], one["refused"]) for one in report["requests"]] == [("GS101", 1)]
        said = audit(lab, user="alice", status=0)
        assert "would refuse, as far as this can tell: see the notes.\n" in said
        assert re.search("these are only counts, without users.* was made, at 20[^,]+, whatever", said), said
        # The same counts, of a slurmctld that doesn't count, or nobody knows.
        lab.ok("/lab/service stop slurmctld")
        assert "nothing shows that gpushare counts" in audit(lab, user="alice", status=2)
        lab.ok("sed -i s/^JobSubmitPlugins/#JobSubmitPlugins/ /etc/slurm/extra.conf; /lab/service start slurmctld")
        lab.ok(f"chmod 600 {log}")
        assert "slurmctld runs without gpushare" in audit(lab, user="alice", status=2)
    finally:
        lab.ok("sed -i s/^#JobSubmitPlugins/JobSubmitPlugins/ /etc/slurm/extra.conf; /lab/service stop slurmctld")
        lab.ok("/lab/service start slurmctld")
        replace(lab, old)
