# SPDX-License-Identifier: GPL-2.0-or-later
"""What NVML says and does for a job under a real Slurm: with tests/fakes/nvml.c in its place, cgroup v2."""

import pytest
from gpus import uuids
from lab import TOP
from client import compiled, install

LIBRARY = "/lab/out/libnvidia-ml.so.1"
TOTAL, RESERVED = 46068, 260
IDLE, BUSY = "used=100 utilisation=0", "used=30000 utilisation=80"


def says(cluster, loads, more=""):
    """What the library says of the GPUs, in order; what it was told is forgotten."""
    lines = [
        f"gpu {uuid} {minor} total={TOTAL} reserved={RESERVED} {load}"
        for minor, (uuid, load) in enumerate(zip(uuids(cluster), loads))
    ]
    cluster.ok(f"rm -f {LIBRARY}.log; printf '%s\n' {' '.join(map(repr, lines))} {more!r} >{LIBRARY}.state")


@pytest.fixture(scope="module")
def node(measured, tmp_path_factory):
    fake = tmp_path_factory.mktemp("fake") / "libnvidia-ml.so.1"
    compiled(TOP / "tests/fakes/nvml.c", measured.release, fake, "-shared", "-fPIC")
    install(measured, fake, LIBRARY)
    return measured


@pytest.fixture(autouse=True)
def empty(node):
    yield
    node.cancel_all()
    assert node.node_state().split()[0] == "idle", node.node_state()


def running(node, *options, **more):
    """A job that runs, and its cgroup, which all of its steps are in."""
    job = node.sbatch(*options, script="env | grep ^GPUSHARE_; sed -n s/^0:://p /proc/self/cgroup; sleep 60", **more)
    lines = node.wait(lambda: [line for line in node.output(job).splitlines() if "/step_" in line], f"output of {job}")
    return job, "/sys/fs/cgroup" + lines[0].split("/step_")[0]


def told(node):
    return node.run(f"cat {LIBRARY}.log").stdout.splitlines()


def test_a_share_goes_by_load_and_its_job_is_limited(node):
    says(node, [BUSY, BUSY, BUSY, IDLE])
    half = (TOTAL - RESERVED) // 2
    job, cgroup = running(node, "--gres=gpushare:40")
    assert node.ledger() == {job: 3} and f"GPUSHARE_MEM_MIB={half}" in node.output(job)
    limit = f"limit {uuids(node)[3]} {cgroup} 0 {half << 20}"
    node.wait(lambda: told(node) == [limit], f"'{limit}', not {told(node)}")
    assert node.ok(f"test -d {cgroup}/step_extern && cat /run/gpushare/limits") == ""
    row = node.shares()[0]
    assert row["MEMORY"] == str(half), row


def test_a_job_without_a_share_is_not_limited(node):
    says(node, [IDLE] * 4)
    running(node)
    assert told(node) == []


def test_a_job_whose_memory_cannot_be_limited_runs(node):
    says(node, [IDLE] * 4, "fail nvmlDeviceSetMemoryLimits_v1 3")
    job, _ = running(node, "--gres=gpushare:40")
    assert node.state(job) == "RUNNING" and told(node) == []
    line = f"job {job}: its GPU memory is not limited: GPU 'GPU-"
    node.wait(lambda: line in node.log("slurmd"), f"'{line}'")


def test_an_unusable_gpu_takes_no_share(node):
    says(node, [f"{IDLE} field=145:1", IDLE, BUSY, BUSY])
    job, _ = running(node, "--gres=gpushare:80")
    assert node.ledger() == {job: 1}
    assert "GPU 0 takes no share, NVML says: " in node.ok("gpushare status")
