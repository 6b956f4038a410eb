# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of mends and the product's source have the same names, and each mend names ways that there are."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import without
import ways


def test_each_mend_of_the_source_is_in_the_table_and_the_other_way_round():
    assert without.named() == without.in_source()


@pytest.mark.parametrize("mend", without.MENDS, ids=lambda mend: mend.name)
def test_each_mend_names_known_ways(mend):
    known = ways.CAPS if mend.site == "caps" else ways.SITES.get(mend.site) or ways.every()
    for part in mend.ways:
        assert any(part in way.title for way in known if not way.without_zero), part
    assert bool(mend.ways) != bool(mend.test)
