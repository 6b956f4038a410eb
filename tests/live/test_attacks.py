# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user may try to open another GPU than his share's, from within a job and beside it; none of it does."""

import re

import client
import pytest
from gpus import OPEN, SHARES, opened
from lab import TOP


@pytest.fixture
def node(attacked):
    """Every test begins and ends with an empty, healthy node."""
    attacked.cancel_all()
    yield attacked
    attacked.cancel_all()
    assert not re.search("drain|down", attacked.node_state()), attacked.node_state()
    attacked.wait_no_shares()


@pytest.fixture
def share(node):
    return SHARES[node.kind]


@pytest.fixture(scope="module")
def programs(attacked, tmp_path_factory):
    """The folder with tools/enter-steps.c, compiled."""
    program = tmp_path_factory.mktemp("attacks") / "enter-steps"
    client.compiled(TOP / "tests/live/tools/enter-steps.c", attacked.release, program, "-static")
    client.install(attacked, program, "/lab/out/enter-steps")
    return "/lab/out"


def inside(node, job, command):
    """What COMMAND says in a step of JOB, whatever it ends with."""
    done = node.run(["srun", f"--jobid={job}", "--overlap", "-n1", "bash", "-c", command], "alice")
    return done.stdout + done.stderr


# Own user, mount and cgroup namespaces: root to look at. What is mounted shows the folder that the process is in as the
# top.
NAMESPACES = """unshare -UrCm bash -c '
    mkdir -p /tmp/top
    mount -t %s none /tmp/top
    mkdir /tmp/top/mine && echo 0 >/tmp/top/mine/cgroup.procs && echo made a folder
    echo "c 195:* rwm" >/tmp/top/mine/devices.allow && echo allowed
    mount -t tmpfs none /mnt && mknod /mnt/nvidia3 c 195 3 && echo made a device
    /lab/open-gpus'"""
# Into every cgroup that lets one in.
MOVED = f"""
    for procs in $(find /sys/fs/cgroup -name cgroup.procs -o -name tasks 2>/dev/null); do
        echo 0 2>/dev/null >$procs && echo moved to $procs
    done 2>/dev/null
    {OPEN}"""
TASK_PROLOG = f"""
    printf '#!/bin/sh\\necho print $({OPEN})\\n' >/tmp/task-prolog && chmod 755 /tmp/task-prolog
    srun --overlap -n1 --task-prolog=/tmp/task-prolog true"""


def test_nothing_within_a_job_opens_another_gpu(node, share):
    node.start(share.full_gpu)
    job, gpu = node.start(share.half_gpu)
    namespaces = NAMESPACES % {"v1": "cgroup -o devices", "v2": "cgroup2"}[node.cgroup]
    for name, command in {"namespaces": namespaces, "moved": MOVED, "task prolog": TASK_PROLOG}.items():
        said = inside(node, job, command)
        assert opened(said) == [{int(gpu)}], f"{name}: {said}"
        assert "made a" not in said and "allowed" not in said and "moved" not in said, f"{name}: {said}"
    assert "not permitted" in inside(node, job, "mknod /tmp/nvidia3 c 195 3")


def test_however_a_step_is_started_it_is_fenced(node, share):
    """Ways of srun's that are not those of every day;
    Slurm puts no rules of its own on a step of --external-launcher."""
    node.start(share.full_gpu)
    job, gpu = node.start(share.half_gpu)
    node.ok(f"echo '0 {OPEN}' >/tmp/multi; chmod 644 /tmp/multi")
    ways = ["--multi-prog /tmp/multi", f"--bcast=/tmp/copied {OPEN}"]
    if node.newer_than("23.11"):
        ways.append(f"--external-launcher {OPEN}")
    for way in ways:
        said = node.run(f"srun --jobid={job} --overlap -n1 {way}", "alice")
        assert opened(said.stdout) == [{int(gpu)}], f"{way}: {said.stdout}{said.stderr}"


def test_a_step_in_another_job_has_that_jobs_gpu(node, share):
    """The user's own other jobs are his; what he sets for the step doesn't count."""
    first, gpu = node.start(share.full_gpu)
    second, others = node.start(share.half_gpu)
    without = node.sbatch(script="srun sleep 60")
    node.wait_state(without, "RUNNING")
    from_within = f"export SLURM_JOB_GPUS=3 GPUSHARE_GPU=3; srun --jobid=%s --overlap -n1 {OPEN}"
    assert opened(inside(node, first, from_within % second)) == [{int(others)}]
    assert opened(inside(node, second, from_within % first)) == [{int(gpu)}]
    assert opened(inside(node, first, from_within % without)) == [set()]
    assert opened(inside(node, without, OPEN)) == [set()]


