# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters for the tests, one of each kind and release for a module, ended with it."""

import bypass_table
import pytest
from lab import CASES, EXAMPLES, RELEASES, TOP, Cluster


def clusters(kind, **options):
    """A fixture that gives a cluster of every release in turn."""

    @pytest.fixture(scope="module", params=RELEASES)
    def fixture(request):
        release = request.param
        settings = {key: value(release) if callable(value) else value for key, value in options.items()}
        # A fixed name: a box that a killed run left behind is ended first, and its logs are replaced.
        name = f"test-{kind}-{release.replace('.', '')}"
        cluster = Cluster(name, release, **settings)
        yield cluster
        cluster.down()

    return fixture


# No gpushare configured: what Slurm does by itself.
plain = clusters("plain")
# The contributors' QOSes, with a second type of GPU on a second node.
contributors = clusters("contributors", conf=[EXAMPLES / "contributors", CASES / "two-types"])
# What `gpushare explain` is compared on: the contributors' cluster with more accounts, and one with a site's settings.
EXPLAINED = [EXAMPLES / "contributors", CASES / "two-types", CASES / "explain"]
explained = clusters("explain", conf=EXPLAINED)
explained_site = clusters("explain-site", conf=[*EXPLAINED, CASES / "explain-site"])
# The same group, and what the known ways round its limit need: shards, partitions, scrontab.
ways = clusters("ways", conf=[EXAMPLES / "contributors", CASES / "ways"])
# SURF's node: 4 GPUs, 1280 mps units.
surf = clusters("surf", conf=[EXAMPLES / "surf"])
# The same, where device numbers are not in the order of the device names.
shuffled = clusters("shuffled", conf=[EXAMPLES / "surf", CASES / "shuffled"])
# Builds that panic when asked to.
panicking = clusters(
    "panic",
    conf=[EXAMPLES / "surf", CASES / "surf-governed"],
    plugins=lambda release: TOP / "target/lab-panic" / release,
)


def pytest_configure(config):
    config.addinivalue_line("markers", "bypass(row, title): the test of one way round a typed limit")


def pytest_runtest_logreport(report):
    bypass_table.take(report)


def pytest_collection_modifyitems(items):
    for item in items:
        mark = item.get_closest_marker("bypass")
        if mark:
            item.user_properties.append(("bypass", mark.args))
            item.user_properties.append(("release", item.callspec.params["ways"]))


def pytest_terminal_summary(terminalreporter):
    for line in bypass_table.lines():
        terminalreporter.write_line(line)
