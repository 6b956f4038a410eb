# SPDX-License-Identifier: GPL-2.0-or-later
"""Submissions with no plugin, with gpushare and with job_submit/lua, side by side. Touches its own four boxes only.

Each round gives every box another role and starts its slurmctld anew: two daemons of one kind may differ for as long as
they run (where their memory lies, for one), and that must not be taken for a plugin's cost. A fourth role, no plugin
once more, shows how much of such a difference is left.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from boxes import HERE, TOP, Box, compiled
from stats import row, take_turns

PLUGIN = {"none": None, "none again": None, "gpushare": "gpushare", "lua": "lua"}
ROLES = list(PLUGIN)
# Submissions of a visit; sbatch takes several times as long as the library. In parallel it is so many by each of eight.
VISIT = {"library": 20, "sbatch": 4, "parallel": 1}


def assume(box, role):
    """Starts the box's slurmctld anew in ROLE, and makes sure that it plays it: is an untyped GPU refused?"""
    plugin = PLUGIN[role]
    box.write("/etc/slurm/plugin.conf", f"JobSubmitPlugins={plugin}\n" if plugin else "# No plugin.\n")
    box.ok(["/lab/service", "restart", "slurmctld"])
    box.ok(["scontrol", "setdebug", "info"])
    untyped = ["sbatch", "--hold", "--qos=qos_lafferty", "--gres=gpu:1", "--output=/dev/null", "--wrap=true"]
    refused = box.run(untyped, "alice").returncode != 0
    if refused != (plugin is not None):
        raise RuntimeError(f"as '{role}' an untyped GPU was {'refused' if refused else 'accepted'}")
    box.run(["scancel", "--user=alice"])


def play(boxes, clients, turn, blocks):
    """One round of each way of submitting."""
    cast = {role: (at + turn) % len(boxes) for at, role in enumerate(ROLES)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda role: assume(boxes[cast[role]], role), ROLES))
    return {
        way: take_turns(ROLES, lambda role, way=way: clients[cast[role]].ask(f"{way} {VISIT[way]}"), blocks)
        for way in VISIT
    }


def measure(release, folder, rounds, blocks):
    """Slurm's version, and rows of the table."""
    conf = TOP / "docs/examples/contributors", HERE / "conf"
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(Box(f"submit{number}", release, *conf)) for number, _ in enumerate(ROLES)]
        program = compiled(HERE / "submit.c", release, Path(folder) / "submit", "-lslurm")
        clients = [box.client(program, user="alice") for box in boxes]
        found = [play(boxes, clients, turn, blocks) for turn in range(rounds)]
        version = boxes[0].run(["sinfo", "--version"]).stdout.split()[-1]
    title = {"library": "submission by libslurm", "sbatch": "sbatch", "parallel": "8 sbatch at once"}
    return version, [
        row(f"{title[way]}: {role} / none", [times[way] for times in found], role, "none")
        for way in VISIT
        for role in ROLES[1:]
    ]
