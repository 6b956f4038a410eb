# SPDX-License-Identifier: GPL-2.0-or-later
"""SURF's node as its document describes it: 4 GPUs, mps shares of one charged GPU, spread and fenced by gpushare."""

import re
import time
from collections import Counter

import client
import pytest
from gpus import OPEN, entered, opened, task_epilog
from lab import TOP

@pytest.fixture(autouse=True)
def clean(request):
    """Every test begins and ends with an empty, healthy node."""
    cluster = next(request.getfixturevalue(name) for name in ("surf", "shuffled") if name in request.fixturenames)
    cluster.cancel_all()
    yield
    cluster.cancel_all()
    assert cluster.node_state().split()[0] == "idle", cluster.node_state()
    assert cluster.ledger() == {}


def test_eight_shares_go_two_on_each_gpu_and_each_opens_its_own_only(surf):
    jobs = [
        surf.sbatch("--gres=mps:40", script=f"{OPEN}; sleep 60", user=user)
        for user in ("alice", "bob") * 4
    ]
    for job in jobs:
        surf.wait_state(job, "RUNNING")
        surf.wait(lambda: opened(surf.output(job)), f"output of job {job}")
    ledger = surf.ledger()
    assert sorted(ledger) == sorted(jobs)
    assert Counter(ledger.values()) == {0: 2, 1: 2, 2: 2, 3: 2}
    for job in jobs:
        assert opened(surf.output(job)) == [{ledger[job]}]


def test_four_shares_go_one_on_each_gpu_though_two_would_fit(surf):
    jobs = [surf.sbatch("--gres=mps:40") for _ in range(4)]
    surf.wait(lambda: sorted(surf.ledger()) == sorted(jobs), "four entries")
    assert sorted(surf.ledger().values()) == [0, 1, 2, 3]


# The table of SURF's document: share, jobs at once. 5 jobs of mps:16 fill a GPU.
@pytest.mark.parametrize("units, at_once", [(80, 4), (40, 8), (32, 10), (20, 16), (16, 20)])
def test_the_documents_table(surf, units, at_once):
    jobs = [surf.sbatch(f"--gres=mps:{units}") for _ in range(at_once + 1)]
    for job in jobs[:-1]:
        surf.wait_state(job, "RUNNING")
    surf.wait(lambda: len(surf.ledger()) == at_once, f"{at_once} entries")
    assert surf.state(jobs[-1]) == "PENDING"
    spread = Counter(surf.ledger().values())
    assert max(spread.values()) - min(spread.get(gpu, 0) for gpu in range(4)) <= 1, spread
    if units == 40:
        shares = [row["units"] for row in surf.shares()]
        assert shares == [40] * 8, "the units asked for, not Slurm's rounded percentage"


def test_every_kind_of_step_is_fenced(surf):
    """Fill GPU 0 first, so that the share under test is not on the GPU that Slurm charged."""
    first = surf.sbatch("--gres=mps:80")
    surf.wait(lambda: surf.ledger().get(first) == 0, "the first job on GPU 0")
    script = (
        f"{OPEN}; srun -n1 {OPEN}; srun -n2 {OPEN}; srun -n1 --task-epilog={task_epilog(surf)} true; srun -n1 {OPEN} & "
        f"srun -n1 {OPEN} & wait; {OPEN}; touch /lab/out/$SLURM_JOB_ID.steps; sleep 60"
    )
    batch = surf.sbatch("--gres=mps:40", "-n2", script=script)
    surf.wait(lambda: surf.run(f"test -e /lab/out/{batch}.steps").returncode == 0, "the steps")
    gpu = surf.ledger()[batch]
    assert gpu != 0
    lines = opened(surf.output(batch))
    # batch, srun, two tasks, two steps at once, batch again
    assert len(lines) == 7 and all(found == {gpu} for found in lines), surf.output(batch)

    assert opened(surf.output(f"{batch}.epilog")) == [{int(gpu)}]

    direct = surf.run(["srun", "--gres=mps:40", "bash", "-c", f"{OPEN}; echo gpu=$GPUSHARE_GPU"], "alice")
    assert direct.returncode == 0, direct.stderr
    number = int(re.search(r"gpu=(\d)", direct.stdout).group(1))
    assert number != 0 and opened(direct.stdout) == [{number}]

    inside = f"{OPEN}; srun {OPEN}; echo gpu=$GPUSHARE_GPU"
    interactive = surf.run(["salloc", "--gres=mps:40", "bash", "-c", f"srun --interactive bash -c '{inside}'"], "alice")
    number = int(re.search(r"gpu=(\d)", interactive.stdout).group(1))
    found = opened(interactive.stdout)
    assert len(found) == 2 and all(one == {number} for one in found) and number != 0, interactive.stdout


