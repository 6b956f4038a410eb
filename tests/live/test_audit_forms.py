# SPDX-License-Identifier: GPL-2.0-or-later
"""Each form in which a line of slurmctld's reaches a log, written by the real programs: slurmctld as Debian's own unit,
journald, rsyslog, syslog-ng and busybox. `gpushare audit` reads each, and tests/data/audit/forms.tsv has it. What it
can't read, or what doesn't show that gpushare was there, is no "none"."""

import json
import re
import shlex

import pytest
from lab import TOP
from test_rules import CONF, QOS, accepted

SLURM_CONF = "/etc/slurm/slurm.conf"
DROP_IN = "/run/systemd/system/slurmctld.service.d/test.conf"
JOURNAL = "journalctl -u slurmctld --no-pager"
OURS = "job_submit/gpushare: "
FORMS = [
    line.split("\t")
    for line in (TOP / "tests/data/audit/forms.tsv").read_text().splitlines() if not line.startswith("#")
]
# The formats of journalctl that `gpushare audit` doesn't read.
UNREAD = ["short-monotonic", "short-delta", "verbose", "export", "json-pretty", "json-sse", "json-seq"]


@pytest.fixture(scope="module")
def unit(logged):
    """slurmctld under systemd, with Slurm's default: no log of its own."""
    logged.ok("/lab/service stop slurmctld")
    logged.plain = re.sub("(?m)^Slurmctld(LogFile|Debug)=.*\n", "", logged.ok(["cat", SLURM_CONF]))
    logged.write(CONF, "Mode=audit\n" + logged.ok(["cat", CONF]) + "\n")
    logged.ok("mkdir -p /run/systemd/journald.conf.d")
    logged.write("/run/systemd/journald.conf.d/test.conf", "[Journal]\nForwardToSyslog=yes\n")
    logged.ok("systemctl restart systemd-journald")
    logged.names = 0
    yield logged
    logged.run("systemctl stop slurmctld")


def restart(cluster, *lines, unit=""):
    """slurmctld's unit with these lines of slurm.conf, and these of a drop-in."""
    cluster.write(SLURM_CONF, "\n".join([cluster.plain, *lines]) + "\n")
    cluster.ok(f"mkdir -p {DROP_IN.rsplit('/', 1)[0]}")
    cluster.write(DROP_IN, f"[Service]\n{unit}\n")
    cluster.ok("systemctl daemon-reload; systemctl reset-failed slurmctld; systemctl restart slurmctld")
    cluster.wait(lambda: cluster.run("scontrol ping").returncode == 0, "slurmctld to be back")


def let_pass(cluster):
    """The name of a job that Mode=audit lets pass."""
    cluster.names += 1
    name = f"job-{cluster.names}-"
    accepted(cluster, QOS, "--gres=gpu:2", "-J", name)
    return name


def audit(cluster, source, *options):
    return cluster.run(f"{source} | gpushare audit {shlex.join(options)} -")


def passed(cluster, source):
    """How many requests it says were let pass."""
    result = audit(cluster, source, "--json")
    assert result.returncode == 1, f"{source}: {result.returncode} {result.stdout}{result.stderr}"
    return json.loads(result.stdout)["would_be_refused"]


def line_of(cluster, source, name):
    """The line about a job, when it is there."""
    pattern = shlex.quote(f"{OURS}accepted.*name='{name}'")
    return cluster.wait(lambda: cluster.run(f"{source} | grep -am1 -E {pattern}").stdout, f"{name} in {source}")


def no_answer(cluster, source, *said):
    """It can't tell, whatever it prints."""
    for option in ((), ("--json",), ("--csv",)):
        result = audit(cluster, source, *option)
        assert (result.returncode, result.stdout) == (2, ""), f"{source}: {result.returncode} {result.stdout}"
        assert all(text in result.stderr for text in said), f"{source}: {result.stderr}"


