# SPDX-License-Identifier: GPL-2.0-or-later
"""Two controllers with one StateSaveLocation: which rules are in force after a takeover, after a crash and after a
restart, each with a right, a broken, a missing and a different gpushare.conf; and what a standby changes: nothing."""

import re

import pytest
from waiting import wait

STATE = "/var/lib/slurm/slurmctld"
COPY = f"{STATE}/gpushare_last_good"
CONF = "/etc/slurm/gpushare.conf"
COUNTS = f"RefusalCounts={STATE}/gpushare.counts\n"
GOOD = f"GovernedQOS=auto\n{COUNTS}"
OTHER = f"GovernedQOS=auto\nMode=audit\n{COUNTS}"
FILES = {"right": GOOD, "broken": "GouvernedQOS=auto\n", "missing": None, "different": OTHER}
# What the log says about the rules of the one in control, on a machine whose file is of that kind, after HOST was.
SAID = {
    "right": [f"in control, by the rules of {CONF}$"],
    "broken": [
        f"error: .*unknown key 'GouvernedQOS'.*; the last good rules stay in force, from {COPY}, of HOST:{CONF}$",
        f"in control, by the last good rules, of HOST:{CONF}$",
    ],
    "missing": [
        f"error: .*{CONF} does not exist .*; the last good rules stay in force, from {COPY}, of HOST:{CONF}$",
        f"in control, by the last good rules, of HOST:{CONF}$",
    ],
    "different": [
        f"in control, by the rules of {CONF}$",
        f"error: .*{CONF} differs from HOST:{CONF}, whose rules were in force before",
    ],
}
# What `gpushare check` says there of slurmctld's rules.
CHECKED = {
    "right": r"ok +slurmctld's rules +the same as in HERE:CONF, in force",
    "broken": r"WRONG +slurmctld's rules +slurmctld uses the rules of .*, of HOST:CONF, because line 1: unknown key",
    "missing": r"WRONG +slurmctld's rules +slurmctld uses the rules of .*, of HOST:CONF, because CONF does not exist",
    "different": r"ok +slurmctld's rules +the same as in HERE:CONF, in force",
}
PRIMARY, STANDBY = "Running as primary controller", "slurmctld running in background mode"
# A machine with a name, configuration, log and /run/slurm of its own.
ENTER = """#!/bin/bash
exec unshare --mount --uts bash -c 'hostname ctl2
for folder in etc/slurm var/log/slurm run/slurm; do mount --bind "/second/$folder" "/$folder"; done
exec "$@"' ctl2 "$@"
"""
MAKE = """
for folder in etc/slurm var/log/slurm run/slurm; do install -d -o slurm "/second/$folder"; done
cp -a /etc/slurm/. /second/etc/slurm; echo 127.0.0.2 ctl2 >>/etc/hosts"""


class Machine:
    """One of the two."""

    def __init__(self, cluster, name, top, enter):
        self.cluster, self.name, self.top, self.enter = cluster, name, top, enter
        self.began = 0  # the first line of its log since slurmctld's start

    def write(self, text):
        """Its gpushare.conf; None: it has none."""
        self.cluster.ok(f"rm -f {self.top}{CONF}")
        if text is not None:
            self.cluster.write(f"{self.top}{CONF}", text)

    def log(self):
        return self.cluster.run(f"cat {self.top}/var/log/slurm/slurmctld.log").stdout.splitlines()

    def pid(self):
        """slurmctld's process; empty if it doesn't run."""
        found = self.cluster.run(f"pid=$(cat {self.top}/run/slurm/slurmctld.pid) && kill -0 $pid && echo $pid")
        return found.stdout.strip()

    def start(self):
        self.began = len(self.log())
        self.cluster.ok(f"rm -f {self.top}/run/slurm/slurmctld.pid; {self.enter} slurmctld", timeout=90)

    def end(self, signal="TERM"):
        pid = self.pid()
        if pid:
            self.cluster.ok(f"kill -{signal} {pid}")
            wait(lambda: not self.pid(), f"the end of slurmctld on {self.name}")

    def stands_by(self):
        self.start()
        wait(lambda: any(STANDBY in line for line in self.log()[self.began :]), f"the standby {self.name}")

    def is_in_control(self):
        """By the log; and it answers."""
        lines = [line for line in self.log()[self.began :] if PRIMARY in line or STANDBY in line]
        answers = self.cluster.run("timeout 5 squeue -h").returncode == 0
        return bool(lines) and PRIMARY in lines[-1] and answers

    def check(self):
        """The line about slurmctld's rules. Just after a start, slurmctld may answer too late for others."""
        check = f"{self.enter} gpushare check --all"
        lines = lambda: self.cluster.run(check, timeout=60).stdout.splitlines()
        return wait(lambda: [line for line in lines() if "slurmctld's rules" in line], "what check says of it")[0]


