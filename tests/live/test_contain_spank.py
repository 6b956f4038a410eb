# SPDX-License-Identifier: GPL-2.0-or-later
"""SlurmdParameters=contain_spank: slurmstepd runs hooks of plugins in a child, within the job's namespaces. In a
namespace of processes /proc shows that child nothing of itself."""

import pytest
from gpus import OPEN, SHARES, entered, opened

SHARE = SHARES["own"]
TMPFS = {
    "/etc/slurm/job_container.conf": "AutoBasePath=true\nBasePath=/var/spool/jc\nDirs=/tmp\n",
}
LINUX = {
    "/etc/slurm/namespace.yaml": "defaults:\n  auto_base_path: true\n  base_path: /var/spool/jc\n  dirs: \"/tmp\"\n"
    "  clone_ns_flags: [\"CLONE_NEWPID\"]\n",
}
# Mounts of a job must not reach the box.
SLURMD = """#!/bin/bash
list=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)
exec taskset -c ${list%%[-,]*} unshare -m --propagation unchanged /usr/sbin/slurmd "$@"
"""


@pytest.fixture(scope="module")
def node(spank_contained):
    if not spank_contained.newer_than("24.05"):
        pytest.skip("the release has no contain_spank")
    is_linux = spank_contained.newer_than("25.11")
    kind = "NamespaceType=namespace/linux" if is_linux else "JobContainerType=job_container/tmpfs"
    for path, text in (LINUX if is_linux else TMPFS).items():
        spank_contained.write(path, text)
    spank_contained.ok(f"echo {kind} >>/etc/slurm/extra.conf")
    spank_contained.ok("sed -i 's/^SlurmdParameters=.*/&,contain_spank/' /etc/slurm/slurm.conf")
    spank_contained.write("/usr/local/sbin/slurmd", SLURMD, 755)
    for daemon in ("slurmctld", "slurmd"):
        spank_contained.ok(f"/lab/service restart {daemon}", timeout=80)
    spank_contained.wait_idle()
    assert "contain_spank" in spank_contained.ok("scontrol show config"), "it is not set"
    return spank_contained


def test_an_ssh_session_is_fenced_there_too(node):
    """With a share, and without one."""
    for options in ([SHARE.half_gpu], []):
        job = node.sbatch(*options, script=f"{OPEN}; srun {OPEN}; sleep 60")
        node.wait_state(job, "RUNNING")
        gpus = node.wait(lambda: len(opened(node.output(job))) == 2 and opened(node.output(job)), "what it can open")
        own = {node.ledger()[job]} if options else set()
        assert gpus == [own, own], node.output(job)
        assert opened(entered(node, job, "alice", OPEN)) == [own]
        if options:
            # The witness is the process that lives as long as the job.
            pid, start = node.ok(f"sed -n s/^witness=//p /run/gpushare/jobs/{job}").split()
            assert node.ok(f"tr '\\0' ' ' </proc/{pid}/cmdline").startswith(f"slurmstepd: [{job}.extern]")
            assert node.ok(f"cat /proc/{pid}/stat").split()[21] == start
        node.cancel_all()
    node.tidy()
