# SPDX-License-Identifier: GPL-2.0-or-later
"""Time inside the SPANK plugin's hooks, in batch jobs of steps with one task. Touches the box that it is given.

A round is a job. Jobs and their steps come one after another: what is measured is not how hooks wait for each other.
"""

from pathlib import Path
from statistics import median

from boxes import HERE, compiled
from stats import typical

import elf
import gpus
from lab import BUILDS

# timed_spank.c's. The fence is put up in task_post_fork.
FENCE = "task_post_fork"
HOOKS = ["init", "user_init", FENCE, "task_init", "exit"]
NOTED = ["load", *HOOKS]
# Slurm's numbers of these steps (slurm.h).
SPECIAL = {0xFFFFFFFB: "batch", 0xFFFFFFFC: "extern"}
KINDS = ["srun", "batch", "extern"]
OUT = "/lab/out/hooks"
TITLE = (
    f"{'fencing hook, us of this run alone':<35} {'median':>6}   {'95 % interval':<14} {'p95':>6} {'n':>5} |"
    + "".join(f"{name.replace('task_post_fork', 'fence'):>10}" for name in [*NOTED, "all"])
)


def plugin_of(release):
    """The plugin that the lab puts into its boxes."""
    return BUILDS / release / "spank_gpushare.so"


def install(box, release, folder):
    """Puts the timing plugin into the box. It hands on the hooks that it knows:
    one more of ours would not be called."""
    ours = elf.symbols(plugin_of(release), "--defined-only")
    found = {name for name in ours if name.startswith("slurm_spank_")}
    if found != {f"slurm_spank_{hook}" for hook in HOOKS}:
        raise RuntimeError(f"timed_spank.c doesn't know the hooks that spank_gpushare.so has: {sorted(found)}")
    plugin = compiled(HERE / "timed_spank.c", release, Path(folder) / "timed_spank.so", "-shared", "-fPIC")
    box.install(plugin, box.plugin_folder())


def noted(box, steps):
    """{(job, step): {hook: nanoseconds}}, once STEPS steps have come to their end."""
    def there():
        found = {}
        for line in box.run(["cat", OUT]).stdout.splitlines():
            job, step, hook, nanoseconds = line.split()
            found.setdefault((int(job), int(step)), {})[hook] = int(nanoseconds)
        return found if sum("exit" in hooks for hooks in found.values()) == steps else None

    return box.wait(there, f"the end of {steps} steps")


def run_job(box, request, steps):
    """{kind of step: [{hook: nanoseconds}]} of a job with STEPS steps, the last of which could open one GPU only."""
    box.ok(f": >{OUT} && chmod 666 {OUT}")
    script = f"i=1; while [ $i -lt {steps} ] && srun true; do i=$((i+1)); done; srun /lab/open-gpus"
    batch = ["sbatch", "--parsable", request, "--output=/lab/out/%j", f"--wrap={script}"]
    job = box.ok(batch, "alice")
    found = noted(box, steps + len(SPECIAL))
    said = box.output(job)
    if [len(opened) for opened in gpus.opened(said)] != [1]:
        raise RuntimeError(f"a job with {request} did not go as it should; it said:\n{said}")
    times = {kind: [] for kind in KINDS}
    for (_, step), hooks in found.items():
        times[SPECIAL.get(step, "srun")].append({**hooks, "all": sum(hooks.values())})
    return times


def line(where, kind, jobs):
    """A line of the table for one kind of step. What the fence takes is shown with how sure it is,
    the rest as medians."""
    rounds = [[hooks[FENCE] / 1000 for hooks in job[kind]] for job in jobs]
    steps = [hooks for job in jobs for hooks in job[kind]]
    medians = [median(hooks[name] for hooks in steps) / 1000 if name in steps[0] else None for name in [*NOTED, "all"]]
    rest = "".join(f"{'-':>10}" if time is None else f"{time:10.0f}" for time in medians)
    return f"{where + ', ' + kind:<35} {typical(rounds)} |{rest}"


def measure(box, where, request, jobs, steps):
    """Lines of the table for a box with a placement."""
    box.write("/etc/slurm/plugstack.conf", "required timed_spank.so\n")
    run_job(box, request, 1)  # warms up
    found = [run_job(box, request, steps) for _ in range(jobs)]
    return [line(where, kind, found) for kind in KINDS]
