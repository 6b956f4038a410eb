# SPDX-License-Identifier: GPL-2.0-or-later
"""`lab list` and `lab down --stale`, with a folder for boxes of this test's own:
it would take away other people's logs."""

import os
import signal
import subprocess

import lab
import pytest
from lab import LAB, RELEASES
from waiting import wait


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """The roots are the machine's."""
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots" / RELEASES[-1]).symlink_to(lab.root(RELEASES[-1]))
    monkeypatch.setenv("GPUSHARE_LAB_DIR", str(tmp_path))
    return tmp_path


def listed():
    """(The words of each box's row, what is said of the others)"""
    done = subprocess.run([LAB, "list"], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()[1:]], done.stderr


def test_boxes_that_run_are_listed_and_what_dead_ones_left_goes(own_state):
    release = RELEASES[-1]
    names = [f"{lab.BOXES}-lab-{which}" for which in ("lives", "dies")]
    with lab.Cluster(names[0], release, "v2"), lab.Cluster(names[1], release, "v2"):
        rows, said = listed()
        assert [row[:4] + row[5:] for row in rows] == [
            [name, release, "v2", "running", "1/1"] for name in sorted(names)
        ], rows
        assert said == ""
        outer = int((own_state / "run" / names[1] / "pid").read_text())
        os.kill(outer, signal.SIGKILL)
        wait(lambda: not os.path.exists(f"/proc/{outer}/exe"), "its end")
        (own_state / "run/ended/log").mkdir(parents=True)
        rows, said = listed()
        assert [row[0::3][:2] for row in rows] == [[names[1], "died"], [names[0], "running"]], rows
        assert "1 died, and 1 ended" in said and "lab down --stale" in said
        subprocess.run([LAB, "down", "--stale"], check=True)
        assert [row[0] for row in listed()[0]] == [names[0]] and listed()[1] == ""
        assert not (own_state / "run/ended").exists() and not (own_state / "run" / names[1]).exists()
        with open("/proc/mounts") as mounts:
            unified = next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2")
        assert not os.path.exists(f"{unified}/gpushare-lab-{names[1]}")
        assert os.path.exists(f"{unified}/gpushare-lab-{names[0]}")
