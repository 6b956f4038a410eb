# SPDX-License-Identifier: GPL-2.0-or-later
"""SURF's node with NVIDIA's own MPS daemon for every user and GPU, without a GPU: the daemon is real, real programs of
jobs reach it, and its server then says that there is no GPU (cuInit gives 805; 100 where no daemon was reached)."""

import contextlib
import re
import shlex
import subprocess

import client
import pytest
from gpus import entered, uuids, wait_taken_back
from haunted import haunted
from lab import TOP

DIR = "/run/gpushare/mps"
CLIENT = client.CUDA_CLIENT
ALICE, BOB = 2001, 2002
# What cuInit gives.
NO_DAEMON, NO_SERVER = "100", "805"
HALF, FULL, QUARTER = "--gres=mps:40", "--gres=mps:80", "--gres=mps:20"


@pytest.fixture(scope="module")
def with_client(mps):
    client.install_cuda(mps)
    return mps


@pytest.fixture
def node(with_client):
    """Every test begins and ends with an empty, healthy node without any daemon."""
    with_client.cancel_all()
    yield with_client
    with_client.tidy()
    assert_nothing_left(with_client)


def assert_nothing_left(node):
    """cancel_all has waited for the epilogs."""
    assert node.run(f"ls -A {DIR}").stdout == ""
    assert node.run(ALL_MPS).stdout == ""


# PID NAME of every process of MPS that is not dead, whoever's child it is.
ALL_MPS = (
    "for p in /proc/[0-9]*; do read -r name <$p/comm && [[ $name == nvidia-cuda-mps* ]] && "
    "[[ $(readlink $p/exe) == */nvidia* ]] && echo ${p##*/} $name; done 2>/dev/null; true"
)


def daemons(node):
    """{"MINOR.UID": PID} of the daemons that the node's state files name and that live."""
    text = node.ok(f"cd {DIR} 2>/dev/null && grep -sH ^process= */state; true")
    found = {}
    for line in text.splitlines():
        folder, pid = re.fullmatch(r"(\S+)/state:process=(\d+) \d+", line).groups()
        if node.run(f"readlink /proc/{pid}/exe").stdout.strip().endswith("nvidia-cuda-mps-control"):
            found[folder] = pid
    return found


def start(node, *options, user="alice", script="sleep 60"):
    """A job that runs: its number, and its daemon's directory and PID. Slurm says RUNNING while the prolog still asks
    the daemon, and NVIDIA's program may give one of two callers at a time no answer."""
    job, gpu = node.start(*options, user=user, script=script)
    folder = f"{gpu}.{ALICE if user == 'alice' else BOB}"
    node.wait(lambda: node.fields(job)["Reason"] != "Prolog", f"the prolog of job {job}")
    return job, folder, node.wait(lambda: daemons(node).get(folder), f"a daemon in {folder}")


def ask(node, folder, *lines, user="alice"):
    """What a daemon's own program answers to a user."""
    command = f"CUDA_MPS_PIPE_DIRECTORY={DIR}/{folder}/pipe timeout 10 nvidia-cuda-mps-control"
    done = node.run(command, user, stdin="".join(line + "\n" for line in lines))
    return (done.stdout + done.stderr).split()


def new_clients(node, folder):
    """{(pid, uid)} of the programs that a daemon has taken."""
    text = node.run(f"cat {DIR}/{folder}/log/control.log").stdout
    return set(re.findall(r"NEW CLIENT (\d+) from user (\d+)", text))


