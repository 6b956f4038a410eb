# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of the lab as a Python object: start it, run commands in it, wait for jobs, end it."""

import os
import shlex
import subprocess
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
LAB = TOP / "tests/lab/lab"
EXAMPLES = TOP / "docs/examples"
CASES = TOP / "tests/live/conf"
RELEASES = os.environ.get("GPUSHARE_RELEASES", "22.05 24.11 26.05").split()

# How the names of tests' boxes start: two runs at once need two.
BOXES = os.environ.get("GPUSHARE_BOXES", "test")

# Longest that anything in a healthy cluster takes; a wait that runs into it is a failure.
PATIENCE = 40

# What somebody asks first about a cluster in which something went wrong; each with an end.
DESCRIBE = r"""
    timeout 9 squeue -a -o '%i %q %u %T %r %N'
    timeout 9 sinfo -N -o '%N %T %E'
    for root in / /proc/[0-9]*/root; do ls -d $root/run/gpushare/jobs/*; done 2>/dev/null | sort -u
    ps -eo pid,ppid,etimes,stat,wchan:16,args | grep -E '[s]lurm|[s]run|[g]pushare'
    tail -n 12 /var/log/slurm/syslog.log
    grep -HiE 'error|fatal|warning|drain|requeue|not resp|resending' /var/log/slurm/slurm*.log |
        grep -vE 'No such file|Trying backup|Database settings|xcpuinfo|debug levels|No error' | tail -n 20"""


def nvidia(release):
    """Where NVIDIA's own programs for MPS are, of the suite of RELEASE or "555"; None if they can't be had here."""
    done = subprocess.run([LAB, "nvidia", release], capture_output=True, text=True)
    if done.returncode == 3:
        return None
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def systemd(release):
    """Whether the release's systemd can be had here."""
    done = subprocess.run([LAB, "systemd", release], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 0


def python(release):
    """Whether the release's Python, with tools that submit jobs, can be had here."""
    done = subprocess.run([LAB, "python", release], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 0


def containers(release):
    """Whether the release's programs that start containers can be had here."""
    done = subprocess.run([LAB, "containers", release], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 0


class Cluster:
    def __init__(self, name, release, cgroup="v1", conf=(), plugins=None, nvidia=False, systemd=False, python=False,
                 containers=False, next=None):
        self.name, self.release, self.cgroup = name, release, cgroup
        command = [LAB, "up", name, "--release", release, "--cgroup", cgroup]
        for folder in conf:
            command += ["--conf", folder]
        if plugins:
            command += ["--plugins", plugins]
        if nvidia:
            command += ["--nvidia"]
        if systemd:
            command += ["--systemd"]
        if python:
            command += ["--python"]
        if containers:
            command += ["--containers"]
        if next:
            command += ["--next", next]
        subprocess.run([LAB, "down", name], check=True)
        subprocess.run(command, check=True, timeout=120)

    def down(self):
        subprocess.run([LAB, "down", self.name], check=True)

    def newer_than(self, release):
        """Whether this cluster's release is RELEASE or newer."""
        return [int(part) for part in self.release.split(".")] >= [int(part) for part in release.split(".")]

    def run(self, command, user="root", timeout=PATIENCE, stdin=None, node=None):
        """COMMAND (a list, or a text for bash) in the cluster, or on a NODE with namespaces of its own; its result, whatever
        its status."""
        if isinstance(command, str):
            command = ["bash", "-c", command]
        where = ["--node", node] if node else []
        return subprocess.run(
            [LAB, "exec", self.name, "--user", user, *where, "--", *map(str, command)],
            capture_output=True, text=True, errors="replace", timeout=timeout, input=stdin,
        )

    def ok(self, command, user="root", **options):
        """The output of COMMAND, which must succeed."""
        result = self.run(command, user, **options)
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        return result.stdout.strip()

    def sbatch(self, *options, script="sleep 60", user="alice"):
        """The number of a batch job that must be accepted; its output is in /lab/out/NUMBER."""
        output = ["-o", "/lab/out/%j", "-e", "/lab/out/%j"]
        return self.ok(["sbatch", "--parsable", *output, *options, "--wrap", script], user).split(";")[0]

    def output(self, job):
        return self.run(["cat", f"/lab/out/{job}"]).stdout

    def state(self, job):
        text = self.run(["scontrol", "-o", "show", "job", job]).stdout
        fields = dict(field.split("=", 1) for field in shlex.split(text, posix=False) if "=" in field)
        return fields.get("JobState", "GONE")

    def wait_state(self, job, *states):
        return self.wait(lambda: self.state(job) in states and self.state(job), f"job {job} to be {states}")

    def finished(self, job):
        """The state a job ended in, once its epilog is over too."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        return self.wait_state(job, *ends)

    def wait(self, condition, what, patience=PATIENCE):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"waited {patience} s for {what}")

    def cancel_all(self):
        """Ends every job and waits until none is left, epilogs included."""
        self.run("squeue -h -o %A | xargs -r scancel")
        self.wait(lambda: not self.ok(["squeue", "-h"]), "an empty queue")

    def node_state(self):
        # An idle node that the backfill scheduler has plans for is "planned" for a moment.
        return self.ok(["sinfo", "-h", "-N", "-o", "%T %E"]).replace("planned", "idle", 1)

    def log(self, daemon):
        return subprocess.run([LAB, "logs", self.name, daemon], capture_output=True, text=True, errors="replace",
                              check=True).stdout

    def describe(self):
        """What is on it now, for the report of a test that failed."""
        try:
            lines = self.run(DESCRIBE).stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            lines = [str(late)]
        return "\n".join(line[:160] for line in lines[:75])

    def shares(self, node=None):
        """What the ledger has, one dict a job and GPU, as `gpushare status --parsable` names it."""
        header, *lines = self.ok(["gpushare", "status", "--parsable"], node=node).splitlines()
        return [dict(zip(header.split("|"), line.split("|"))) for line in lines]

    def ledger(self, node=None):
        """{job: GPU index}"""
        return {row["JOB"]: int(row["GPU"]) for row in self.shares(node)}
