# SPDX-License-Identifier: GPL-2.0-or-later
"""The fence beside other things: devices that Slurm fences itself, and a fence that can't be put up."""

import re
import shlex

import client
import pytest
from gpus import OPEN, SHARES, Share, entered, opened
from lab import TOP

NIC = "(: <>/dev/nic0) 2>&1 | grep -q 'not permitted' && echo nic=closed || echo nic=open"


def nics(text):
    return [line.split("=")[1] for line in text.splitlines() if line.startswith("nic=")]


def test_other_devices_that_slurm_fences_stay_fenced(nic):
    """A card that was not asked for is closed in every step, one that was is open,
    one that a step left is closed there."""
    share = SHARES[nic.kind]
    without = nic.run(["srun", share.half_gpu, "bash", "-c", f"{NIC}; {OPEN}"], "alice")
    assert nics(without.stdout) == ["closed"] and len(opened(without.stdout)[0]) == 1, without.stderr
    script = (
        f"{NIC}; srun --overlap bash -c \"{NIC}; {OPEN}\"; srun --overlap --gres={share.gres}:{share.half} "
        f"bash -c \"{NIC}; {OPEN}\"; {OPEN}"
    )
    job = nic.sbatch(f"{share.half_gpu},nic:1", script=script)
    assert nic.finished(job) == "COMPLETED", nic.output(job)
    assert nics(nic.output(job)) == ["open", "open", "closed"], nic.output(job)
    gpus = opened(nic.output(job))
    assert len(gpus) == 3 and len(gpus[0]) == 1 and gpus[0] == gpus[1] == gpus[2], nic.output(job)
    none = nic.run(["srun", "bash", "-c", f"{NIC}; {OPEN}"], "bob")
    assert nics(none.stdout) == ["closed"] and opened(none.stdout) == [set()], none.stderr


def test_a_mistake_in_gpushare_conf_ends_no_job_with_another_gres(nic):
    nic.ok("echo Nonsense=1 >>/etc/slurm/gpushare.conf")
    try:
        assert nic.ok(["srun", "--gres=nic:1", "echo", "ran"], "alice") == "ran"
    finally:
        nic.ok("sed -i /Nonsense/d /etc/slurm/gpushare.conf")


@pytest.mark.parametrize("kind", ["batch", "srun", "interactive", "extern"])
def test_a_fence_that_cannot_be_put_up_fails_the_job_and_not_the_node(unfenced, kind):
    """A build that fails on purpose where a file says so."""
    unfenced.ok(f"echo {kind} >/lab/out/no-fence && chmod 644 /lab/out/no-fence")
    share = SHARES.get(unfenced.kind, SHARES["own"])
    try:
        if kind in ("batch", "extern"):
            job = unfenced.sbatch(share.half_gpu, script=OPEN)
            assert unfenced.finished(job) == "FAILED"
            said = unfenced.output(job)
        else:
            inner = ["salloc", share.half_gpu, "srun", "--interactive", OPEN]
            command = inner if kind == "interactive" else ["srun", share.half_gpu, OPEN]
            result = unfenced.run(command, "alice")
            assert result.returncode != 0
            said = result.stdout + result.stderr
        assert "this job can't have its GPU here" in said and "no fence, on purpose" in said, said
        assert opened(said) == []
        # Without the extern step's fence no other step runs.
        ways = [["srun", OPEN], ["salloc", "srun", OPEN], ["salloc", "srun", "--interactive", OPEN]]
        # One that manages the job's steps has another title.
        ways += [["srun", "--stepmgr", OPEN]] if unfenced.newer_than("24.05") else []
        for command, *more in ways if kind == "extern" else ():
            result = unfenced.run([command, share.half_gpu, *more], "alice")
            said = result.stdout + result.stderr
            assert result.returncode != 0 and "ssh sessions can't be fenced: no fence, on purpose" in said, said
            assert opened(said) == []
        if kind == "extern":
            # It is closed from its start, so an ssh session has no GPU either.
            unfenced.ok(["salloc", "-Q", "--no-shell", share.half_gpu], "alice")
            [job] = unfenced.ok("squeue -h -o %A").split()
            assert opened(entered(unfenced, job, "alice", OPEN)) == [set()]
    finally:
        unfenced.ok("rm /lab/out/no-fence")
        unfenced.cancel_all()
    assert unfenced.node_state().split()[0] == "idle", unfenced.node_state()
    assert len(opened(unfenced.ok(["srun", share.half_gpu, OPEN], "alice"))[0]) == 1


def test_a_fence_that_is_not_what_the_ledger_says_fails_the_job(placed_follow):
    """The entry is changed behind everybody's back: what Slurm opened is then not the job's."""
    share = Share("mps", full=100, half=50)
    go = "until test -e /lab/out/go; do sleep 0.2; done"
    job = placed_follow.sbatch(share.half_gpu, script=f"{go}; srun {OPEN}; echo ended")
    placed_follow.wait_state(job, "RUNNING")
    placed_follow.wait(lambda: job in placed_follow.ledger(), "the entry")
    placed_follow.ok("sed -i 's,^gpu=0 195:0 [^ ]* /dev/nvidia0,gpu=1 195:1 - /dev/nvidia1,' /run/gpushare/jobs/*")
    try:
        placed_follow.ok("touch /lab/out/go")
        assert placed_follow.finished(job) in ("COMPLETED", "FAILED")
    finally:
        placed_follow.ok("rm -f /lab/out/go")
    assert "this job can't have its GPU here" in placed_follow.output(job), placed_follow.output(job)
    assert opened(placed_follow.output(job)) == []
    assert placed_follow.node_state().split()[0] == "idle", placed_follow.node_state()