class Pair:
    def __init__(self, cluster):
        cluster.ok(MAKE)
        cluster.write("/usr/local/sbin/on-ctl2", ENTER, 755)
        self.cluster = cluster
        self.first = Machine(cluster, cluster.name, "", "")
        self.second = Machine(cluster, "ctl2", "/second", "on-ctl2")

    def begin(self, one, text):
        """One is in control by these rules, and alone; the other's log is empty."""
        other = self.other(one)
        for machine in (self.first, self.second):
            # A standby of 26.05 needs files that a slurmctld writes when it ends.
            machine.end()
        self.cluster.ok(f"rm -f {other.top}/var/log/slurm/slurmctld.log")
        one.write(text)
        if one is self.second:
            one.stands_by()
            self.cluster.run("scontrol takeover", timeout=60)
        else:
            one.start()
        wait(one.is_in_control, f"{one.name} in control")
        self.refused()
        assert self.kept() == (one.name, text), "the copy"

    def other(self, one):
        return self.second if one is self.first else self.first

    def submit(self):
        return self.cluster.run("sbatch -H -o /dev/null --qos=qos_lafferty --gres=gpu:1 --wrap true", "alice")

    def refused(self):
        said = self.submit()
        assert said.returncode != 0 and "GS101" in said.stderr, said.stdout + said.stderr

    def accepted(self):
        said = self.submit()
        assert said.returncode == 0, said.stderr

    def kept(self):
        """Whose rules the copy has, and their text."""
        first, text = self.cluster.ok(f"cat {COPY}; echo x").removesuffix("x").split("\n", 1)
        host, path = first.split(" ", 5)[5].split(":")
        assert path == CONF
        return host, text

    def count(self):
        """How often GS101 was given, refused or let pass."""
        lines = self.cluster.ok(f"grep '^GS101 ' {STATE}/gpushare.counts").splitlines()
        return sum(int(line.split()[-1]) for line in lines)

    def is_in_force(self, one, kind, since, text):
        """After ONE took control with a file of that KIND: the rules, the copy, the log, what check says."""
        host = self.other(one).name
        before = self.count()
        (self.accepted if kind == "different" else self.refused)()
        assert self.count() == before + 1, "counts continue"
        own = kind in ("right", "different")
        assert self.kept() == (one.name if own else host, FILES[kind] if own else text)
        lines = [line for line in one.log()[since:] if "job_submit/gpushare: " in line]
        for pattern in SAID[kind]:
            assert any(re.search(pattern.replace("HOST", host), line) for line in lines), (pattern, lines)
        assert sum("in control" in line for line in lines) == 1, lines
        errors = [line for line in lines if "error:" in line]
        assert len(errors) == (0 if kind == "right" else 1), errors
        pattern = CHECKED[kind].replace("HOST", host).replace("HERE", one.name).replace("CONF", CONF)
        assert re.match(pattern, one.check()), one.check()


@pytest.fixture(scope="module")
def pair(two_controllers):
    return Pair(two_controllers)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("way", ["takeover", "kill"])
def test_a_standby_takes_control_by_its_file_or_by_what_was_in_force(pair, way, kind):
    first, second = pair.first, pair.second
    pair.begin(first, GOOD)
    # The standby starts by other rules, which must be in force nowhere.
    second.write(OTHER)
    second.stands_by()
    assert pair.kept() == (first.name, GOOD), "a standby changes nothing"
    differs = re.match(rf"WRONG +slurmctld's rules +{CONF} differs from {first.name}:{CONF}, whose", second.check())
    assert differs, second.check()
    pair.refused()
    count = pair.count()
    second.write(FILES[kind])
    since = len(second.log())
    if way == "kill":
        first.end("KILL")
    else:
        pair.cluster.ok("scontrol takeover", timeout=60)
    wait(second.is_in_control, "the standby in control", patience=60)
    pair.is_in_force(second, kind, since, GOOD)
    assert pair.count() == count + 1


