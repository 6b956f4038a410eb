# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of the times: ratios and how sure they are. Touches nothing.

Times come as blocks; a block has one time for each side, taken within a moment (see `block`), so what slows the machine
for longer than that slows all sides. Blocks come in rounds; between two rounds the daemons were started anew.
"""

import math
import random
from statistics import median

RESAMPLED = 1000


def block(sides, visit):
    """One visit of every side in random order, then one more in the opposite order: {side: median of its times}."""
    order = random.sample(sides, len(sides))
    times = {side: [] for side in sides}
    for side in order + order[::-1]:
        times[side] += visit(side)
    return {side: median(found) for side, found in times.items()}


def ratio(rounds, side, base):
    """The ratio of the medians over the blocks, as the geometric mean over the rounds."""
    logs = [
        math.log(median(block[side] for block in blocks) / median(block[base] for block in blocks)) for blocks in rounds
    ]
    return math.exp(sum(logs) / len(logs))


def interval(rounds, side, base):
    """The 95 % bootstrap interval of `ratio`: rounds are drawn with replacement, and then blocks of each."""
    found = sorted(
        ratio([random.choices(blocks, k=len(blocks)) for blocks in random.choices(rounds, k=len(rounds))], side, base)
        for _ in range(RESAMPLED)
    )
    return found[RESAMPLED // 40], found[-1 - RESAMPLED // 40]


def row(what, rounds, side, base, each):
    """A line of the table; EACH is how many times a side was measured in a block."""
    low, high = interval(rounds, side, base)
    count = each * sum(map(len, rounds))
    return f"{what:<52} {ratio(rounds, side, base):6.3f}   {low:.3f} to {high:.3f} {count:7}"
