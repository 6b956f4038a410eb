# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters of the lab for the bench, and programs of ours inside them. What starts here ends with its `with`."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))

import client
import lab
from client import compiled
from lab import TOP, NotHere


class Box(lab.Cluster):
    """A cluster, up from its making to the end of its `with`, whatever happens in between."""

    patience = 120

    def __init__(self, kind, release, *conf, cgroup=None):
        self.clients = []
        super().__init__(f"bench-{kind}-{os.getpid()}", release, cgroup, conf)

    def down(self):
        for one in self.clients:
            one.close()
        super().down()

    def install(self, program, folder):
        """Puts PROGRAM (a file of this machine) into FOLDER of the box; its path there."""
        path = f"{folder}/{program.name}"
        client.install(self, program, path)
        return path

    def plugin_folder(self):
        """Where Slurm looks for its plugins."""
        return self.ok("echo /usr/lib/*/slurm-wlm")

    def client(self, program, user="root", under=()):
        """Starts PROGRAM (a file of this machine) in the box, ready to be asked;
        UNDER is a command that runs commands."""
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
