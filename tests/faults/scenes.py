# SPDX-License-Identifier: GPL-2.0-or-later
"""What schedules.py plays: scenes of three programs on one node, and what must hold during and after every order of
their system calls."""

import contextlib
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import struct
import time
from pathlib import Path

import held
from bare_node import LEDGER, PROGRAMS, RUN, Node
from lab import TOP
from mps_node import MPS, USERS, MpsNode, strangers
from steps import full, over, requeued, two_jobs

JOBS = LEDGER / "jobs"
STEP = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "debug/examples/step"
ALICE, BOB = USERS[0], USERS[1]


def prolog(job, units=40, **more):
    return "gpushare-prolog", job, units, more


def epilog(job, **more):
    return "gpushare-epilog", job, None, more


def heal(job, **more):
    return "heal", job, None, more


def step(what, job, *words):
    return "step", job, (what, str(job), *map(str, words)), {}


STATUS = ("gpushare", 0, None, {})


class Scene:
    """PREPARE makes what is there before. With MPS on that many GPUs, fewer orders are played: WEIGHT. OVERLAP: a job's
    epilog may run while its prolog does, which slurmd prevents unless it is restarted. Then a daemon may stay without
    a job until the node's next epilog."""

    def __init__(self, name, programs, prepare=two_jobs, mps=None, weight=1.0, overlap=False):
        self.name, self.programs, self.prepare = name, programs, prepare
        self.mps, self.weight, self.overlap = mps, weight, overlap


def nothing(_):
    pass


def failed(node):
    two_jobs(node)
    node.prolog(3, 81)


def garbage(node):
    two_jobs(node)
    (JOBS / "5").write_text("garbage")


def alices(node):
    node.prolog(1, 40, user=ALICE)


def alices_ended(node):
    """A script of hers has told it to quit."""
    alices(node)
    for pid in strangers():
        os.kill(pid, signal.SIGKILL)
    for socket in MPS.glob("*/pipe/control"):
        socket.unlink()


SCENES = [
    Scene("first jobs", [prolog(1), prolog(2), prolog(3)], nothing),
    Scene("one leaves, one comes", [prolog(3), epilog(1), STATUS]),
    Scene("full", [prolog(7), prolog(8, 20), epilog(1)], full),
    Scene("requeued", [prolog(3, restart=1), epilog(3), prolog(8)], requeued),
    Scene("requeued, looked at", [prolog(3, restart=1), epilog(1), STATUS], requeued),
    Scene("extern step and a mark", [step("extern", 1, 1), step("fail", 1, 2001), prolog(3)]),
    Scene("extern step and its epilog", [step("extern", 1, 1), epilog(1), prolog(3)]),
    Scene("a task looks", [step("task", 1), step("fail", 1, 2001), epilog(1)]),
    Scene("its own epilog", [prolog(3), epilog(3), step("extern", 3, 1)]),
    Scene("a failed one again", [prolog(3, restart=1), epilog(3), STATUS], failed),
    Scene("one that is over", [prolog(7), prolog(8), epilog(5)], over),
    Scene("garbage", [prolog(3), prolog(4), STATUS], garbage),
    Scene("the first daemon", [prolog(1, user=ALICE), prolog(2, user=BOB), STATUS], nothing, 1, 0.25),
    Scene("one daemon for two", [prolog(1, user=ALICE), prolog(2, user=ALICE), epilog(1)], nothing, 1, 0.25),
    Scene("a daemon changes hands", [prolog(2, user=ALICE), epilog(1), STATUS], alices, 1, 0.25),
    Scene("a daemon and its own epilog", [prolog(2, user=ALICE), epilog(2), epilog(1)], alices, 1, 0.25, True),
    Scene("a step heals", [heal(1, user=ALICE), prolog(2, user=ALICE), STATUS], alices_ended, 1, 0.25),
    Scene(
        "a step heals and its epilog", [heal(1, user=ALICE), epilog(1), prolog(2, user=BOB)], alices_ended, 1, 0.25,
        True,
    ),
]


class Wrong(Exception):
    """Something that must hold doesn't."""


def ensure(holds, *what):
    if not holds:
        raise Wrong(" ".join(map(str, what)))


