# SPDX-License-Identifier: GPL-2.0-or-later
"""Time inside job_submit() of a real slurmctld, gpushare's and job_submit/lua's, for the same submissions; and that of
gpushare as it was at another commit. Touches its own box.
"""

import shutil
from pathlib import Path
from statistics import median

import before as commits
from boxes import HERE, TOP, Box, compiled
from stats import row

# In timed.c's order. A multiple of three and four a visit, so that all of them have their turn.
SIDES = ["gpushare", "lua", "look-up alone"]
VISIT = 24


def restart(box):
    """Starts slurmctld anew, with the two plugins inside the timing one."""
    box.write("/etc/slurm/plugin.conf", "JobSubmitPlugins=timed\n")
    box.ok(["/lab/service", "restart", "slurmctld"])
    box.ok(["scontrol", "setdebug", "info"])


def report(box):
    """{side: nanoseconds} since the last report."""
    asked = ["sbatch", "--hold", "--job-name=report", "--qos=qos_lafferty", "--output=/dev/null", "--wrap=true"]
    box.ok(asked, "alice")
    box.run(["scancel", "--user=alice"])
    lines = [line.split() for line in box.run(["cat", "/lab/out/inside"]).stdout.splitlines()]
    times = {side: [int(time) for who, time in lines if int(who) == at] for at, side in enumerate([*SIDES, "before"])}
    return {side: noted for side, noted in times.items() if noted}


def measure(release, folder, rounds, blocks, before=None):
    """Rows of the table; a round is a slurmctld of its own. BEFORE is a commit, or None."""
    found = []
    with Box("inside", release, TOP / "docs/examples/contributors", HERE / "conf") as box:
        plugin = compiled(HERE / "timed.c", release, Path(folder) / "job_submit_timed.so", "-shared", "-fPIC")
        client = box.client(compiled(HERE / "submit.c", release, Path(folder) / "submit", "-lslurm"), user="alice")
        box.install(plugin, box.plugin_folder())
        if before:
            before, plugin = commits.plugin(before, release)
            box.install(shutil.copy(plugin, Path(folder) / "job_submit_before.so"), box.plugin_folder())
        for _ in range(rounds):
            restart(box)
            client.ask(f"library {VISIT}")  # warms up
            report(box)
            for _ in range(blocks):
                client.ask(f"library {VISIT}")
            found.append(report(box))
    sides = [*SIDES, "before"] if before else SIDES
    for times in found:
        looked = median(times["look-up alone"])
        times["gpushare without it"] = [max(time - looked, 1) for time in times["gpushare"]]
    medians = {side: median(time for times in found for time in times[side]) / 1000 for side in sides}
    rows = [
        row("inside slurmctld: lua / gpushare", found, "lua", "gpushare"),
        row("inside slurmctld: lua / gpushare less the look-up", found, "lua", "gpushare without it"),
    ]
    if before:
        rows.append(row(f"inside slurmctld: gpushare / {before}", found, "gpushare", "before"))
    said = ", ".join(f"{before if side == 'before' else side} {time:.1f} us" for side, time in medians.items())
    return [*rows, f"inside slurmctld, this run: {said}"]