@pytest.mark.parametrize("kind", FILES)
def test_who_restarts_after_another_was_in_control(pair, kind):
    first, second = pair.first, pair.second
    pair.begin(second, GOOD)
    first.write(FILES[kind])
    second.end("KILL")
    since = len(first.log())
    first.start()
    wait(first.is_in_control, "the first in control", patience=60)
    pair.is_in_force(first, kind, since, GOOD)


def test_a_restart_beside_a_standby_with_other_rules(pair):
    """As long as the standby only waits, its rules are nobody's."""
    first, second = pair.first, pair.second
    pair.begin(first, GOOD)
    second.write(OTHER)
    second.stands_by()
    first.write(FILES["broken"])
    first.end("KILL")
    since = len(first.log())
    first.start()
    wait(first.is_in_control, "the first in control", patience=60)
    pair.refused()
    conf = f"/second{CONF}"  # the right one
    # Its log is no proof that no request was accepted, and one of several controllers' isn't either.
    for command, reason in (
        (f"gpushare audit --conf {conf}", "are controllers, and each logs only the requests that it checked itself"),
        (f"gpushare audit --conf {conf} /second/var/log/slurm/slurmctld.log", "slurmctld only stood by here"),
    ):
        said = pair.cluster.run(command)
        # A note, if an earlier test has let something pass.
        assert said.returncode != 0 and reason in said.stdout + said.stderr, (command, said)
    logs = "/var/log/slurm/slurmctld.log /second/var/log/slurm/slurmctld.log"
    both = pair.cluster.run(f"gpushare audit --conf {conf} {logs}")
    assert both.returncode in (0, 1) and "slurmctld stood by for a part of the time" in both.stdout, both
    assert pair.kept() == (first.name, GOOD)
    assert f"from {COPY}, of {first.name}:{CONF}" in "\n".join(first.log()[since:])


def test_control_goes_there_and_back_twice(pair):
    """Both processes stay: each misses what the other one counts and reads meanwhile."""
    if not pair.cluster.newer_than("23.02"):
        pytest.skip("slurmctld 22.05 can hang when it gives control back (docs/dev/slurm-faults.md)")
    first, second = pair.first, pair.second
    pair.begin(first, GOOD)
    second.write(GOOD)
    second.stands_by()
    for rules, judge in ((GOOD, pair.refused), (OTHER, pair.accepted)):
        pair.cluster.ok("scontrol takeover", timeout=60)
        wait(second.is_in_control, "the second in control", patience=60)
        before = pair.count()
        pair.refused()
        assert pair.count() == before + 1
        first.write(rules)
        first.start()
        # Slurm waits up to 30 s for the one that gives control back (src/slurmctld/proc_req.c: CONTROL_TIMEOUT).
        back = lambda: first.is_in_control() and not second.is_in_control()
        wait(back, "the first in control", patience=90, more=lambda: "\n".join(second.log()[-20:]))
        judge()
        assert pair.count() == before + 2 and pair.kept() == (first.name, rules)


def test_check_compares_the_files_of_both_controllers(pair):
    """Its line about SlurmctldHost names the command; here with what stands for ssh."""
    first, second = pair.first, pair.second
    pair.begin(first, GOOD)
    via = '#!/bin/sh\nhost=$1; shift\n[ $host = ctl2 ] || exec "$@"\nexec on-ctl2 "$@"\n'
    pair.cluster.write("/usr/local/bin/via", via, 755)
    command = re.search(
        r"\? +SlurmctldHost +ctl2: .*; (gpushare check --nodes \S+ --via ssh) compares them",
        pair.cluster.run(["gpushare", "check", "--all"]).stdout,
    )
    assert command
    for text, differ in ((GOOD, False), (OTHER, True), (None, True)):
        second.write(text)
        said = pair.cluster.run(command[1].replace("ssh", "via"), timeout=90).stdout
        assert re.search(rf"\n2 nodes: .*, 0 without an answer, {int(differ)} difference", said), said
        # Of two, either may count as the right one.
        assert bool(re.search(r"differences:\n  WRONG  gpushare.conf  \S+ has", said)) == differ, said
