# SPDX-License-Identifier: GPL-2.0-or-later
"""Time inside job_submit() of a real slurmctld, gpushare's and job_submit/lua's, for the same submissions.

Touches its own box only.
"""

from pathlib import Path
from statistics import median

from boxes import HERE, TOP, Box, compiled
from stats import row

VISIT = 20


def restart(box):
    """Starts slurmctld anew, with the two plugins inside the timing one."""
    box.write("/etc/slurm/plugin.conf", "JobSubmitPlugins=timed\n")
    box.run("/lab/service", "restart", "slurmctld").check_returncode()
    box.run("scontrol", "setdebug", "info").check_returncode()


def report(box):
    """The pairs of times since the last report."""
    asked = ["sbatch", "--hold", "--job-name=report", "--qos=qos_lafferty", "--output=/dev/null", "--wrap=true"]
    box.run(*asked, user="alice").check_returncode()
    box.run("scancel", "--user=alice")
    lines = box.run("cat", "/lab/out/inside").stdout.splitlines()
    return [tuple(map(int, line.split())) for line in lines]


def measure(release, folder, rounds, blocks):
    """Rows of the table; a round is a slurmctld of its own."""
    found = []
    with Box("inside", release, TOP / "docs/examples/contributors", HERE / "conf") as box:
        plugin = compiled(HERE / "timed.c", release, Path(folder) / "job_submit_timed.so", "-shared", "-fPIC")
        client = box.client(compiled(HERE / "submit.c", release, Path(folder) / "submit", "-lslurm"), user="alice")
        slurms = box.run("sh", "-c", "ls /usr/lib/*/slurm-wlm/job_submit_lua.so").stdout.strip()
        box.install(plugin, Path(slurms).parent)
        for _ in range(rounds):
            restart(box)
            client.ask(f"library {VISIT}")  # warms up
            report(box)
            for _ in range(blocks):
                client.ask(f"library {VISIT}")
            pairs = report(box)
            found.append({"gpushare": [pair[0] for pair in pairs], "lua": [pair[1] for pair in pairs]})
    medians = {side: median(time for times in found for time in times[side]) / 1000 for side in ("gpushare", "lua")}
    return [
        row("inside slurmctld: lua / gpushare", found, "lua", "gpushare"),
        f"inside slurmctld, this run: gpushare {medians['gpushare']:.1f} us, lua {medians['lua']:.1f} us a submission",
    ]