def values(text):
    """NAME=VALUE lines; of several with one name the last."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@contextlib.contextmanager
def configured(node, *lines):
    """With lines of gpushare.conf in place of those with the same keys: nodes read it for each job."""
    text = node.ok("cat /etc/slurm/gpushare.conf")
    keys = {line.split("=")[0] for line in lines}
    kept = [line for line in text.splitlines() if line.split("=")[0] not in keys]
    node.write("/etc/slurm/gpushare.conf", "\n".join([*kept, *lines]) + "\n")
    try:
        yield
    finally:
        node.cancel_all()
        node.write("/etc/slurm/gpushare.conf", text + "\n")


# --- one daemon ----------------------------------------------------------------------------------------------------


def test_a_daemon_is_its_users_and_nobody_elses_concern(node):
    job, folder, pid = start(node, HALF)
    status = node.ok(f"cat /proc/{pid}/status")
    # The group is nobody's: a user traces processes only of his own user and group.
    for line in (f"Uid:\t{ALICE}\t{ALICE}\t{ALICE}\t{ALICE}", "Gid:" + "\t65534" * 4):
        assert line in status, status
    assert re.search(rf"^Groups:\s*{ALICE}\s*$", status, re.M), "the user's groups, and none of root's"
    assert re.search(r"^CapEff:\t0+$", status, re.M), status
    session = node.ok(f"cut -d')' -f2 /proc/{pid}/stat").split()[3]
    assert session == pid, "it leads a session, so that no signal to slurmd's or the job's processes meets it"
    assert node.ok(f"readlink /proc/{pid}/cwd") == "/"
    assert node.ok(f"cd /proc/{pid}/fd && readlink 0 1 2").splitlines() == ["/dev/null"] * 3
    files = node.ok(f"for fd in /proc/{pid}/fd/*; do readlink $fd; done").splitlines()
    own = re.compile(rf"/dev/null|socket:.*|anon_inode:.*|{DIR}/{folder}/(pipe|log)/.*")
    assert [file for file in files if not own.fullmatch(file)] == [], "no pipe or file of slurmd's"
    environment = values(node.ok(f"tr '\\0' '\\n' </proc/{pid}/environ"))
    assert environment["CUDA_VISIBLE_DEVICES"] == uuids(node)[int(folder.split(".")[0])]
    assert environment["CUDA_MPS_PIPE_DIRECTORY"] == f"{DIR}/{folder}/pipe"
    assert not [name for name in environment if name.startswith(("SLURM", "SPANK"))], environment
    assert "step_" not in node.ok(f"cat /proc/{pid}/cgroup"), "Slurm must not end it with the job that came first"


def test_only_the_user_enters_the_pipe_folder(node):
    job, folder, pid = start(node, HALF)
    modes = node.ok(
        f"cd {DIR} && stat -c '%n %U %a' . {folder} {folder}/lock {folder}/state {folder}/pipe {folder}/log"
    )
    found = {name: (owner, int(mode, 8)) for name, owner, mode in (line.split() for line in modes.splitlines())}
    for name in (".", folder, f"{folder}/lock", f"{folder}/state"):
        owner, mode = found[name]
        assert owner == "root" and mode & 0o022 == 0, f"only root may change {name}: {modes}"
    for name in ("pipe", "log"):
        assert found[f"{folder}/{name}"] == ("alice", 0o700), modes
    assert node.run(f"ls {DIR}/{folder}/pipe", "bob").returncode != 0
    assert node.run(f"ls {DIR}/{folder}/log", "bob").returncode != 0
    assert ask(node, folder, "get_default_active_thread_percentage", user="bob")[:2] == ["Cannot", "find"]
    assert ask(node, folder, "quit", user="bob")[:2] == ["Cannot", "find"]
    strange = node.run(["env", f"CUDA_MPS_PIPE_DIRECTORY={DIR}/{folder}/pipe", CLIENT], "bob")
    assert values(strange.stdout)["cuInit"] == NO_DAEMON
    assert daemons(node) == {folder: pid} and new_clients(node, folder) == set()


def test_the_shares_limits_are_the_daemons(node):
    """NVIDIA shows whole G from 1 G on: 40 units of 300 MiB are 12000M, shown as 11G."""
    job, folder, pid = start(node, HALF)
    limits = ("get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0")
    assert [ask(node, folder, line) for line in limits] == [["100.0"], ["11G"]], "users' servers may take turns"
    with configured(node, "MemPerUnit=10", "UserMix=deny"):
        node.cancel_all()
        job, folder, pid = start(node, QUARTER)
        assert [ask(node, folder, line) for line in limits] == [["25.0"], ["200M"]]


def test_the_jobs_variables_name_its_daemon(node):
    other = start(node, FULL, user="bob")
    environment = values(node.ok(["srun", HALF, "env"], "alice"))
    gpu = int(environment["GPUSHARE_GPU"])
    assert gpu != int(other[1].split(".")[0])
    expected = {
        "CUDA_MPS_PIPE_DIRECTORY": f"{DIR}/{gpu}.{ALICE}/pipe",
        "CUDA_MPS_LOG_DIRECTORY": f"{DIR}/{gpu}.{ALICE}/log",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=12000M",
        # Counted among the daemon's, which has one; the daemon itself knows it by UUID.
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert {name: environment.get(name) for name in expected} == expected


def test_programs_of_every_kind_of_step_reach_their_jobs_daemon(node):
    other = start(node, FULL, user="bob")
    job, folder, pid = start(node, HALF, script=f"{CLIENT}; srun {CLIENT}; sleep 60")
    node.wait(lambda: node.output(job).count("cuInit=") == 2, "batch and srun")
    interactive = node.run(["salloc", HALF, "bash", "-c", f"srun --interactive {CLIENT}"], "alice").stdout
    assert len(re.findall(rf"cuInit={NO_SERVER}", node.output(job))) == 2, node.output(job)
    assert values(interactive)["cuInit"] == NO_SERVER, interactive
    pids = set(re.findall(r"^pid=(\d+)", node.output(job), re.M))
    assert len(pids) == 2 and {(pid, str(ALICE)) for pid in pids} <= new_clients(node, folder)
    assert new_clients(node, other[1]) == set(), "nobody else's"
    session = (TOP / "docs/examples/profile.d/gpushare.sh").read_text()
    ssh = entered(node, job, "alice", f"env SLURM_JOB_ID={job} sh -c {shlex.quote(f'{session}{CLIENT}; true')}")
    assert values(ssh)["cuInit"] == NO_SERVER, ssh
    assert (values(ssh)["pid"], str(ALICE)) in new_clients(node, folder)


def test_a_program_with_its_own_pipe_directory_finds_no_other_daemon(node):
    job, folder, pid = start(node, HALF, user="bob")
    text = node.ok(["srun", HALF, "bash", "-c", f"CUDA_MPS_PIPE_DIRECTORY={DIR}/{folder}/pipe {CLIENT}; true"], "alice")
    assert values(text)["cuInit"] == NO_DAEMON and new_clients(node, folder) == set()


# --- whose daemon --------------------------------------------------------------------------------------------------


def test_jobs_of_one_user_on_one_gpu_share_a_daemon_until_the_last_ends(node):
    with configured(node, "Packing=pack", "UserMix=deny"):
        first = start(node, QUARTER)
        second = start(node, HALF)
        assert second[1:] == first[1:], "the same folder and process"
        percentage, memory = (ask(node, first[1], line) for line in (
            "get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0"))
        assert (percentage, memory) == (["50.0"], ["11G"]), "what the larger may; the smaller is held by its variables"
        node.ok(["scancel", second[0]])
        node.finished(second[0])
        node.wait(lambda: second[0] not in node.ledger(), "the epilog")
        assert daemons(node) == {first[1]: first[2]}
        node.ok(["scancel", first[0]])
        node.wait(lambda: node.ledger() == {}, "the last epilog")
        node.wait(lambda: not node.ok("squeue -h"), "an empty queue")
        assert_nothing_left(node)


def test_users_on_one_gpu_have_a_daemon_each(node):
    with configured(node, "Packing=pack"):
        alices, bobs = start(node, HALF), start(node, HALF, user="bob")
        gpu = alices[1].split(".")[0]
        assert [alices[1], bobs[1]] == [f"{gpu}.{ALICE}", f"{gpu}.{BOB}"] and alices[2] != bobs[2]
        node.ok(["scancel", alices[0]])
        node.wait(lambda: alices[0] not in node.ledger(), "the epilog")
        node.wait(lambda: daemons(node) == {bobs[1]: bobs[2]}, "only bob's daemon")


def test_a_user_on_two_gpus_has_a_daemon_each(node):
    first, second = start(node, HALF), start(node, HALF)
    assert first[1] != second[1] and first[2] != second[2]
    node.ok(["scancel", first[0]])
    node.wait(lambda: daemons(node) == {second[1]: second[2]}, "only the second job's daemon")


def test_jobs_without_a_share_have_no_daemon(node):
    text = node.ok(["srun", "bash", "-c", f"env; {CLIENT}; ls -A {DIR}; true"], "alice")
    assert "CUDA_MPS" not in text and values(text)["cuInit"] == NO_DAEMON
    text = node.ok(["srun", "--gres=gpu:1", "bash", "-c", f"env; {CLIENT}; ls -A {DIR}; true"], "alice")
    assert "CUDA_MPS" not in text and values(text)["cuInit"] == NO_DAEMON and f".{ALICE}" not in text
    assert node.run(ALL_MPS).stdout == ""


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_daemon_outlives_slurmd_and_serves_the_next_job(node):
    with configured(node, "Packing=pack", "UserMix=deny"):
        job, folder, pid = start(node, QUARTER)
        node.ok("/lab/service restart slurmd")
        assert daemons(node) == {folder: pid} and ask(node, folder, "get_default_active_thread_percentage") == ["25.0"]
        assert start(node, QUARTER)[1:] == (folder, pid)


def test_daemons_whose_record_was_removed_are_named_with_what_ends_them(node):
    """Somebody has emptied /run/gpushare: no epilog knows of the daemons, and jobs that run may still use them."""
    if node.run("command -v pkill").returncode:
        pytest.skip("what it tells to run isn't in the root of this release")
    up = "echo up; sleep 60"
    kept, _, alices = start(node, HALF, script=up)
    job, _, bobs = start(node, HALF, user="bob", script=up)
    node.wait(lambda: "up" in node.output(kept) and "up" in node.output(job), "both scripts")

    def found(status):
        those = [one for one in node.findings("Mps") if one["status"] == status]
        return " ".join(f"{one['said']} {one.get('fix', '')}" for one in those)

    node.ok("rm -r /run/gpushare")
    assert f"process {alices} of" in found("unknown") and f"process {bobs} of" in found("unknown")
    assert "record was removed" not in found("wrong")
    node.ok(["scancel", job])
    node.finished(job)
    fix = node.wait(lambda: re.search(r"pkill -KILL -s \S+", found("wrong")), "the fix").group()
    assert fix.endswith(f" {bobs}") and f"process {alices} of" in found("unknown")
    # The next job's daemon is known.
    _, folder, third = start(node, HALF)
    assert third != alices and f"process {third} of" not in found("unknown")
    node.ok(fix)
    assert set(node.run(ALL_MPS).stdout.split()[::2]) == {alices, third}
    assert node.state(kept) == "RUNNING"
    node.cancel_all()
    fix = node.wait(lambda: re.search(r"pkill -KILL -s \S+", found("wrong")), "the fix").group()
    node.ok(fix)


def test_a_killed_daemon_is_started_anew_for_the_next_job(node):
    with configured(node, "Packing=pack", "UserMix=deny"):
        job, folder, pid = start(node, QUARTER, script=f"sleep 4; {CLIENT}; sleep 60")
        node.ok(f"kill -KILL {pid}")
        second = start(node, HALF, script=f"{CLIENT}; sleep 60")
        assert second[1] == folder and second[2] != pid
        assert ask(node, folder, "get_default_active_thread_percentage") == ["50.0"]
        for one in (job, second[0]):
            node.wait(lambda: "cuInit=" in node.output(one), f"the program of job {one}")
            assert values(node.output(one))["cuInit"] == NO_SERVER, "the first job's programs reach the new one"


def test_a_daemon_that_its_user_has_ended_is_started_anew(node):
    with configured(node, "Packing=pack"):
        job, folder, pid = start(node, QUARTER)
        ask(node, folder, "quit -t 1")
        node.wait(lambda: not daemons(node), "its end")
        assert start(node, QUARTER)[1] == folder
        assert list(daemons(node)) == [folder]


def test_a_user_who_kills_their_daemon_at_each_start_harms_no_other(node):
    """The prolog then looks for what it had started among the user's processes; some of these can't be looked at."""
    kill = (
        "while :; do for p in /proc/[0-9]*; do read -r c <$p/comm; "
        "case $c in nvidia-cuda-mps*) kill -9 ${p#/proc/};; esac; done; done 2>/dev/null"
    )
    with haunted(node, "alice", ["anything"]):
        node.wait_state(node.sbatch(QUARTER, script=kill), "RUNNING")
        # Their loop may miss a daemon's start.
        jobs = (node.sbatch(FULL, script="echo ran") for _ in range(10))
        failed = next(job for job in jobs if node.finished(job) == "FAILED")
        assert "ran" not in node.output(failed), node.output(failed)
        third = node.sbatch(QUARTER, user="bob", script=CLIENT)
        node.finished(third)
        assert NO_SERVER in node.output(third), node.output(third)
        node.cancel_all()
    assert node.node_state().split()[0] == "idle", node.node_state()


def test_a_script_that_ends_the_daemon_is_named(node):
    """As many sites' job scripts do at their end; the user's other job on that GPU has the same daemon. Without systemd
    no step can start it again: it would be in the step's cgroup."""
    go = "until [ -e /lab/out/go ]; do sleep 0.1; done"
    for _ in range(3):
        node.start(FULL, user="bob")
    job, _ = node.start(QUARTER, script=f"{go}; srun true")
    quits = "echo quit -t 1 | nvidia-cuda-mps-control; rm -rf $CUDA_MPS_PIPE_DIRECTORY/*"
    node.finished(node.sbatch(QUARTER, script=quits))
    node.ok("touch /lab/out/go")
    state = node.finished(job)
    said = node.output(job)
    node.ok("rm /lab/out/go")
    if node.cgroup == "v1":  # slurmstepd isn't in the step's cgroup yet
        assert state == "COMPLETED" and "It has been started again for this step" in said, said
        return
    assert state == "FAILED" and "its MPS daemon has ended" in said, said
    assert "your next job here starts it again" in said, said
    following = node.sbatch(QUARTER, script=CLIENT)
    node.finished(following)
    assert NO_SERVER in node.output(following), node.output(following)


