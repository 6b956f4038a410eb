# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups that lend their GPUs (`Burst=`): stories of owners, borrowers and others, many at a time on one full cluster.

A story is a job, and perhaps its user, who cancels or requeues it. Every half second a look at all jobs shows whether
- a group has more than its quota and what it may borrow: each is the limit of one QOS;
- of the owners' jobs that their quotas have room for, the first of a GPU type, and so of a node, still waits after the
  grace time and half a minute: Slurm preempts for one waiting job of a node at a time, so the next then has as long;
- a job was ended for an owner without its grace time, or an owner's job was ended for anybody.
The quotas are read from gpushare.conf's text, not from Slurm. Jobs write the time five times a second, so what they
lose is known."""

import contextlib
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from lab import CASES, Cluster
from shares import qos

GRACE, SLACK = 4, 30  # seconds; the first as in conf-lending/gpushare.conf
LOOK = 0.5  # seconds between two looks
OPEN, LONG_JOBS = 34, 18  # jobs at a time, at most; of them such that hold GPUs until they are ended
LONG = 300  # seconds: such a job ends only when it is ended
FREE = "normal"

WORK = """#!/bin/bash
# work SECONDS: writes which run it is and the time, whatever signal it gets, always over the same bytes
trap '' TERM
end=$((SECONDS + $1))
say() { printf '%3d %17s\\n' "${SLURM_RESTART_COUNT:-0}" "$1" 1<>/lab/out/tick.$SLURM_JOB_ID; }
while ((SECONDS < end)); do
    say "$EPOCHREALTIME"
    read -rt 0.2 <>/lab/out/never
done
say done
"""

# What apply has made, without one of its parts: what breaks then must be seen.
WITHOUT = {
    "preempt": [f"modify qos where name=qos_{one} set Preempt=" for one in "xyz"],
    "limit": [f"modify qos where name=qos_{one}_burst set GrpTRES=gres/gpu=-1,gres/gpu:a40=-1,gres/gpu:h100=-1"
              for one in "xyz"],
    "grace": [f"modify qos where name=qos_{one}_burst set GraceTime=0" for one in "xyz"],
}


def quotas(text):
    """{QOS: {type: GPUs}} of gpushare.conf's groups and of what they borrow."""
    found = {}
    for name, gpus, times in re.findall(r"^QOS=(\S+) .*GPUs=(\S+) .*Burst=(\d+)x", text, re.M):
        own = {kind: int(count) for kind, count in (one.split(":") for one in gpus.split(","))}
        found[name] = own
        found[f"{name}_burst"] = {kind: int(times) * count for kind, count in own.items()}
    return found


@dataclass
class Job:
    """What a look shows of a job."""
    id: str
    qos: str
    state: str
    reason: str
    restarts: int
    preempted: float  # when it was told to end; 0 if it wasn't
    gpus: dict

    @classmethod
    def read(cls, line):
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        tres = fields.get("AllocTRES", "(null)")
        if tres == "(null)":
            tres = fields.get("ReqTRES") or fields.get("TRES", "")
        gpus = {kind: int(count) for kind, count in re.findall(r"gres/gpu:(\w+)=(\d+)", tres)}
        told = fields.get("PreemptTime", "None")
        told = 0 if told in ("None", "Unknown", "N/A") else datetime.fromisoformat(told).timestamp()
        state = fields["JobState"].replace("SIGNALING", "RUNNING")
        return cls(fields["JobId"], fields["QOS"], state, fields["Reason"], int(fields["Restarts"]), told,
                   gpus)


@dataclass
class Run:
    """What was seen of a job between its start and its end or restart."""
    restarts: int = 0
    told: float = 0
    looked: float = 0