def test_a_process_in_the_extern_step_is_fenced(surf):
    """As pam_slurm_adopt leaves an ssh session: in the extern step's cgroup, as the job's user."""
    first = surf.sbatch("--gres=mps:80")
    surf.wait(lambda: surf.ledger().get(first) == 0, "the first job on GPU 0")
    job, gpu = surf.start("--gres=mps:40")
    assert opened(entered(surf, job, "alice", OPEN)) == [{int(gpu)}]


def test_jobs_without_a_share_open_nothing_and_other_gpus_stay_slurms(surf):
    share = surf.sbatch("--gres=mps:40")
    surf.wait(lambda: share in surf.ledger(), "the share")
    none = surf.run(["srun", OPEN], "bob")
    assert opened(none.stdout) == [set()]
    whole = surf.run(["srun", "--gres=gpu:1", OPEN], "bob")
    assert opened(whole.stdout) == [{1}], "the GPU that Slurm gave; 0 is charged to the share"
    surf.wait(lambda: list(surf.ledger()) == [share], "only the share's entry")


def test_the_environment_names_the_gpu_that_the_job_has(surf):
    first = surf.sbatch("--gres=mps:80")
    surf.wait(lambda: first in surf.ledger(), "the first job")
    text = surf.ok(["srun", "--gres=mps:20", "env"], "alice")
    environment = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    gpu = int(environment["GPUSHARE_GPU"])
    uuid = surf.ok(f"sed -n {gpu + 1}p <(grep -v ^# /lab/gpus) | cut -d' ' -f3")
    assert gpu != 0 and uuid.startswith("GPU-")
    expected = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_VISIBLE_DEVICES": uuid,
        "SLURM_JOB_GPUS": str(gpu),
        "SLURM_STEP_GPUS": str(gpu),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "GPUSHARE_UNITS": "20",
        "GPUSHARE_CAPACITY": "80",
    }
    assert {name: environment.get(name) for name in expected} == expected


