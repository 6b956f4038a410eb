# SPDX-License-Identifier: GPL-2.0-or-later
"""What gpushare adds to a job's steps, for every placement on both versions of cgroups. Touches its own boxes only, one
after another."""

import hooks
import starts
from boxes import Box, NotHere
from lab import CASES, EXAMPLES

# Each placement's example, SURF's with shares for everybody, and half a GPU there.
PLACEMENTS = {
    "override": ([EXAMPLES / "surf", CASES / "surf-open"], "--gres=mps:40"),
    "own": ([EXAMPLES / "own"], "--gres=gpushare:40"),
    "follow": ([EXAMPLES / "follow-mps"], "--gres=mps:50"),
}
# Whose fence does the most: it closes and opens.
STARTED = "override"


def measure(release, folder, cgroups, jobs, rounds, blocks):
    """Rows of the table of ratios, and lines of the table of hooks."""
    rows, lines = [], []
    for cgroup in cgroups:
        try:
            for placement in PLACEMENTS:
                more, found = one(release, folder, cgroup, placement, jobs, rounds, blocks)
                rows, lines = rows + more, lines + found
        except NotHere:
            lines.append(f"{cgroup}: not measured, for this machine can't have it")
    rows.append(f"spank_gpushare.so: {hooks.plugin_of(release).stat().st_size >> 10} KiB")
    return rows, ["", hooks.TITLE, *lines]


def one(release, folder, cgroup, placement, jobs, rounds, blocks):
    """The same for one placement on one version."""
    conf, request = PLACEMENTS[placement]
    with Box(f"{placement}-{cgroup}", release, *conf, cgroup=cgroup) as box:
        hooks.install(box, release, folder)
        lines = hooks.measure(box, f"{placement}, {cgroup}", request, jobs[0], jobs[1])
        rows = starts.measure(box, cgroup, request, folder, rounds, blocks) if placement == STARTED else []
    return rows, lines
