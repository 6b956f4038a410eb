# SPDX-License-Identifier: GPL-2.0-or-later
"""Time inside job_submit() of a real slurmctld, gpushare's and job_submit/lua's, for the same submissions.

Touches its own box only.
"""

from pathlib import Path
from statistics import median

from boxes import HERE, TOP, Box, compiled
from stats import row

# In timed.c's order. A multiple of three a visit, so that all of them have their turn.
SIDES = ["gpushare", "lua", "look-up alone"]
VISIT = 21


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
    return {side: [int(time) for who, time in lines if int(who) == at] for at, side in enumerate(SIDES)}


def measure(release, folder, rounds, blocks):
    """Rows of the table; a round is a slurmctld of its own."""
    found = []
    with Box("inside", release, TOP / "docs/examples/contributors", HERE / "conf") as box:
        plugin = compiled(HERE / "timed.c", release, Path(folder) / "job_submit_timed.so", "-shared", "-fPIC")
        client = box.client(compiled(HERE / "submit.c", release, Path(folder) / "submit", "-lslurm"), user="alice")
        box.install(plugin, box.plugin_folder())
        for _ in range(rounds):
            restart(box)
            client.ask(f"library {VISIT}")  # warms up
            report(box)
            for _ in range(blocks):
                client.ask(f"library {VISIT}")
            found.append(report(box))
    for times in found:
        looked = median(times["look-up alone"])
        times["gpushare without it"] = [max(time - looked, 1) for time in times["gpushare"]]
    medians = {side: median(time for times in found for time in times[side]) / 1000 for side in SIDES}
    return [
        row("inside slurmctld: lua / gpushare", found, "lua", "gpushare"),
        row("inside slurmctld: lua / gpushare less the look-up", found, "lua", "gpushare without it"),
        "inside slurmctld, this run: " + ", ".join(f"{side} {time:.1f} us" for side, time in medians.items()),
    ]
