# SPDX-License-Identifier: GPL-2.0-or-later
"""A node's GPUs, as in tests/fakes/nvml.c, the driver's /proc and NVIDIA's own library."""

import contextlib
import os
import subprocess
from pathlib import Path

from bare_node import DEVICES, SITE, TOP
from mps_node import strangers
from waiting import wait

# The minors of bare_node.py's first two devices.
MINORS = [3, 5]
UUIDS = ["GPU-aaaa0000-0000-4000-8000-000000000000", "GPU-bbbb0000-0000-4000-8000-000000000000"]
# The UUID in /proc until something initialises the GPU.
UNINITIALISED = "GPU-????????-????-????-????-????????????"
IDLE = "used=100 utilization=0"
BUSY = "used=40000 utilization=90"


def gpus(first, second):
    """Two GPUs for the fake's state. By the ledger alone, the first is chosen, because of its order; by load, the less
    busy one is."""
    common = "total=81920 reserved=600"
    return "".join(
        f"gpu {uuid} {minor} {common} {words}\n" for uuid, minor, words in zip(UUIDS, MINORS, (first, second))
    )


FIRST_BUSY, SECOND_BUSY = gpus(BUSY, IDLE), gpus(IDLE, BUSY)


def library(*without):
    """The fake, built without these parts."""
    path = SITE / "-".join(("fake", *without)) / "libnvidia-ml.so.1"
    if not path.exists():
        path.parent.mkdir()
        flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", *(f"-D{part}" for part in without)]
        subprocess.run(["gcc", *flags, "-o", path, TOP / "tests/fakes/nvml.c"], check=True)
    return path


def says(path, state):
    """Sets what that library reports from now on; forgets what it was told."""
    Path(f"{path}.state").write_text(state)
    Path(f"{path}.log").unlink(missing_ok=True)


def told(path):
    log = Path(f"{path}.log")
    return log.read_text().splitlines() if log.exists() else []


def nobody_is_left():
    """Checks that no gpushare-nvml is left: this run has its own namespace of processes."""
    wait(
        lambda: not any("gpushare-nvml" in command for command in strangers().values()),
        "the end of gpushare-nvml",
        pause=0.02,
    )


@contextlib.contextmanager
def known_to_the_driver(uuids=UUIDS):
    """/proc/driver/nvidia as the driver writes it."""
    subprocess.run(["mount", "-t", "tmpfs", "faults", "/proc/driver"], check=True)
    try:
        for number, (uuid, minor) in enumerate(zip(uuids, MINORS)):
            folder = Path(f"/proc/driver/nvidia/gpus/0000:0{number + 1}:00.0")
            folder.mkdir(parents=True)
            (folder / "information").write_text(f"GPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
        yield
    finally:
        subprocess.run(["umount", "/proc/driver"], check=True)


@contextlib.contextmanager
def own_dev():
    """Makes a separate /dev: NVIDIA's library makes a device node in it as root."""
    numbers = {path: os.stat(path).st_rdev for path in DEVICES}
    subprocess.run(["mount", "-t", "tmpfs", "faults", "/dev"], check=True)
    try:
        for path, number in numbers.items():
            os.mknod(path, 0o666 | 0o020000, number)
        yield
    finally:
        subprocess.run(["umount", "--lazy", "/dev"], check=True)
