# SPDX-License-Identifier: GPL-2.0-or-later
"""Beside another plugin of slurmstepd that runs a program as the job's user before there are tasks."""

import client
import pytest
from gpus import SHARES, opened
from lab import TOP

PLUGIN, SAID = "/lab/out/user-init.so", "/lab/out/user-init"


@pytest.fixture(scope="module")
def other(placed, tmp_path_factory):
    """The node with the plugin installed, not yet named in plugstack.conf."""
    library = tmp_path_factory.mktemp("plugin") / "user-init.so"
    client.compiled(TOP / "tests/live/tools/user-init.c", placed.release, library, "-shared", "-fPIC")
    client.install(placed, library, PLUGIN)
    return placed


@pytest.fixture(params=["before", "after"])
def beside(other, request):
    """The same with the plugin's line before or after gpushare's."""
    ours = other.ok("cat /etc/slurm/plugstack.conf")
    lines = [f"required {PLUGIN}", ours]
    other.ok(
        "cat >/etc/slurm/plugstack.conf", stdin="\n".join(lines if request.param == "before" else lines[::-1]) + "\n"
    )
    other.ok(f"install -m 666 /dev/null {SAID}")
    yield other
    other.ok("cat >/etc/slurm/plugstack.conf", stdin=ours + "\n")
    other.cancel_all()
    other.wait_no_shares()


def test_a_program_that_another_plugin_runs_for_the_user_is_fenced(beside):
    """Before its fence a step's programs open the job's GPU at the most."""
    share = SHARES[beside.kind]
    first = beside.sbatch(share.full_gpu)
    beside.wait_state(first, "RUNNING")
    beside.wait(lambda: len(opened(beside.ok(f"cat {SAID}"))) == 1, "the first job's batch step")
    beside.ok(f"truncate -s0 {SAID}")
    job = beside.sbatch(share.half_gpu, script="srun true; srun true; sleep 60")
    beside.wait(lambda: len(opened(beside.ok(f"cat {SAID}"))) == 3, "a batch step and two of srun's")
    gpu = beside.ledger()[job]
    # On v1 Slurm's rules of a step of srun's open what Slurm charged, which is GPU 0 there.
    charged = {0} if (beside.kind, beside.cgroup) == ("override", "v1") else set()
    said = opened(beside.ok(f"cat {SAID}"))
    assert all(found <= {gpu} | charged for found in said), said
    assert not beside.run("grep -ah 'GPUs not closed from the start' /var/log/slurm/*.log").stdout


def test_a_task_in_a_root_without_its_gpu_runs(beside, tmp_path):
    """A container need not have the node of the GPU; that is no fault of the fence."""
    program = client.compiled(TOP / "tests/live/tools/said.c", beside.release, tmp_path / "said", "-static")
    script = "echo began; until test -e /lab/out/root/bin/said; do sleep 0.1; done; srun /bin/said; sleep 60"
    job = beside.sbatch(SHARES[beside.kind].half_gpu, script=script)
    beside.wait(lambda: "began" in beside.output(job), "the batch script, which is outside of that root")
    try:
        beside.ok("mkdir -p /lab/out/root/bin /lab/out/root/proc; chmod -R 755 /lab/out/root")
        client.install(beside, program, "/lab/out/root/bin/.said")
        beside.ok("mv /lab/out/root/bin/.said /lab/out/root/bin/said")
        beside.wait(lambda: "in another root" in beside.output(job), f"the step: {beside.output(job)}")
    finally:
        beside.ok("rm -rf /lab/out/root")
