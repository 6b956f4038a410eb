# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of this one node: munge, slurmctld and slurmd of the bundle, with gpushare as a site with `Placement=own`
configures it. Jobs of eight users; what they print is in WORK/out."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from node import HOME, NAME, WORK

ETC = Path("/etc/slurm")
CAPACITY = 80
EIGHTH = CAPACITY // 8
PORT = 26817
SLURM = f"""ClusterName=gpu
SlurmctldHost={NAME}(127.0.0.1)
SlurmctldPort={PORT}
SlurmdPort={PORT + 1}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={WORK}/munge/socket
PluginDir={HOME}
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=5
StateSaveLocation={WORK}/slurmctld
SlurmdSpoolDir={WORK}/slurmd
SlurmctldPidFile={WORK}/slurmctld.pid
SlurmdPidFile={WORK}/slurmd.pid
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/none
PrologFlags=Contain
PriorityType=priority/basic
GresTypes=gpushare
JobSubmitPlugins=gpushare
Prolog={HOME}/gpushare/sbin/gpushare-prolog
Epilog={HOME}/gpushare/sbin/gpushare-epilog
NodeName={NAME} NodeAddr=127.0.0.1 CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=4000 Gres=gpushare:{CAPACITY}
PartitionName=p Nodes=ALL Default=YES MaxTime=10:00 State=UP
"""


class Failed(Exception):
    """Slurm doesn't do what it should; what was seen."""


def until(condition, seconds, what):
    """The first true value of CONDITION."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Failed(f"no {what} within {seconds:g} s")
        time.sleep(0.05)
    return found


class Cluster:
    def __init__(self, node, fenced=True):
        self.node, self.settings, self.is_up = node, {}, False
        plugins = "required spank_gpushare.so\n" if fenced else "# none\n"
        gres = f"NodeName={NAME} Name=gpushare Count={CAPACITY} Flags=CountOnly\n"
        for name, text in (("slurm.conf", SLURM), ("gres.conf", gres), ("plugstack.conf", plugins)):
            (ETC / name).write_text(text)
        self.configure()

    def configure(self, **settings):
        machine = self.node.machine
        lines = {
            "Placement": "own", "ShareGRES": "gpushare", "UnitsPerGpu": CAPACITY, "Overcommit": "refuse",
            "GetUserEnv": "drop", "Nvml": machine.libnvml or "off", "Mps": "off",
        }
        if machine.control:
            lines["MpsControl"] = machine.control
        self.settings = lines | settings
        path = ETC / "gpushare.conf"
        path.with_suffix(".new").write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        path.with_suffix(".new").rename(path)

    def up(self, kind):
        """Starts it, with jobs in cgroups of a KIND."""
        self.node.use(kind)
        (ETC / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/{kind}\nIgnoreSystemd=yes\nConstrainDevices=yes\n")
        for folder in ("munge", "slurmctld", "slurmd"):
            shutil.rmtree(WORK / folder, ignore_errors=True)
            (WORK / folder).mkdir(mode=0o755)
        key = WORK / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        folder = WORK / "munge"
        self.node.start(
            HOME / "sbin/munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/socket",
            f"--pid-file={folder}/pid", f"--seed-file={folder}/seed", f"--log-file={folder}/log", log="munged",
        )
        until(lambda: (folder / "socket").exists(), 10, "munge")
        daemons = [self.node.start(HOME / "sbin/slurmctld", "-D", log="slurmctld", daemon=True)]
        environment = self.node.environment("root") | self.node.shim()
        daemons += [
            self.node.start(HOME / "sbin/slurmd", "-D", "-N", NAME, log="slurmd", environment=environment, daemon=True)
        ]
        until(lambda: self.is_idle() or any(one.poll() is not None for one in daemons), 30, "idle node")
        if not self.is_idle():
            raise Failed("a daemon of Slurm's ended")
        self.is_up = True

    def is_idle(self):
        return self.run("sinfo", "-h", "-o", "%T").stdout.strip() == "idle"

    def run(self, *command, user="root"):
        command = list(map(str, command)) if user == "root" else self.node.as_user(user, *command)
        if command[0] in ("sinfo", "scontrol", "squeue", "scancel"):
            command[0] = str(HOME / "bin" / command[0])
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=self.node.environment(user), cwd=WORK / "out"
        )

    # --- jobs

    def submit(self, user, script, units=0, environment=None):
        """The number of a job."""
        share = [f"--gres=gpushare:{units}"] if units else []
        command = self.node.as_user(
            user, HOME / "bin/sbatch", "--parsable", "-o", f"{WORK}/out/%j", *share, "--wrap", script
        )
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, cwd=WORK / "out",
            env=self.node.environment(user) | (environment or {}),
        )
        if done.returncode:
            raise Failed(f"sbatch: {done.stderr.strip()}")
        return done.stdout.strip()

    def program(self, name, *arguments):
        """The command line of one of the test's programs."""
        return " ".join(map(str, [sys.executable, self.node.programs / name, *arguments]))

    def output(self, job):
        try:
            return (WORK / "out" / job).read_text(errors="replace")
        except OSError:
            return ""

    def json(self, job):
        """What a job's program said, once it has."""
        def line():
            return next((one for one in self.output(job).splitlines() if one.startswith("{")), None)
        try:
            found = until(lambda: line() or self.is_over(job), self.node.machine.patience, f"answer of job {job}")
        except Failed as error:
            raise Failed(f"{error}: {self.why(job)}") from None
        if found is True and not line():
            raise Failed(f"job {job} said nothing: {self.why(job)}")
        return json.loads(line())

    def fields(self, job):
        return dict(re.findall(r"(\S+?)=(\S*)", self.run("scontrol", "-o", "show", "job", job).stdout))

    def is_over(self, job):
        return self.fields(job).get("JobState") not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED")

    def why(self, job):
        fields = self.fields(job)
        return f"{fields.get('JobState')} {fields.get('Reason')} {self.output(job)[-400:].strip()}"

    def end(self):
        """Ends all jobs, epilogs included."""
        jobs = self.run("squeue", "-h", "-o", "%A").stdout.split()
        if jobs:
            self.run("scancel", "--full", *jobs)
        until(lambda: not self.run("squeue", "-h").stdout.strip(), 40, "empty queue")
        until(lambda: not self.status()["jobs"], 10, "empty ledger")

    def give_up(self):
        """Ends what runs, for a node that is about to go."""
        jobs = self.run("squeue", "-h", "-o", "%A").stdout.split() if self.is_up else []
        if jobs:
            self.run("scancel", *jobs)
            with contextlib.suppress(Failed):
                until(lambda: not self.run("squeue", "-h").stdout.strip(), 15, "empty queue")

    def status(self):
        self.node.machine.refresh()
        done = self.run(HOME / "gpushare/bin/gpushare", "status", "--json")
        if done.returncode:
            raise Failed(f"gpushare status: {done.stderr.strip()}")
        return json.loads(done.stdout)