def test_a_daemon_that_stands_still_fails_the_next_job_and_no_other(node):
    with configured(node, "Packing=pack", "MpsTimeout=1000"):
        job, folder, pid = start(node, QUARTER)
        node.ok(f"kill -STOP {pid}")
        refused = node.sbatch(QUARTER, script="echo ran")
        assert node.finished(refused) == "FAILED"
        assert "ran" not in node.output(refused).splitlines()
        assert "gpushare: this job can't have its GPU here" in node.output(refused), node.output(refused)
        assert f"MPS daemon {pid}" in node.output(refused) and job in node.output(refused), node.output(refused)
        assert node.state(job) == "RUNNING" and node.node_state().split()[0] in ("mixed", "allocated")
        node.ok(["scancel", job])
        node.wait(lambda: node.ledger() == {}, "the epilog")
        node.wait(lambda: not node.run(ALL_MPS).stdout, "the end of a daemon that does not answer")
        again = start(node, QUARTER)
        assert again[1] == folder and again[2] != pid


def test_a_server_that_hangs_ends_with_its_last_job(node):
    """Beside NVIDIA's control daemon a server that never gets ready, as one does whose GPU has gone: cuInit waits."""
    node.ok("mkdir -p /opt/mps && cp /usr/bin/nvidia-cuda-mps-control /opt/mps/ && echo stubborn >/opt/mps/server")
    client.install(node, TOP / "tests/fakes/nvidia-cuda-mps-server", "/opt/mps/nvidia-cuda-mps-server")
    with configured(node, "MpsControl=/opt/mps/nvidia-cuda-mps-control", "MpsTimeout=2000"):
        job, folder, pid = start(node, HALF, script=f"{CLIENT}; sleep 60")
        server = node.wait(lambda: ask(node, folder, "get_server_list"), "a server")[0]
        assert node.ok(f"stat -c %u /proc/{server}") == str(ALICE)
        node.ok(["scancel", job])
        node.wait(lambda: node.ledger() == {}, "the epilog")
        node.wait(lambda: node.run(f"readlink /proc/{server}/exe").returncode != 0, "the server's end")
        node.wait(lambda: not node.run(ALL_MPS).stdout, "the daemon's end")


