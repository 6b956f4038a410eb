# SPDX-License-Identifier: GPL-2.0-or-later
"""What NVML says and does for a job under a real Slurm: with tests/fakes/nvml.c in its place, cgroup v2."""

import pytest
from gpus import uuids
from lab import TOP
from client import compiled, install

LIBRARY = "/lab/out/libnvidia-ml.so.1"
TOTAL, RESERVED = 46068, 260
IDLE, BUSY = "used=100 utilization=0", "used=30000 utilization=80"


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
    node.tidy()


def running(node, *options, **more):
    """A job that runs, and its cgroup, which all of its steps are in."""
    job = node.sbatch(*options, script="env | grep ^GPUSHARE_; sed -n s/^0:://p /proc/self/cgroup; sleep 60", **more)
    lines = node.wait(lambda: [line for line in node.output(job).splitlines() if "/step_" in line], f"output of {job}")
    return job, "/sys/fs/cgroup" + lines[0].split("/step_")[0]


def running_out(node, *options):
    """A job that has ended, and what its variables were."""
    job = node.sbatch(*options, script="env")
    assert node.finished(job) == "COMPLETED", node.output(job)
    return job


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
    assert row["memory"] == half, row


def test_programs_are_told_no_more_memory_than_slurm_tells_them(node):
    """What Slurm 26.11 will set, here in the user's name."""
    says(node, [BUSY, BUSY, BUSY, IDLE])
    name, half = "SLURM_SHARD_MEM_PER_GPU", (TOTAL - RESERVED) // 2
    pci = node.ok("grep -lE 'Device Minor:\\s+3$' /proc/driver/nvidia/gpus/*/information").split("/")[-2]
    for slurms, expected, told_at_last in [
        (f"{pci}=3002M", 3002, f"{pci}=3002M"), (f"{pci}=99999M", half, f"{pci}=99999M"),
        ("0000:ff:00.0=3002M", half, f"{pci}={half}M"),
    ]:
        options = ["--gres=gpushare:40", f"--export=ALL,{name}={slurms}"]
        for said in (node.ok(["srun", *options, "env"], "alice"), node.output(running_out(node, *options))):
            lines = said.splitlines()
            assert f"GPUSHARE_MEM_MIB={expected}" in lines and f"{name}={told_at_last}" in lines, said
    assert name not in node.ok("srun --gres=gpushare:40 env", "alice")


def test_a_job_without_a_share_is_not_limited(node):
    says(node, [IDLE] * 4)
    running(node)
    assert told(node) == []


def test_a_job_whose_memory_cannot_be_limited_runs(node):
    says(node, [IDLE] * 4, "fail nvmlDeviceSetMemoryLimits_v1 3")
    job, _ = running(node, "--gres=gpushare:40")
    assert node.state(job) == "RUNNING" and told(node) == []
    line = f"job {job}: its GPU memory is not limited: GPU 'GPU-"
    # A prolog inside the job limits it, else the job's extern step.
    log = "syslog" if node.kind == "run-in-job" else "slurmd"
    node.wait(lambda: line in node.log(log), f"'{line}'")


def test_an_unusable_gpu_takes_no_share(node):
    says(node, [f"{IDLE} field=145:1", IDLE, BUSY, BUSY])
    job, _ = running(node, "--gres=gpushare:80")
    assert node.ledger() == {job: 1}
    assert "GPU 0 takes no shares, NVML says: " in node.ok("gpushare status")
