# SPDX-License-Identifier: GPL-2.0-or-later
"""Every way in which a starting step of srun ends between two hooks of gpushare's plugin (Slurm: `_fork_all_tasks` in
slurmstepd/mgr.c): the job's other steps open their GPU as before, and nobody opens another's."""

import client
import pytest
from gpus import OPEN, SHARES, opened
from lab import TOP

# What is asked for, and what die-at.so does, in the line before gpushare's or after it; or PAM refuses. Slurm writes
# the job's rules between the hooks init and user_init, and then opens the PAM session.
ENDS = {
    "a plugin after it fails in init": ("", "after", "init nobody"),
    "PAM refuses its session": ("", "pam", "no"),
    "its output can't be opened": ("-o /no/such/folder/x.%t", None, None),
    "its program can't be found": ("/no/such/program", None, None),
    "a plugin before it fails in user_init": ("", "before", "user_init nobody"),
    "a plugin after it fails in user_init": ("", "after", "user_init nobody"),
    "killed before its user_init": ("", "before", "user_init slurmstepd"),
    "killed after its user_init": ("", "after", "user_init slurmstepd"),
    "killed before the user's program": ("", "after", "task_init_privileged slurmstepd"),
    "killed after the fork": ("", "before", "task_post_fork slurmstepd"),
}


# Refuses a session once, if /lab/out/pam is there.
REFUSES = "/lab/out/refuses"
PAM = f"auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_exec.so {REFUSES}\n"


@pytest.fixture(scope="module")
def node(placed, tmp_path_factory):
    """The node with required plugins that fail or kill, before and after gpushare's, and with UsePAM=1."""
    if placed.kind not in ("own", "override"):
        pytest.skip("gpushare opens nothing there that Slurm closes")
    placed.ok("cp /etc/slurm/plugstack.conf /lab/out/plugstack")
    for place, line in (("before", "1i"), ("after", "$a")):
        library = tmp_path_factory.mktemp("plugin") / f"{place}.so"
        where = f'-DFILE_NAME="/lab/out/{place}"'
        client.compiled(TOP / "tests/live/tools/die-at.c", placed.release, library, "-shared", "-fPIC", where)
        client.install(placed, library, f"/lab/out/{place}.so")
        placed.ok(f"sed -i '{line} required /lab/out/{place}.so' /etc/slurm/plugstack.conf")
    placed.ok(f"cat >{REFUSES} && chmod 755 {REFUSES}", stdin="#!/bin/sh\n! rm /lab/out/pam 2>/dev/null\n")
    placed.ok("cat >/etc/pam.d/slurm", stdin=PAM)
    placed.ok("echo UsePAM=1 >>/etc/slurm/extra.conf && /lab/service restart slurmd", timeout=80)
    yield placed
    placed.ok("cp /lab/out/plugstack /etc/slurm/plugstack.conf; rm /etc/pam.d/slurm")
    placed.ok("sed -i /^UsePAM=/d /etc/slurm/extra.conf && /lab/service restart slurmd", timeout=80)
    placed.tidy()


def test_the_jobs_other_steps_keep_their_gpu(node):
    share = SHARES[node.kind]
    node.cancel_all()
    # The first share has the GPU that Slurm opens under `override`.
    first, _ = node.start("-n1", share.full_gpu)
    go = "until [ -e /lab/out/go.$SLURM_JOB_ID ]; do sleep 0.1; done"
    looks = f"while sleep 0.3; do {OPEN} >/lab/out/look.new && mv /lab/out/look.new /lab/out/look; done"
    job, gpu = node.start("-n2", share.half_gpu, script=f"{looks} & {go}")
    try:
        for name, (options, place, at) in ENDS.items():
            before = node.wait(lambda: look(node), "a look")
            assert before == [{int(gpu)}], f"before '{name}'"
            if place:
                node.write(f"/lab/out/{place}", f"srun {at} 0\n", 666)
            # srun may wait long for a step whose slurmstepd is gone.
            done = node.run(f"timeout -s KILL 3 srun --jobid={job} -n1 --overlap {options} touch /lab/out/ran", "alice")
            # Before 23.11 srun exits with 0 even if nothing was launched.
            assert place or done.returncode != 0 or "launch failed" in done.stderr, name
            # die-at.so has removed its order.
            node.ok(f"! ls /lab/out/ran /lab/out/{place} 2>/dev/null; rm -f /lab/out/look")
            node.wait(lambda: look(node) == [{int(gpu)}], f"the job's GPU to be open after '{name}'", 5)
        assert opened(node.ok(f"srun --jobid={job} -n1 --overlap {OPEN}", "alice")) == [{int(gpu)}]
    finally:
        node.ok(f"rm -f /lab/out/before /lab/out/after /lab/out/ran; touch /lab/out/go.{job}")
        node.cancel_all()
    assert node.node_state().split()[0] == "idle", node.node_state()


def look(node):
    """What the batch script of the job could open last; without a file that isn't there yet."""
    return opened(node.run("cat /lab/out/look").stdout)
