# SPDX-License-Identifier: GPL-2.0-or-later
"""An MPS daemon for the whole GPUs of a job: --gpu-mps. The daemon is NVIDIA's own, as in test_mps.py."""

import re
import time

import client
import pytest
from gpus import uuids
from test_mps import (
    ALICE, ALL_MPS, CLIENT, DIR, HALF, NO_DAEMON, NO_SERVER, ask, assert_nothing_left, configured, daemons,
    new_clients, values,
)

TWO, ONE = "--gres=gpu:2", "--gres=gpu:1"
SENT = "_SLURM_SPANK_OPTION_gpushare"


@pytest.fixture(scope="module")
def with_client(own_mps):
    client.install_cuda(own_mps)
    return own_mps


@pytest.fixture
def node(with_client):
    """Only jobs that ask for it have a daemon. Every test begins and ends with an empty, healthy node."""
    with_client.cancel_all()
    with configured(with_client, "Mps=off", "MpsWholeGpus=yes"):
        yield with_client
    with_client.tidy()
    assert_nothing_left(with_client)


def start(node, *options, script="sleep 60"):
    """A running job with a daemon: its number, its daemon's directory and PID."""
    job = node.sbatch("--gpu-mps", *options, script=script)
    folder = f"j{job}-{ALICE}"
    return job, folder, node.wait(lambda: daemons(node).get(folder), f"a daemon in {folder}")


def fails(node, *options, script="echo ran", why):
    """The job fails before its program starts, says WHY, and the node goes on."""
    job = node.sbatch("--gpu-mps", *options, script=script)
    assert node.finished(job) == "FAILED"
    said = node.output(job)
    assert "gpushare: this job can't have its GPU here" in said and why in said, said
    assert "ran" not in said.splitlines(), said
    node.wait_idle()
    assert node.ok(["srun", ONE, "echo", "fine"], "bob") == "fine"


def lines_of(node, job, end="END"):
    """What the script of a job has printed until its line END."""
    return node.wait(lambda: end in node.output(job).splitlines() and node.output(job), f"all that job {job} prints")


# --- the daemon ----------------------------------------------------------------------------------------------------