class Stage:
    """A scene in this process's own namespaces. PROGRAMS are where the programs and hold.c are."""

    def __init__(self, scene, tools):
        self.scene, self.tools = scene, tools
        # A daemon always answers, on a busy machine late.
        self.node = MpsNode(tools / "control", scene.mps, "MpsTimeout=15000") if scene.mps else Node()
        self.node.programs = PROGRAMS
        self.history, self.settled = [], set()
        scene.prepare(self.node)
        # A node with daemons is prepared anew each time: they are processes.
        self.before = None if scene.mps else remembered()
        self.jobs = sorted({*entries(), *(job for _, job, _, _ in scene.programs if job)})
        count = len(scene.programs)
        self.outcomes = {}
        for order in itertools.chain(*(itertools.permutations(range(count), size) for size in (count, count - 1))):
            self.reset()
            self.play([(which, None, None) for which in order], order)
            self.outcomes.setdefault(frozenset(order), set()).add(self.outcome())

    def command(self, which, **more):
        """Starts a program of the scene."""
        name, job, words, rest = self.scene.programs[which]
        if name == "gpushare":
            command = [PROGRAMS / name, "status", "--json", "--conf", self.node.site / "gpushare.conf"]
            variables = {}
        elif name == "step":
            command, variables = [STEP, *words], {}
        else:
            command = [PROGRAMS / "gpushare-prolog", "heal"] if name == "heal" else [PROGRAMS / name]
            variables = self.node.variables(job, words, **rest)
            more["has_worker"] = True
        started = held.Held(self.tools / "hold", command, variables, **more)
        # What was to be read while it ran.
        started.window = slice(len(self.history) - 1, None)
        started.when_ended = lambda: setattr(started, "window", slice(started.window.start, len(self.history)))
        return started

    def points(self):
        """For each program, before which of its calls it may be interrupted: those that have to do with the ledger or
        a daemon."""
        found = []
        for which in range(len(self.scene.programs)):
            self.reset()
            [alone] = held.run([lambda: self.command(which, says_where=True)], [])
            calls = [(name, path) for name, path in zip(alone.trace, alone.paths) if name != "(waits)"]
            found.append([
                at for at, (name, path) in enumerate(calls)
                if path.startswith(str(LEDGER)) or not path and name not in ("fchmod", "fsync")
            ])
        return found

    def reset(self):
        for pid in strangers() if self.scene.mps else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(LEDGER, ignore_errors=True)
        if self.before is None:
            self.scene.prepare(self.node)
        else:
            restore(self.before)
        self.history = [entries()]

    def look(self):
        """What a reader finds now: whole entries, and no GPU over its units."""
        now = entries()
        taken = {}
        for _, gpu, units in placed(now).values():
            taken[gpu] = taken.get(gpu, 0) + units
        ensure(all(units <= self.node.units for units in taken.values()), "a GPU is given twice:", now)
        if now != self.history[-1]:
            self.history.append(now)

    def play(self, schedule, which=None):
        """Plays one order; what can be said of it while it runs and of each program."""
        which = range(len(self.scene.programs)) if which is None else sorted(which)
        numbers = {number: at for at, number in enumerate(which)}
        programs = [lambda number=number: self.command(number) for number in which]
        done = held.run(programs, [(numbers[number], *rest) for number, *rest in schedule], self.look)
        self.look()
        for number, one in zip(which, done):
            if not one.was_killed:
                ensure(one.process.returncode == 0, one.name, "ended with", one.process.returncode, one.said)
                self.check_said(self.scene.programs[number], one)
        return done

    def check_said(self, program, one):
        name, _, words, _ = program
        window = self.history[one.window]
        if name == "gpushare":
            status = json.loads(one.out)
            shown = {job["job"]: (job["restart"], job["gpus"][0]["index"], job["units"]) for job in status["jobs"]}
            reasons = {row["job"]: row["reason"] for row in status["failures"]}
            seen = [(placed(then), failures(then)) for then in window]
            ensure((shown, reasons) in seen, "status shows what never was:", shown, reasons, "of", seen)
            for gpu in status["gpus"]:
                ensure(gpu["units"] <= self.node.units, "status shows a GPU over its units:", gpu)
        elif name == "step" and words[0] == "task":
            seen = {then.get(int(words[1]), b"no entry").decode().strip() for then in window}
            ensure(one.out.strip() in seen, "a step reads what never was:", one.out, "of", seen)

    def outcome(self):
        """What is left, without times, and numbers of processes."""
        return jobs_left(), names_left(), tuple(sorted(self.node.counts().items())), self.daemons()

    def daemons(self):
        """Those that live, by their directories; checks that each job has its own. Of one without a job, no serial
        order has any."""
        if not self.scene.mps:
            return ()
        alive = tuple(sorted(folder.name for folder in (MPS.iterdir() if MPS.exists() else ()) if is_alive(folder)))
        found = strangers()
        ensure(len(found) == len(alive), "daemons live that no folder knows:", found, alive)
        due = set()
        for job, text in entries().items():
            folder = re.search(rb"\nmps=.*/(.*)\n", text)
            if folder and b"\nstate=placed\n" in text:
                due.add(folder[1].decode())
                ensure(folder[1].decode() in alive, f"job {job} has no daemon:", alive)
        return () if self.scene.overlap else alive

    def check(self, schedule, done):
        """What must hold after all have ended: what is left is what one of the serial orders leaves, and its epilogs
        leave nothing."""
        victims = {number for number, one in enumerate(done) if one.was_killed}
        everybody = frozenset(range(len(done)))
        for path in (LEDGER / "lock", *MPS.glob("*/lock")):
            with open(path) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if victims:
            its = {self.scene.programs[number][1] for number in victims}
            found = without(its, jobs_left())
            fine = {without(its, one[0]) for few in (everybody, everybody - victims) for one in self.outcomes[few]}
            ensure(found in fine, "no serial order, with it or without, leaves", found, "but", fine)
            # Of a daemon, files don't tell all.
            left = None if self.scene.mps else (jobs_left(), names_left())
        else:
            left = self.outcome()
            ensure(left in self.outcomes[everybody], "no serial order leaves", left, "but", self.outcomes[everybody])
        # The same epilogs leave the same of the same.
        if left in self.settled:
            return
        self.settled.update({left} - {None})
        ensure(self.node.status()["garbage"] == [], self.node.status())
        # What is left of a file that was being written goes with the next.
        for job in self.jobs:
            for restart in (0, 1):
                self.node.epilog(job, restart=restart)
        self.node.prolog(50, 20, user=ALICE)
        ensure(self.node.failure(50) is None, "the next job fails:", self.node.failure(50))
        self.node.epilog(50)
        self.node.check_empty()


