# SPDX-License-Identifier: GPL-2.0-or-later
"""A node on which a user keeps processes that nobody can look at, under the names of those that gpushare looks for, and
NVML says that they use a GPU: jobs start, compute and end as ever, and every command answers. Tests of other nodes run
beside such processes in `make test-long`."""

import client
import pytest
from haunted import haunted
from lab import TOP
from test_foreign import LIBRARY, RULES, says

SHARE = "--gres=mps:20"


@pytest.fixture
def node(haunted_node, tmp_path):
    fake = client.compiled(TOP / "tests/fakes/nvml.c", haunted_node.release, tmp_path / "nvml.so", "-shared", "-fPIC")
    client.install(haunted_node, fake, LIBRARY)
    client.install_cuda(haunted_node)
    settings = [f"Nvml={LIBRARY}", "NvmlTimeout=10000", "ForeignProcesses=end", "OnMpsFailure=fail"]
    haunted_node.ok(f"printf '%s\\n' {' '.join(settings)} >>{RULES}")
    yield haunted_node
    haunted_node.cancel_all()


def test_jobs_and_commands_go_on_beside_processes_that_nobody_can_look_at(node):
    with haunted(node) as processes:
        says(node, {"pids": processes})
        jobs = [node.sbatch(SHARE, user=user, script=client.CUDA_CLIENT) for user in ("alice", "bob", "alice")]
        for job in jobs:
            node.finished(job)
            assert "cuInit=805" in node.output(job), node.output(job)
        for job in (node.sbatch("--gres=gpu:1", script="true"), node.sbatch(script="true")):
            assert node.finished(job) == "COMPLETED", node.output(job)
        running = [node.start(SHARE, user=user)[0] for user in ("alice", "bob")]
        for command in ("status", "check", "metrics", "explain"):
            said = node.run(["timeout", "-s", "KILL", "60", "gpushare", command])
            assert said.returncode in (0, 1), (command, said)
        node.ok(["scancel", *running])
        node.wait_no_shares()
        assert node.node_state().split()[0] == "idle", node.node_state()
        log = node.log("syslog")
    assert log.count("foreign processes") == len(jobs) + 3 and "not done after" not in log, log