def test_one_daemon_has_all_gpus_of_the_job_and_no_limits(node):
    job, folder, pid = start(node, TWO, script=f"{CLIENT}; echo; srun {CLIENT}; env; echo END; sleep 60")
    environment = values(node.ok(f"tr '\\0' '\\n' </proc/{pid}/environ"))
    assert environment["CUDA_VISIBLE_DEVICES"] == ",".join(uuids(node)[:2])
    assert not [name for name in environment if name.startswith(("SLURM", "SPANK"))], environment
    assert f"Uid:\t{ALICE}\t{ALICE}" in node.ok(f"cat /proc/{pid}/status")
    assert "step_" not in node.ok(f"cat /proc/{pid}/cgroup")
    said = lines_of(node, job)
    assert re.findall(r"^cuInit=(\d+)", said, re.M) == [NO_SERVER] * 2, said
    assert len(new_clients(node, folder)) == 2
    variables = values(said)
    assert variables["CUDA_MPS_PIPE_DIRECTORY"] == f"{DIR}/{folder}/pipe"
    assert variables["CUDA_MPS_LOG_DIRECTORY"] == f"{DIR}/{folder}/log"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in variables and "GPUSHARE_GPU" not in variables, said
    assert variables["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert ask(node, folder, "get_default_active_thread_percentage") == ["100.0"]
    assert node.run(f"ls {DIR}/{folder}/pipe", "bob").returncode != 0
    node.ok(["scancel", job])
    node.wait(lambda: not node.run(ALL_MPS).stdout and not node.run(f"ls -A {DIR}").stdout, "the daemon's end")


def test_jobs_of_one_user_have_a_daemon_each_and_others_none(node):
    first, second = start(node, TWO), start(node, ONE)
    assert daemons(node) == dict([first[1:], second[1:]])
    text = node.ok(["srun", ONE, "bash", "-c", f"env; {CLIENT}; true"], "alice")
    assert "CUDA_MPS" not in text and values(text)["cuInit"] == NO_DAEMON
    node.ok(["scancel", first[0]])
    node.wait(lambda: daemons(node) == dict([second[1:]]), "the end of the first job's")


def test_every_command_knows_the_option(node):
    for command in (["srun", "--gpu-mps", ONE, CLIENT], ["salloc", "-Q", "--gpu-mps", ONE, "srun", CLIENT]):
        assert values(node.run(command, "alice").stdout)["cuInit"] == NO_SERVER, command
    script = f"#!/bin/bash\n#SBATCH --gpu-mps {ONE} -o /lab/out/%j\nenv\n{CLIENT} || true\n"
    for more in ([], ["--export=NONE"]):
        job = node.ok(["sbatch", "--parsable", *more], "alice", stdin=script)
        assert node.finished(job) == "COMPLETED", node.output(job)
        assert values(node.output(job))["cuInit"] == NO_SERVER, node.output(job)
        assert SENT not in node.output(job), node.output(job)


def test_a_step_with_one_of_the_gpus_names_it_as_the_daemon_does(node):
    job, folder, _ = start(
        node, TWO, "-n2",
        script="srun -n1 --exact --gres=gpu:1 bash -c 'env; sleep 5' & sleep 2; srun -n1 --exact --gres=gpu:1 env; "
        "wait; echo END; sleep 60",
    )
    said = lines_of(node, job)
    named = re.findall(r"^CUDA_VISIBLE_DEVICES=(.*)", said, re.M)
    assert sorted(named) == sorted(uuids(node)[:2]), said


def test_status_and_check_know_the_daemon(node):
    job, folder, pid = start(node, ONE)
    assert f"MPS daemon {folder} is process {pid}" in node.ok(["gpushare", "status"])
    found = node.findings("Mps")
    assert found and all(one["status"] == "ok" for one in found), found
    assert daemons(node) == {folder: pid}


# --- jobs that submit jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [ONE, "--gres=none"])
def test_a_job_that_such_a_job_submits_has_nothing_of_it(node, options):
    inner = f"sbatch --wait --parsable -o /lab/out/inner {options} --wrap 'env; {CLIENT}; true'"
    for script in (inner, f"srun {inner}"):
        node.ok("rm -f /lab/out/inner")
        job = node.sbatch("--gpu-mps", ONE, script=script)
        assert node.finished(job) == "COMPLETED", node.output(job)
        said = node.output("inner")
        assert values(said)["cuInit"] == NO_DAEMON and "CUDA_MPS" not in said and SENT not in said, said


def test_a_job_from_a_shell_of_salloc_has_nothing_of_it(node):
    inner = "sbatch --wait -o /lab/out/inner --gres=none --wrap env"
    done = node.run(["salloc", "-Q", "--gpu-mps", ONE, "bash", "-c", f"{inner}; srun {CLIENT}"], "alice")
    said = node.output("inner")
    assert f"{SENT}_gpu_mps" not in said and "PATH=" in said, said
    assert values(done.stdout)["cuInit"] == NO_SERVER, done


# --- refusals ------------------------------------------------------------------------------------------------------


def test_what_is_not_allowed_fails_and_says_why(node):
    fails(node, "--gres=none", why="this job has no GPU on this node")
    with configured(node, "MpsWholeGpus=no"):
        fails(node, ONE, why="--gpu-mps is not allowed on this node: gpushare.conf says MpsWholeGpus=no")
    with configured(node, "Mps=per-user"):
        fails(node, HALF, why="--gpu-mps is for whole GPUs, and this job has a share of one")


def test_an_option_of_a_step_alone_fails_the_step(node):
    job = node.sbatch(ONE, script="srun --gpu-mps echo ran; srun echo fine")
    assert node.finished(job) == "COMPLETED"
    said = node.output(job)
    assert "--gpu-mps: the job was given no MPS daemon here" in said, said
    assert "ran" not in said.splitlines() and "fine" in said.splitlines(), said


def test_where_gpushare_does_nothing_the_job_fails(node):
    with configured(node, "Placement=off"):
        job = node.sbatch("--gpu-mps", ONE, script="echo ran")
        assert node.finished(job) == "FAILED" and "the job was given no MPS daemon here" in node.output(job)
        node.wait_idle()


def test_a_daemon_that_does_not_start_fails_the_job_and_not_the_node(node):
    with configured(node, "MpsControl=/opt/none/nvidia-cuda-mps-control"):
        fails(node, TWO, why="/opt/none/nvidia-cuda-mps-control")


def test_a_machine_without_the_plugin_rejects_the_option(node):
    node.ok("mv /etc/slurm/plugstack.conf /etc/slurm/plugstack.away")
    try:
        said = node.run(["sbatch", "--gpu-mps", ONE, "--wrap", "true"], "alice")
    finally:
        node.ok("mv /etc/slurm/plugstack.away /etc/slurm/plugstack.conf")
    assert said.returncode != 0 and "unrecognized option '--gpu-mps'" in said.stderr, said


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_daemon_that_the_job_has_ended_is_started_anew_or_named(node):
    """Without systemd no step can start it again on cgroup v2: it would be in the step's cgroup."""
    quits = "echo quit -t 1 | nvidia-cuda-mps-control; rm -rf $CUDA_MPS_PIPE_DIRECTORY/*"
    job = node.sbatch("--gpu-mps", ONE, script=f"{quits}; srun bash -c '{CLIENT}; true'")
    state, said = node.finished(job), node.output(job)
    if node.cgroup == "v1":
        assert state == "COMPLETED" and "It has been started again for this step" in said, said
        assert values(said)["cuInit"] == NO_SERVER, said
    else:
        assert state == "FAILED" and "its MPS daemon has ended" in said, said


def test_a_daemon_is_ended_though_the_epilog_did_not_run(node):
    job, folder, pid = start(node, ONE)
    node.ok("cp -p /usr/sbin/gpushare-epilog /usr/sbin/away && ln -sf /bin/true /usr/sbin/gpushare-epilog")
    try:
        node.ok(["scancel", job])
        node.wait(lambda: not node.ok(["squeue", "-h"]), "the job's end")
        assert daemons(node) == {folder: pid}
    finally:
        node.ok("rm /usr/sbin/gpushare-epilog && mv /usr/sbin/away /usr/sbin/gpushare-epilog")
    node.ok("sed -i s/^since=.*/since=1/ /run/gpushare/jobs/* && rm -f /run/gpushare/reconciled")
    node.ok(["srun", ONE, "true"], "bob")
    node.wait(lambda: not daemons(node), "the end of a daemon without a job")


def test_a_requeued_job_has_no_daemon_of_its_earlier_start(node):
    job, folder, pid = start(node, "--requeue", ONE)
    node.ok("cp -p /usr/sbin/gpushare-epilog /usr/sbin/away && ln -sf /bin/true /usr/sbin/gpushare-epilog")
    try:
        node.ok(["scontrol", "requeue", job])
        node.wait_state(job, "PENDING")
        assert daemons(node) == {folder: pid}
        if not node.newer_than("23.02"):
            time.sleep(3)  # as in test_surf.py
        node.start_now(job)
        node.wait(lambda: daemons(node).get(folder) not in (None, pid), "another daemon")
    finally:
        node.ok("rm /usr/sbin/gpushare-epilog && mv /usr/sbin/away /usr/sbin/gpushare-epilog")


# --- het jobs ------------------------------------------------------------------------------------------------------


def test_each_component_of_a_het_job_has_a_daemon_of_its_own(own_mps_nodes):
    """Two with GPUs, on nodes of their own, and one without."""
    client.install_cuda(own_mps_nodes)
    ask = f"{CLIENT}; echo of $SLURMD_NODENAME: $CUDA_MPS_PIPE_DIRECTORY"
    with configured(own_mps_nodes, "Mps=off", "MpsWholeGpus=yes"):
        job = own_mps_nodes.sbatch(
            "--gpu-mps", "-w", "n1", "--gres=gpu:a40:1", ":", "-w", "n2", "--gres=gpu:a100:2", ":", "-w", "n3",
            script=f"srun --het-group=0,1,2 bash -c '{ask}'; echo END; sleep 60",
        )
        said = lines_of(own_mps_nodes, job)
        assert sorted(line for line in said.splitlines() if line.startswith("of ")) == [
            f"of n1: {DIR}/j{job}-{ALICE}/pipe", f"of n2: {DIR}/j{int(job) + 1}-{ALICE}/pipe", "of n3:",
        ]
        assert re.findall(r"^cuInit=(\d+)", said, re.M).count(NO_SERVER) == 2, said
        of_nodes = [own_mps_nodes.run(f"ls {DIR}", node=node).stdout.split() for node in ("n1", "n2", "n3")]
        assert of_nodes == [[f"j{job}-{ALICE}"], [f"j{int(job) + 1}-{ALICE}"], []]
        own_mps_nodes.ok(["scancel", job])
    for node in ("n1", "n2"):
        own_mps_nodes.wait(
            lambda node=node: not own_mps_nodes.run(f"ls -A {DIR}", node=node).stdout, "the daemons' end"
        )
    assert own_mps_nodes.run(ALL_MPS).stdout == ""