def test_each_task_of_an_array_has_its_own_gpu_and_a_requeued_one_too(node, share):
    script = f"{OPEN} >/lab/out/$SLURM_ARRAY_TASK_ID.$SLURM_RESTART_COUNT; srun {OPEN}; sleep 60"
    array = node.sbatch("--array=0-3", "--requeue", share.full_gpu, script=script)

    def found(name):
        return node.wait(lambda: opened(node.output(name)), f"output of {name}")[0]

    gpus = [found(f"{task}.") for task in range(4)]
    assert sorted(map(min, gpus)) == [0, 1, 2, 3] and {len(gpu) for gpu in gpus} == {1}
    node.ok(["scontrol", "requeue", f"{array}_2"], "alice")
    assert found("2.1") == gpus[2], "the only one that is free"
    assert len(node.ledger()) == 4


def test_each_component_of_a_het_job_has_its_own_gpu(node, share):
    """Each on a node of its own here, with one ledger; a step over both is one in each component's cgroup."""
    lines = [
        "#!/bin/bash",
        f"#SBATCH -n1 -o /lab/out/het {share.full_gpu}",
        "#SBATCH hetjob",
        f"#SBATCH -n1 {share.half_gpu}",
        "until test -e /lab/out/go; do sleep 0.1; done",
        f"srun --het-group=0,1 -l bash -c '{OPEN}; echo gpu=$GPUSHARE_GPU'",
        f"srun --het-group=1 {OPEN}",
        OPEN,
        "echo ended",
    ]
    node.ok("rm -f /lab/out/het /lab/out/go && cat >/tmp/het && chmod 644 /tmp/het", stdin="\n".join(lines) + "\n")
    job = node.ok(["sbatch", "--parsable", "/tmp/het"], "alice")
    node.wait(lambda: len(node.ledger()) == 2, "both components")
    # What the prolog asks slurmctld about each (node/src/squeue.rs): it has a number of its own.
    for component in node.ledger():
        asked = ["squeue", "-h", "-a", "--local", "--states=all", "--format=%A %T", f"--jobs={component}"]
        assert f"{component} RUNNING" in node.ok(asked).splitlines()
    node.ok("touch /lab/out/go")
    node.wait(lambda: "ended" in node.output("het"), f"the het job {job}")
    said = node.output("het")
    told = {task: int(gpu) for task, gpu in re.findall(r"(\d): gpu=(\d)", said)}
    assert len(set(told.values())) == 2, said
    for task, gpu in told.items():
        assert f"{task}: open={gpu} " in said, said
    assert [{told["1"]}, {told["0"]}] == opened("\n".join(said.splitlines()[-3:])), said
    node.ok("rm /lab/out/go")


def test_a_resumed_job_has_what_it_had(node, share):
    go = "until test -e /lab/out/go; do sleep 0.1; done"
    job, gpu = node.start(share.half_gpu, script=f"{go}; {OPEN}; srun {OPEN}; sleep 60")
    node.ok(["scontrol", "suspend", job])
    node.wait_state(job, "SUSPENDED")
    other, others = node.start(share.full_gpu)
    assert others != gpu, "a suspended job keeps its share"
    try:
        # Resumed first: slurmctld says SUSPENDED before the node has stopped the job, and an srun of that moment
        # retries for longer and longer.
        node.ok(["scontrol", "resume", job])
        node.wait_state(job, "RUNNING")
        node.ok("touch /lab/out/go")
        node.wait(lambda: len(opened(node.output(job))) == 2, "its output")
    finally:
        node.ok("rm -f /lab/out/go")
    assert opened(node.output(job)) == [{int(gpu)}] * 2


def test_a_gpu_that_another_process_has_open_is_not_opened_through_it(node, share):
    """A GPU of the lab can't be opened by anybody; /dev/full in its stead can, by a process that is in no job."""
    node.ok("mknod -m 666 /dev/nvidia9 c 1 7")
    try:
        job, _ = node.start(share.half_gpu)
        holder = "exec 7<>/dev/nvidia9; echo $$ >/lab/out/holder; exec sleep 30"
        node.ok(f"setsid bash -c '{holder}' </dev/null >/dev/null 2>&1 &", "alice")
        pid = node.wait(lambda: node.output("holder").strip(), "the process that has it open")
        assert "could be" in node.ok(f"exec 8<>/proc/{pid}/fd/7 && echo could be", "alice")
        said = inside(node, job, f"ls /proc/{pid}/fd; exec 8<>/proc/{pid}/fd/7 && echo could be")
        assert "not permitted" in said and "could be" not in said, said
    finally:
        node.ok("kill $(cat /lab/out/holder); rm -f /dev/nvidia9 /lab/out/holder")


