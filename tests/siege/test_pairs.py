# SPDX-License-Identifier: GPL-2.0-or-later
"""Each pair of two options' values that a release allows is in a row."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pairs


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_every_pair_is_in_a_row(release):
    rows = list(pairs.rows(release))
    assert all(pairs.is_allowed(row, release) and row[pairs.WHOSE] for row in rows)
    assert all(sum(map(bool, row.values())) <= pairs.MOST + 1 for row in rows)
    values = [(name, value) for name, known in pairs.options(release).items() for value in known]
    missing = [
        (one, other)
        for one, other in itertools.combinations(values, 2)
        if one[0] != other[0] and pairs.is_allowed(dict([one, other]), release)
        and not any(row[one[0]] == one[1] and row[other[0]] == other[1] for row in rows)
    ]
    assert missing == []
