# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters for a module's tests, one of each kind and release, which end with it. Clusters that this machine can't have
are skipped and reported."""

import contextlib
import itertools
import os

import pytest
from haunted import haunted
from lab import BOXES, LAYERS, RELEASES, Cluster, NotHere, layer

# What hardly depends on Slurm's release is shown on one of them, another one for each kind of cluster: gpushare's own
# texts and files, what pages say to do, several nodes. GPUSHARE_EVERY_RELEASE=1 shows it on all, as `make test-long`
# does.
TURNS = itertools.cycle([release] for release in RELEASES)


def releases(in_turn):
    """The releases for a kind of cluster."""
    return next(TURNS) if in_turn and "GPUSHARE_EVERY_RELEASE" not in os.environ else RELEASES


@contextlib.contextmanager
def started(kind, release, cgroup=None, locked_maps=False, **settings):
    """A cluster until the end of its `with`. Its name is fixed: a box left by a run that was killed is ended first, and
    its logs are replaced. With LOCKED_MAPS, a user has processes there that nobody can look at, in `make test-long`."""
    for one in LAYERS:
        if settings.get(one) and not layer(one, release):
            pytest.skip(f"NOT TESTED: {one} for Slurm {release} can't be had here")
    try:
        cluster = Cluster(f"{BOXES}-{kind}-{release.replace('.', '')}", release, cgroup, **settings)
    except NotHere as why:
        pytest.skip(str(why))
    with cluster, haunted(cluster) if locked_maps and "GPUSHARE_LONG" in os.environ else contextlib.nullcontext():
        yield cluster


def clusters(kind, in_turn=False, **options):
    """A fixture that returns a cluster of one release after another; IN_TURN see TURNS."""

    @pytest.fixture(scope="module", params=releases(in_turn))
    def fixture(request):
        release = request.param
        with started(
            kind, release, **{key: value(release) if callable(value) else value for key, value in options.items()}
        ) as cluster:
            yield cluster

    return fixture


def in_pairs(releases, cgroups, placements):
    """Of all (release, cgroup, placement) as many as it takes for each two values of two of them to come together
    once. All of them for GPUSHARE_EVERY_RELEASE, and where that needs all."""
    every = [(release, cgroup, one) for one in placements for release in releases for cgroup in cgroups]
    if "GPUSHARE_EVERY_RELEASE" in os.environ or min(map(len, (releases, cgroups, placements))) < 2:
        return every
    return [
        (release, cgroup, one) for release, cgroup, one in every
        if (releases.index(release) + placements.index(one)) % len(cgroups) == cgroups.index(cgroup)
    ]


def placed_clusters(kind, placements, conf, cgroups=("v1", "v2"), since={}, in_turn=False, **options):
    """A fixture that returns a cluster of the releases, cgroup versions and placements, one after another: each two of
    these together. Some placements are new `since` a release. IN_TURN see TURNS."""
    every = [one for one in in_pairs(releases(in_turn), cgroups, placements) if one[0] >= since.get(one[2], "")]

    @pytest.fixture(scope="module", params=every, ids="-".join)
    def fixture(request):
        release, cgroup, placement = request.param
        settings = {key: value(release) for key, value in options.items()}
        with started(f"{kind}-{placement}-{cgroup}", release, cgroup, conf=conf(placement), **settings) as cluster:
            cluster.kind = placement
            yield cluster

    return fixture