def shape(line):
    """What a form has before the message, without what differs from line to line."""
    if line.startswith("{"):
        entry = json.loads(line)
        fields = sorted({"SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "__REALTIME_TIMESTAMP", "MESSAGE"} & set(entry))
        return [fields, entry["SYSLOG_IDENTIFIER"], entry["_SYSTEMD_UNIT"], shape(entry["MESSAGE"])]
    head = line.split(OURS)[0]
    for pattern, text in [
        (r" 0x[0-9a-f]+", " 0x0"), (r"(?<= )(srvcn|rpc-\d+|worker\[\d+\]) +", "thread "),
        (r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b", "Month"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "Day"), (r"\d", "0"), (r"\+00:00", "+0000"), (r"Month +0+", "Month 00"),
        # Numbers of processes, parts of a second with thread_id, and clock.
        (r"(?<=slurmctld)(\.service)?\[0+\]", r"\1[0]"), (r"slurmctld 0+ ", "slurmctld 0 "),
        (" +0+ thread", " 0 thread"), (r"\.0+ +(?=0+ thread)", ".0 "), (r"^\[0+\] ", "[0] "), (r": \[0+\] ", ": [0] "),
    ]:
        head = re.sub(pattern, text, head)
    return head


def applies(cluster, releases):
    """Whether a row is about a cluster's release: `all`, `<25.05`, `>=25.05`."""
    return releases == "all" or cluster.newer_than(releases.lstrip("<>=")) != releases.startswith("<")


class Checked:
    """Compares lines of real programs with the table, and in the end that the table has no other forms of these
    KINDS."""

    def __init__(self, cluster, *kinds):
        self.cluster, self.seen, self.rows = cluster, set(), {}
        for form, releases, _, line in FORMS:
            if form.split()[0] in kinds and applies(cluster, releases):
                self.rows.setdefault(form, []).append(shape(line))

    def __call__(self, form, line):
        line = line.replace(self.cluster.name, "head").replace(" localhost ", " head ")
        assert form in self.rows and shape(line) in self.rows[form], f"{form}: {line}"
        self.seen.add(form)

    def all(self):
        assert self.seen == set(self.rows)


def test_debians_unit_writes_into_the_journal(unit):
    check, before = Checked(unit, "unit"), unit.names
    for form in ("iso8601_ms", "short", "clock", "thread_id", "iso8601,format_stderr"):
        restart(unit, f"LogTimeFormat={form}")
        name = let_pass(unit)
        check(f"unit {form}", line_of(unit, f"{JOURNAL} -o short-iso", name))
        assert passed(unit, f"{JOURNAL} -o short-iso") == unit.names, form
    assert unit.names == before + 5
    # To syslog too: each message is in the journal twice.
    restart(unit, "SlurmctldSyslogDebug=info")
    name = let_pass(unit)
    unit.wait(lambda: unit.ok(f"{JOURNAL} | grep -c {name}") == "2", "both lines")
    for form in ("short", "short-iso", "json", "with-unit"):
        assert passed(unit, f"{JOURNAL} -o {form}") == unit.names, form
    # To syslog alone.
    restart(unit, "SlurmctldSyslogDebug=info", unit="StandardError=null")
    name = let_pass(unit)
    check("unit by syslog", line_of(unit, f"{JOURNAL} -o short-iso", name))
    assert passed(unit, f"{JOURNAL} -o short-iso") == unit.names
    result = audit(unit, f"{JOURNAL} -o cat")
    assert result.returncode == 1 and re.search(r"note: \d+ lines name gpushare in a form", result.stdout), result
    no_answer(unit, f"{this_run(unit)} -o cat", "with 'job_submit/gpushare:'", "journalctl -u slurmctld -o short-iso")
    check.all()


def this_run(cluster):
    """journalctl for slurmctld since it was started."""
    return f"journalctl --no-pager _SYSTEMD_INVOCATION_ID={cluster.ok('systemctl show -P InvocationID slurmctld')}"


def test_formats_of_journalctl_are_read_or_refused(unit):
    restart(unit)
    check, name = Checked(unit, "journal"), let_pass(unit)
    line_of(unit, JOURNAL, name)
    for form in [form.split(" ", 1)[1] for form in check.rows]:
        source = f"{this_run(unit)} -o {form}"
        check(f"journal {form}", line_of(unit, source, name))
        assert passed(unit, source) == 1, form
    check.all()
    for form in UNREAD:
        no_answer(unit, f"{this_run(unit)} -o {form}", "journalctl -u slurmctld -o short-iso")


def test_standard_error_in_a_file_is_read(unit):
    check = Checked(unit, "stderr")
    restart(unit, unit="StandardError=append:/lab/out/stderr")
    check("stderr", line_of(unit, "cat /lab/out/stderr", let_pass(unit)))
    assert passed(unit, "cat /lab/out/stderr") == 1
    check.all()


RSYSLOG = [f"RSYSLOG_{one}" for one in ("TraditionalFileFormat", "SyslogProtocol23Format")]
SYSLOG_NG = {"iso": "ts-format(iso)", "syslog-protocol": "flags(syslog-protocol)"}


def test_files_of_syslogs_daemons_are_read(unit):
    check = Checked(unit, "rsyslog", "syslog-ng", "busybox")
    bare = r"(\]: |- - +)job_submit/gpushare: accepted.*"

    def sent(file, name):
        """The line that came by syslog, not by standard error."""
        command = ["grep", "-am1", "-E", f"{bare}name='{name}'", file]
        return unit.wait(lambda: unit.run(command).stdout, f"{name} in {file}")

    # Debian's own units and files, with more destinations. journald hands rsyslog what it got, in both ways.
    unit.ok("mkdir -p /var/spool/rsyslog; rm -f /var/log/syslog")
    unit.write("/etc/rsyslog.d/test.conf", "".join(
        f'*.* action(type="omfile" file="/var/log/{one}" template="{one}")\n' for one in RSYSLOG
    ))
    unit.ok("systemctl start rsyslog")
    try:
        restart(unit, "SlurmctldSyslogDebug=info")
        name = let_pass(unit)
        check("rsyslog", sent("/var/log/syslog", name))
        stderr = f"cat /var/log/syslog | grep -av '\\]: {OURS}'"
        check("rsyslog stderr", line_of(unit, stderr, name))
        for file, source in [("", "/var/log/syslog"), *((one, f"/var/log/{one}") for one in RSYSLOG)]:
            check(f"rsyslog {file}".strip(), sent(source, name))
            assert passed(unit, f"cat {source}") == 1, source
    finally:
        unit.run("systemctl stop syslog.socket rsyslog; rm -f /var/log/syslog")
    # syslog-ng reads the whole journal.
    unit.write("/etc/syslog-ng/conf.d/test.conf", "".join(
        f'log {{ source(s_src); destination {{ file("/var/log/{one}" {how}); }}; }};\n'
        for one, how in SYSLOG_NG.items()
    ))
    unit.ok("systemctl start syslog-ng")
    try:
        name = let_pass(unit)
        for file, source in [("", "/var/log/syslog"), *((one, f"/var/log/{one}") for one in SYSLOG_NG)]:
            check(f"syslog-ng {file}".strip(), sent(source, name))
            assert passed(unit, f"cat {source}") == passed(unit, f"{JOURNAL} -o short-iso"), source
    finally:
        unit.run("systemctl stop syslog-ng; rm -f /var/log/syslog")
    # busybox has /dev/log for itself.
    for option in ("", "-S"):
        unit.ok("rm -f /dev/log")
        pid = unit.ok(f"busybox syslogd -n {option} -O /lab/out/bb{option} >/dev/null 2>&1 & echo $!")
        try:
            unit.wait(lambda: unit.run("test -S /dev/log").returncode == 0, "busybox")
            restart(unit, "SlurmctldSyslogDebug=info")
            check(f"busybox {option}".strip(), sent(f"/lab/out/bb{option}", let_pass(unit)))
            assert passed(unit, f"cat /lab/out/bb{option}") == 1
        finally:
            unit.run(f"kill {pid}; rm -f /dev/log; ln -s /run/systemd/journal/dev-log /dev/log")
    check.all()


def test_no_user_writes_an_entry_into_the_journal_or_syslog(unit):
    """By logger(1), under a name of their own; what slurmctld's unit wrote is asked for by unit."""
    restart(unit)
    name = let_pass(unit)
    line_of(unit, JOURNAL, name)
    before = passed(unit, f"{JOURNAL} -o short-iso")
    entry = f"{OURS}accepted (audit) GS101 uid=2002 qos='q' asked='gpu:9' user='bob' name='forged'"
    unit.ok("rm -f /var/log/syslog; systemctl start rsyslog")
    try:
        for text in (
            entry, f"slurmctld: {entry}", f"[2026-11-24T12:00:00.000] {entry}", f"head slurmctld[1]: {entry}",
            f"daemon.info slurmctld[1]: {entry}", f"slurmctld[1]: slurmctld: {entry}",
        ):
            unit.ok(["logger", "-t", "bob", text], "bob")
        for text in (entry, f"slurmctld: {entry}"):
            unit.ok(["logger", "-t", "slurmctld", text], "bob")
        unit.wait(lambda: unit.run("journalctl --no-pager | grep -c forged").stdout.strip() == "8", "bob's lines")
        unit.wait(lambda: unit.run("grep -c forged /var/log/syslog").stdout.strip() == "8", "bob's lines")
    finally:
        unit.run("systemctl stop syslog.socket rsyslog")
    for form in ("short", "short-iso", "with-unit", "json", "cat"):
        assert passed(unit, f"{this_run(unit)} -o {form}") == 1, form
    # Of the whole journal, only json always says who wrote a line.
    assert passed(unit, "journalctl --no-pager -o json") == before
    no_answer(unit, "grep 'bob: .*forged' /var/log/syslog", "none of them slurmctld's")


def test_a_log_that_does_not_show_gpushare_is_no_none(unit):
    log = "/var/log/slurm/alone.log"
    no_answer(unit, "true", "the log has no lines")
    no_answer(unit, "journalctl --no-pager -u systemd-journald", "none of them slurmctld's")
    # Another daemon of Slurm's has lines of the same form.
    no_answer(unit, "cat /var/log/slurm/slurmd-*.log", "nothing in the log shows that gpushare is loaded")
    restart(unit)
    line_of(unit, JOURNAL, let_pass(unit))
    restart(unit, f"SlurmctldLogFile={log}")
    unit.ok(f"cp {log} /lab/out/start")
    assert audit(unit, "cat /lab/out/start").returncode == 0, "its start is there"
    for period in (("--start=now-3days", "--end=now-2days"),):
        result = audit(unit, "cat /lab/out/start", *period)
        assert result.returncode == 2 and "slurmctld logged nothing from" in result.stderr, result
    # Since 23.11 this is another start.
    unit.ok("scontrol reconfigure")
    unit.wait(lambda: unit.run("scontrol ping").returncode == 0, "slurmctld to be back")
    starts = unit.ok(f"cat {log}").count("started on cluster")
    assert starts == (2 if unit.newer_than("23.11") else 1) and audit(unit, f"cat {log}").returncode == 0, starts
    # A quiet site, whose log no longer has the start: slurmctld itself says that it runs with gpushare, a pipe can't.
    accepted(unit, "--gres=gpu:a40:1")
    unit.ok(f": >{log}")
    accepted(unit, "--gres=gpu:a40:1")
    unit.wait(lambda: "_slurm_rpc_submit_batch_job" in unit.ok(f"cat {log}"), "a line of slurmctld's")
    assert "gpushare" not in unit.ok(f"cat {log}")
    result = unit.run("gpushare audit")
    assert result.returncode == 0 and "No request was accepted" in result.stdout, result
    no_answer(unit, f"cat {log}", "restart slurmctld")
    unit.ok("systemctl restart slurmctld")
    unit.wait(lambda: OURS in unit.ok(f"cat {log}"), "gpushare's rules in the log")
    assert audit(unit, f"cat {log}").returncode == 0
    # Too quiet.
    restart(unit, f"SlurmctldLogFile={log}", "SlurmctldDebug=error")
    result = unit.run("gpushare audit")
    assert result.returncode == 2 and "SlurmctldDebug=error leaves gpushare's lines out" in result.stderr, result
    # Without gpushare: what it did before is told, and that it isn't there.
    unit.ok("sed -i s/^JobSubmitPlugins/#JobSubmitPlugins/ /etc/slurm/extra.conf")
    try:
        restart(unit)
        accepted(unit, QOS, "--gres=gpu:2")
        no_answer(unit, f"{this_run(unit)} -o short-iso", "logged nothing of gpushare's since it started at ", "--end ")
        result = audit(unit, f"{JOURNAL} -o short-iso")
        assert result.returncode == 1 and "note: slurmctld has logged nothing of gpushare's since" in result.stdout
        restart(unit, f"SlurmctldLogFile={log}")
        result = unit.run("gpushare audit")
        assert result.returncode == 2 and "slurmctld runs without gpushare" in result.stderr, result
    finally:
        unit.ok("sed -i s/^#JobSubmitPlugins/JobSubmitPlugins/ /etc/slurm/extra.conf")
    restart(unit)
