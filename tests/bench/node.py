# SPDX-License-Identifier: GPL-2.0-or-later
"""gpushare-prolog and gpushare-epilog against two runs of /bin/true and against a pair of bash scripts that do what
SURF's node scheduler did, on SURF's node; and against gpushare as it was at another commit. Touches its own boxes
only."""

import contextlib
from pathlib import Path

import before as commits
from boxes import HERE, TOP, Box, compiled
from stats import row, take_turns

# launch.c's, shares beside the measured one.
OTHERS = 7
# How a side is asked for.
SIDES = {
    "true": "true",
    "true again": "true",
    "share": "share",
    "no share": "no-share",
    "bash with ls": "bash-ls",
    "bash alone": "bash-glob",
}


def node(name, release, folder, programs=()):
    """A box with the bash scripts, and PROGRAMS in the place of its own."""
    box = Box(name, release, TOP / "docs/examples/surf")
    box.install(compiled(HERE / "original/nvidia-smi.c", release, Path(folder) / "nvidia-smi", "-static"), "/usr/bin")
    for script in ("prolog", "epilog"):
        box.install(HERE / "original" / script, "/usr/local/sbin")
    for program in programs:
        box.install(program, "/usr/sbin")
    return box


def measure(release, folder, rounds, blocks, before=None):
    """Rows of the table, and the prolog's peak memory against /bin/true's. BEFORE is a commit, or None."""
    memory = {side: 0 for side in [*SIDES, "before"]}
    launch = compiled(HERE / "launch.c", release, Path(folder) / "launch", "-static")
    with contextlib.ExitStack() as boxes:
        box = boxes.enter_context(node("node", release, folder))
        launcher = box.client(launch)
        launchers = {side: (launcher, word) for side, word in SIDES.items()}
        if before:
            # In a box of its own: it can't read today's ledger.
            before, programs = commits.programs(before, release)
            old = boxes.enter_context(node("node-before", release, folder, programs))
            launchers["before"] = (old.client(launch), "share")

        def visit(side):
            client, word = launchers[side]
            nanoseconds, peak = client.ask(word)
            memory[side] = max(memory[side], peak)
            return [nanoseconds]

        found = [take_turns(list(launchers), visit, blocks) for _ in range(rounds)]
        left = box.run("cd /run/original && ls -d *_* state/*/*").stdout.split()
    if len(left) != 2 * OTHERS:
        raise RuntimeError(f"the bash scripts should have left the {OTHERS} other jobs' files and links, not {left}")
    rows = [row(f"prolog + epilog, job with a share / {before}", found, "share", "before")] if before else []
    return [
        *rows,
        row("prolog + epilog, job with a share / 2 x true", found, "share", "true"),
        row("prolog + epilog, job without one / 2 x true", found, "no share", "true"),
        row("the original's work in bash with ls / ours", found, "bash with ls", "share"),
        row("the original's work in bash alone / ours", found, "bash alone", "share"),
        row("2 x true again / 2 x true", found, "true again", "true"),
        f"peak memory: prolog {memory['share']} KiB, /bin/true {memory['true']} KiB: "
        f"{memory['share'] / memory['true']:.2f}",
    ]
