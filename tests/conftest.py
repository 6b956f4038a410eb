# SPDX-License-Identifier: GPL-2.0-or-later
"""Lets every test import what is in harness/. A test that failed says what its cluster was like. In the directory
$GPUSHARE_FAILED_TESTS, the file `list` names the tests that failed, and second_try.py keeps the state of each."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "harness"))

import lab
import second_try

FAILED = os.environ.get("GPUSHARE_FAILED_TESTS")
# Clusters that were described already: the next test of the same one would say the same.
_described = set()
# {cluster: the sizes of its logs when its last test ended}
_logged = {}


def name_of(report):
    """As it is named on a command line: without the group."""
    return report.nodeid.rsplit("@", 1)[0]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    clusters = {getattr(value, "cluster", value) for value in item.funcargs.values() if is_cluster(value)}
    if report.failed:
        for cluster in clusters - _described:
            _described.add(cluster)
            report.sections.append((f"the cluster {cluster.name}", cluster.describe()))
        if FAILED:
            text = "\n".join([report.longreprtext, *(f"== {title}\n{content}" for title, content in report.sections)])
            logs = {cluster.name: (cluster.logs, _logged.get(cluster, {})) for cluster in clusters}
            second_try.keep(FAILED, name_of(report), report.when, text, logs)
    if FAILED and report.when == "teardown":
        _logged.update({cluster: second_try.sizes(cluster.logs) for cluster in clusters})


def is_cluster(value):
    return isinstance(getattr(value, "cluster", value), lab.Cluster)


def pytest_runtest_logreport(report):
    # Of several processes only the first, which has nobody above it, hears of all reports.
    if FAILED and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        Path(FAILED).mkdir(parents=True, exist_ok=True)
        with open(Path(FAILED) / "list", "a") as file:
            file.write(name_of(report) + "\n")
