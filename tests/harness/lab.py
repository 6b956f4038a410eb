# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of the lab as a Python object: start it, run commands in it, wait for jobs, end it."""

import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

from waiting import PATIENCE, wait

TOP = Path(__file__).resolve().parents[2]
LAB = TOP / "tests/lab/lab"
EXAMPLES = TOP / "docs/examples"
CASES = TOP / "tests/live/conf"
RELEASES = os.environ.get("GPUSHARE_RELEASES", "22.05 24.11 26.05").split()
# Slurm's releases, the oldest first. One step can upgrade Slurm from at most two releases before, since 24.11 from
# three.
SLURM = ["22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05"]


def upgrades(releases):
    """Each two neighbours of RELEASES between which one step can upgrade Slurm."""
    numbers = sorted(SLURM.index(release) for release in releases if release in SLURM)
    steps = [(one, two) for one, two in zip(numbers, numbers[1:]) if two - one <= 2 + (SLURM[two] >= "24.11")]
    return [(SLURM[one], SLURM[two]) for one, two in steps]


# Without two such releases, a pair that the report lists as not tested.
UPGRADES = upgrades(RELEASES) or [("24.11", "26.05")]

# The folder for what the lab makes, and for what `tests/build` has built for each release.
STATE = Path(os.environ.get("GPUSHARE_LAB_DIR", "/var/cache/gpushare-lab"))
BUILDS = Path(os.environ.get("GPUSHARE_BUILD", TOP / "target/lab"))
# The builds that panic when asked to.
PANICKING = Path(os.environ.get("GPUSHARE_BUILD_PANICKING", TOP / "target/lab-panic"))

# How the names of tests' boxes begin: simultaneous runs need different names.
BOXES = os.environ.get("GPUSHARE_BOXES", "test")

# The lab's exit statuses for what this machine can't make, and for what it can't enter; the layers that the lab can put
# over a root.
CANNOT, NO_BOX = 3, 125
LAYERS = ("nvidia", "systemd", "python", "jupyterhub", "containers", "ssh", "syslog")

# First facts about a cluster in which something went wrong; each command has a time limit.
DESCRIBE = r"""
    timeout 9 squeue -a -o '%i %q %u %T %r %N'
    timeout 9 sinfo -N -o '%N %T %E'
    for root in / /proc/[0-9]*/root; do ls -d $root/run/gpushare/jobs/*; done 2>/dev/null | sort -u
    ps -eo pid,ppid,etimes,stat,wchan:16,comm | grep -E '[s]lurm|[s]run|[g]pushare'
    tail -n 12 /var/log/slurm/syslog.log
    grep -HiE 'error|fatal|warning|drain|requeue|not resp|resending' /var/log/slurm/slurm*.log |
        grep -vE 'No such file|Trying backup|Database settings|xcpuinfo|debug levels|No error' | tail -n 20"""


# SECONDS JOB STATE...: waits in the cluster until a job has one of these states, and prints the last one seen. Polling
# from here would take longer. A pause starts no process.
AWAIT_STATE = r"""
    end=$((SECONDS + $1)) job=$2 pause=100
    shift 2
    while :; do
        state=GONE
        [[ $(scontrol -o show job "$job" 2>/dev/null) =~ .*\ JobState=([A-Z_]+) ]] && state=${BASH_REMATCH[1]}
        [[ " $* " != *" $state "* ]] || break
        ((SECONDS <= end)) || { echo "$state"; { squeue -a -o '%i %q %u %T %r'; sinfo -N -o '%N %T %E'; } >&2; exit 1; }
        read -rt "0.$pause" <>/run/lab/never
        ((pause = pause < 350 ? pause * 5 / 4 : pause))
    done
    echo "$state" """


# What a job runs if a test only needs one that runs.
BEGINS = "echo begun; sleep 60"


class NotHere(Exception):
    """This machine can't have it; the text says what."""


def layer(kind, release):
    """The lab's layer of a KIND of LAYERS for a release's root; None if this machine can't have it."""
    done = subprocess.run([LAB, kind, release], capture_output=True, text=True)
    assert done.returncode in (0, CANNOT), done.stderr
    return None if done.returncode else Path(done.stdout.strip())