def test_without_nvidias_program_the_job_fails_and_not_the_node(node):
    with configured(node, "MpsControl=/opt/none/nvidia-cuda-mps-control"):
        job = node.sbatch(HALF, script="echo ran")
        assert node.finished(job) == "FAILED"
        srun = node.run(["srun", HALF, "echo", "ran"], "alice")
        assert srun.returncode != 0
        for text in (node.output(job), srun.stdout + srun.stderr):
            assert "ran" not in text.splitlines(), text
            lines = [line for line in text.splitlines() if "gpushare: this job can't have its GPU here" in line]
            assert lines and "/opt/none/nvidia-cuda-mps-control" in lines[0], text
        assert node.ok(["srun", "echo", "fine"], "bob") == "fine", "jobs without a share run on"
        assert node.ok(["srun", "--gres=gpu:1", "echo", "fine"], "bob") == "fine", "whole GPUs too"


def test_on_mps_failure_run_the_job_runs_without(node):
    with configured(node, "MpsControl=/opt/none/nvidia-cuda-mps-control", "OnMpsFailure=run"):
        text = node.run(["srun", HALF, CLIENT], "alice").stdout
        assert values(text)["cuInit"] == NO_DAEMON, "and no error of a connection"
        assert "/opt/none/nvidia-cuda-mps-control" in node.log("slurmd"), "the administrator is told"


