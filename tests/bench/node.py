# SPDX-License-Identifier: GPL-2.0-or-later
"""gpushare-prolog and gpushare-epilog against two runs of /bin/true, on SURF's node. Touches its own box only."""

from pathlib import Path

from boxes import HERE, TOP, Box, compiled
from stats import row, take_turns

# How a side is asked for.
SIDES = {"true": "true", "true again": "true", "share": "share", "no share": "no-share"}


def measure(release, folder, rounds, blocks):
    """Rows of the table, and the prolog's peak memory against /bin/true's."""
    memory = {side: 0 for side in SIDES}
    with Box("node", release, TOP / "docs/examples/surf") as box:
        launcher = box.client(compiled(HERE / "launch.c", release, Path(folder) / "launch", "-static"))

        def visit(side):
            nanoseconds, peak = launcher.ask(SIDES[side])
            memory[side] = max(memory[side], peak)
            return [nanoseconds]

        found = [take_turns(list(SIDES), visit, blocks) for _ in range(rounds)]
    return [
        row("prolog + epilog, job with a share / 2 x true", found, "share", "true"),
        row("prolog + epilog, job without one / 2 x true", found, "no share", "true"),
        row("2 x true again / 2 x true", found, "true again", "true"),
        f"peak memory: prolog {memory['share']} KiB, /bin/true {memory['true']} KiB: "
        f"{memory['share'] / memory['true']:.2f}",
    ]
