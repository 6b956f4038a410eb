# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of the lab under siege: a client of each user in it, actions and what was answered, looks."""

import contextlib
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))

import client
import guard
import judge
import members
import ways
from action import Answer
from lab import Cluster, root
from limits import QOS_KINDS, Caps, Limits
from rest import post

USERS = {0: "root", 2001: "alice", 2002: "bob"}
PATIENCE = 20  # seconds for one answer; slurmctld that takes longer hangs
PROGRAM = "/lab/out/siege-client"
# What a site may have set instead of what conf has.
SITES = {
    "cores": "echo SelectTypeParameters=CR_Core,CR_ONE_TASK_PER_CORE >>/etc/slurm/extra.conf",
    "course": "sed -i s/^ExemptReservations=.*/ShareReservations=course/ /etc/slurm/gpushare.conf",
}


def quoted(value):
    """Bytes that would end a field, as the client reads them."""
    return "".join(c if 32 < ord(c) < 127 and c != "%" else f"%{ord(c):02x}" for c in value.replace("\0", ""))


def install_client(cluster):
    """Compiles the client against the headers of the cluster's release, and puts it there."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "members.h").write_text(
            members.c_table((root(cluster.release) / "usr/include/slurm/slurm.h").read_text())
        )
        program = Path(folder) / "client"
        client.compiled(HERE / "client.c", cluster.release, program, HERE / "look.c", f"-I{folder}", "-lslurm")
        client.install(cluster, program, PROGRAM)


class Hung(Exception):
    """Nothing was answered in time."""


class Client:
    """The client in a box, as one user."""

    def __init__(self, cluster, user):
        self.cluster, self.user, self.deaths = cluster, user, 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.cluster.inside(PROGRAM, user=self.user), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.rest = b""

    def end(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # of a line that it never read
                pipe.close()

    def line(self):
        out = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            ready, _, _ = select.select([out], [], [], PATIENCE)
            if not ready:
                raise Hung(f"{self.user}'s client")
            chunk = os.read(out, 1 << 16)
            if not chunk:
                raise EOFError
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode("latin-1")

    def send(self, words):
        self.process.stdin.write("\t".join(words).encode("latin-1") + b"\n")
        self.process.stdin.flush()

    def ask(self, *words):
        """The answer to one line. A client that dies of it is started anew."""
        try:
            self.send(words)
            error, job, text = self.line().split("\t", 2)
            return Answer(int(error), int(job), unquote(text, errors="replace"))
        except (EOFError, BrokenPipeError):
            self.end()
            self.deaths += 1
            self.start()
            return Answer(-1, 0, "the client died")

    def lines(self, *words):
        """What a line that has no answer of one line says, without the end."""
        self.send(words)
        found = []
        while True:
            line = self.line()
            if line == "." or (words[0] == "look" and line[:1].isdigit()) or line.startswith("-"):
                return found, line
            found.append(line)


class Box:
    """The cluster and everybody's client."""

    def __init__(self, name, release, conf, plugins=None, site=""):
        self.cluster = Cluster(name, release, conf=conf, plugins=plugins)
        self.release, self.name, self.site = release, name, site
        self.prefix = "gres/" if self.cluster.newer_than("23.11") else "gres:"
        if site:
            self.cluster.ok(SITES[site])
        install_client(self.cluster)
        self.clients = {user: Client(self.cluster, user) for user in USERS.values()}
        self.members = dict(line.split("\t") for line in self.clients["root"].lines("members")[0])
        self.members = {name: int(width) for name, width in self.members.items()}
        self.without_zero = False
        self.reserved = False  # whether there may be reservations
        self.crontabs = False  # whether there may be crontabs
        self.lenient_until = 0.0  # while Mode=audit, and shortly after: slurmctld reads a change when it is next asked
        self.pardoned = set()  # jobs that came then
        self.running = []  # commands that have not ended
        self.guard = None  # guard.Tally if guard is asked beside the checker
        self.limits = self.read_limits()
        # So that its state is on disk: a slurmctld that dies before it was written doesn't start again.
        self.restart()

    def restart(self):
        self.cluster.ok("/lab/service restart slurmctld", timeout=90)
        self.pid = self.controller()

    def start_empty(self, without=()):
        """slurmctld anew, which knows no job any more. A build of target/lab-panic leaves out the mends WITHOUT; jobs
        that ran without another mend may have been counted wrong."""
        environment = f"GPUSHARE_WITHOUT={','.join(without)}\n"
        self.cluster.write("/etc/default/slurmctld", f"{environment}SLURMCTLD_OPTIONS=-c\n")
        self.cluster.run("/lab/service stop slurmctld", timeout=90)
        self.cluster.ok("/lab/service start slurmctld", timeout=90)
        self.cluster.write("/etc/default/slurmctld", environment)
        self.pid = self.controller()

    def close(self):
        for client in self.clients.values():
            client.end()
        self.end_commands()
        self.cluster.down()

    def read_limits(self):
        columns = "maxtres,maxtrespu,maxtrespa,maxtrespernode"
        assert len(QOS_KINDS) == 5
        qos = self.cluster.ok(f"sacctmgr -nP show qos format=name,grptres,{columns}")
        associations = self.cluster.ok("sacctmgr -nP show assoc format=account,user,parentname,grptres,maxtres")
        limits = Limits.read(qos, associations, USERS)
        rules = self.cluster.ok("cat /etc/slurm/gpushare.conf")
        limits.caps = Caps.read(rules)
        limits.share_reservations = re.findall(r"^ShareReservations=(.*)$", rules, re.M)
        partitions = self.cluster.ok("scontrol -o show partition").splitlines()
        limits.whole_partitions = {one.split()[0].partition("=")[2] for one in partitions if "=EXCLUSIVE" in one}
        return limits

    def breaches(self, look):
        """What breaks a limit or a rule, but for the jobs that came while gpushare let everything pass."""
        jobs = [job for job in look.jobs if not self.pardoned & {job["id"], job["array"], job["het"]}]
        rest = judge.Look(jobs, look.nodes, look.shares)
        return list(judge.judge(rest, self.limits))

    def drop_zeros(self):
        """Takes the limits of 0 on other types away."""
        for command in ways.WITHOUT_ZERO:
            self.cluster.ok(["sacctmgr", "-i", *command.split()])
        self.limits, self.without_zero = self.read_limits(), True

    def ask_guard(self):
        if self.guard is not None:
            guard.compare(self, self.guard)

    def controller(self):
        """slurmctld's process number, or "" if it doesn't run."""
        return self.cluster.run(
            "cat /run/slurm/slurmctld.pid && kill -0 $(cat /run/slurm/slurmctld.pid)"
        ).stdout.strip()

    def look(self):
        for _ in range(3):  # a busy slurmctld answers late
            try:
                lines, last = self.clients["root"].lines("look")
            except (EOFError, BrokenPipeError) as gone:
                raise Hung("root's client has ended") from gone
            if last.startswith("0"):
                return judge.read("\n".join(lines))
        raise Hung(f"look: {last}")

    def words(self, value, job):
        for name, text in (("{P}", self.prefix), ("{NODE}", self.name), ("{job}", str(job))):
            value = value.replace(name, text)
        return value

    def perform(self, action, job=0):
        """Does ACTION, of which {job} is JOB; the answer."""
        if action.verb == "mode":
            return self.set_mode(action.fields["mode"])
        answer = self.answered(action, job)
        if time.monotonic() < self.lenient_until:
            self.pardoned |= {answer.job, job} - {0}
        return answer

    def set_mode(self, mode):
        """Mode= of gpushare.conf. A job that came in while everything passed is nobody's bypass until it ends."""
        change = f"sed '/^Mode=/d' gpushare.conf >new && echo Mode={mode} >>new && mv new gpushare.conf"
        self.cluster.ok(f"cd /etc/slurm && {change}")
        self.lenient_until = float("inf") if mode == "audit" else time.monotonic() + 3
        return Answer(0, 0, "")

    def answered(self, action, job):
        words = lambda fields: [f"{name}={quoted(self.words(value, job))}" for name, value in fields.items()]
        if action.verb in ("cli", "root"):
            return self.command(action, [self.words(word, job) for word in action.argv])
        if action.verb == "rest":
            return post(self, action.user, {name: self.words(value, job) for name, value in action.fields.items()})
        line = words(action.fields)
        if not (action.verb in ("submit", "allocate", "willrun") or "job_id_str" in action.fields):
            line.insert(0, f"job_id_str={job}")
        for one in action.more:
            line += [":", *words(one)]
        return self.clients[action.user].ask(action.verb, *line)

    def command(self, action, argv):
        """A real command; one that holds an allocation goes on in the background."""
        argv = [word.replace("\0", "") for word in argv]
        user = "root" if action.verb == "root" else action.user
        self.reserved |= action.verb == "root"
        self.crontabs |= argv[0] == "bash" and "scrontab" in argv[-1]
        if argv[0] in ("srun", "salloc"):
            self.running.append(
                subprocess.Popen(
                    self.cluster.inside("timeout", "6", *argv, user=user), stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )
            return Answer(0, 0, "")
        argv = [word.encode("latin-1", "replace") for word in argv]
        try:
            done = subprocess.run(
                [*self.cluster.inside(user=user), *argv],
                capture_output=True,
                timeout=PATIENCE if user != "root" else 120,
            )
        except subprocess.TimeoutExpired:
            return Answer(-1, 0, "timed out")
        text = (done.stdout + done.stderr).decode("latin-1")
        first = done.stdout.split(b";")[0].split(b"\n")[0].strip()
        return Answer(done.returncode, int(first) if first.isdigit() else 0, text)

    def reservations_away(self):
        self.cluster.run("scontrol -o show res | sed -n 's/^ReservationName=\\([^ ]*\\) .*/\\1/p' | "
                         "while read name; do scontrol delete reservation=$name; done")

    def revive(self):
        """A slurmctld without jobs in the place of one that died, hangs, or has a job of which it would die again."""
        self.end_commands()
        self.start_empty()
        for one in self.clients.values():
            one.end()
            one.start()

    def refused_command(self):
        """Whether an srun or salloc has given up by itself; timeout's own status is 124."""
        return any(process.poll() not in (None, 0, 124) for process in self.running)

    def end_commands(self):
        for process in self.running:
            process.terminate()
            process.wait()
        self.running.clear()

    def clear(self, tries=800):
        """Ends every job and reservation, and waits until nothing is left; False if something stays."""
        self.end_commands()
        for attempt in range(tries):
            left = [job for job in self.look().jobs if job["state"] & 0xFF <= 2 or job["state"] & judge.COMPLETING]
            if not left:
                return True
            if attempt % 20 == 0:
                for job in left:
                    self.clients["root"].ask("cancel", f"job_id_str={job['id']}")
            time.sleep(0.05)
        return False

    def tidy(self):
        """An empty cluster again; the error that it didn't become one."""
        if self.crontabs:
            self.cluster.run("for user in alice bob; do scrontab -u $user -r; done")
        if not self.clear():
            raise AssertionError(f"jobs stay: {self.cluster.describe()}")
        if self.reserved:
            self.reservations_away()
        if self.lenient_until == float("inf"):
            self.set_mode("enforce")
        self.reserved = self.crontabs = False
        self.pardoned.clear()
