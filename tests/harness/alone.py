# SPDX-License-Identifier: GPL-2.0-or-later
"""Namespaces of mounts and processes for a program of the tests, and a temporary folder."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = "GPUSHARE_ALONE"


def folder():
    """A directory for this run only."""
    return Path(os.environ.get(FOLDER, "/nonexistent"))


def go_on_alone(name):
    """Continues in the namespaces, as a child of process 1; after its end, only its exit status is left."""
    if os.geteuid() != 0:
        sys.exit(f"{name}: needs root, for a mount namespace")
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix=f"gpushare-{name}-")
        # It also needs its own /proc: a real slurmstepd on this machine would keep a job with the same number alive.
        isolation = "--mount --propagation private --pid --fork --kill-child --mount-proc".split()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        # The namespaces have mounts of what is in the directory, so it is removed from outside of them.
        try:
            sys.exit(subprocess.call(["unshare", *isolation, sys.executable, *sys.argv]))
        finally:
            shutil.rmtree(folder())
    if os.getpid() == 1:
        child = os.fork()
        if child:
            os._exit(adopt(child))


def adopt(child):
    """Process 1: waits for all processes without a parent, until CHILD ends; returns its exit status, or 1 if a signal
    ended it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