def test_a_user_who_floods_the_daemon_delays_only_himself(node):
    """Another user's job beside one who asks his own daemon without end."""
    with configured(node, "Packing=pack", "MpsTimeout=2000"):
        noise = "while :; do echo get_server_list | nvidia-cuda-mps-control >/dev/null; done"
        start(node, QUARTER, script=f"({noise}) & ({noise}) & ({noise}) & sleep 60")
        assert start(node, QUARTER, user="bob")[1].endswith(str(BOB))


# --- prologs that run somewhere else -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["pipe", "pipe/control_lock", "log"])
def test_a_users_mount_that_never_answers_hangs_nobody(node, tmp_path, place):
    """Not `status`, not another user's job, not the epilog, not the job's own next step;
    and the user's own next job runs."""
    program = client.compiled(TOP / "tests/live/tools/silent-fuse.c", node.release, tmp_path / "silent-fuse")
    client.install(node, program, "/lab/out/silent-fuse")
    node.ok("test -e /dev/fuse || mknod -m 666 /dev/fuse c 10 229")
    node.ok("rm -f /lab/out/began /lab/out/mounted /lab/out/step")
    step = "touch /lab/out/began; until [ -e /lab/out/mounted ]; do sleep 0.1; done; srun true >/lab/out/step 2>&1"
    job, folder, _ = start(node, HALF, script=f"{step}; echo $? >>/lab/out/step; sleep 60")
    node.wait(lambda: node.run("test -e /lab/out/began").returncode == 0, "the batch script")
    target = f"{DIR}/{folder}/{place}"
    command = node.inside("/lab/out/silent-fuse", target)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "mounted\n"
            for user in ("root", "bob"):
                assert node.run(["timeout", "10", "gpushare", "status"], user).returncode == 0, user
            other = node.sbatch(QUARTER, user="bob", script="true")
            assert node.finished(other) == "COMPLETED"
            node.ok("touch /lab/out/mounted")
            said = node.wait(
                lambda: node.run("grep -sx '[0-9]*' /lab/out/step && cat /lab/out/step").stdout, "the end of the step"
            )
            assert said.startswith("0\n") == (place != "pipe"), said
            assert ("another file system is mounted there" in said) == (place == "pipe"), said
            node.ok(["scancel", job])
            node.finished(job)
            node.wait(lambda: job not in node.ledger(), "an epilog")
            again = node.sbatch(HALF, script="true")
            assert node.finished(again) == "COMPLETED"
            node.wait_no_shares()
        finally:
            # The kernel then answers in its place.
            server.stdin.close()
            server.wait(10)
            node.run(["umount", "-l", target])


