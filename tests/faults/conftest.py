# SPDX-License-Identifier: GPL-2.0-or-later
"""What the parts share. Their nodes are in tests/harness: bare_node.py, mps_node.py, fake_nvml.py."""

import contextlib
import os
import signal
import subprocess

import mps_node
import pytest

# One of each kind that NVIDIA's daemons differ in; 535 is bookworm's, 550 is trixie's.
VERSIONS = {"535": "22.05", "550": "24.11", "555": "555"}


def pytest_addoption(parser):
    parser.addoption(
        "--churn", default="25", metavar="SECONDS[:SEED]", help="how long jobs come and go (25), and in which order"
    )
    parser.addoption(
        "--schedules", default="10000", metavar="COUNT[:SEED]", help="how many orders of system calls, and which"
    )
    parser.addoption("--schedule", metavar="'SCENE: TURNS'", help="only this order")


@pytest.fixture(params=VERSIONS)
def each_control(request):
    """NVIDIA's control program, of each of its releases in turn."""
    return mps_node.control(VERSIONS[request.param]) or pytest.skip(
        f"NOT TESTED: NVIDIA's programs of {request.param} can't be had here"
    )


@pytest.fixture
def control():
    """NVIDIA's control program of 550."""
    return mps_node.control("24.11") or pytest.skip("NOT TESTED: NVIDIA's programs of 550 can't be had here")


@pytest.fixture
def figure(record_property):
    """A line that the run's end has, for what is measured and not judged."""
    return lambda line: record_property("figure", line)


@pytest.fixture(autouse=True)
def nobody_left():
    """What a test leaves is not the next one's: processes, if it failed, and the GPUs that the driver knew."""
    yield
    if os.path.ismount(mps_node.DRIVER):
        subprocess.run(["umount", mps_node.DRIVER], check=True)
    for pid in mps_node.strangers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.getreports("passed"):
        for _, line in report.user_properties:
            terminalreporter.write_line(line)
