# SPDX-License-Identifier: GPL-2.0-or-later
"""`lab list` and `lab down --stale`, with a directory for boxes of this test's own:
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


def test_tests_enter_a_box_as_lab_exec_does():
    release = RELEASES[-1]
    seen = (
        "env | sort; id; pwd; readlink /proc/self/ns/* /proc/self/root; cat /proc/self/cgroup; "
        "grep Cap /proc/self/status; echo $1"
    )
    conf = [lab.EXAMPLES / "own", lab.CASES / "nodes", lab.CASES / "nodes-own"]
    with lab.Cluster(f"{lab.BOXES}-lab-entered", release, "v2", conf=conf) as cluster:
        node = cluster.ok("ls /run/lab/nodes").split()[0]
        for user, options, where in [("root", [], None), ("alice", [], None), ("alice", ["--node", node], node)]:
            command = ["bash", "-c", seen, "-", "a word with 'quotes'"]
            by_lab = [LAB, "exec", cluster.name, "--user", user, *options, "--", *command]
            expected = subprocess.run(by_lab, capture_output=True, text=True, check=True).stdout
            assert "a word with 'quotes'" in expected and f"({user})" in expected
            assert cluster.ok(command, user, node=where) == expected.strip()
        places = "readlink /proc/%s/ns/{mnt,net,uts,ipc,pid} /proc/%s/root"
        assert cluster.ok(places % ("self", "self")) == cluster.ok(places % (1, 1))
        assert cluster.ok("hostname", node=node) == node != cluster.ok("hostname")
        assert cluster.run("true", node="no-such-node").returncode == lab.NO_BOX
        assert cluster.run("true", "nobody-here").returncode == lab.NO_BOX
        assert cluster.run("kill -TERM $$").returncode == -signal.SIGTERM
        assert cluster.run("exit 7").returncode == 7
        # What is held leads nowhere when the cluster has died, wherever its process number leads by then.
        outer = int((lab.STATE / "run" / cluster.name / "pid").read_text())
        os.kill(outer, signal.SIGKILL)
        wait(lambda: not os.path.exists(f"/proc/{outer}/exe"), "its end")
        died = cluster.run("hostname")
        assert died.returncode != 0 and died.stdout == "", died
