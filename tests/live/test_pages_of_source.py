# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that pages tell those who change gpushare, run in the source: RUN_INSTEAD of harness/every_page.py. Each
ends with status 0. Those that would compile without tests/build are for `make test-long`, which calls it first."""

import os
import re
import subprocess

import elf
import packages
import pytest
from every_page import RUN_INSTEAD
from lab import BOXES, BUILDS, LAB, RELEASES, TOP

RELEASE = RELEASES[-1]
# Each in a cluster's name: they may run side by side.
BOX = f"{BOXES}-source"
IN_ONE_CLUSTER = [
    "lab include RELEASE", "make lab-up", "lab list", "tests/lab/lab list", "make lab-shell",
    "lab exec NAME [--user alice|bob] [--node NODE] -- CMD…",
    "tests/lab/README.md: scontrol reconfigure", "lab logs NAME [slurmctld|slurmd|slurmdbd|syslog]",
    "tests/lab/lab logs NAME slurmctld", "lab logs NAME syslog", "make lab-down",
]
AND_IN_ANOTHER = [
    "tests/lab/lab up try --release 24.11 --conf docs/examples/own && tests/lab/lab exec try -- bash",
    "tests/lab/lab down try",
    "lab up NAME --release RELEASE [--cgroup v1|v2] [--conf DIR]... [--plugins DIR] [--nvidia] [--systemd] [--python] "
    "[--jupyterhub] [--containers] [--ssh] [--syslog] [--next RELEASE]",
    "lab down NAME",
]
# What must be in the output.
SAYS = {
    "make": "built: ",
    "make demo": "Every job could open exactly one GPU, two jobs on each.",
    "tests/differential/run --count 1000 24.11": r"disagreements 0\b",
    "pytest-3 -p no:cacheprovider tests/abi -k version": r"[1-9]\d* passed",
    "packaging/programs && tests/faults/run state -k requeued": r"[1-9]\d* passed",
    "GPUSHARE_RELEASES=24.11 pytest-3 -p no:cacheprovider tests/live/test_surf.py -k eight_shares": "1 passed",
    "pytest-3 -p no:cacheprovider tests/siege": r"[1-9]\d* passed",
    "lab list": BOX,
    "tests/lab/lab list": BOX,
    "make lab-shell": BOX,
    "lab exec NAME [--user alice|bob] [--node NODE] -- CMD…": BOX,
    "tests/lab/lab logs NAME slurmctld": "slurmctld version",
    "tests/lab/lab up try --release 24.11 --conf docs/examples/own && tests/lab/lab exec try -- bash": BOX,
}


def is_built():
    """Whether tests/build has built for this release last, with nothing of the user's: else a build takes minutes.
    Only `make test-long` asks."""
    if "GPUSHARE_LONG" not in os.environ:
        return False
    plugin = TOP / "target/release/libjob_submit_gpushare.so"
    if BUILDS != TOP / "target/lab" or not plugin.exists():
        return False
    offset, size = elf.place(plugin, "plugin_version")
    number = int.from_bytes(plugin.read_bytes()[offset:offset + size], "little")
    return number == packages.slurm_of(RELEASE).number


def runs(text, folder):
    include = packages.root(RELEASE) / "usr/include"
    command = (RUN_INSTEAD[text] or text).format(include=include, release=RELEASE, box=BOX, folder=folder)
    # Not the variables of the `make` that runs this test.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "MAKE" and name != "MFLAGS"}
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"], cwd=TOP, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=900,
    )
    assert done.returncode == 0 and re.search(SAYS.get(text, ""), done.stdout), f"{text}\nas {command}\n{done.stdout}"


# What several pages have is run once.
ONES = {
    value or text: text
    for text, value in reversed(RUN_INSTEAD.items())
    if text not in [*IN_ONE_CLUSTER, *AND_IN_ANOTHER]
}
assert set(SAYS) <= {*ONES.values(), *IN_ONE_CLUSTER, *AND_IN_ANOTHER}


@pytest.mark.parametrize("release", [RELEASE])
@pytest.mark.parametrize("text", ONES.values())
def test_a_command(text, release, tmp_path):
    if ("make" in text or "programs" in text) and "clean" not in text and not is_built():
        pytest.skip(f"NOT TESTED: {text}, which is for make test-long, after tests/build {RELEASE}")
    away = [tmp_path / "target/debug", tmp_path / f"roots/{RELEASE}"]
    for path in away:
        path.mkdir(parents=True)
    runs(text, tmp_path)
    if "clean" in text or "purge" in text:
        assert [path.exists() for path in away] == ["purge" in text, text == "make clean"]


@pytest.mark.parametrize("release", [RELEASE])
@pytest.mark.parametrize("texts", [IN_ONE_CLUSTER, AND_IN_ANOTHER], ids=["one", "another"])
def test_commands_of_the_lab(texts, release, tmp_path):
    if texts is IN_ONE_CLUSTER and not is_built():
        pytest.skip(f"NOT TESTED: make lab-up, which is for make test-long, after tests/build {RELEASE}")
    try:
        for text in texts:
            runs(text, tmp_path)
        assert subprocess.run([LAB, "exec", BOX, "--", "true"], capture_output=True).returncode == 125, "it still runs"
    finally:
        subprocess.run([LAB, "down", BOX], check=True)