@dataclass
class Tally:
    stories: int = 0
    ended: Counter = field(default_factory=Counter)
    longest: float = 0  # that an owner's job waited although its quota had room
    first: float = 0  # that one was the first of its type
    line: int = 0  # how many of them waited for one type
    full: int = 0  # looks at which every GPU was in use
    looks: int = 0
    unseen: int = 0  # runs that ended while nobody looked
    findings: list = field(default_factory=list)

    def __str__(self):
        ended = ", ".join(f"{count} {what}" for what, count in sorted(self.ended.items()))
        return (f"{self.stories} stories ({ended}), {self.looks} looks, all GPUs in use at {self.full}; longest wait of"
                f" an owner {self.longest:.0f} s, as the first of {self.line} {self.first:.0f} s; {self.unseen} ends"
                f" not seen; {len(self.findings)} findings")


class Lending:
    def __init__(self, cluster, seed, without=None):
        self.cluster, self.chance, self.tally = cluster, random.Random(seed), Tally()
        self.quotas = quotas(cluster.ok("cat /etc/slurm/gpushare.conf"))
        self.owners = [name for name in self.quotas if not name.endswith("_burst")]
        self.runs, self.since, self.touched, self.long, self.all_long = {}, {}, set(), [], set()
        self.acts = []  # (when, what, job)
        self.last = 0.0
        self.first = {}  # by type: the owner's job that waits first, and since when
        done = qos(cluster, "apply", conf=None)
        assert done.returncode == 0, done.stdout + done.stderr
        for words in WITHOUT.get(without, []):
            cluster.ok(["sacctmgr", "-i", *words.split()])
        cluster.ok("mkfifo -m 666 /lab/out/never; cat >/lab/out/work; chmod 755 /lab/out/work", stdin=WORK)
        self.out = cluster.out

    def play(self, stories):
        """Plays so many stories, and waits until their jobs have ended; the tally."""
        while self.tally.stories < stories and not self.tally.findings:
            if len(self.look()) < OPEN:
                self.story()
                self.tally.stories += 1
            else:
                # The queue is full. Others end; sometimes a long job does.
                if self.long and self.chance.random() < 0.05:
                    self.act("scancel", self.long.pop(0))
                self.look(now=True)
            self.act_now()
        end = time.monotonic() + 120
        while (left := self.look(now=True)) and not self.tally.findings and time.monotonic() < end:
            self.act_now()
            # One that is just being requeued survives scancel.
            for job in {job.id for job in left} & self.all_long:
                self.act("scancel", job)
        if left and not self.tally.findings:
            self.find(f"jobs stay: {left}")
        return self.tally

    def story(self):
        owner = self.chance.choice(self.owners)
        # Enough long jobs of others for all GPUs: whatever an owner gets, somebody must give back.
        is_long = len(self.long) < LONG_JOBS
        name = self.chance.choices([owner, f"{owner}_burst", FREE], [0 if is_long else 60, 25, 15])[0]
        kind, most = self.chance.choice(sorted(self.quotas.get(name, {"a40": 3, "h100": 3}).items()))
        gpus = self.chance.randint(1, most if name == owner else min(most, 2))
        seconds = LONG if is_long else self.chance.randint(1, 4)
        account = "free" if name == FREE else owner.removeprefix("qos_")
        job = self.cluster.sbatch(
            f"--account={account}", f"--qos={name}", f"--gres=gpu:{kind}:{gpus}", "-t5", "-o/dev/null", "-e/dev/null",
            script=f"/lab/out/work {seconds}", user=self.chance.choice(["alice", "bob"]),
        )
        if is_long:
            self.long.append(job)
            self.all_long.add(job)
        act = self.chance.choices(["", "scancel", "requeue"], [7, 2, 1])[0]
        if act:
            self.acts.append((time.monotonic() + self.chance.uniform(0.5, 8), act, job))

    def act_now(self):
        due = [act for act in self.acts if act[0] <= time.monotonic()]
        self.acts = [act for act in self.acts if act not in due]
        for _, what, job in due:
            self.act(what, job)

    def act(self, what, job):
        self.touched.add(job)
        self.cluster.run(["scontrol", "requeue", job] if what == "requeue" else [what, job])

    def look(self, now=False):
        """The jobs that wait or run."""
        time.sleep(max(0, self.last + LOOK - time.monotonic()) if now else 0)
        if time.monotonic() < self.last + LOOK:
            return self.jobs
        lines = self.cluster.ok(["scontrol", "-o", "show", "job"]).splitlines()
        gap, self.last = time.monotonic() - self.last, time.monotonic()
        all_jobs = [Job.read(line) for line in lines if line.startswith("JobId=")]
        self.tally.looks += 1
        self.jobs = [job for job in all_jobs if job.state in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED")]
        self.long = [one for one in self.long if any(one == job.id for job in self.jobs)]
        self.check_limits()
        self.check_waits()
        for job in all_jobs:
            self.check_end(job, gap)
        return self.jobs

    def used(self):
        used = {}
        for job in self.jobs:
            if job.state == "RUNNING":
                used.setdefault(job.qos, Counter()).update(job.gpus)
        return used

    def find(self, text):
        if text not in self.tally.findings:
            self.tally.findings.append(text)

    def check_limits(self):
        used = self.used()
        for name, quota in self.quotas.items():
            for kind, count in used.get(name, {}).items():
                if count > quota.get(kind, 0):
                    self.find(f"{name} has {count} {kind} of {quota.get(kind, 0)}")
        self.tally.full += sum(map(sum, (one.values() for one in used.values()))) == 12

    def check_waits(self):
        used, now, waits, lines = self.used(), time.monotonic(), set(), {}
        for job in self.jobs:
            if job.state != "PENDING" or job.qos not in self.owners or job.reason.startswith(("BeginTime", "JobHeld")):
                continue
            of_qos = used.get(job.qos, Counter())
            if all(of_qos[kind] + count <= self.quotas[job.qos][kind] for kind, count in job.gpus.items()):
                waits.add(job.id)
                for kind in job.gpus:
                    lines.setdefault(kind, []).append(int(job.id))
                self.tally.longest = max(now - self.since.setdefault(job.id, now), self.tally.longest)
        firsts = {kind: (min(line), now) for kind, line in lines.items()}
        for kind, (first, _) in firsts.items():
            before, since = self.first.get(kind, (None, now))
            if first != before:
                continue
            firsts[kind] = (first, since)
            self.tally.first = max(self.tally.first, now - since)
            if now - since > GRACE + SLACK:
                self.find(f"job {first} of an owner is the first that waits for {kind}, with {used} in use")
        self.first = firsts
        self.tally.line = max([self.tally.line, *map(len, lines.values())])
        self.since = {job: since for job, since in self.since.items() if job in waits}

    def check_end(self, job, gap):
        run = self.runs.setdefault(job.id, Run(job.restarts))
        over = job.restarts != run.restarts or job.state not in ("PENDING", "RUNNING", "COMPLETING")
        if not over:
            run.told = job.preempted if job.state == "RUNNING" else run.told
            return
        if run.looked:
            return
        self.judge_end(job, run, gap)
        self.runs[job.id] = Run(job.restarts)
        if job.state not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED"):
            self.runs[job.id].looked = time.monotonic()

    def judge_end(self, job, run, gap):
        of_itself = job.restarts == run.restarts and job.state in ("COMPLETED", "TIMEOUT")
        what = "ended by themselves" if of_itself else "ended by their user" if job.id in self.touched else "preempted"
        self.tally.ended[what] += 1
        self.touched.discard(job.id)
        if what != "preempted":
            return
        if job.qos in self.owners:
            self.find(f"job {job.id} of {job.qos} was ended ({job.state}), although it is an owner's")
            return
        words = ["", ""]
        with contextlib.suppress(OSError):
            words = (self.out / f"tick.{job.id}").read_text().split() or words
        if words[0] != str(run.restarts):
            self.tally.ended["preempted before they began"] += 1
            return
        if words[1] == "done":
            return
        lived = float(words[1])
        if not run.told and gap > GRACE / 2:
            self.tally.unseen += 1
        elif not run.told:
            self.find(f"job {job.id} of {job.qos} was ended ({job.state}) without notice")
        elif lived < run.told + GRACE - 1.5:
            self.find(f"job {job.id} of {job.qos} was ended {lived - run.told:.1f} s after notice")


def cluster(name, release, conf):
    return Cluster(name, release, conf=[conf, CASES / "many-gpus"])
