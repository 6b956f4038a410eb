# SPDX-License-Identifier: GPL-2.0-or-later
"""Which GPUs jobs could open, and how to request shares."""

import re
from dataclasses import dataclass

OPEN = "/lab/open-gpus"


@dataclass
class Share:
    """How a node counts shares: units that fill a GPU, and half of them."""

    gres: str
    full: int
    half: int

    @property
    def full_gpu(self):
        return f"--gres={self.gres}:{self.full}"

    @property
    def half_gpu(self):
        return f"--gres={self.gres}:{self.half}"


# How the examples of each placement count shares.
SHARES = {
    "follow-mps": Share("mps", full=100, half=50),
    "follow-shard": Share("shard", full=8, half=4),
    "own": Share("gpushare", full=80, half=40),
    "override": Share("mps", full=80, half=40),
}


def opened(text):
    """The sets of GPUs that could be opened, from the /lab/open-gpus lines of TEXT; a line with anything else is a
    failure."""
    lines = [line for line in text.splitlines() if "open=" in line]
    found = []
    for line in lines:
        match = re.search(r"open=(\S+) denied=(\S+) other=-$", line)
        assert match, line
        found.append({int(number) for number in match.group(1).split(",") if number != "-"})
    return found


def gpu_of(text):
    """The N in the line gpu=N."""
    return int(re.search(r"^gpu=(\d+)", text, re.M).group(1))


def uuids(cluster):
    """The GPUs' UUIDs, in order."""
    return [line.split()[2] for line in cluster.ok("cat /lab/gpus").splitlines() if line and line[0] != "#"]


def task_epilog(cluster):
    """A program for srun --task-epilog, whose output is discarded: /lab/out/JOB.epilog says what it could open."""
    path = "/lab/out/task-epilog"
    cluster.ok(f"printf '#!/bin/sh\n{OPEN} >>/lab/out/$SLURM_JOB_ID.epilog\n' >{path} && chmod 755 {path}")
    return path


def entered(cluster, job, user, command):
    """The output of COMMAND in the extern step of JOB, as USER: pam_slurm_adopt puts ssh sessions there."""
    # slurmd waits until the extern step is set up, and only then does slurmstepd close its pipe to slurmd. Before that,
    # the fence may not be up: docs/dev/threat-model.md has the milliseconds.
    roots = "$(grep -lsP '^Uid:\\t0\\t' /proc/[0-9]*/status | sed 's,status$,cmdline,')"
    setup_done = (
        f"for step in $(grep -las '^slurmstepd: \\[{job}.extern[] ]' {roots}); do "
        "step=${step%/cmdline}; [[ $(readlink $step/fd/1) == /dev/null ]] && echo ${step#/proc/}; done"
    )
    stepd = cluster.wait(lambda: cluster.run(["bash", "-c", setup_done]).stdout.split(), "the extern step, set up")[0]
    # The command runs outside of the box's cgroup namespace, so the box's own cgroup comes before the path.
    field, top, end = ("0:", "", "/user/task_special") if cluster.cgroup == "v2" else ("[0-9]*:devices", "/devices", "")
    line = cluster.ok(f"sed -n 's,^{field}:,,p' /proc/{stepd}/cgroup").replace(f"/gpushare-lab-{cluster.name}", "", 1)
    folder = f"/sys/fs/cgroup{top}{line.split('/step_extern')[0]}/step_extern{end}"
    # The last directory is made for the first session.
    return cluster.ok(
        f"mkdir -p {folder} && echo $$ >{folder}/cgroup.procs && exec setpriv --reuid={user} --clear-groups {command}"
    )


def a_minute_later(cluster):
    """Makes the next prolog search the ledger, and treat no entry as young."""
    cluster.ok("sed -i s/^since=.*/since=1/ /run/gpushare/jobs/* && rm -f /run/gpushare/reconciled")


def wait_taken_back(cluster, request):
    """Waits until no job has a share. With RunInJob, Slurm 24.11 to 25.11 starts some epilogs as the job's user; the
    shares that these leave are taken back for the next job, here one with REQUEST."""

    def is_empty():
        log = cluster.log("syslog")
        if any(f"job {job}: this epilog runs as user" in log for job in cluster.ledger()):
            a_minute_later(cluster)
            cluster.run(["srun", request, "true"], "alice")
        return cluster.ledger() == {}

    cluster.wait(is_empty, "an empty ledger")