def test_a_daemon_is_no_jobs_own_wherever_the_prolog_runs(mps_by_whom):
    """Started by a prolog inside the job it would end with that job, so there it takes systemd,
    which no cluster has here."""
    node, half = mps_by_whom, "--gres=gpushare:40"
    node.cancel_all()
    if node.kind == "run-in-job":
        job = node.sbatch(half, script="echo ran")
        assert node.finished(job) == "FAILED"
        said = node.output(job)
        assert "ran" not in said.splitlines() and "PrologFlags=RunInJob" in said, said
        assert node.run(ALL_MPS).stdout == ""
    else:
        first = start(node, half)
        assert "step_" not in node.ok(f"cat /proc/{first[2]}/cgroup")
        second = start(node, half)
        assert second[1:] == first[1:]
        node.ok(["scancel", first[0]])
        node.wait(lambda: first[0] not in node.ledger(), "the first job's end")
        assert daemons(node) == {second[1]: second[2]}
    node.cancel_all()
    assert node.node_state().split()[0] == "idle", node.node_state()
    wait_taken_back(node, half)
    node.wait(lambda: node.run(f"ls -A {DIR}").stdout + node.run(ALL_MPS).stdout == "", "the daemons' end")


# Slurm's own credentials, which bring the user's ids.
CLIENT_IDS = """
    mkdir -p /run/slurmdbd && chown slurm: /run/slurmdbd
    install -o slurm -m 600 <(head -c 1024 /dev/urandom) /etc/slurm/slurm.key
    printf '%s\\n' AuthType=auth/slurm CredType=cred/slurm AuthInfo=use_client_ids >>/etc/slurm/extra.conf
    sed -i s,auth/munge,auth/slurm, /etc/slurm/slurmdbd.conf
    for daemon in slurmd slurmctld slurmdbd; do /lab/service stop $daemon; done
    for daemon in slurmdbd slurmctld; do /lab/service start $daemon; done
    # slurmd's socket is there too.
    chown root: /run/slurm && /lab/service start slurmd"""


