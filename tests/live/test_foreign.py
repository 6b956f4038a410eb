# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose the processes on a GPU are, and when jobs use it, under a real Slurm with NVIDIA's own MPS daemons;
tests/fakes/nvml.c lists the processes. cgroup v1 with 22.05, v2 with the others."""

import contextlib
import json
import time

import client
import pytest
from gpus import uuids
from lab import TOP

LIBRARY, RULES = "/lab/out/libnvidia-ml.so.1", "/etc/slurm/gpushare.conf"
HALF = "--gres=mps:40"


@pytest.fixture(scope="module")
def node(mps, tmp_path_factory):
    fake = tmp_path_factory.mktemp("fake") / "libnvidia-ml.so.1"
    client.compiled(TOP / "tests/fakes/nvml.c", mps.release, fake, "-shared", "-fPIC")
    client.install(mps, fake, LIBRARY)
    mps.ok(f"rm -f /run/gpushare/nvml; printf '%s\\n' Nvml={LIBRARY} NvmlTimeout=10000 >>{RULES}")
    return mps


@pytest.fixture(autouse=True)
def empty(node):
    yield
    node.tidy()


def says(node, words):
    """NVML's words of every GPU."""
    node.ok(
        f"cat >{LIBRARY}.state",
        stdin="".join(
            f"gpu {uuid} {minor} total=46068 reserved=260 used=100 utilization={words.get('utilization', 0)}"
            f"{''.join(f' pid={pid}' for pid in words.get('pids', ()))}"
            f"{''.join(f' busy={pid}:50' for pid in words.get('busy', ()))}\n"
            for minor, uuid in enumerate(uuids(node))
        ),
    )


def running(node, *options):
    """A job, its GPU and its task's process."""
    job = node.sbatch(*options, script="echo pid=$$; while :; do sleep 0.2; done")
    text = node.wait(lambda: node.output(job) if "pid=" in node.output(job) else "", f"output of {job}")
    return job, node.ledger()[job], int(text.split("pid=")[1].split()[0])


@contextlib.contextmanager
def squatter(node):
    """A process of bob's in no job."""
    pid = int(node.ok("setsid sleep 600 >/dev/null 2>&1 & echo $!", "bob"))
    try:
        yield pid
    finally:
        node.run(f"kill -9 {pid}")


def lives(node, pid):
    return node.run(f"grep -q '^State:.*[RSD] (' /proc/{pid}/status").returncode == 0


@contextlib.contextmanager
def rule(node, line):
    kept = node.ok(["cat", RULES])
    node.ok(["tee", RULES], stdin=f"{kept}\n{line}\n")
    try:
        yield
    finally:
        node.ok(["tee", RULES], stdin=kept + "\n")


def status(node):
    return json.loads(node.ok("gpushare status --json"))


def test_processes_that_belong_to_nobody_are_named(node):
    says(node, {})
    job, gpu, task = running(node, HALF)
    daemon = int(node.ok(f"sed -n 's/^process=\\([0-9]*\\) .*/\\1/p' /run/gpushare/mps/{gpu}.2001/state"))
    with squatter(node) as pid:
        time.sleep(0.1)  # Older than gpushare-nvml by a tick of the kernel's.
        says(node, {"pids": (task, daemon, 1, pid)})
        bobs = {"pid": pid, "user_id": 2002, "job": None}
        elsewhere = {"pid": task, "user_id": 2001, "job": int(job)}
        expected = {index: [bobs] if index == gpu else [elsewhere, bobs] for index in range(4)}
        assert {one["index"]: one["foreign"] for one in status(node)["gpus"]} == expected
        shown = f"GPU {gpu} has foreign processes, in none of its jobs: {pid} (user 2002)\n"
        assert shown in node.ok("gpushare status") + "\n"
        counts = [
            line.rsplit(" ", 1)[1]
            for line in node.ok("gpushare metrics").splitlines()
            if line.startswith("gpushare_gpu_foreign")
        ]
        assert counts == ["1" if index == gpu else "2" for index in range(4)]


@pytest.mark.parametrize("share", [HALF, "--gres=gpu:1"])
def test_a_prolog_fails_its_job_for_them_or_ends_them_and_nothing_else(node, share):
    says(node, {})
    _, _, task = running(node, HALF)
    with squatter(node) as pid:
        time.sleep(0.1)
        says(node, {"pids": (task, 1, pid)})
        with rule(node, "ForeignProcesses=fail\nOnCollision=run"):
            job = node.sbatch(share)
            assert node.finished(job) == "FAILED"
            said = node.output(job)
            assert "has foreign processes, in none of its jobs: " in said and f"{pid} (user 2002)" in said, said
            assert lives(node, pid)
        with rule(node, "ForeignProcesses=end\nOnCollision=run"):
            job = node.sbatch(share)
            node.wait_state(job, "RUNNING")
            node.wait(lambda: not lives(node, pid), "the end of the squatter")
            assert lives(node, task), "another job's process"
    assert node.node_state().split()[0] in ("mixed", "allocated"), "no node is drained for it"


def test_a_job_that_does_not_use_its_gpu_is_shown(node):
    says(node, {})
    job, gpu, task = running(node, HALF)
    idle = lambda: [place["idle"] for one in status(node)["jobs"] for place in one["gpus"]]
    assert idle() == [None], "nobody has looked"
    says(node, {"pids": [task], "busy": [task]})
    node.ok("gpushare metrics")
    assert idle() == [0]
    # What its own processes use is laid to the job.
    says(node, {"pids": [f"{task}:812"], "busy": [task]})
    [place] = [place for one in status(node)["jobs"] for place in one["gpus"]]
    assert (place["used"], place["utilization"]) == (812, 50), place
    says(node, {"pids": [task]})
    time.sleep(2)
    text = node.ok("gpushare metrics")
    assert idle()[0] >= 2 and f'gpushare_gpu_idle_seconds{{gpu="{gpu}",' in text
    assert text.count("gpushare_gpu_idle_seconds{") == 1
    assert "IDLE" in node.ok("gpushare status")