def test_a_kernel_that_refuses_bpf_fails_the_jobs_and_not_the_node(refused, tmp_path):
    """slurmstepd in a seccomp filter. Slurm attaches nothing under `own`, so its own fence is not in question."""
    stepd = refused.ok("readlink -f $(command -v slurmstepd)")
    program = client.compiled(
        TOP / "tests/live/tools/without-bpf.c", refused.release, tmp_path / "without-bpf", "-static"
    )
    client.install(refused, program, "/lab/out/without-bpf")
    share = SHARES["own"]
    refused.ok(f"mv {stepd} {stepd}.real && cp /lab/out/without-bpf {stepd} && chmod 755 {stepd}")
    try:
        job = refused.sbatch(share.half_gpu, script=OPEN)
        assert refused.finished(job) == "FAILED"
        said = refused.output(job)
        assert "this job can't have its GPU here" in said and "bpf(2)" in said and opened(said) == [], said
        # Slurm runs a task epilog of the user's even for a task that fails.
        refused.ok("cat >/lab/out/epilog && chmod 755 /lab/out/epilog", stdin=f"#!/bin/bash\n{OPEN} >/tmp/epilog\n")
        step = refused.run(["srun", "--task-epilog=/lab/out/epilog", OPEN], "bob")
        said = step.stdout + step.stderr
        # srun exits with 0 all the same before 23.11.
        assert "launch failed" in said and opened(said) == [], said
        assert step.returncode != 0 or not refused.newer_than("23.11")
        assert refused.run("cat /tmp/epilog").stdout == ""
        refused.wait(lambda: "GPUs not closed from the start" in refused.log("slurmd"), "the reason in slurmd's log")
    finally:
        refused.ok(f"mv {stepd}.real {stepd}; rm -f /tmp/epilog")
        refused.cancel_all()
    assert refused.node_state().split()[0] == "idle", refused.node_state()
    assert len(opened(refused.ok(["srun", share.half_gpu, OPEN], "alice"))[0]) == 1


NAMES = f"{OPEN}; sed -n 's,^0::.*/\\([^/]*\\)/step_.*,folder \\1,p' /proc/self/cgroup"


def test_a_jobs_cgroup_has_whatever_name_slurm_gives_it(refused):
    """From 26.05 on the job's SLUID, or its number as before with CgroupJobIdPaths."""
    conf, has_sluids = "/etc/slurm/cgroup.conf", refused.newer_than("26.05")
    before = refused.ok(f"cat {conf}")
    try:
        for setting, is_number in [
            ("", not has_sluids),
            ("CgroupJobIdPaths=yes", True),
            ("CgroupJobIdPaths=no", False),
        ]:
            if setting and not has_sluids:
                continue  # That Slurm knows no such setting.
            if setting:
                refused.ok(f"cat >{conf}; /lab/service restart slurmd", stdin=f"{before}\n{setting}\n")
                refused.wait_idle()
            job = refused.sbatch(SHARES["own"].half_gpu, script=f"{NAMES}; srun bash -c {shlex.quote(NAMES)}")
            assert refused.finished(job) == "COMPLETED", refused.output(job)
            said = refused.output(job)
            folders = [line.split()[1] for line in said.splitlines() if line.startswith("folder ")]
            sluid = folders[0] if folders else ""
            assert folders == ([f"job_{job}"] * 2 if is_number else [sluid] * 2), said
            assert is_number or re.fullmatch(r"s[0-9A-Z]{13}", sluid), said
            assert [len(gpus) for gpus in opened(said)] == [1, 1], said
            assert refused.ledger() == {}
    finally:
        refused.ok(f"cat >{conf}; /lab/service restart slurmd", stdin=f"{before}\n")
        refused.wait_idle()


STACK = "/etc/slurm/plugstack.conf"


@pytest.mark.parametrize(
    "fault", ["unreadable ledger", "broken configuration", "broken configuration elsewhere", "unknown argument"]
)
def test_in_doubt_no_gpu_is_open(refused, fault):
    """Under `own` nobody but gpushare closes GPUs, and nothing but its own files tells it who has a share."""
    breaks, mends = {
        "unreadable ledger": ("chmod 700 /run/gpushare", "chmod 755 /run/gpushare"),
        "broken configuration": (
            "echo Placement=elsewhere >>/etc/slurm/gpushare.conf",
            "sed -i /elsewhere/d /etc/slurm/gpushare.conf",
        ),
        "broken configuration elsewhere": (
            f"echo Placement=elsewhere >/etc/slurm/other.conf; sed -i 's,$, conf=/etc/slurm/other.conf,' {STACK}",
            f"sed -i 's, conf=.*,,' {STACK}",
        ),
        "unknown argument": (f"sed -i 's,$, conf=other.conf,' {STACK}", f"sed -i 's, conf=.*,,' {STACK}"),
    }[fault]
    refused.ok(["srun", SHARES["own"].half_gpu, "true"], "alice")
    refused.ok(breaks)
    try:
        step = refused.run(["srun", OPEN], "bob")
        assert opened(step.stdout) == [set()], step.stdout + step.stderr
        step = refused.run(["srun", SHARES["own"].half_gpu, OPEN], "bob")
        assert opened(step.stdout) in ([], [set()]), step.stdout + step.stderr
        batch = refused.sbatch(script=f"{OPEN}; srun --overlap {OPEN}")
        refused.finished(batch)
        assert opened(refused.output(batch)) == [set(), set()], refused.output(batch)
    finally:
        refused.ok(mends)
    assert refused.node_state().split()[0] == "idle", refused.node_state()
    assert len(opened(refused.ok(["srun", SHARES["own"].half_gpu, OPEN], "alice"))[0]) == 1
