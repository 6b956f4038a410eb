# SPDX-License-Identifier: GPL-2.0-or-later
"""A program killed, or failed by the kernel, at one system call after the other, and what the next ones find then.

strace(1) does it: with --inject the tracee gets SIGKILL on entering the call, which is then not made, or the call fails
with an error. Every call from the first that names /run/gpushare on is a step, so the state after each is met as well.
"""

import signal
import subprocess
import tempfile
import time

import pytest
from bare_node import LEDGER, PROGRAMS, STRACE, Node, calls_in, finished

# Those that an error is injected into: what can go wrong on a node that is full or has a bad memory.
FAILING = "mkdir openat write pwrite64 ftruncate fchmod chmod fsync rename unlink flock utimensat".split()


class Scene:
    """What is on a node before a program is disturbed, and what must hold whatever became of it."""

    def __init__(self, name, program="gpushare-prolog", victim=3, restart=0, units=40, prepare=None, stay=(1, 2)):
        self.name, self.program, self.victim, self.restart, self.units = name, program, victim, restart, units
        self.prepare, self.stay = prepare or two_jobs, stay

    def node(self):
        node = Node()
        self.prepare(node)
        return node

    def command(self, node, *strace):
        units = self.units if self.program == "gpushare-prolog" else None
        variables = node.variables(self.victim, units, restart=self.restart)
        return subprocess.run(
            [*STRACE, *strace, PROGRAMS / self.program], env=variables, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=60,
        )

    def check(self, node, before, where):
        """Nobody else's entry is lost, nothing is booked twice, the next job and the epilog go as ever."""
        after = node.entries()
        for job in self.stay:
            assert after.get(job) == before[job], f"{where}: job {job} lost its entry"
        assert set(after) <= set(before) | {self.victim}, f"{where}: {after}"
        assert node.status()["garbage"] == [], f"{where}: {node.status()}"
        counted = node.counts()
        node.epilog(self.victim, restart=self.restart)
        assert self.victim not in node.entries() and node.failure(self.victim) is None, where
        node.prolog(50, 20)
        entries = node.entries()
        assert 50 in entries and all(entries[job] == before[job] for job in self.stay), f"{where}: {entries}"
        # One more placement, whatever became of the one that was disturbed.
        assert node.counts()["share"] == counted.get("share", 0) + 1, f"{where}: {counted}, {node.counts()}"
        node.epilog(50)
        free = (node.gpus * node.units - sum(units for _, _, units in node.entries().values())) // 40
        fits = node.fits()
        assert fits == free, f"{where}: {fits} shares fit, {free} should"
        for job in (*before, self.victim):
            node.epilog(job)
        node.check_empty()


def two_jobs(node):
    node.prolog(1)
    node.prolog(2)


def requeued(node):
    two_jobs(node)
    node.prolog(3)


def full(node):
    for job in (1, 2, 4):
        node.prolog(job)
    node.prolog(5, 20)


def over(node):
    """The node is full of jobs, of which one is over that never had an epilog."""
    for job in (1, 2, 4, 5):
        node.prolog(job)
    node.is_over(5)


SCENES = [
    Scene("prolog on an empty /run", prepare=lambda node: None, stay=()),
    Scene("prolog beside two jobs"),
    Scene("prolog of a requeued job whose entry lives", restart=1, prepare=requeued),
    Scene("prolog of a share that fits nowhere", prepare=full, stay=(1, 2, 4, 5), units=80),
    Scene("prolog that drops a job that is over", prepare=over, stay=(1, 2, 4)),
    Scene("epilog beside two jobs", "gpushare-epilog", prepare=requeued),
]


def calls(scene):
    """(name, how many of that name) of each call that is a step."""
    with tempfile.NamedTemporaryFile("r") as trace:
        scene.command(scene.node(), "-o", trace.name)
        return calls_in(trace, LEDGER)


every_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


@every_scene
def test_killed_at_each_system_call(scene):
    for name, number in calls(scene):
        node = scene.node()
        before = node.entries()
        done = scene.command(node, "-o", "/dev/null", f"--inject={name}:signal=KILL:when={number}")
        # It is the worker that is killed, or its parent, which makes few calls: the worker then ends with it.
        killed = done.returncode == -signal.SIGKILL or done.returncode == 0 and "ended by signal 9" in done.stderr
        assert killed, f"{name} {number}: not killed: {done}"
        scene.check(node, before, f"killed at {name} number {number}")


@every_scene
def test_an_error_from_each_system_call(scene):
    for name, number in calls(scene):
        for error in ("ENOSPC", "EIO") if name in FAILING else ():
            node = scene.node()
            before = node.entries()
            done = scene.command(node, "-o", "/dev/null", f"--inject={name}:error={error}:when={number}")
            where = f"{error} from {name} number {number}"
            assert done.returncode == 0, f"{where}: {done}"
            scene.check(node, before, where)


def test_one_that_hangs_is_ended_its_job_fails_and_the_next_goes_on():
    """Stopped at a system call that it makes with the lock of the ledger, as by a file system that never answers. The
    entry is written by then. What marks the job makes fewer such calls."""
    node = Node()
    started = time.monotonic()
    stop = "--inject=pwrite64:signal=STOP:when=2"
    process = node.start("gpushare-prolog", 1, 40, before=[*STRACE, "-o", "/dev/null", stop])
    lines = finished(process)
    assert 49 < time.monotonic() - started < 58, "the bound in docs/placement.md"
    assert lines == ["gpushare-prolog: job 1: not done after 50 s: stopped"], lines
    assert 1 in node.entries()
    assert "not done after 50 s" in node.failure(1), "its steps must not take the rest as done"
    node.prolog(2)
    assert 2 in node.entries()
    for job in (1, 2):
        node.epilog(job)
    node.check_empty()
