# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that run where they can't reach their user's MPS daemon: with a /dev/shm of their own from Slurm, or in a
container. CUDA would go without limits and say nothing. A job fails by one line, or reaches the daemon (cuInit gives
805, see test_mps)."""

import contextlib

import client
import pytest

DIR = "/run/gpushare/mps"
CLIENT = client.CUDA_CLIENT
HALF = "--gres=mps:40"
NO_DAEMON, REACHED = "cuInit=100", "cuInit=805"
REFUSED = "gpushare: this job can't have its GPU here: "
NO_SHM = REFUSED + "/dev/shm is not the node's here"
NO_PIPE = REFUSED + "its MPS daemon can't be reached from here"
EXTRA, JOB_CONTAINER, YAML = "/etc/slurm/extra.conf", "/etc/slurm/job_container.conf", "/etc/slurm/namespace.yaml"
TMPFS = "AutoBasePath=true\nBasePath=/var/spool/jc\n"
LINUX = "defaults:\n  auto_base_path: true\n  base_path: /var/spool/jc\n"


@pytest.fixture(scope="module")
def node(mps):
    client.install_cuda(mps)
    return mps


def restart(node, *daemons):
    node.cancel_all()
    for daemon in daemons:
        node.ok(f"/lab/service restart {daemon}")
    node.wait_idle()


@contextlib.contextmanager
def restored(node):
    """With Slurm's own configuration before and after."""
    before = node.ok(f"cat {EXTRA}")
    node.write(WRAPPER, ORDERLY, 755)
    try:
        yield before
    finally:
        node.ok(f"cat >{EXTRA}; rm -f {JOB_CONTAINER} {YAML} {WRAPPER}", stdin=before + "\n")
        restart(node, "slurmctld", "slurmd")


def finding(node, about):
    return next(iter(node.findings(about)), None)


def said(node, *options, program=CLIENT):
    result = node.run(["srun", *options, program], "alice")
    return result.stdout + result.stderr


def assert_shares_fail_and_nothing_else(node):
    job = node.sbatch(HALF, script=CLIENT)
    assert node.finished(job) == "FAILED"
    for text in (node.output(job), said(node, HALF)):
        assert NO_SHM in text and "cuInit" not in text, text
    assert NO_DAEMON in said(node), "a job without a share"
    assert NO_DAEMON in said(node, "--gres=gpu:1"), "a job with a GPU of its own"
    node.wait_idle()


# Linux 6.18 numbers namespaces in another order on each processor, and refuses Slurm's bind of a job's mount namespace
# where that has a smaller number than slurmd's ("ns base mount failed: Invalid argument"). So both are made on one
# processor.
WRAPPER = "/usr/local/sbin/slurmd"
ORDERLY = """#!/bin/bash
list=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)
exec taskset -c ${list%%[-,]*} unshare -m --propagation unchanged /usr/sbin/slurmd "$@"
"""
# In turn: since which release, what slurm.conf has, the file, what is in it, and whether jobs have the node's /dev/shm.
JC, NS, LX = "JobContainerType=job_container/tmpfs", "NamespaceType=namespace/tmpfs", "NamespaceType=namespace/linux"
KINDS = [
    ("", JC, JOB_CONTAINER, TMPFS, False),
    ("24.11", JC, JOB_CONTAINER, TMPFS + "EntireStepInNS=true\nShared=true\n", False),
    ("23.02", JC, JOB_CONTAINER, TMPFS + "Dirs=/tmp\n", True),
    ("25.11", NS, JOB_CONTAINER, TMPFS, False),
    ("25.11", LX, YAML, LINUX + '  clone_ns_flags: ["CLONE_NEWPID"]\n', False),
    ("25.11", LX, YAML, LINUX + "  dirs: /tmp\n", True),
]


def test_in_a_user_namespace_no_task_starts_and_check_says_so(node):
    """namespace/linux with CLONE_NEWUSER. Slurm fences such steps by a BPF token, or only jobs;
    ours must ask for programs."""
    if not node.newer_than("25.11"):
        pytest.skip("that Slurm has no namespace/linux")
    assert finding(node, "NamespaceType") is None
    with restored(node) as extra:
        node.ok(f"cat >{EXTRA}", stdin=f"{extra}\n{LX}\n")
        for token in ("", "disable_bpf_token: true\n"):
            node.ok(f"cat >{YAML}", stdin=token + LINUX + '  dirs: /tmp\n  clone_ns_flags: ["CLONE_NEWUSER"]\n')
            restart(node, *([] if token else ["slurmctld"]), "slurmd")
            job = node.sbatch(HALF, script=CLIENT)
            assert node.finished(job) == "FAILED"
            for text in (node.output(job), said(node)):
                assert REFUSED in text and "a user namespace" in text and "cuInit" not in text, text
            text = said(node, HALF)
            assert "launch failed" in text and "cuInit" not in text, text
            node.wait_idle()
        found = finding(node, "NamespaceType")
        assert found["status"] == "wrong" and "user namespace" in found["said"], found
    assert REACHED in said(node, HALF)


def test_a_dev_shm_of_the_jobs_own_fails_shares_and_check_says_so(node):
    about = "NamespaceType" if node.newer_than("25.11") else "JobContainerType"
    assert REACHED in said(node, HALF) and finding(node, about) is None
    last = None
    with restored(node) as extra:
        for since, setting, path, text, shares in KINDS:
            if since and not node.newer_than(since):
                continue  # That Slurm knows no such setting.
            node.ok(f"cat >{EXTRA}", stdin=f"{extra}\n{setting}\n")
            node.ok(f"cat >{path}", stdin=text)
            # What `check` asks slurmctld for.
            restart(node, *(["slurmctld"] if setting != last else []))
            restart(node, "slurmd")
            last = setting
            if shares:
                assert REACHED in said(node, HALF), text
            else:
                assert_shares_fail_and_nothing_else(node)
            found = finding(node, about)
            assert found["status"] == ("ok" if shares else "wrong"), (text, found)
