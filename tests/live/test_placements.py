# SPDX-License-Identifier: GPL-2.0-or-later
"""Every placement on both cgroup versions: which GPUs the jobs of each kind of step can open, shown by opening them."""

import re

import pytest
from gpus import OPEN, SHARES, a_minute_later, entered, gpu_of, opened, task_epilog, uuids
from lab import TOP
from unrecorded import WAYS, fails_alone


@pytest.fixture
def node(placed):
    """Every test begins and ends with an empty, healthy node."""
    placed.cancel_all()
    yield placed
    placed.tidy()


@pytest.fixture
def share(node):
    return SHARES[node.kind]


def test_shares_fill_all_gpus_and_each_opens_its_own_only(node, share):
    jobs = [node.sbatch(share.half_gpu, script=f"{OPEN}; sleep 60", user=user) for user in ("alice", "bob") * 4]
    for job in jobs:
        node.wait(lambda: opened(node.output(job)), f"output of job {job}")
    ledger = node.ledger()
    assert sorted(ledger) == sorted(jobs)
    assert sorted(ledger.values()) == [0, 0, 1, 1, 2, 2, 3, 3]
    for job in jobs:
        assert opened(node.output(job)) == [{ledger[job]}]


def test_every_kind_of_step_is_fenced(node, share):
    """Another job has GPU 0, so that the share under test is not where Slurm's first look falls."""
    assert node.start(share.full_gpu)[1] == "0"
    script = (
        f"{OPEN}; srun -n1 {OPEN}; srun -n2 {OPEN}; srun -n1 --task-epilog={task_epilog(node)} true; srun -n1 {OPEN} & "
        f"srun -n1 {OPEN} & wait; {OPEN}; touch /lab/out/$SLURM_JOB_ID.steps; sleep 60"
    )
    batch, gpu = node.start(share.half_gpu, "-n2", script=script)
    node.wait(lambda: node.run(f"test -e /lab/out/{batch}.steps").returncode == 0, "the steps")
    lines = opened(node.output(batch))
    # batch, srun, two tasks, two steps at once, batch again
    assert len(lines) == 7 and all(found == {int(gpu)} for found in lines), node.output(batch)

    assert opened(node.output(f"{batch}.epilog")) == [{int(gpu)}]

    direct = node.run(["srun", share.half_gpu, "bash", "-c", f"{OPEN}; echo gpu=$GPUSHARE_GPU"], "alice")
    assert direct.returncode == 0, direct.stderr
    assert opened(direct.stdout) == [{gpu_of(direct.stdout)}] and gpu_of(direct.stdout) != 0

    inside = f"{OPEN}; srun {OPEN}; echo gpu=$GPUSHARE_GPU"
    interactive = node.run(["salloc", share.half_gpu, "bash", "-c", f"srun --interactive bash -c '{inside}'"], "alice")
    found = opened(interactive.stdout)
    assert len(found) == 2 and all(one == {gpu_of(interactive.stdout)} for one in found), interactive.stdout


def test_an_ssh_session_is_fenced_and_told(node, share):
    """As pam_slurm_adopt leaves it: in the extern step's cgroup, as the job's user, with SLURM_JOB_ID alone."""
    assert node.start(share.full_gpu)[1] == "0"
    job, gpu = node.start(share.half_gpu)
    # The extern step may be fenced a moment after the batch step; until then nothing opens.
    found = node.wait(lambda: next(filter(None, opened(entered(node, job, "alice", OPEN))), None), "its GPU to open")
    assert found == {int(gpu)}
    session = (TOP / "docs/examples/profile.d/gpushare.sh").read_text() + "env\n"
    node.run(["tee", "/lab/out/session"], stdin=session)
    found = entered(node, job, "alice", f"env SLURM_JOB_ID={job} sh /lab/out/session").splitlines()
    uuid = uuids(node)[int(gpu)]
    expected = {"CUDA_VISIBLE_DEVICES=0", f"NVIDIA_VISIBLE_DEVICES={uuid}", f"GPUSHARE_UNITS={share.half}"}
    assert expected <= set(found), found
    other = node.sbatch("-n1", user="bob")
    node.wait_state(other, "RUNNING")
    assert opened(entered(node, other, "bob", OPEN)) == [set()], "a job without a share"


