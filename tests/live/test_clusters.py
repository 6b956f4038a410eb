# SPDX-License-Identifier: GPL-2.0-or-later
"""Which combinations of release, cgroup version and placement the clusters of `placed_clusters` have."""

import itertools

import pytest
from clusters import in_pairs

RELEASES, CGROUPS, PLACEMENTS = ("22.05", "24.11", "26.05"), ("v1", "v2"), ("a", "b", "c", "d")


@pytest.mark.parametrize("releases", [RELEASES, RELEASES[:2], RELEASES[:1]], ids=len)
@pytest.mark.parametrize("cgroups", [CGROUPS, CGROUPS[1:]], ids=len)
@pytest.mark.parametrize("placements", [PLACEMENTS, PLACEMENTS[:3], PLACEMENTS[:2], PLACEMENTS[:1]], ids=len)
def test_each_two_values_come_together(monkeypatch, releases, cgroups, placements):
    monkeypatch.delenv("GPUSHARE_EVERY_RELEASE", raising=False)
    found = in_pairs(releases, cgroups, placements)
    assert len(set(found)) == len(found)
    for (a, one), (b, other) in itertools.combinations(enumerate([releases, cgroups, placements]), 2):
        assert {(combination[a], combination[b]) for combination in found} == set(itertools.product(one, other))


def test_half_of_all_is_enough_and_all_can_be_had(monkeypatch):
    monkeypatch.delenv("GPUSHARE_EVERY_RELEASE", raising=False)
    assert len(in_pairs(RELEASES, CGROUPS, PLACEMENTS)) == 12
    assert len(in_pairs(RELEASES[:1], CGROUPS, PLACEMENTS)) == 8
    monkeypatch.setenv("GPUSHARE_EVERY_RELEASE", "1")
    assert len(in_pairs(RELEASES, CGROUPS, PLACEMENTS)) == 24
