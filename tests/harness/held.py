# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that run one at a time: each waits before every system call that others can notice until it is let on, so
that the order in which several share a ledger is chosen, and can be repeated. tests/fakes/hold.c stops them."""

import array
import errno
import fcntl
import os
import platform
import signal
import socket
import struct
import subprocess
import time

from lab import TOP

# linux/seccomp.h
RECEIVE, SEND, SET_FLAGS, SYNC_WAKE_UP = 0xC0502100, 0xC0182101, 0x40082104, 1
CONTINUE = 1
# The numbers of the calls in hold.c: name, and whether it changes what others read. Of the others one only reads.
CALLS = {
    "x86_64": {
        1: ("write", True), 2: ("open", False), 18: ("pwrite64", True), 62: ("kill", False), 74: ("fsync", False),
        73: ("flock", False), 77: ("ftruncate", True), 82: ("rename", True), 83: ("mkdir", True), 84: ("rmdir", True),
        87: ("unlink", True), 90: ("chmod", False), 91: ("fchmod", False), 217: ("getdents64", False),
        230: ("clock_nanosleep", False), 231: ("exit_group", False), 257: ("openat", False), 258: ("mkdirat", True),
        263: ("unlinkat", True), 264: ("renameat", True), 268: ("fchmodat", False), 280: ("utimensat", False),
        316: ("renameat2", True),
    },
}.get(platform.machine())
CHANGES = {name for name, changes in (CALLS or {}).values() if changes}
KILL, INSIST = "!", "?"
# Longer than an epilog waits for a daemon's lock.
INSISTENCE = 0.07
# No program takes longer from one of these calls to the next: it would have to wait for another that is held.
PATIENCE = 30


def build(folder):
    """The program that stops others, made in FOLDER."""
    path = folder / "hold"
    if not path.exists():
        flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-static"]
        subprocess.run(["cc", *flags, "-o", path, TOP / "tests/fakes/hold.c"], check=True)
    return path


def path_of(pid, name, words):
    """The path that a call of a process names first; empty for one of a file that is open."""
    if name in ("write", "pwrite64", "ftruncate", "flock", "fsync", "fchmod", "getdents64", "kill", "clock_nanosleep"):
        return ""
    at = words[name.endswith(("at", "at2"))]
    if not at:
        return ""  # utimensat(2) of an open file.
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(at)
        # Not beyond its page: there may be nothing.
        found = memory.read(4096 - at % 4096)
        if b"\0" not in found:
            found += memory.read(4096)
        return found.split(b"\0")[0].decode(errors="replace")


class Late(Exception):
    """A program hangs."""


def late(*_):
    raise Late


class Held:
    """A program that is held before its next call. It may have a worker: one child that does its work. What they start
    otherwise isn't held."""

    def __init__(self, hold, command, variables, has_worker=False, says_where=False):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.process = subprocess.Popen(
                [hold, str(theirs.fileno()), *command], env=variables, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            _, [(_, _, found)], _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
        [self.file] = array.array("i", found)
        try:
            fcntl.ioctl(self.file, SET_FLAGS, SYNC_WAKE_UP)
        except OSError:
            pass  # Before Linux 6.6 it is only slower.
        self.name = os.path.basename(str(command[0]))
        # How many calls it has made; the one that it is about to make, and which of the two is; the worker's number.
        self.made, self.waits, self.which = 0, None, None
        self.has_worker, self.worker = has_worker, None
        # Their names, the one that it is about to make last; with SAYS_WHERE, the paths that they name.
        self.trace, self.paths = [], [] if says_where else None
        # It sleeps because another has the lock.
        self.is_blocked = False
        self.out = self.said = None
        self.was_killed, self.when_ended = False, lambda: None

    def next(self):
        """Goes on to before the next call, or to the end."""
        if self.waits:
            self.answer(*self.waits)
            self.made += not self.is_blocked
        self.waits, self.is_blocked = None, False
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            while True:
                notice = bytearray(80)
                try:
                    fcntl.ioctl(self.file, RECEIVE, notice)
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
                    continue
                number, pid, _, call, _, _, *words = struct.unpack_from("QIIiIQ2Q", notice)
                main = self.process.pid
                if self.has_worker and pid != main:
                    self.worker = self.worker or pid
                name, _ = CALLS[call]
                # A sleep that follows a try to get a lock waits for it; others, for a program that isn't held.
                waits = name != "clock_nanosleep" or self.trace and self.trace[-1] in ("flock", "(waits)")
                if name == "exit_group" or pid not in (main, self.worker) or not waits:
                    self.answer(number, CONTINUE)
                    if name == "exit_group" and pid == main:
                        return self.end()
                    continue
                self.is_blocked = name == "clock_nanosleep"
                self.waits, self.which = (number, 0 if self.is_blocked else CONTINUE), pid
                # A lock that it didn't get doesn't count.
                self.made -= self.is_blocked
                self.trace.append("(waits)" if self.is_blocked else name)
                if self.paths is not None:
                    self.paths.append(path_of(pid, name, words))
                return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def answer(self, number, how):
        """Lets a call be made, or, for a wait, returns from it at once. One of a process that was killed is no more."""
        try:
            fcntl.ioctl(self.file, SEND, struct.pack("QqiI", number, 0, 0, how))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def kill(self):
        """Kills the process that is about to make a call, before it does."""
        os.kill(self.which, signal.SIGKILL)
        self.waits, self.is_blocked = None, False
        self.trace.append("(killed)")
        self.was_killed = True
        if self.which == self.process.pid:
            self.end()

    def end(self):
        self.out, self.said = (text.decode() for text in self.process.communicate())
        os.close(self.file)
        self.when_ended()

    @property
    def has_ended(self):
        return self.said is not None

    def changes(self):
        """Whether the call that it made last may have changed what others read."""
        return bool(self.trace) and self.trace[-1] in CHANGES


def run(programs, schedule, look=lambda: None):
    """Runs PROGRAMS, each a function that starts one, one at a time: SCHEDULE is a list of (which, calls, fate), each a
    turn that lasts until that program has made so many CALLS (none: until it ends), or is killed then if that is its
    FATE. One that needs a lock that another holds gives its turn up, if need be after it has insisted for a while. Who
    has not ended after the last turn goes on then, in order. Calls LOOK after each call
    that may have changed something. Returns the programs."""
    there = [None] * len(programs)

    def turn(which, calls=None, fate=None):
        """Whether it has got further."""
        held = there[which] = there[which] or programs[which]()
        steps, end = 0, time.monotonic() + INSISTENCE
        while not held.has_ended and not (held.waits and calls is not None and held.made >= calls):
            changed = held.changes()
            held.next()
            if changed:
                look()
            steps += 1
            if held.is_blocked and (fate != INSIST or time.monotonic() > end):
                return steps > 2
        look()
        if fate == KILL and not held.has_ended:
            held.kill()
        return True

    for which, calls, fate in schedule:
        turn(which, calls, fate)
    tries = 0
    while not all(held and held.has_ended for held in there):
        moved = [turn(which) for which, held in enumerate(there) if not (held and held.has_ended)]
        # A process that a killed one has just started may have its lock for a moment.
        tries = 0 if any(moved) else tries + 1
        if tries > 500:
            raise Late("all wait for a lock: " + "; ".join(f"{held.name}: {held.trace[-12:]}" for held in there))
        if tries:
            time.sleep(0.002)
    return there