# --- the ledger, as any reader finds it ------------------------------------------------------------------------------


def entries():
    """{job: text}; each must be whole."""
    found = {}
    for name in os.listdir(JOBS) if JOBS.exists() else ():
        text = (JOBS / name).read_bytes()
        if text != b"garbage":
            ensure(re.fullmatch(rb"gpushare-ledger [45]\n(.+\n)+end\n", text), "half an entry:", name, text)
            found[int(name)] = text
    return found


def placed(found):
    """{job: (restart, GPU, units)}"""
    pattern = rb"restart=(\d+)\n(?:.*\n)*units=(\d+)\n(?:.*\n)*gpu=(\d+) "
    words = {job: re.search(pattern, text) for job, text in found.items()}
    return {job: (int(word[1]), int(word[3]), int(word[2])) for job, word in words.items() if word}


def failures(found):
    words = {job: re.search(rb"\nreason=(.*)\n", text) for job, text in found.items()}
    return {job: word[1].decode() for job, word in words.items() if word}


def jobs_left():
    """What is left of the jobs, without times and numbers of processes."""
    return tuple(
        (job, re.sub(rb"since=\d+|witness=\d+ \d+", b"", text).decode()) for job, text in sorted(entries().items())
    )


def names_left():
    return tuple(sorted(os.listdir(LEDGER))) if LEDGER.exists() else ()


def without(jobs, left):
    return tuple((job, text) for job, text in left if job not in jobs)


def is_alive(folder):
    """Whether the daemon of a directory holds its lock."""
    try:
        with open(folder / "pipe/control_lock", "rb") as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            return struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
    except OSError:
        return False


def remembered():
    """All of the ledger, to make it again."""
    found = []
    for path in sorted(LEDGER.rglob("*")) if LEDGER.exists() else ():
        about = path.stat()
        found.append((path, about.st_mode & 0o7777, None if path.is_dir() else path.read_bytes()))
    return found


def restore(found):
    if found:
        LEDGER.mkdir(mode=0o755)
    for path, mode, text in found:
        if text is None:
            path.mkdir()
        else:
            path.write_bytes(text)
            # Whole seconds, as the prolog's: it takes a stamp of later in this second for one of the future.
            os.utime(path, 2 * (int(time.time()),))
        path.chmod(mode)
