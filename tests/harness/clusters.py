# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters for a module's tests, one of each kind and release, ended with it;
what can't be had here is skipped, and said."""

import contextlib

import pytest
from lab import BOXES, LAYERS, RELEASES, Cluster, NotHere, layer


@contextlib.contextmanager
def started(kind, release, cgroup="v1", **settings):
    """A cluster until the end of its `with`. Its name is fixed:
    a box that a killed run left is ended first, its logs are replaced."""
    for one in LAYERS:
        if settings.get(one) and not layer(one, release):
            pytest.skip(f"NOT TESTED: {one} for Slurm {release} can't be had here")
    try:
        cluster = Cluster(f"{BOXES}-{kind}-{release.replace('.', '')}", release, cgroup, **settings)
    except NotHere as why:
        pytest.skip(str(why))
    with cluster:
        yield cluster


def clusters(kind, **options):
    """A fixture that gives a cluster of every release in turn."""

    @pytest.fixture(scope="module", params=RELEASES)
    def fixture(request):
        release = request.param
        with started(
            kind, release, **{key: value(release) if callable(value) else value for key, value in options.items()}
        ) as cluster:
            yield cluster

    return fixture


def placed_clusters(kind, placements, conf, cgroups=("v1", "v2"), since={}, **options):
    """A fixture that gives a cluster of every release, cgroup version and placement in turn;
    some are new `since` one."""
    every = [
        (release, cgroup, one)
        for release in RELEASES for cgroup in cgroups for one in placements
        if release >= since.get(one, "")
    ]

    @pytest.fixture(scope="module", params=every, ids="-".join)
    def fixture(request):
        release, cgroup, placement = request.param
        settings = {key: value(release) for key, value in options.items()}
        with started(f"{kind}-{placement}-{cgroup}", release, cgroup, conf=conf(placement), **settings) as cluster:
            cluster.kind = placement
            yield cluster

    return fixture