def test_what_a_user_sets_in_the_environment_does_not_count(surf):
    text = surf.ok(
        "SPANK_GPUSHARE_SHARE=mps:1 GPUSHARE_SHARE=mps:1 GPUSHARE_GPU=9 CUDA_VISIBLE_DEVICES=0,1,2,3 "
        f"srun --gres=mps:40 bash -c '{OPEN}; echo gpu=$GPUSHARE_GPU units=$GPUSHARE_UNITS'", "alice",
    )
    assert "units=40" in text and "gpu=9" not in text
    assert len(opened(text)[0]) == 1
    none = surf.run(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 srun {OPEN}", "alice")
    assert opened(none.stdout) == [set()], none.stderr


def test_what_a_user_sends_as_job_control_does_not_count(surf, tmp_path):
    """Under either spelling the user's note of a smaller share is replaced by ours, and other entries stay."""
    program = client.compiled(TOP / "tests/live/tools/submit-raw.c", surf.release, tmp_path / "submit-raw", "-lslurm")
    client.install(surf, program, "/lab/out/submit-raw")
    mps = "gres/mps:40" if surf.newer_than("23.11") else "gres:mps:40"
    for sent in ("GPUSHARE_SHARE=mps:39", "SPANK_GPUSHARE_SHARE=mps:39", "A=b GPUSHARE_SHARE=mps:39 SPANK_C=d"):
        job = surf.ok(f"/lab/out/submit-raw normal {mps} {sent}", "alice")
        surf.wait(lambda: job in surf.ledger(), "the share")
        units = {row["job"]: row["units"] for row in surf.shares()}
        assert units[job] == 40, sent


def test_a_step_that_dies_at_its_start_leaves_the_others_their_gpu(surf):
    """Slurm shuts the GPU for the whole job when a step starts; a step that never gets a fence must open it again."""
    first = surf.sbatch("--gres=mps:80")
    surf.wait(lambda: surf.ledger().get(first) == 0, "the first job on GPU 0")
    script = f"{OPEN}; srun -o /nonexistent/x true; sleep 1; {OPEN}; touch /lab/out/$SLURM_JOB_ID.steps; sleep 60"
    job = surf.sbatch("--gres=mps:40", script=script)
    surf.wait(lambda: surf.run(f"test -e /lab/out/{job}.steps").returncode == 0, "the step")
    gpu = surf.ledger()[job]
    assert gpu != 0 and opened(surf.output(job)) == [{gpu}, {gpu}], surf.output(job)


def test_a_running_job_survives_a_restart_of_slurmd(surf):
    job = surf.sbatch("--gres=mps:80", script=f"sleep 6; {OPEN}; srun {OPEN}; sleep 60")
    surf.wait_state(job, "RUNNING")
    surf.wait(lambda: job in surf.ledger(), "the share")
    gpu = surf.ledger()[job]
    surf.ok("/lab/service restart slurmd")
    surf.wait(lambda: len(opened(surf.output(job))) == 2, "the job's output")
    assert opened(surf.output(job)) == [{gpu}, {gpu}] and surf.ledger() == {job: gpu}


def test_a_requeued_job_is_placed_anew_and_counted_once(surf):
    job = surf.sbatch("--requeue", "--gres=mps:80", script=f"{OPEN}; echo start ${{SLURM_RESTART_COUNT:-0}}; sleep 60")
    surf.wait(lambda: "start 0" in surf.output(job), "the first start")
    surf.ok(["scontrol", "requeue", job])
    surf.wait_state(job, "PENDING")
    surf.wait(lambda: surf.ledger() == {}, "the first start's share to be taken back")
    if not surf.newer_than("23.02"):
        time.sleep(3)  # 22.05 sometimes runs no prolog for a job that starts again within a second or two
    surf.start_now(job)
    surf.wait(lambda: "restart=1" in surf.run("cat /run/gpushare/jobs/*").stdout, "the second start")
    # Until the second start truncates it, the file still has the output of the first.
    surf.wait(lambda: "start 1" in surf.output(job), "its output")
    ledger = surf.ledger()
    assert list(ledger) == [job] and opened(surf.output(job)) == [{ledger[job]}]


def test_device_numbers_are_read_not_assumed(shuffled):
    """nvidia0 has minor 2 here: fence and variables must follow the device nodes."""
    jobs = [
        shuffled.sbatch("--gres=mps:80", script=f"{OPEN}; echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES; sleep 60")
        for _ in range(4)
    ]
    for job in jobs:
        shuffled.wait(lambda: "GPU-" in shuffled.output(job), f"output of job {job}")
    ledger = shuffled.ledger()
    assert sorted(ledger.values()) == [0, 1, 2, 3]
    for job, gpu in ledger.items():
        output = shuffled.output(job)
        assert opened(output) == [{gpu}], output
        assert f"GPU-{str(gpu + 1) * 8}" in output, "the UUID of that device's minor"


# --- faults: the job fails by itself, the node stays ---------------------------------------------------------------


def fails_alone(cluster, *reasons):
    """An mps job fails with these words for its user, in batch and in srun, and the node is not drained."""
    job = cluster.sbatch("--gres=mps:40", script="echo ran")
    assert cluster.finished(job) == "FAILED"
    srun = cluster.run(["srun", "--gres=mps:40", "echo", "ran"], "alice")
    assert srun.returncode != 0
    for text in (cluster.output(job), srun.stdout + srun.stderr):
        assert "ran" not in text.splitlines(), text
        assert "gpushare: this job can't have its GPU here" in text, text
        for reason in reasons:
            assert reason in text, text
    assert cluster.run(["srun", "echo", "fine"], "bob").stdout.strip() == "fine", "jobs without a share run on"
    cluster.cancel_all()
    assert cluster.node_state().split()[0] == "idle", cluster.node_state()


def test_a_full_run_fails_the_job_and_not_the_node(surf):
    surf.ok(
        "mkdir -p /run/gpushare; mount -t tmpfs -o size=4k,mode=755 full /run/gpushare; "
        "mkdir -p /run/gpushare/garbage /run/gpushare/jobs"
    )
    try:
        surf.ok("head -c 4096 /dev/zero > /run/gpushare/garbage/fill")
        fails_alone(surf, "no room for its record in /run/gpushare on this node")
    finally:
        surf.ok("umount /run/gpushare")


def test_a_read_only_run_fails_the_job_and_not_the_node(surf):
    surf.ok("mkdir -p /run/gpushare; mount -t tmpfs -o ro,mode=755 readonly /run/gpushare")
    try:
        fails_alone(surf, "gpushare-prolog gave it no GPU on this node")
    finally:
        surf.ok("umount /run/gpushare")


def test_no_prolog_fails_the_job_and_not_the_node(surf):
    surf.ok(
        "mv /usr/sbin/gpushare-prolog /tmp/; printf '#!/bin/sh\\n' > /usr/sbin/gpushare-prolog; "
        "chmod 755 /usr/sbin/gpushare-prolog"
    )
    try:
        fails_alone(surf, "gpushare-prolog gave it no GPU on this node")
    finally:
        surf.ok("mv /tmp/gpushare-prolog /usr/sbin/")


def test_a_ledger_that_can_not_be_read_fails_jobs_with_gpus_only(surf):
    surf.ok(["srun", "--gres=mps:40", "true"], "alice")  # an empty directory would be made right again
    surf.ok("chmod 700 /run/gpushare")
    try:
        fails_alone(surf, "reading /run/gpushare/")
        whole = surf.run(["srun", "--gres=gpu:1", OPEN], "alice")
        assert whole.returncode != 0 and "reading /run/gpushare/" in whole.stderr and opened(whole.stdout) == [], whole
    finally:
        surf.ok("chmod 755 /run/gpushare")


def test_a_file_in_place_of_the_ledger_is_set_aside(surf):
    surf.ok("mkdir -p /run/gpushare; rm -rf /run/gpushare/jobs; echo x > /run/gpushare/jobs")
    assert surf.run(["srun", "echo", "fine"], "bob").stdout.strip() == "fine"
    text = surf.ok(["srun", "--gres=mps:40", OPEN], "alice")
    assert len(opened(text)[0]) == 1


def test_the_ledger_can_be_read_whatever_the_umask(surf):
    surf.ok("rm -rf /run/gpushare")
    surf.ok(
        "umask 077; SLURMD_NODENAME=$(hostname) SLURM_JOB_ID=999999 SLURM_JOB_UID=2001 SLURM_JOB_GPUS=0 "
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12 gpushare-prolog"
    )
    modes = surf.ok("stat -c %a /run/gpushare /run/gpushare/jobs /run/gpushare/jobs/999999").split()
    assert modes == ["755", "755", "644"]
    surf.ok("SLURM_JOB_ID=999999 gpushare-epilog")


def test_entries_of_old_jobs_with_the_same_number_open_nothing(surf):
    surf.ok(["srun", "--gres=mps:40", "true"], "alice")
    surf.wait(lambda: surf.ledger() == {}, "the epilog")
    last = int(surf.ok("srun printenv SLURM_JOB_ID", "alice"))
    entry = (
        "gpushare-ledger 5\njob=%d\nrestart=0\nstate=placed\nuser=%d\nholding=share\nunits=1\ncapacity=80\n"
        "allocated_gpu=0\nmemory=\nsince=1\n"
        "gpu=3 195:3 - /dev/nvidia3\nend\n"
    )
    for number, user in ((last + 1, 2001), (last + 2, 2002), (last + 3, 2001)):
        surf.ok(f"cat > /run/gpushare/jobs/{number}", stdin=entry % (number, user))
    assert opened(surf.run(["srun", OPEN], "alice").stdout) == [set()], "no share, the same user"
    shown = surf.ok(["srun", "--gres=mps:80", "bash", "-c", f"{OPEN}; echo units=$GPUSHARE_UNITS"], "alice")
    assert "units=80" in shown, "a share, another user"
    shown = surf.ok(["srun", "--gres=mps:80", "bash", "-c", f"{OPEN}; echo units=$GPUSHARE_UNITS"], "alice")
    assert "units=80" in shown, "a share, the same user, other units"


def test_a_wrong_unit_count_is_told(surf):
    """mps:40 is 12 % of 320; with 320 units a GPU it would be 3 %."""
    surf.ok("sed -i.good s/=80/=320/ /etc/slurm/gpushare.conf")
    try:
        result = surf.run(
            "SLURMD_NODENAME=$(hostname) SLURM_JOB_ID=999999 SLURM_JOB_UID=2001 SLURM_JOB_GPUS=0 "
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12 "
            "SPANK_GPUSHARE_SHARE=mps:40 SLURM_CONF=/etc/slurm/slurm.conf gpushare-prolog"
        )
        assert "job 999999: asked for 40 units, recorded as 154; Slurm counts differently: UnitsPerGpu" in result.stderr
    finally:
        surf.ok("mv /etc/slurm/gpushare.conf.good /etc/slurm/gpushare.conf; SLURM_JOB_ID=999999 gpushare-epilog")


def test_a_syslog_that_does_not_listen_stops_nothing(surf):
    surf.ok("mv /dev/log /tmp/log")
    surf.ok(
        "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_DGRAM, 0); bind(S, pack_sockaddr_un(\"/dev/log\")) or die; "
        "open(P, \">/lab/out/perl.pid\"); print P $$; close P; sleep 120' >/dev/null 2>&1 &"
    )
    surf.wait(lambda: surf.run("test -s /lab/out/perl.pid").returncode == 0, "the deaf syslog")
    try:
        surf.ok("for i in $(seq 60); do timeout 10 gpushare-prolog 2>/dev/null || exit 1; done")
    finally:
        surf.ok("kill $(cat /lab/out/perl.pid); mv /tmp/log /dev/log")


def test_a_broken_configuration_on_the_node_fails_the_job_and_not_the_node(surf):
    surf.ok("cp /etc/slurm/gpushare.conf /tmp/good.conf; echo Placement=sideways >> /etc/slurm/gpushare.conf")
    try:
        fails_alone(surf, "Placement is given twice")
    finally:
        surf.ok("mv /tmp/good.conf /etc/slurm/gpushare.conf")


def test_garbage_in_the_ledger_is_set_aside(surf):
    surf.ok(
        "mkdir -p /run/gpushare/jobs/7; echo garbage > /run/gpushare/jobs/8; ln -s /etc/passwd /run/gpushare/jobs/9"
    )
    text = surf.ok(["srun", "--gres=mps:40", OPEN], "alice")
    assert len(opened(text)[0]) == 1
    surf.wait(lambda: not surf.ok("ls /run/gpushare/jobs"), "the garbage and the job to be gone")
    assert len(surf.ok("ls /run/gpushare/garbage").split()) >= 3


def test_an_entry_that_turns_to_garbage_fails_its_job(surf):
    job = surf.sbatch("--gres=mps:40", script="sleep 3; srun echo ran; sleep 60")
    surf.wait(lambda: job in surf.ledger(), "the share")
    surf.wait_state(job, "RUNNING")
    surf.ok("for file in /run/gpushare/jobs/*; do echo garbage > $file; done")
    surf.wait(lambda: "gpushare: this job can't have" in surf.output(job), "the step to fail")
    assert "ran" not in surf.output(job).splitlines()


@pytest.mark.parametrize("program", ["gpushare-prolog", "gpushare-epilog"])
def test_run_by_hand_they_say_what_is_missing_and_end_with_0(surf, program):
    result = surf.run([f"/usr/sbin/{program}"])
    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        f"{program}: SLURM_JOB_ID is not set; slurmd runs this as Prolog= or Epilog= and sets it"
    ]


def test_a_fence_that_is_not_what_the_ledger_says_fails_the_job(surf):
    """Between the prolog and the step, somebody changes the entry's device number: task_init finds it out."""
    job = surf.sbatch("--gres=mps:40", script="sleep 3; srun echo ran; sleep 60")
    surf.wait(lambda: job in surf.ledger(), "the share")
    surf.wait_state(job, "RUNNING")
    gpu = surf.ledger()[job]
    surf.ok(f"sed -Ei 's/^(gpu=[0-9]+) [0-9:]+/\\1 195:{(gpu + 1) % 4}/' /run/gpushare/jobs/*")
    surf.wait(lambda: "gpushare: this job can't have" in surf.output(job), "the step to fail")
    assert "ran" not in surf.output(job).splitlines()
