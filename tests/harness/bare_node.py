# SPDX-License-Identifier: GPL-2.0-or-later
"""A node without Slurm: its own /run, character devices for GPUs, the real programs. Needs what go_on_alone() makes."""

import contextlib
import fcntl
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import alone
from lab import TOP

PROGRAMS = Path(os.environ.get("GPUSHARE_PROGRAMS", TOP / "target/release"))
RUN = Path("/run")
LEDGER = RUN / "gpushare"
# A directory for this run only, outside of /run, which every node makes anew.
SITE = alone.folder()
# Follows a prolog or epilog into the child process that does its work, and no program that this starts. What is
# injected counts for each process by itself.
STRACE = ["strace", "-f", "--detach-on=execve"]
# Any devices will do: nothing opens them. A container without a terminal has no console.
LAST = "console" if Path("/dev/console").exists() else "kmsg"
DEVICES = [f"/dev/{name}" for name in f"null zero full random urandom tty ptmx {LAST}".split()]


class Node:
    """GPUS GPUs with UNITS units each, all of them for shares (Placement=own), Overcommit=refuse. NVML is only queried
    if MORE says so, because the other tests count a prolog's system calls."""

    def __init__(self, gpus=2, units=80, size="16m", more="Nvml=off\n"):
        self.gpus, self.units, self.programs = gpus, units, PROGRAMS
        if os.path.ismount(RUN):
            subprocess.run(["umount", "--lazy", RUN], check=True)
        self.mount(size)
        self.site = SITE
        (self.site / "slurm.conf").write_text("JobSubmitPlugins=gpushare\n")
        self.site.chmod(0o755)
        (self.site / "gpushare.conf").write_text(
            f"Placement=own\nShareGRES=gpushare\nUnitsPerGpu={units}\nOvercommit=refuse\n"
            f"GpuFile={','.join(DEVICES[:gpus])}\n{more}"
        )

    def mount(self, size):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=755,size={size}", "faults", RUN], check=True)

    def variables(self, job, units=None, user=2001, restart=0):
        """The environment that slurmd gives a prolog or an epilog."""
        variables = {
            "SLURM_CONF": str(self.site / "slurm.conf"), "SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(user),
            "SLURM_JOB_RESTART_COUNT": str(restart),
        }
        return variables | ({"SPANK_GPUSHARE_SHARE": f"gpushare:{units}"} if units else {})

    def start(self, program, job, units=None, before=(), **more):
        return subprocess.Popen(
            [*before, self.programs / program], env=self.variables(job, units, **more), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def prolog(self, job, units=40, **more):
        """Its output lines; it must always exit with 0."""
        return finished(self.start("gpushare-prolog", job, units, **more))

    def epilog(self, job, **more):
        return finished(self.start("gpushare-epilog", job, **more))

    def reconfigure(self, old, new):
        """Replaces OLD by NEW in gpushare.conf."""
        conf = self.site / "gpushare.conf"
        assert old in conf.read_text()
        conf.write_text(conf.read_text().replace(old, new))

    def status(self):
        """The ledger as the program prints it, which must be JSON."""
        command = [PROGRAMS / "gpushare", "status", "--json", "--conf", self.site / "gpushare.conf"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def entries(self):
        """{job: (restart, GPU index, units)}; checks that no GPU has more units than it holds."""
        status = self.status()
        for gpu in status["gpus"]:
            assert gpu["units"] <= self.units, f"GPU {gpu['index']} is booked twice: {status}"
        return {job["job"]: (job["restart"], job["gpus"][0]["index"], job["units"]) for job in status["jobs"]}

    def counts(self):
        """{name: number} from the prologs' counts. Each is a number whatever was interrupted, or the file is new."""
        text = (LEDGER / "counts").read_text() if (LEDGER / "counts").exists() else ""
        if not text:
            return {}
        first, *lines = text.splitlines()
        assert first == "gpushare-tally 1" and len(lines) == 4 and all(len(line) == 41 for line in lines), text
        return {name: int(number) for name, number in map(str.split, lines)}

    def is_over(self, job):
        """Makes a job with an entry one that was over long ago, as its witness says."""
        entry = LEDGER / f"jobs/{job}"
        text = re.sub("since=.*", "since=1", entry.read_text())
        entry.write_text(text.replace("end\n", "witness=4194304 1\nend\n"))

    def failure(self, job):
        return {row["job"]: row["reason"] for row in self.status()["failures"]}.get(job)

    def fits(self, units=40):
        """How many more shares fit on the node; they are taken back again."""
        placed = []
        for job in range(900, 990):
            self.prolog(job, units)
            placed.append(job)
            if job not in self.entries():
                assert "units free" in self.failure(job), self.status()
                break
        for job in placed:
            self.epilog(job)
        return len(placed) - 1

    def check_empty(self):
        """Checks that nothing is left of any job, no file is half written, and the lock is free."""
        assert self.status()["jobs"] == [] and self.status()["failures"] == [], self.status()
        left = os.listdir(LEDGER / "jobs") if (LEDGER / "jobs").exists() else []
        assert not left, left
        if not LEDGER.exists():
            return  # A prolog was killed before it made the ledger.
        names = set(os.listdir(LEDGER)) - {
            "jobs", "lock", "reconciled", "garbage", "nvml", "limits", "daemons", "counts", "used", "balance",
        }
        assert not names, f"left behind: {names}"
        with open(LEDGER / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def calls_in(trace, folder):
    """[(name, how many of that name)] of each system call from the first that names FOLDER on, of the process that
    names it most, in a trace of STRACE: the worker's parent may only look whether it is there."""
    lines = [(line, *line.split(maxsplit=1)) for line in trace if re.match(r"\d+ +\w+\(", line)]
    [(worker, _)] = Counter(pid for line, pid, _ in lines if str(folder) in line).most_common(1)
    names, steps, seen = Counter(), [], False
    for line, pid, call in lines:
        if pid == worker:
            name = call.split("(")[0]
            names[name] += 1
            seen = seen or str(folder) in line
            if seen:
                steps.append((name, names[name]))
    assert len(steps) > 20, steps
    return steps


def as_user(user, command):
    """The arguments that run COMMAND as USER, without root's groups."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *command]


def fill(path):
    """Fills the file system of PATH."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def finished(process):
    out, lines = process.communicate(timeout=60)
    assert process.returncode == 0, f"{process.args} ended with {process.returncode}: {lines}"
    assert out == "", out
    return lines.splitlines()


@contextlib.contextmanager
def read_only():
    subprocess.run(["mount", "-o", "remount,ro", RUN], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", RUN], check=True)