def test_a_job_without_a_share_opens_nothing(node, share):
    node.start(share.half_gpu)
    for user in ("alice", "bob"):
        found = node.run(["srun", "bash", "-c", f"{OPEN}; srun --overlap {OPEN}"], user)
        assert opened(found.stdout) == [set(), set()], found.stdout + found.stderr
    batch = node.sbatch(script=f"{OPEN}; srun --task-epilog={task_epilog(node)} true")
    assert node.finished(batch) == "COMPLETED"
    assert opened(node.output(batch)) == [set()] and opened(node.output(f"{batch}.epilog")) == [set()]


def test_a_gpu_is_no_jobs_input_or_output(node, share):
    """slurmstepd opens those as the user when the step is closed already, and the job fails before it has a task.
    A GPU of the lab can't be opened by anybody; /dev/full in its stead can."""
    node.ok("mknod -m 666 /dev/nvidia9 c 1 7")
    try:
        read = "head -c 1 <&0 >/lab/out/read"
        job = node.ok(
            ["sbatch", "--parsable", "-i", "/dev/nvidia9", "-o", "/lab/out/%j", share.half_gpu, "--wrap", read], "bob"
        )
        assert node.finished(job) == "FAILED"
        assert "/dev/nvidia9: Operation not permitted" in node.log("slurmd"), node.log("slurmd")[-2000:]
        assert node.run("test -e /lab/out/read").returncode != 0
        # What has labels slurmstepd writes itself.
        node.ok("ln -sfn /dev/nvidia9 /lab/out/labelled0", "bob")
        output = ["-l", "-o", "/lab/out/labelled%t", "-e", "/lab/out/labelled%t.err"]
        step = node.run(["srun", share.half_gpu, *output, "touch", "/lab/out/read"], "bob")
        assert "launch failed" in step.stderr or "not permitted" in step.stderr, step.stderr
        assert node.run("test -e /lab/out/read").returncode != 0
    finally:
        node.ok("rm -f /dev/nvidia9 /lab/out/read /lab/out/labelled*")


def test_the_environment_names_the_gpu_that_the_job_has(node, share):
    assert node.start(share.full_gpu)[1] == "0"
    for command in (["srun", share.half_gpu, "env"], ["srun", share.half_gpu, "bash", "-c", "srun --overlap env"]):
        text = node.ok(command, "alice")
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        gpu = int(found["GPUSHARE_GPU"])
        assert gpu != 0
        expected = {
            # A program counts the GPUs that it can open.
            "CUDA_VISIBLE_DEVICES": "0",
            "NVIDIA_VISIBLE_DEVICES": uuids(node)[gpu],
            "SLURM_JOB_GPUS": str(gpu),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            "GPUSHARE_UNITS": str(share.half),
            "GPUSHARE_CAPACITY": str(share.full),
            "GPUSHARE_FRACTION": "0.500",
        }
        assert {name: found.get(name) for name in expected} == expected


def test_the_gpu_is_named_by_uuid_where_the_site_wants_it(node, share):
    assert node.start(share.full_gpu)[1] == "0"
    node.ok("echo VisibleDevices=uuid >>/etc/slurm/gpushare.conf")
    try:
        text = node.ok(
            ["srun", share.half_gpu, "bash", "-c", "echo gpu=$GPUSHARE_GPU; echo $CUDA_VISIBLE_DEVICES"], "alice"
        )
        assert gpu_of(text) != 0 and text.split()[1] == uuids(node)[gpu_of(text)], text
    finally:
        node.ok("sed -i /VisibleDevices/d /etc/slurm/gpushare.conf")


# What gpushare sets, and Slurm alone does not.
SET = re.compile(r"^(GPUSHARE_\w+|CUDA_MPS_\w+|NVIDIA_VISIBLE_DEVICES|XLA_PYTHON\w+|TF_FORCE\w+|PYTORCH\w+)=(.*)", re.M)