def root(release):
    """The path of a release's root."""
    return Path(subprocess.run([LAB, "root", release], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def nvidia(release):
    """NVIDIA's own programs for MPS, from the suite of RELEASE or "555"."""
    return layer("nvidia", release)


class Cluster:
    patience = PATIENCE  # for one command

    def __init__(self, name, release, cgroup=None, conf=(), plugins=None, next=None, **layers):
        """Without CGROUP the lab chooses: v1 if this machine has it, otherwise v2."""
        self.name, self.release = name, release
        # The box's process 1, a descriptor of its folder in /proc. A number could be another process's after the box
        # has died.
        self._init = None
        command = [LAB, "up", name, "--release", release, *(["--cgroup", cgroup] if cgroup else [])]
        for folder in conf:
            command += ["--conf", folder]
        for option, value in (("--plugins", plugins), ("--next", next)):
            command += [option, value] if value else []
        assert set(layers) <= set(LAYERS), layers
        command += [f"--{layer}" for layer, wanted in layers.items() if wanted]
        subprocess.run([LAB, "down", name], check=True)
        try:
            status = subprocess.run(command, timeout=180).returncode
            if status == CANNOT:
                version = cgroup or "v1 or v2"
                raise NotHere(f"NOT TESTED: cgroup {version} with Slurm {release}, which this machine can't have")
            if status:
                raise RuntimeError(f"lab up {name}: status {status}, see above")
            state = Path(os.environ.get("GPUSHARE_LAB_DIR", STATE))
            self.cgroup = (state / "run" / name / "cgroup").read_text().strip()
        except BaseException:
            self.down()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    @property
    def out(self):
        """/lab/out, as this machine sees it."""
        return STATE / "run" / self.name / "out"

    @property
    def logs(self):
        """The directory of its logs, as this machine sees it; it stays until a cluster of that name starts."""
        return STATE / "run" / self.name / "log"

    def first(self):
        """This machine's PID of the cluster's process 1."""
        outer = (STATE / "run" / self.name / "pid").read_text().strip()
        return Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0]

    def inside(self, *command, user="root", node=None):
        """The command line that runs COMMAND in the cluster, or on a NODE with its own namespaces."""
        if self._init is None:
            self._init = os.open(f"/proc/{self.first()}", os.O_PATH | os.O_DIRECTORY)
        # As `lab exec`, without the shell that `lab` is: it takes three quarters of the time.
        box = f"/proc/{os.getpid()}/fd/{self._init}"
        return [str(STATE / "tools/enter"), box, user, node or "", *map(str, command)]

    def down(self):
        if self._init is not None:
            os.close(self._init)
        self._init = None
        subprocess.run([LAB, "down", self.name], check=True)

    def newer_than(self, release):
        """Whether this cluster's release is RELEASE or newer."""
        return [int(part) for part in self.release.split(".")] >= [int(part) for part in release.split(".")]

    def run(self, command, user="root", timeout=None, stdin=None, node=None):
        """Runs COMMAND (a list, or a text for bash) in the cluster, or on a NODE with its own namespaces; returns its
        result, whatever its status."""
        if isinstance(command, str):
            command = ["bash", "-c", command]
        return subprocess.run(
            self.inside(*command, user=user, node=node), capture_output=True, text=True, errors="replace",
            timeout=timeout or self.patience, input=stdin,
        )

    def ok(self, command, user="root", **options):
        """The output of COMMAND, which must succeed."""
        result = self.run(command, user, **options)
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        return result.stdout.strip()

    def write(self, path, content, mode=644):
        """Replaces a file by renaming, because another process may be reading it. CONTENT is text or bytes."""
        command = self.inside("sh", "-c", 'cat >"$0.new" && chmod "$1" "$0.new" && mv "$0.new" "$0"', path, mode)
        subprocess.run(
            command, input=content.encode() if isinstance(content, str) else content, check=True, timeout=self.patience
        )

    def sbatch(self, *options, script="sleep 60", user="alice"):
        """The number of a batch job, which must be accepted; its output is in /lab/out/NUMBER."""
        output = ["-o", "/lab/out/%j", "-e", "/lab/out/%j"]
        return self.ok(["sbatch", "--parsable", *output, *options, "--wrap", script], user).split(";")[0]

    def start(self, *options, **more):
        """A running job with a share: its number and its GPU, from the ledger. Unless the job has a script of its own,
        its batch step has begun: on cgroup v1, a step's start closes the GPU for a moment in all steps of the job."""
        job = self.sbatch(*options, **{"script": BEGINS, **more})
        self.wait_state(job, "RUNNING")
        if "script" not in more:
            self.wait(lambda: self.output(job), f"the batch step of job {job}")
        return job, self.wait(lambda: str(self.ledger().get(job, "")), f"an entry of job {job}")

    def output(self, job):
        return self.run(["cat", f"/lab/out/{job}"]).stdout

    def fields(self, job):
        """What slurmctld shows of a job."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.ok(["scontrol", "-o", "show", "job", job]).splitlines()[0]))

    def state(self, job):
        """A job's state. One that gets a signal is SIGNALING for a moment, and runs."""
        text = self.run(["scontrol", "-o", "show", "job", job]).stdout
        fields = dict(field.split("=", 1) for field in shlex.split(text, posix=False) if "=" in field)
        return fields.get("JobState", "GONE").replace("SIGNALING", "RUNNING")

    def states(self, *jobs):
        """{job: state} of one moment, of jobs that squeue shows."""
        text = self.ok(["squeue", "-h", "-o", "%A %T", "-j", ",".join(jobs)]).replace("SIGNALING", "RUNNING")
        return dict(line.split() for line in text.splitlines())

    def wait_state(self, job, *states):
        done = self.run(["bash", "-c", AWAIT_STATE, "-", PATIENCE, job, *states], timeout=PATIENCE + 20)
        state = done.stdout.strip()
        assert done.returncode == 0, f"waited {PATIENCE} s for job {job} to be {states}, it is {state}\n{done.stderr}"
        return state

    def finished(self, job):
        """The state in which a job ended, after its epilog has also ended."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        return self.wait_state(job, *ends)

    def wait(self, condition, what, patience=PATIENCE):
        return wait(condition, what, patience)

    def start_now(self, job):
        """Takes away the two minutes that a requeued job waits; not while slurmdbd gives the job its index, and not in
        the second of its kill, in which Slurm loses it (docs/dev/slurm-faults.md)."""
        time.sleep(1 - time.time() % 1)
        command = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
        self.wait(lambda: self.run(command).returncode == 0, f"an update of job {job}")

    def cancel_all(self):
        """Ends every job and waits until none is left, epilogs included."""
        self.run("squeue -h -o %A | xargs -r scancel")
        self.wait(lambda: not self.ok(["squeue", "-h"]), "an empty queue")

    def tidy(self):
        """Ends every job; checks that the node is then healthy, and that no job has a share."""
        self.cancel_all()
        self.wait(lambda: not self.node_state().startswith("idle*"), "slurmd to answer slurmctld")
        assert self.node_state().split()[0] == "idle", self.node_state()
        self.wait_no_shares()

    def wait_no_shares(self):
        self.wait(lambda: self.ledger() == {}, "an empty ledger")

    def wait_idle(self):
        self.wait(lambda: self.node_state().split()[0] == "idle", "an idle node")

    def node_state(self):
        # An idle node for which the backfill scheduler has plans is "planned" for a moment.
        return self.ok(["sinfo", "-h", "-N", "-o", "%T %E"]).replace("planned", "idle", 1)

    def log(self, daemon):
        return subprocess.run([LAB, "logs", self.name, daemon], capture_output=True, text=True, errors="replace",
                              check=True).stdout

    def describe(self):
        """What is in it now, for the report of a failed test."""
        try:
            lines = self.run(DESCRIBE).stdout.splitlines()
        except (subprocess.TimeoutExpired, OSError, IndexError) as why:
            lines = [str(why)]  # it hangs, or has ended
        return "\n".join(line[:160] for line in lines[:75])

    def findings(self, about, *words, node=None):
        """What `gpushare check` says about one thing."""
        said = self.run(["gpushare", "check", "--json", *words], node=node).stdout
        return [one for one in json.loads(said)["findings"] if one["about"] == about]

    def status(self, *words, node=None, user="root"):
        """What `gpushare status` says."""
        return json.loads(self.ok(["gpushare", "status", "--json", *words], user, node=node))

    def shares(self, node=None):
        """The ledger, one dict for each job and GPU: its job's fields and its own."""
        return [{**job, "job": str(job["job"]), **gpu} for job in self.status(node=node)["jobs"] for gpu in job["gpus"]]

    def ledger(self, node=None):
        """{job: GPU index}"""
        return {row["job"]: row["index"] for row in self.shares(node)}