def test_no_process_gets_into_a_step_that_starts(node, share, programs):
    """On cgroup v1 Slurm 22.05 gives the folders of a step to its user, who then could,
    before that step's fence is up."""
    if node.cgroup == "v2":
        pytest.skip("a step's folders are root's")
    climber = node.sbatch(script=f"exec {programs}/enter-steps devices 30")
    node.wait_state(climber, "RUNNING")
    for _ in range(4):
        # As before the first job after a boot.
        node.ok("chmod 755 /sys/fs/cgroup/*/slurm*")
        job = node.sbatch(share.half_gpu, script=f"{OPEN}; srun {OPEN}; srun {OPEN}")
        assert node.finished(job) == "COMPLETED" and len(opened(node.output(job))) == 3, node.output(job)
    node.ok(["scancel", "--batch", "--signal=TERM", climber])
    node.wait(lambda: "entered=" in node.output(climber), "its output")
    assert "entered=0 open=-" in node.output(climber)


def test_no_process_outlives_its_job(node, share):
    """Where 22.05 gives a step's folders away, a process could leave those by which Slurm finds a job's processes."""
    leave = r"""
        top=/sys/fs/cgroup/freezer$(sed -n s/^[0-9]*:freezer://p /proc/self/cgroup)
        mkdir $top/mine && echo 0 >$top/mine/cgroup.procs && echo left
        unshare -UrCm bash -c "mount -t cgroup -o freezer none /mnt && mkdir /mnt/mine &&
            echo 0 >/mnt/mine/cgroup.procs && echo left"
        sleep 77"""
    node.ok("cat >/lab/out/leave", stdin=leave)

    def asleep():
        return node.run("grep -las '^sleep.77' /proc/[0-9]*/cmdline").stdout

    job, _ = node.start(share.half_gpu, script="setsid bash /lab/out/leave & wait")
    node.wait(asleep, "the process")
    node.ok(["scancel", job])
    assert node.finished(job) == "CANCELLED"
    assert not asleep()
    assert "left" not in node.output(job), node.output(job)


def test_a_login_shell_runs_outside_of_all_fences_unless_none_is_asked_for(node, share):
    """slurmd starts it as the user, in its own cgroup, for the variables of a job with --export or --get-user-env."""
    profile = f"{OPEN} >>/lab/out/profile; export FROM_PROFILE=yes\n"
    node.ok(
        "rm -f /lab/out/profile /lab/out/*.env; cat >~alice/.bash_profile; chown alice: ~alice/.bash_profile",
        stdin=profile,
    )
    node.ok("printf '#!/bin/bash -l\nenv; /lab/open-gpus\n' >/lab/out/login; chmod 755 /lab/out/login")

    def submitted(*options):
        asked = node.run(
            ["sbatch", "--parsable", "-o", "/lab/out/%j", *options, share.half_gpu, "/lab/out/login"], "alice"
        )
        assert asked.returncode == 0, asked.stderr
        job = asked.stdout.split()[0]
        assert node.finished(job) == "COMPLETED", node.output(job)
        return asked.stderr, node.output(job)

    def rules(change):
        before = node.log("slurmctld").count("gpushare.conf read again")
        node.ok(f"sed -i {change} /etc/slurm/gpushare.conf")
        node.wait(
            lambda: node.run(["sbatch", "--test-only", "--wrap=true"], "alice")
            and node.log("slurmctld").count("gpushare.conf read again") > before,
            "the new rule",
        )

    try:
        rules("s/^GetUserEnv=.*/GetUserEnv=allow/")
        told, _ = submitted("--export=NONE")
        assert {0, 1, 2, 3} in opened(node.output("profile")) and "GS155" not in told, "Slurm's way"
        rules("s/^GetUserEnv=.*/GetUserEnv=drop/")
        for options in (["--export=HOME,PATH"], ["--export=ALL,ONE=1"], ["--get-user-env"]):
            node.ok("rm -f /lab/out/profile")
            told, said = submitted(*options)
            assert "GS155" in told, told
            # The script's own shell is a login shell, in the job.
            assert "FROM_PROFILE=yes\n" in said and "HOME=/home/alice\n" in said, said
            assert opened(node.output("profile")) == opened(said) and len(opened(said)[0]) == 1, said
    finally:
        node.ok("sed -i s/^GetUserEnv=.*/GetUserEnv=drop/ /etc/slurm/gpushare.conf; rm -f ~alice/.bash_profile")


def test_a_job_with_parts_on_two_nodes_of_this_machine_fails(node, share):
    """The ledger has one entry for a job; each node's prolog may mean another GPU."""
    done = node.run(["srun", "-N2", "-n2", share.half_gpu, OPEN], "alice")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and opened(said) == [], said
    assert "gpushare supports one slurmd per machine" in said, said
    # Its nodes can still have jobs of their own.
    for name in (node.name, "other"):
        assert len(opened(node.ok(["srun", "-w", name, share.half_gpu, OPEN], "alice"))[0]) == 1
    [found] = [one for one in node.findings("slurmd") if "this machine also runs the slurmd of other" in one["said"]]
    assert found["status"] == "wrong", found
