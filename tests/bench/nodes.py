# SPDX-License-Identifier: GPL-2.0-or-later
"""Does what a submission costs grow with the cluster? 10,000 configured nodes beside one: time inside slurmctld, and
whole submissions with gpushare and without a plugin.

Touches its own boxes only. As in `submission`, each round gives every box another role and starts its slurmctld anew: a
second cluster with one node shows how much two daemons differ by themselves.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import many
from boxes import HERE, TOP, Box, compiled
from inside import SIDES, VISIT, report
from stats import row, take_turns

ROLES = ["one", "one again", "many"]
# Whole submissions of a visit.
WHOLE = 4


def assume(box, nodes, plugin):
    """Starts the box's slurmctld anew with so many nodes and a job_submit plugin, or none."""
    box.write("/etc/slurm/nodes.conf", many.nodes_conf(nodes).replace("@NODE@", box.name))
    box.write("/etc/slurm/gres.conf", many.gres_conf(nodes).replace("@NODE@", box.name))
    box.write("/etc/slurm/plugin.conf", f"JobSubmitPlugins={plugin}\n" if plugin else "# No plugin.\n")
    box.ok(["/lab/service", "restart", "slurmctld"])
    box.ok(["scontrol", "setdebug", "info"])
    found = box.run(["sinfo", "-h", "-o", "%D", "-p", "p,cloud"]).stdout.split()
    if sum(map(int, found)) != nodes + 1:
        raise RuntimeError(f"slurmctld has {'+'.join(found)} nodes, not {nodes + 1}")


def inside(boxes, clients, count, turn, blocks):
    """{(role, side): nanoseconds} of a round."""
    cast = {role: (at + turn) % len(boxes) for at, role in enumerate(ROLES)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda role: assume(boxes[cast[role]], count if role == "many" else 0, "timed"), ROLES))
    for box, client in zip(boxes, clients):
        client.ask(f"library {VISIT}")  # warms up
        report(box)
    take_turns(ROLES, lambda role: clients[cast[role]].ask(f"library {VISIT}"), blocks)
    return {(role, side): times for role in ROLES for side, times in report(boxes[cast[role]]).items()}


def whole(boxes, clients, count, turn, blocks):
    """Submissions with all nodes; the roles are now the plugins."""
    plugins = {"none": None, "none again": None, "gpushare": "gpushare"}
    cast = {role: (at + turn) % len(boxes) for at, role in enumerate(plugins)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda role: assume(boxes[cast[role]], count, plugins[role]), plugins))
    return take_turns(list(plugins), lambda role: clients[cast[role]].ask(f"library {WHOLE}"), blocks)


def measure(release, folder, count, rounds, blocks):
    """Rows of the table, of COUNT configured nodes beside the real one;
    a round is a slurmctld of its own for each role."""
    conf = TOP / "docs/examples/contributors", HERE / "conf"
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(Box(f"nodes{number}", release, *conf)) for number, _ in enumerate(ROLES)]
        plugin = compiled(HERE / "timed.c", release, Path(folder) / "job_submit_timed.so", "-shared", "-fPIC")
        program = compiled(HERE / "submit.c", release, Path(folder) / "submit", "-lslurm")
        clients = [box.client(program, user="alice") for box in boxes]
        for box in boxes:
            box.install(plugin, box.plugin_folder())
        found = [inside(boxes, clients, count, turn, blocks) for turn in range(rounds)]
        end_to_end = [whole(boxes, clients, count, turn, max(blocks // 4, 1)) for turn in range(rounds)]
    rows = [
        row(f"inside slurmctld, {role} / one: {side}", found, (role, side), ("one", side))
        for side in SIDES
        for role in ROLES[1:]
    ]
    rows += [
        row(f"submission, many nodes: {role} / none", end_to_end, role, "none") for role in ("none again", "gpushare")
    ]
    micro = {key: median(time for times in found for time in times[key]) / 1000 for key in found[0]}
    rows.append(f"many: {count}; inside, one and many, this run: " + ", ".join(
        f"{side} {micro['one', side]:.1f} and {micro['many', side]:.1f} us" for side in SIDES
    ))
    micro = {role: median(time for times in end_to_end for time in times[role]) / 1e6 for role in end_to_end[0]}
    rows.append(
        "submission, many nodes, this run: " + ", ".join(f"{role} {time:.2f} ms" for role, time in micro.items())
    )
    return rows
