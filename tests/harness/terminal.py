# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on a pseudo-terminal: what it prints there, and keys."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from waiting import PATIENCE


class Terminal:
    """Runs COMMAND on a separate terminal. A `with` always ends it."""

    def __init__(self, command, rows=24, columns=80, **variables):
        self.output = b""
        self.pid, self.master = pty.fork()
        if not self.pid:
            # Waits until the size is set.
            os.read(0, 1)
            kept = {name: os.environ[name] for name in ("PATH", "GPUSHARE_LAB_DIR") if name in os.environ}
            environment = {**kept, "TERM": "xterm", **variables}
            try:
                os.execvpe(command[0], list(map(str, command)), environment)
            finally:
                os._exit(127)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.write(self.master, b"\n")
        self.status = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def read(self, patience):
        """Reads what is available; False at the end."""
        if not select.select([self.master], [], [], patience)[0]:
            return True
        try:
            more = os.read(self.master, 65536)
        except OSError:
            return False
        self.output += more
        return bool(more)

    def text(self):
        return self.output.decode(errors="replace")

    def wait(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"waited {PATIENCE} s for {what}:\n{self.text()!r}"
            if not self.read(0.1):
                assert condition(), f"it ended before {what}:\n{self.text()!r}"

    def wait_end(self):
        """How it ended, as in waitpid(2)."""
        end = time.monotonic() + PATIENCE
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < end, f"it didn't end:\n{self.text()!r}"
        self.status = status
        while select.select([self.master], [], [], 0)[0] and self.read(0):
            pass
        return status
