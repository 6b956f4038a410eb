# SPDX-License-Identifier: GPL-2.0-or-later
"""SURF's courses as its document has them, from docs/examples/surf as it stands:
shares in certain reservations only, and the frameworks told what part of the GPU's memory is theirs."""

import contextlib
import re
import shlex
from collections import Counter

import pytest
from gpus import OPEN, entered, opened
from lab import TOP

CONF = "/etc/slurm/gpushare.conf"
# Names with the document's two patterns, and one without.
HOMEWORK, LESSON, OTHER = "jhl_homework_gpu_week3", "jupyterhub_course_jobset_12", "maintenance"
QUARTER = "--gres=mps:20"


@pytest.fixture(scope="module")
def node(course):
    for name in (HOMEWORK, LESSON, OTHER):
        course.ok(
            f"scontrol create reservation={name} starttime=now duration=60 nodes=ALL users=alice,bob flags=overlap"
        )
    return course


@pytest.fixture(autouse=True)
def clean(node):
    yield
    node.cancel_all()
    assert node.node_state().split()[0] in ("idle", "reserved"), node.node_state()
    node.wait_no_shares()


# What the document's cli_filter says, and what slurmctld says here whatever the client.
@pytest.mark.parametrize("name", ["", OTHER, "JUPYTERHUB_COURSE_1", "jupyterhub_lesson_1", f"{LESSON},{OTHER}"])
def test_a_share_outside_of_the_courses_is_refused(node, name):
    where = [f"--reservation={name}"] if name else []
    for command in (["sbatch", "--wrap", "true"], ["srun", "true"], ["salloc", "true"]):
        result = node.run([command[0], QUARTER, *where, *command[1:]], "alice")
        assert result.returncode != 0
        assert "the share 'mps:20' is allowed only in certain reservations" in result.stderr, result.stderr
        assert "their names contain one of: jhl_homework_gpu, jupyterhub_course_" in result.stderr, (
            result.stderr
        )
        assert "try: --reservation=NAME --gres=mps:20" in result.stderr and "GS121" in result.stderr, result.stderr


def test_shares_of_the_courses_run_and_have_a_gpu_each(node):
    jobs = [
        node.sbatch("--gres=mps:40", f"--reservation={name}", script=f"{OPEN}; sleep 60", user=user)
        for name in (HOMEWORK, LESSON) for user in ("alice", "bob") * 2
    ]
    for job in jobs:
        node.wait(lambda: opened(node.output(job)), f"output of job {job}")
    ledger = node.ledger()
    assert Counter(ledger.values()) == {0: 2, 1: 2, 2: 2, 3: 2}
    for job in jobs:
        assert opened(node.output(job)) == [{ledger[job]}]


def test_whole_gpus_need_no_course(node):
    assert opened(node.run(["srun", "--gres=gpu:1", f"--reservation={OTHER}", OPEN], "alice").stdout) == [{0}]


def test_an_update_does_not_take_a_share_out_of_its_course(node):
    job = node.sbatch("-H", QUARTER, f"--reservation={LESSON}")
    at = lambda: re.search(r" Reservation=(\S+)", node.ok(["scontrol", "-o", "show", "job", job])).group(1)
    for name in (OTHER, ""):
        result = node.run(f"scontrol update job={job} ReservationName={name}", "alice")
        assert result.returncode != 0 and at() == LESSON, name
        if node.newer_than("23.02"):
            assert "GS121" in result.stderr, result.stderr
    node.ok(f"scontrol update job={job} ReservationName={HOMEWORK}", "alice")
    assert at() == HOMEWORK
    outside = node.sbatch("-H")
    prefix = "gres/" if node.newer_than("23.11") else "gres:"
    assert node.run(f"scontrol update job={outside} TresPerNode={prefix}mps:20", "alice").returncode != 0


# --- the frameworks' memory ----------------------------------------------------------------------------------------

PYTORCH = "PYTORCH_CUDA_ALLOC_CONF"
SESSION = (TOP / "docs/examples/profile.d/gpushare.sh").read_text()


def names():
    """The frameworks' variables, from the row of docs/mps.md."""
    row = next(line for line in (TOP / "docs/mps.md").read_text().splitlines() if "with `FrameworkEnv=`" in line)
    return re.findall(r"`([A-Z_]+)`", row.split("|")[1])


def environments(node, *options, own=""):
    """A job and the variables that count for memory, of its batch script and of a step that gets OWN there."""
    script = f"env; echo; {own} srun env; echo over; sleep 60"
    job = node.sbatch(f"--reservation={LESSON}", *options, script=script)
    node.wait(lambda: "\nover\n" in node.output(job), "the job's variables")
    wanted = rf"^({'|'.join(names())}|GPUSHARE_FRACTION|GPUSHARE_MEM_MIB)=(.*)$"
    batch, step = (dict(re.findall(wanted, text, re.M)) for text in node.output(job).split("\n\n", 1))
    return job, batch, step


@contextlib.contextmanager
def pytorch(node):
    """With the value that the example's comment names; nodes read the file for each job."""
    text = node.ok(["cat", CONF])
    assert text.count("FrameworkEnv=yes") == 1
    node.write(CONF, text.replace("FrameworkEnv=yes", "FrameworkEnv=pytorch") + "\n")
    try:
        yield
    finally:
        node.write(CONF, text + "\n")


# Of 80 units, and of 24000 MiB. The document's example is a quarter: set_per_process_memory_fraction(0.25).
@pytest.mark.parametrize(
    "units, fraction, memory", [(20, "0.250", "6000"), (32, "0.400", "9600"), (80, "1.000", "24000")]
)
def test_the_frameworks_are_told_their_part(node, units, fraction, memory):
    expected = {
        "TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": fraction,
        "GPUSHARE_FRACTION": fraction, "GPUSHARE_MEM_MIB": memory,
    }
    _, batch, step = environments(node, f"--gres=mps:{units}")
    assert batch == expected and step == expected


def test_pytorch_is_told_its_part_and_a_users_own_word_stays(node):
    with pytorch(node):
        job, batch, step = environments(node, QUARTER)
        assert set(batch) == {*names(), "GPUSHARE_FRACTION", "GPUSHARE_MEM_MIB"} and step == batch
        assert batch[PYTORCH] == "per_process_memory_fraction:0.250"
        session = f"{SESSION}echo ${PYTORCH}; {PYTORCH}=mine\n{SESSION}echo ${PYTORCH}"
        ssh = f"env SLURM_JOB_ID={job} sh -c {shlex.quote(session)}"
        assert entered(node, job, "alice", ssh).splitlines() == ["per_process_memory_fraction:0.250", "mine"]
        _, batch, step = environments(node, QUARTER, f"--export=ALL,{PYTORCH}=expandable_segments:True")
        assert batch[PYTORCH] == step[PYTORCH] == "expandable_segments:True"
        assert batch["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.250", "the others are the share's"
        _, batch, step = environments(node, "--gres=mps:40", own=f"{PYTORCH}=of_the_script")
        assert batch[PYTORCH] == "per_process_memory_fraction:0.500" and step[PYTORCH] == "of_the_script"


def test_who_has_no_share_is_told_nothing(node):
    with pytorch(node):
        for options in ([], ["--gres=gpu:1"]):
            assert environments(node, *options)[1:] == ({}, {}), options
