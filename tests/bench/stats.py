# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of the times: ratios and how sure they are. Touches nothing.

Times come in rounds, {side: times}. Within a round the sides take turns every few milliseconds, so what slows the
machine for longer slows all of them. A round gives one ratio of medians; the number is the geometric mean over the
rounds, and the interval comes from drawing rounds anew, so it holds whatever differs between rounds.
"""

import math
import random
from statistics import fmean, median

DRAWN = 4000


def take_turns(sides, visit, blocks):
    """A round: in every block one visit of each side in random order, and one more in the opposite order."""
    times = {side: [] for side in sides}
    for number in range(blocks + 1):
        order = random.sample(sides, len(sides))
        for side in order + order[::-1]:
            found = visit(side)
            if number > 0:  # the first block warms up
                times[side] += found
    return times


def row(what, rounds, side, base):
    """A line of the table: the ratio SIDE / BASE, its 95 % bootstrap interval, and how often SIDE was measured."""
    logs = [math.log(median(times[side]) / median(times[base])) for times in rounds]
    drawn = sorted(fmean(random.choices(logs, k=len(logs))) for _ in range(DRAWN))
    ratio, low, high = map(math.exp, (fmean(logs), drawn[DRAWN // 40], drawn[-1 - DRAWN // 40]))
    count = sum(len(times[side]) for times in rounds)
    return f"{what:<48} {ratio:6.3f}   {low:.3f} to {high:.3f} {count:7}"


def typical(rounds):
    """Of times in rounds: their median, its 95 % bootstrap interval, the 95th percentile, and how many they are."""
    times = sorted(time for one in rounds for time in one)
    drawn = sorted(median(sum(random.choices(rounds, k=len(rounds)), [])) for _ in range(DRAWN))
    interval = f"{drawn[DRAWN // 40]:.0f} to {drawn[-1 - DRAWN // 40]:.0f}"
    return f"{median(times):6.0f}   {interval:<14} {times[len(times) * 19 // 20]:6.0f} {len(times):5}"
