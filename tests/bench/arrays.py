# SPDX-License-Identifier: GPL-2.0-or-later
"""An update of an array whose tasks have records of their own and a large environment, with gpushare and without a
plugin. Touches its own box only.

slurmctld asks a plugin about each record, under its locks, so this is time in which everybody waits. It is slurmctld's
processor time, which doesn't depend on what else the machine does.
"""

import os
import random
from statistics import median

from boxes import HERE, TOP, Box
from stats import row

PLUGIN = {"none": None, "none again": None, "gpushare": "gpushare"}
TASKS = 1000
VARIABLES = 45  # of 120,000 bytes: 5.4 MB
# There and back, so that each update changes something that a rule looks at.
VISIT = ["x", "p"] * 5


def submit(box, tasks):
    """The array's number; each task has a record of its own."""
    variables = f"x=$(printf %0120000d 0); for i in $(seq {VARIABLES}); do export V$i=$x; done; ulimit -s unlimited"
    batch = f"sbatch --parsable --hold -o /dev/null --qos=qos_lafferty --gres=gpu:a40:1 --array=0-{tasks - 1}"
    job = box.ok(f"{variables}; {batch} --wrap true", "alice").split()[-1]
    # Not Nice, which releases a held job under priority/basic.
    box.ok(f"scontrol update job={job}_[0-{tasks - 2}] Comment=x", "alice")
    records = len(box.ok(f"squeue -h -j {job} -o %i").split())
    if records != tasks:
        raise RuntimeError(f"the array has {records} records, not {tasks}")
    return job


def assume(box, role):
    """Starts slurmctld anew in ROLE; the array stays."""
    plugin = PLUGIN[role]
    box.write("/etc/slurm/plugin.conf", f"JobSubmitPlugins={plugin}\n" if plugin else "# No plugin.\n")
    box.ok(["/lab/service", "restart", "slurmctld"])
    box.ok(["scontrol", "setdebug", "info"])


def updates(box, job):
    """Microseconds of processor time that slurmctld spends on an update of all; each must change all."""
    spent = "awk '{print $14 + $15}' /proc/$(cat /run/slurm/slurmctld.pid)/stat"
    lines = [f"scontrol update job={job} partition={partition} || exit" for partition in VISIT]
    done = box.ok("\n".join([spent, *lines, spent]), "alice")
    moved = set(box.ok(f"squeue -h -j {job} -o %P").split())
    if moved != {VISIT[-1]}:
        raise RuntimeError(f"not all moved to {VISIT[-1]}: {moved}")
    before, after = map(int, done.split())
    # In clock ticks, of which few tasks need none.
    return max(after - before, 0.5) / os.sysconf("SC_CLK_TCK") * 1e6 / len(VISIT)


def measure(release, rounds, blocks, tasks=TASKS):
    """Rows of the table; a round is a slurmctld of its own for each role."""
    found = []
    with Box("arrays", release, TOP / "docs/examples/contributors", HERE / "conf") as box:
        box.ok("echo 'PartitionName=x Nodes=ALL MaxTime=INFINITE State=UP' >>/etc/slurm/nodes.conf")
        assume(box, "gpushare")
        job = submit(box, tasks)
        for _ in range(rounds):
            times = {}
            for role in random.sample(list(PLUGIN), len(PLUGIN)):
                assume(box, role)
                updates(box, job)  # warms up
                times[role] = [updates(box, job) for _ in range(blocks)]
            found.append(times)
    medians = {role: median(time for times in found for time in times[role]) / 1000 for role in PLUGIN}
    said = ", ".join(f"{role} {time:.0f} ms" for role, time in medians.items())
    title = f"update of {tasks} tasks of 5 MB"
    return [
        row(f"{title}: none again / none", found, "none again", "none"),
        row(f"{title}: gpushare / none", found, "gpushare", "none"),
        f"{title}, this run: {said}",
    ]
