# SPDX-License-Identifier: GPL-2.0-or-later
"""`srun true` inside an allocation, with and without the SPANK plugin. Touches the box that it is given.

All sides share the daemons, the allocation and the commands; what differs is one line of plugstack.conf, which srun and
slurmstepd read anew at every start. A round is an allocation.
"""

from pathlib import Path
from statistics import median

from boxes import HERE, compiled
from stats import row, take_turns

# What plugstack.conf includes.
SIDES = {
    "none": "# No plugin.\n",
    "none again": "# No plugin.\n",
    "empty plugin": "required empty_spank.so\n",
    "variables": "required variables_spank.so\n",
    "gpushare": "required spank_gpushare.so\n",
}


def check(box, start, side):
    """Starts steps with SIDE, and makes sure that it is that: what does the plugin tell them?"""
    start.ask(side)
    job = box.run(["squeue", "--noheader", "--user=alice", "--format=%A"]).stdout.strip()
    for variable, teller in (("GPUSHARE_GPU", "gpushare"), ("BENCH_VARIABLE_8", "variables")):
        told = box.run(["srun", f"--jobid={job}", "printenv", variable], user="alice").returncode == 0
        if told != (side == teller):
            raise RuntimeError(f"with '{side}' a step {'has' if told else 'lacks'} {variable}")


def play(box, program, request, blocks):
    """A round."""
    start = box.client(program, user="alice", under=["salloc", "--quiet", request])
    try:
        for side in SIDES:
            check(box, start, side)
        return take_turns(list(SIDES), start.ask, blocks)
    finally:
        start.close()


def measure(box, where, request, folder, rounds, blocks):
    """Rows of the table."""
    for side, text in SIDES.items():
        box.write(f"/lab/out/{side}", text)
    box.run(["chmod", "1777", "/lab/out"])
    box.write("/etc/slurm/plugstack.conf", "include /lab/out/plugstack\n")
    for name in ("empty_spank", "variables_spank"):
        plugin = compiled(HERE / f"{name}.c", box.release, Path(folder) / f"{name}.so", "-shared", "-fPIC")
        box.install(plugin, box.plugin_folder())
    program = compiled(HERE / "start.c", box.release, Path(folder) / "start")
    found = [play(box, program, request, blocks) for _ in range(rounds)]
    medians = {side: median(time for times in found for time in times[side]) / 1e6 for side in SIDES}
    for times in found:
        times["both"] = times["none"] + times["none again"]
    return [
        row(f"srun true, {where}: none again / none", found, "none again", "none"),
        *(row(f"srun true, {where}: {side} / both", found, side, "both") for side in list(SIDES)[2:]),
        row(f"srun true, {where}: gpushare / empty plugin", found, "gpushare", "empty plugin"),
        f"srun true, {where}, this run: " + ", ".join(f"{side} {time:.1f} ms" for side, time in medians.items()),
    ]
