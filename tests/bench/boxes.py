# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters of the lab for the bench, and programs of ours inside them. What starts here ends with its `with`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))

from client import compiled
from lab import LAB, TOP

# The lab's status for what can't be made on this machine.
CANNOT = 3


class NotHere(Exception):
    """This machine can't have such a box."""


class Box:
    """A cluster, up from `with` to its end, whatever happens in between."""

    def __init__(self, kind, release, *conf, cgroup="v1"):
        self.name, self.release, self.cgroup, self.clients = f"bench-{kind}-{os.getpid()}", release, cgroup, []
        self.conf = [part for folder in conf for part in ("--conf", folder)]

    def __enter__(self):
        try:
            command = [LAB, "up", self.name, "--release", self.release, "--cgroup", self.cgroup, *self.conf]
            status = subprocess.run(command, check=False, timeout=180).returncode
            if status != 0:
                raise NotHere(self.name) if status == CANNOT else RuntimeError(f"lab up {self.name}: status {status}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.close()
        subprocess.run([LAB, "down", self.name], check=False)

    def inside(self, *command, user="root"):
        """The command line that runs COMMAND in the box."""
        return [LAB, "exec", self.name, "--user", user, "--", *command]

    def run(self, *command, user="root", **options):
        """Runs COMMAND in the box; its result, whatever its status."""
        command = self.inside(*command, user=user)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)

    def write(self, path, text):
        """Replaces a file by renaming: somebody may be reading it."""
        self.run("sh", "-c", 'cat >"$0.new" && mv "$0.new" "$0"', path, input=text).check_returncode()

    def install(self, program, folder):
        """Puts PROGRAM (a file of this machine) into FOLDER of the box; its path there."""
        path = f"{folder}/{program.name}"
        with open(program, "rb") as file:
            subprocess.run(self.inside("install", "-m", "755", "/dev/stdin", path), stdin=file, check=True, timeout=60)
        return path

    def plugin_folder(self):
        """Where Slurm looks for its plugins."""
        return self.run("sh", "-c", "echo /usr/lib/*/slurm-wlm").stdout.strip()

    def client(self, program, user="root", under=()):
        """Starts PROGRAM (a file of this machine) in the box, ready to be asked; UNDER is a command that runs commands."""
        path = self.install(program, "/usr/local/bin")
        self.clients.append(Client(self.inside(*under, path, user=user)))
        return self.clients[-1]


class Client:
    """A program that answers every line with a line of numbers. It gives up by itself when something hangs."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def ask(self, line):
        print(line, file=self.process.stdin)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the client ended when asked '{line}'; its reason is above")
        return [int(number) for number in answer.split()]

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def workshop():
    """A folder for compiled programs, removed at its end."""
    return tempfile.TemporaryDirectory(prefix="gpushare-bench-")