def test_a_job_that_is_sent_from_within_a_share_has_nothing_of_that(node, share):
    """From its batch script, from a step of it, and by salloc; without GPUs, with a whole one, with another share. What
    the user sets anew stays."""
    # Slurm itself gives whole GPUs that have shares away under `override`.
    node.ok("printf 'FrameworkEnv=pytorch\nOnCollision=run\n' >>/etc/slurm/gpushare.conf")
    node.write("/lab/out/show", "#!/bin/bash\necho \"== $*\"\nenv\nsrun --overlap env\n", 755)
    requests = ["", share.full_gpu] + (["--gres=gpu:1"] if node.kind != "own" else [])
    send = "sbatch --parsable -o /lab/out/%j -e /lab/out/%j"
    try:
        first = node.sbatch("-n2", share.half_gpu, script="\n".join([
            "set -x", "sleep 1", *(f"{send} {request} /lab/out/show {request}" for request in requests),
            *(f"srun -n1 --overlap {send} {request} /lab/out/show {request}" for request in requests),
            f"PYTORCH_CUDA_ALLOC_CONF=mine:True XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 {send} /lab/out/show anew",
            *(f"salloc -Q -n1 {request} srun -n1 bash -c 'echo \"== {request}\"; env' >/lab/out/s{at}"
              for at, request in enumerate(requests)),
        ]))
        assert node.finished(first) == "COMPLETED", node.output(first)
        sent = re.findall(r"^(\d+)$", node.output(first), re.M)
        assert len(sent) == 2 * len(requests) + 1, node.output(first)
        for job in sent:
            node.finished(job)
        texts = [node.output(job) for job in sent] + [node.ok(f"cat /lab/out/s{at}") for at in range(len(requests))]
        for text in texts:
            assert text.startswith("== "), text
            kind = text.splitlines()[0][3:]
            found = SET.findall(text)
            if kind == share.full_gpu:
                assert {value for name, value in found if name == "GPUSHARE_FRACTION"} == {"1.000"}, found
                assert dict(found)["PYTORCH_CUDA_ALLOC_CONF"] == "per_process_memory_fraction:1.000", found
            else:
                anew = {("PYTORCH_CUDA_ALLOC_CONF", "mine:True"), ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")}
                # TensorFlow's goes only with JAX's: the user may have set "true" themselves.
                left = {one for one in found if kind != "anew" or one[0] != "TF_FORCE_GPU_ALLOW_GROWTH"}
                assert left == (anew if kind == "anew" else set()), f"{kind}: {found}"
            gpu = re.findall(r"^CUDA_VISIBLE_DEVICES=(.*)", text, re.M)
            assert set(gpu) <= ({"0"} if kind not in ("", "anew") else set()), f"{kind}: {gpu}"
    finally:
        node.ok("sed -i '/FrameworkEnv\\|OnCollision/d' /etc/slurm/gpushare.conf")


def test_what_a_user_sets_does_not_count(node, share):
    text = node.ok(
        "SPANK_GPUSHARE_SHARE=gpushare:1 GPUSHARE_SHARE=mps:1 GPUSHARE_GPU=9 CUDA_VISIBLE_DEVICES=0,1,2,3 "
        f"srun {share.half_gpu} bash -c '{OPEN}; echo gpu=$GPUSHARE_GPU units=$GPUSHARE_UNITS'", "alice",
    )
    assert f"units={share.half}" in text and opened(text) == [{gpu_of(text)}]
    none = node.run(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 SPANK_GPUSHARE_SHARE=gpushare:1 srun {OPEN}", "alice")
    assert opened(none.stdout) == [set()], none.stderr


def test_a_variable_of_shares_does_no_harm_to_a_step_with_fewer_gpus_than_its_job(node, share):
    """Inherited by a job that was submitted from within one with a share, or set by its user."""
    if node.kind == "own":
        pytest.skip("the node has no gpu GRES")
    inherited = "SLURM_SHARDS_ON_NODE=1 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"
    found = node.run(f"{inherited} salloc --gres=gpu:2 -n2 srun -n1 --gres=gpu:1 --exact {OPEN}", "alice")
    assert [len(gpus) for gpus in opened(found.stdout)] == [1], found.stdout + found.stderr


def test_a_share_that_only_the_note_tells_the_node_cannot_be_changed(node, share):
    if share.gres == "mps":
        pytest.skip("of mps the node has Slurm's own count")
    job = node.sbatch("--hold", share.half_gpu)
    prefix = "gres/" if node.newer_than("23.11") else "gres:"
    changed = node.run(["scontrol", "update", f"job={job}", f"TresPerNode={prefix}{share.gres}:1"], "alice")
    assert changed.returncode != 0
    assert "GS124" in (changed.stderr if node.newer_than("23.02") else node.log("slurmctld")), changed.stderr


def test_a_share_that_nobody_has_noted_fails(node, share):
    """The plugin was taken out of slurmctld in an emergency. Jobs that it has noted still start."""
    if node.kind != "own":
        pytest.skip("Slurm tells the node of its shares")
    noted = node.sbatch("--hold", share.half_gpu, script=OPEN)
    node.ok("cd /etc/slurm; cp extra.conf /tmp/; sed -i /JobSubmitPlugins/d extra.conf; /lab/service restart slurmctld",
            timeout=80)
    try:
        fails_alone(node, share.half_gpu, "gpushare-prolog gave it no GPU on this node")
        # As docs/upgrade.md says.
        node.ok("scontrol update partition=p state=drain")
        assert "not available" in node.run(["sbatch", share.half_gpu, "--wrap=true"], "alice").stderr
        node.ok(["scontrol", "release", noted])
        assert node.finished(noted) == "COMPLETED" and len(opened(node.output(noted))[0]) == 1, node.output(noted)
    finally:
        node.ok("mv /tmp/extra.conf /etc/slurm/; scontrol update partition=p state=up; /lab/service restart slurmctld",
                timeout=80)


def test_a_share_that_fits_nowhere_fails_by_itself(node, share):
    """Slurm lets it start; the node has no room on one GPU, and Overcommit=refuse."""
    if node.kind.startswith("follow"):
        pytest.skip("Slurm picks the GPU")
    node.ok("echo Overcommit=refuse >>/etc/slurm/gpushare.conf")
    try:
        most = share.full * 5 // 8
        for _ in range(4):
            node.start(f"--gres={share.gres}:{most}")
        job = node.sbatch(f"--gres={share.gres}:{share.half}")
        assert node.finished(job) == "FAILED"
        assert re.search(rf"no GPU has {share.half} of its {share.full} units free", node.output(job)), node.output(job)
        # Nor is there a way round it: the allocation lives on, with ssh sessions and with programs beside its tasks.
        node.ok(["salloc", "--no-shell", share.half_gpu], "alice")
        job = max(node.ok(["squeue", "-h", "-o", "%A"]).split(), key=int)
        assert opened(entered(node, job, "alice", OPEN)) == [set()]
        assert (
            node.run(["srun", f"--jobid={job}", f"--task-epilog={task_epilog(node)}", "true"], "alice").returncode != 0
        )
        assert opened(node.output(f"{job}.epilog")) in ([], [set()])
    finally:
        node.ok("sed -i /Overcommit/d /etc/slurm/gpushare.conf")


def test_a_share_fails_with_the_reason_where_the_ledger_is_full(node, share):
    """Under `own` nothing of Slurm's tells a step that its job has a share; under `follow` Slurm gives whole GPUs."""
    if node.kind not in ("own", "follow-mps"):
        pytest.skip("Slurm's variables tell the steps")
    node.ok("mkdir -p /run/gpushare && mount -t tmpfs -o size=32k,mode=755 full /run/gpushare")
    try:
        assert node.findings("ledger")[0]["status"] == "ok"
        node.ok("dd if=/dev/zero of=/run/gpushare/fill bs=4k 2>/dev/null; true")
        found, = node.findings("ledger")
        assert found["status"] == "wrong" and "/run/gpushare has no space left" in found["said"], found
        if node.kind == "follow-mps":
            whole = node.sbatch("--gres=gpu:1", script="echo ran")
            assert node.finished(whole) == "COMPLETED", node.output(whole)
        job = node.sbatch(share.half_gpu, script=f"{OPEN}; echo ran")
        assert node.finished(job) == "FAILED"
        said = node.output(job)
        assert "no room for its record in /run/gpushare" in said and "ran" not in said, said
        other = node.sbatch(script="echo ran")
        assert node.finished(other) == "COMPLETED", "no share, no need for room"
        node.wait(lambda: not node.ok("ls /run/gpushare/jobs").split(), "the epilog")
    finally:
        node.ok("umount /run/gpushare")
    assert node.start(share.half_gpu)


def test_a_share_never_starts_without_its_gpu(node, share):
    """Whatever keeps the prolog from recording it. A job without a share runs on, and so does the node."""
    for way in WAYS if node.kind == "own" else WAYS[:2]:
        with way.broken(node):
            fails_alone(node, share.half_gpu, way.says if node.kind == "own" else "gave it no GPU on this node")


def test_a_whole_gpu_gets_no_share_and_a_share_no_whole_gpu(node, share):
    """Slurm keeps them apart where it picks; where we do, a job that Slurm puts on a shared GPU fails, or runs."""
    if node.kind == "own":
        pytest.skip("the node has no gpu GRES")
    whole, gpu = node.start("--gres=gpu:1", script=f"{OPEN}; srun --overlap {OPEN}; sleep 60", user="bob")
    node.wait(lambda: len(opened(node.output(whole))) == 2, "the whole GPU's output")
    assert opened(node.output(whole)) == [{int(gpu)}] * 2
    shares = [node.start(share.full_gpu, script=f"{OPEN}; sleep 60") for _ in range(3)]
    assert sorted([gpu, *(found for _, found in shares)]) == ["0", "1", "2", "3"]
    if node.kind != "override":
        return
    # Slurm charges all shares to one GPU, so it thinks that two of the four are free.
    job = node.sbatch("--gres=gpu:1")
    assert node.finished(job) == "FAILED"
    assert "a GPU that other jobs have shares of" in node.output(job), node.output(job)
    node.ok("echo OnCollision=run >>/etc/slurm/gpushare.conf")
    try:
        job, _ = node.start("--gres=gpu:1", script=f"{OPEN}; sleep 60")
        assert node.wait(lambda: opened(node.output(job)), "its output") == [{node.ledger()[job]}]
    finally:
        node.ok("sed -i /OnCollision/d /etc/slurm/gpushare.conf")


def test_a_whole_gpu_that_nobody_has_noted_is_open_only_where_slurm_keeps_shares_from_it(node, share):
    if node.kind == "own":
        pytest.skip("the node has no gpu GRES")
    node.ok("mv /usr/sbin/gpushare-prolog /tmp/ && ln -s /bin/true /usr/sbin/gpushare-prolog")
    try:
        batch = node.sbatch("--gres=gpu:1", script=OPEN)
        state = node.finished(batch)
        step = node.run(["srun", "--gres=gpu:1", OPEN], "alice")
        for text in (node.output(batch), step.stdout + step.stderr):
            if node.kind == "override":
                assert "this job can't have its GPU here: gpushare-prolog recorded none of its GPUs" in text, text
            assert len(opened(text)) == (0 if node.kind == "override" else 1), text
        assert (state, step.returncode == 0) == (("FAILED", False) if node.kind == "override" else ("COMPLETED", True))
        if node.kind != "override":
            # Its render nodes would be closed, and with them all that is not noted.
            node.ok("echo FenceDrm=yes >>/etc/slurm/gpushare.conf")
            step = node.run(["srun", "--gres=gpu:1", OPEN], "alice")
            said = "recorded none of its GPUs"
            assert step.returncode != 0 and said in step.stderr and opened(step.stdout) == [], step
        # Other makers' GPUs are neither closed nor shared.
        node.ok("mkdir /tmp/nodes && mv /dev/nvidia[0-9]* /tmp/nodes")
        node.ok(["srun", "--gres=gpu:1", "true"], "alice")
        node.ok("mv /tmp/nodes/* /dev && rmdir /tmp/nodes")
        # A job without GPUs goes on, also one that was submitted in a job that has some.
        job = node.sbatch("--export=ALL,SLURM_JOB_GPUS=1,SLURM_STEP_GPUS=1", script=f"{OPEN}; srun {OPEN}")
        assert node.finished(job) == "COMPLETED" and opened(node.output(job)) == [set()] * 2, node.output(job)
        text = node.ok(["env", "SLURM_JOB_GPUS=1", "SLURM_STEP_GPUS=1", "srun", OPEN], "bob")
        assert opened(text) == [set()], text
    finally:
        node.ok("! test -e /tmp/nodes || { mv /tmp/nodes/* /dev; rmdir /tmp/nodes; }")
        node.ok("mv /tmp/gpushare-prolog /usr/sbin/; sed -i /FenceDrm/d /etc/slurm/gpushare.conf")


def test_a_job_that_nobody_can_ask_about_opens_nothing(node, share):
    """It may have a share: its prolog recorded nothing, and the step gets no answer."""
    if node.kind != "own":
        pytest.skip("elsewhere Slurm tells the step of a share")
    node.ok("mv /usr/sbin/gpushare-prolog /tmp/")
    try:
        node.write("/usr/sbin/gpushare-prolog", '#!/bin/sh\n[ "$1" != missed ] || exec yes\n', 755)
        step = node.run(["srun", share.half_gpu, OPEN], "alice")
        said = "this job can't have its GPU here: /usr/sbin/gpushare-prolog printed more than"
        assert step.returncode != 0 and said in step.stderr and opened(step.stdout) == [], step
    finally:
        node.ok("mv /tmp/gpushare-prolog /usr/sbin/")


def test_a_broken_configuration_opens_nothing(node, share):
    job, gpu = node.start(share.half_gpu)
    node.ok("cp /etc/slurm/gpushare.conf /tmp/good.conf; echo Placement=sideways >>/etc/slurm/gpushare.conf")
    try:
        assert opened(node.ok(["srun", OPEN], "bob")) == [set()], "a job without a share goes on"
        step = node.run(["srun", f"--jobid={job}", "--overlap", OPEN], "alice")
        assert step.returncode != 0 or opened(step.stdout) == [{int(gpu)}], step.stdout
        asked = node.run(["srun", share.half_gpu, f"--task-epilog={task_epilog(node)}", OPEN], "alice")
        assert opened(asked.stdout) in ([], [set()]), asked.stdout
        node.ok(["salloc", "--no-shell", share.half_gpu], "alice")
        job = max(node.ok(["squeue", "-h", "-o", "%A"]).split(), key=int)
        assert opened(entered(node, job, "alice", OPEN)) == [set()]
    finally:
        node.ok("mv /tmp/good.conf /etc/slurm/gpushare.conf")


def test_a_configuration_that_is_lost_opens_nothing(node, share):
    """Without one a node shares no GPUs. But this one has."""
    job, _ = node.start(share.half_gpu, script="echo began; sleep 60")
    node.wait(lambda: node.output(job), "its beginning")
    node.ok("mv /etc/slurm/gpushare.conf /tmp/")
    try:
        lost = "gpushare.conf: there is no such file"
        fails_alone(node, share.half_gpu, lost)
        assert opened(node.ok(["srun", OPEN], "bob")) == [set()]
        step = node.run(["srun", f"--jobid={job}", "--overlap", "echo", "ran"], "alice")
        assert step.returncode != 0 and lost in step.stderr, step
        assert opened(entered(node, job, "alice", OPEN)) != [], "its ssh sessions go on"
    finally:
        node.ok("mv /tmp/gpushare.conf /etc/slurm/")


RENDER = (
    "for n in 128 129 130 131; do (: <>/dev/dri/renderD$n) 2>&1 | grep -q permitted || printf r$((n-128)),; done; echo"
)


def test_render_nodes_of_other_gpus_are_closed_where_that_is_asked_for(node, share):
    assert node.start(share.full_gpu)[1] == "0"
    asked = ["srun", share.half_gpu, "bash", "-c", f"{RENDER}; echo gpu=$GPUSHARE_GPU"]
    assert node.ok(asked, "alice").startswith("r0,r1,r2,r3,\n"), "Slurm leaves them open"
    node.ok("echo FenceDrm=yes >>/etc/slurm/gpushare.conf")
    try:
        text = node.ok(asked, "alice")
        assert text.startswith(f"r{gpu_of(text)},\n"), text
        for variable in ("A=1", "SLURM_JOB_GPUS=0"):
            assert node.ok(["env", variable, "srun", "bash", "-c", RENDER], "bob") == "", "a job without a share"
        if node.kind.startswith("follow"):
            whole = node.ok(["srun", "--gres=gpu:1", "bash", "-c", f"{RENDER}; {OPEN}"], "bob")
            assert whole.splitlines()[0] == f"r{min(opened(whole)[0])},", whole
    finally:
        node.ok("sed -i /FenceDrm/d /etc/slurm/gpushare.conf")


def test_a_gpu_that_vanishes_takes_no_share_and_the_others_go_on(node, share):
    if node.kind.startswith("follow"):
        pytest.skip("Slurm picks the GPU")
    node.ok("mv /dev/nvidia2 /dev/gone")
    try:
        jobs = [
            node.start(share.half_gpu, script=f"{OPEN}; sleep 60 # a line that says other=2 is right here")
            for _ in range(6)
        ]
        assert sorted(gpu for _, gpu in jobs) == ["0", "0", "1", "1", "3", "3"]
        for job, gpu in jobs:
            text = node.wait(lambda: node.output(job), "its output")
            assert text.startswith(f"open={gpu} ") and "other=2:No such file" in text, text
    finally:
        node.ok("mv /dev/gone /dev/nvidia2")


def test_a_share_whose_epilog_never_ran_is_taken_back_when_its_job_is_over(node, share):
    node.ok("mv /usr/sbin/gpushare-epilog /usr/sbin/away && ln -s /bin/true /usr/sbin/gpushare-epilog")
    try:
        first = node.sbatch(share.half_gpu, script="true")
        assert node.finished(first) == "COMPLETED"
        node.wait(lambda: not node.ok(["squeue", "-h"]), "the end of its epilog")
        assert first in node.ledger()
        a_minute_later(node)
    finally:
        node.ok("mv /usr/sbin/away /usr/sbin/gpushare-epilog")
    second, gpu = node.start(share.half_gpu)
    assert node.ledger() == {second: int(gpu)}
    a_minute_later(node)
    third, _ = node.start(share.half_gpu)
    assert sorted(node.ledger()) == sorted([second, third]), "a job that lives keeps its GPU"


def test_a_share_that_the_node_could_not_be_told_of_is_refused_with_one_that_works(node, share):
    wrong = {f"{share.gres}:{share.full + 1}": "GS122"}
    if share.gres == "mps":
        # Slurm takes the last.
        wrong[f"{share.gres}:1,{share.gres}:{share.full + 1}"] = "GS122"
    else:
        wrong[f"{share.gres}:1,{share.gres}:1"] = "GS125"
    for request, number in wrong.items():
        refused = node.run(["sbatch", "--hold", f"--gres={request}", "--wrap=true"], "alice")
        assert refused.returncode != 0 and number in refused.stderr, f"{request}: {refused.stdout}{refused.stderr}"
        options = re.search(r"try: (.*)", refused.stderr).group(1).split()
        node.ok(["sbatch", "--hold", *options, "--wrap=true"], "alice")
