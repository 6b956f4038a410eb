# SPDX-License-Identifier: GPL-2.0-or-later
"""gpushare-prolog and gpushare-epilog against two runs of /bin/true and against a pair of bash scripts that do what
SURF's node scheduler did, on SURF's node. Touches its own box only."""

from pathlib import Path

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


def measure(release, folder, rounds, blocks):
    """Rows of the table, and the prolog's peak memory against /bin/true's."""
    memory = {side: 0 for side in SIDES}
    with Box("node", release, TOP / "docs/examples/surf") as box:
        box.install(
            compiled(HERE / "original/nvidia-smi.c", release, Path(folder) / "nvidia-smi", "-static"), "/usr/bin"
        )
        for script in ("prolog", "epilog"):
            box.install(HERE / "original" / script, "/usr/local/sbin")
        launcher = box.client(compiled(HERE / "launch.c", release, Path(folder) / "launch", "-static"))

        def visit(side):
            nanoseconds, peak = launcher.ask(SIDES[side])
            memory[side] = max(memory[side], peak)
            return [nanoseconds]

        found = [take_turns(list(SIDES), visit, blocks) for _ in range(rounds)]
        left = box.run("cd /run/original && ls -d *_* state/*/*").stdout.split()
    if len(left) != 2 * OTHERS:
        raise RuntimeError(f"the bash scripts should have left the {OTHERS} other jobs' files and links, not {left}")
    return [
        row("prolog + epilog, job with a share / 2 x true", found, "share", "true"),
        row("prolog + epilog, job without one / 2 x true", found, "no share", "true"),
        row("the original's work in bash with ls / ours", found, "bash with ls", "share"),
        row("the original's work in bash alone / ours", found, "bash alone", "share"),
        row("2 x true again / 2 x true", found, "true again", "true"),
        f"peak memory: prolog {memory['share']} KiB, /bin/true {memory['true']} KiB: "
        f"{memory['share'] / memory['true']:.2f}",
    ]