@pytest.mark.parametrize("by", ["munge", "slurm"])
def test_a_user_whom_only_slurmd_knows_has_a_daemon(mps_nodes, by):
    """As with nss_slurm or use_client_ids: the node's name services don't know the user, and the credential does."""
    if by == "slurm":
        if not mps_nodes.newer_than("23.02"):
            pytest.skip("22.05 has no auth/slurm")
        mps_nodes.ok(CLIENT_IDS, timeout=90)
        mps_nodes.wait(lambda: mps_nodes.run("sinfo -h -n n1 -t idle -o %n").stdout, "the node")
    client.install_cuda(mps_nodes)
    mps_nodes.ok(
        "for file in passwd group; do grep -v ^alice: /etc/$file >/lab/out/$file && "
        "nsenter -t $(cat /run/lab/nodes/n1) -m mount --bind /lab/out/$file /etc/$file; done"
    )
    assert mps_nodes.run("getent passwd alice", node="n1").returncode == 2
    ask = f"{CLIENT}; grep -h ^process= {DIR}/0.{ALICE}/state"
    said = mps_nodes.ok(["srun", "-w", "n1", "--gres=gpushare:40", "bash", "-c", ask], "alice")
    assert mps_nodes.ok("scontrol show config | grep ^AuthType").split()[-1] == f"auth/{by}"
    assert NO_SERVER in said and "process=" in said, said
    mps_nodes.wait(lambda: not mps_nodes.run(f"ls -A {DIR}", node="n1").stdout, "the daemon's end")
    assert "no user" not in mps_nodes.log("syslog")
