# SPDX-License-Identifier: GPL-2.0-or-later
"""Many prologs and epilogs at once."""

from collections import Counter

import pytest
from bare_node import DEVICES, Node, finished


@pytest.mark.parametrize("jobs, units, share", [(200, 80, 3), (256, 32, 1)])
def test_prologs_at_once(jobs, units, share):
    """Every job gets its GPU, the GPUs differ by one share at the most, and all of it is taken back."""
    node = Node(len(DEVICES), units)
    running = [
        node.start("gpushare-prolog", job, share, user=2000 + job % 30) for job in range(1, jobs + 1)
    ]
    lines = [finished(process) for process in running]
    entries = node.entries()
    assert set(entries) == set(range(1, jobs + 1)), f"{len(entries)} entries: {lines}"
    shares = Counter(gpu for _, gpu, _ in entries.values())
    assert len(shares) == len(DEVICES) and max(shares.values()) - min(shares.values()) <= 1, shares
    running = [node.start("gpushare-epilog", job) for job in range(1, jobs + 1)]
    for process in running:
        finished(process)
    node.check_empty()


def test_mixed():
    """Jobs come while others leave, some of them twice, and some with no room."""
    node = Node(len(DEVICES), 10)
    for job in range(1, 81):
        node.prolog(job, 1)
    running = []
    for job in range(1, 81):
        running.append(node.start("gpushare-epilog", job))
        running.append(node.start("gpushare-prolog", 100 + job, 1))
        running.append(node.start("gpushare-prolog", 100 + job, 1))
    for process in running:
        finished(process)
    entries = node.entries()
    failed = {row["job"] for row in node.status()["failures"]}
    assert set(entries) | failed == set(range(101, 181)) and not set(entries) & failed, (entries, failed)
    for job in range(101, 181):
        node.epilog(job)
    node.check_empty()
