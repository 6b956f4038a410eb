# SPDX-License-Identifier: GPL-2.0-or-later
"""Submissions with no plugin, with gpushare and with job_submit/lua, side by side. Touches its own four boxes only.

Each round gives every box another role and starts its slurmctld anew: two daemons of one kind differ by a percent or two
for as long as they run (where their memory lies, which core they like), and that must not be taken for a plugin's cost.
A fourth role, no plugin once more, shows how much of such a difference is left.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from boxes import HERE, TOP, Box, compiled
from stats import block, row

PLUGIN = {"none": None, "none again": None, "gpushare": "gpushare", "lua": "lua"}
ROLES = list(PLUGIN)
# Submissions of a visit; sbatch takes about ten times as long as the library.
VISIT = {"library": 10, "sbatch": 2}


def assume(box, role):
    """Starts the box's slurmctld anew in ROLE, and makes sure that it plays it: is an untyped GPU refused?"""
    plugin = PLUGIN[role]
    box.write("/etc/slurm/plugin.conf", f"JobSubmitPlugins={plugin}\n" if plugin else "# No plugin.\n")
    box.run("/lab/service", "restart", "slurmctld").check_returncode()
    box.run("scontrol", "setdebug", "info").check_returncode()
    untyped = ["sbatch", "--hold", "--qos=qos_lafferty", "--gres=gpu:1", "--output=/dev/null", "--wrap=true"]
    refused = box.run(*untyped, user="alice").returncode != 0
    if refused != (plugin is not None):
        raise RuntimeError(f"as '{role}' an untyped GPU was {'refused' if refused else 'accepted'}")
    box.run("scancel", "--user=alice")


def play(boxes, clients, turn, blocks):
    """One round: for each way of submitting, its blocks."""
    cast = {role: (at + turn) % len(boxes) for at, role in enumerate(ROLES)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda role: assume(boxes[cast[role]], role), ROLES))
    visits = {way: lambda role, way=way, n=n: clients[cast[role]].ask(f"{way} {n}") for way, n in VISIT.items()}
    found = {way: [] for way in VISIT}
    for number in range(blocks + 1):
        for way, visit in visits.items():
            times = block(ROLES, visit)
            if number > 0:  # the first warms up
                found[way].append(times)
    return found


def measure(release, folder, rounds, blocks):
    """Rows of the table."""
    found = {way: [] for way in VISIT}
    conf = TOP / "docs/examples/contributors", HERE / "conf"
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(Box(f"submit{number}", release, *conf)) for number, _ in enumerate(ROLES)]
        program = compiled("submit.c", release, folder, "-lslurm")
        clients = [box.client(program, user="alice") for box in boxes]
        for turn in range(rounds):
            for way, times in play(boxes, clients, turn, blocks).items():
                found[way].append(times)
        version = boxes[0].run("sinfo", "--version").stdout.strip().capitalize()
    title = {"library": "submission by libslurm", "sbatch": "sbatch"}
    return version, [
        row(f"{title[way]}: {role} / none", found[way], role, "none", 2 * count)
        for way, count in VISIT.items()
        for role in ROLES[1:]
    ]
