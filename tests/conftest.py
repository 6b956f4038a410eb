# SPDX-License-Identifier: GPL-2.0-or-later
"""Lets every test import what is in harness/. A test that failed says what its cluster was like,
and which tests failed is written to the file $GPUSHARE_FAILED_TESTS."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "harness"))

import lab

FAILED = os.environ.get("GPUSHARE_FAILED_TESTS")
# Clusters that were described already: the next test of the same one would say the same.
_described = set()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed:
        clusters = {getattr(value, "cluster", value) for value in item.funcargs.values() if is_cluster(value)}
        for cluster in clusters - _described:
            _described.add(cluster)
            report.sections.append((f"the cluster {cluster.name}", cluster.describe()))


def is_cluster(value):
    return isinstance(getattr(value, "cluster", value), lab.Cluster)


def pytest_runtest_logreport(report):
    # Of several processes only the first, which has nobody above it, hears of all reports.
    if FAILED and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(FAILED, "a") as file:
            # As it is named on a command line: without the group.
            file.write(report.nodeid.rsplit("@", 1)[0] + "\n")
