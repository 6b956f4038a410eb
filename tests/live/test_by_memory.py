# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares that are asked for by their GPU memory (MemoryGRES):
what Slurm, the node and the job see is the share in units."""

import pytest
from test_rules import CONF, accepted, configured, refused


@pytest.fixture
def by_memory(by_memory):
    yield by_memory
    by_memory.tidy()


@pytest.fixture
def mixed(by_memory_nodes):
    yield by_memory_nodes
    by_memory_nodes.cancel_all()


def test_the_job_has_the_fewest_units_with_that_memory(by_memory):
    job = by_memory.sbatch(
        "--gres=gpumem:12G",
        script="echo $GPUSHARE_UNITS $GPUSHARE_MEM_MIB; srun bash -c 'echo step $GPUSHARE_UNITS'; sleep 60",
    )
    by_memory.wait(lambda: "step" in by_memory.output(job), "the step")
    # 12,288 MiB are 40.96 units.
    assert by_memory.output(job).split() == ["41", "12300", "step", "41"]
    assert by_memory.fields(job)["TresPerNode"].endswith("gpushare:41")
    assert [row["units"] for row in by_memory.shares()] == [41], by_memory.shares()
    # A whole GPU, which is another one than the first job's.
    other, gpu = by_memory.start("--gres=gpumem:24000")
    assert by_memory.ledger()[job] != int(gpu)
    _, told = accepted(by_memory, "--gres=gpumem:12G")
    expected = "gpushare: 'gpumem:12G' was changed to 'gpushare:41', a share with 12300M of GPU memory (GS156)"
    assert expected in told, told
    said = by_memory.ok(["gpushare", "explain", "--", "--gres=gpumem:12G"])
    assert said.startswith("accepted") and "no node has" not in said, said


def test_interactive_jobs_too(by_memory):
    said = by_memory.ok(["salloc", "-Q", "--gres=gpumem:6000", "srun", "bash", "-c", "echo $GPUSHARE_UNITS"], "alice")
    assert said.splitlines()[-1] == "20"
    result = by_memory.run(["srun", "-Q", "--gres=gpumem:6000", "bash", "-c", "echo $GPUSHARE_UNITS"], "alice")
    if by_memory.newer_than("23.02"):
        assert result.stdout.strip() == "20", result.stderr
    else:
        # srun names its own option for the step again.
        assert result.returncode != 0 and "not found in the job" in result.stderr, result.stderr


def test_what_is_no_share_is_refused_and_the_advice_works(by_memory):
    for options in (["--gres=gpumem:24001"], ["--gres=gpumem:1T"]):
        assert refused(by_memory, "GS129", *options) == "--gres=gpumem:24000"
    assert refused(by_memory, "GS125", "--gres=gpumem:3000,gpushare:40") == "--gres=gpumem:3000"
    if by_memory.newer_than("23.11"):
        assert refused(by_memory, "GS125", "-n1", "--tres-per-task=gres/gpumem:3000") == "-n1 --gres=gpumem:3000"
    by_memory.start("--gres=gpumem:24000")


def test_no_rule_is_got_round(by_memory):
    own = by_memory.ok(["cat", CONF])
    with configured(by_memory, own + "\nShareSizes=20,40\nMaxCPUsPerGpu=8"):
        job, told = accepted(by_memory, "--gres=gpumem:6001")
        assert by_memory.fields(job)["TresPerNode"].endswith("gpushare:40") and "GS156" in told, told
        assert refused(by_memory, "GS129", "--gres=gpumem:12001") == "--gres=gpumem:12000"
        refused(by_memory, "GS127", "--gres=gpumem:6000", "-c3")
    with configured(by_memory, own + "\nShareReservations=course"):
        refused(by_memory, "GS121", "--gres=gpumem:6000")


def test_an_update_can_name_memory_but_not_another_share(by_memory):
    prefix = "gres/" if by_memory.newer_than("23.11") else "gres:"
    job, _ = accepted(by_memory, "--gres=gpumem:6000")
    # The node has only the note of the submission (GS124).
    assert by_memory.run(f"scontrol update job={job} TresPerNode={prefix}gpumem:12000", "alice").returncode != 0
    by_memory.ok(f"scontrol update job={job} TresPerNode={prefix}gpumem:6000", "alice")
    assert by_memory.fields(job)["TresPerNode"].endswith("gpushare:20")


def test_without_the_key_slurm_has_no_such_thing(by_memory):
    """Nothing but the rule lets it run."""
    own = by_memory.ok(["cat", CONF])
    with configured(by_memory, own.replace("MemoryGRES=gpumem", "")):
        result = by_memory.run(["sbatch", "-o", "/dev/null", "--gres=gpumem:6000", "--wrap", "true"], "alice")
        assert result.returncode != 0 and "configuration is not available" in result.stderr, result.stderr


def memories(cluster, *options, count=1):
    """[(node, units, MiB)] of jobs that run with a share."""
    script = "echo $SLURMD_NODENAME $GPUSHARE_UNITS $GPUSHARE_MEM_MIB; sleep 100"
    jobs = [cluster.sbatch(*options, script=script) for _ in range(count)]
    for job in jobs:
        cluster.wait(lambda: len(cluster.output(job).split()) == 3, f"the output of job {job}")
    said = [cluster.output(job).split() for job in jobs]
    return sorted((node, int(units), int(mebibytes)) for node, units, mebibytes in said)


def test_each_type_of_gpu_in_a_partition_gives_the_memory(mixed):
    """36 units of an A40 would be enough, and 40 of an A100 are needed. A T4 is smaller."""
    expected = [("n1", 40, 23000)] * 8 + [("n2", 40, 20480)] * 4
    assert memories(mixed, "--gres=gpumem:20G", count=12) == expected
    _, told = accepted(mixed, "--gres=gpumem:20G")
    assert "'gpumem:20G' was changed to 'gpushare:40', a share with 20G of GPU memory (GS156)" in told, told
    # By its units it would fit on a T4.
    job = mixed.sbatch("--gres=gpumem:20G")
    mixed.wait(lambda: mixed.fields(job)["Reason"] in ("Resources", "Priority"), "a job that waits for a GPU")
    assert mixed.fields(job)["ExcNodeList"] == "n3"


def test_the_nodes_that_a_job_names_decide(mixed):
    assert memories(mixed, "-wn1", "--gres=gpumem:20G") == [("n1", 36, 20700)]
    assert memories(mixed, "-wn3", "--gres=gpumem:15000") == [("n3", 79, 15168)]
    assert memories(mixed, "--gres=gpumem:44G") == [("n1", 79, 45425)]
    assert refused(mixed, "GS129", "-wn3", "--gres=gpumem:20G") == "--gres=gpumem:15360"
    assert refused(mixed, "GS129", "--gres=gpumem:60G") == "--gres=gpumem:46000"


def test_units_may_differ_instead_of_their_memory(mixed):
    """Each unit is 500 MiB, as docs/gpushare.conf.md recommends."""
    text = mixed.ok(["cat", CONF]).split("UnitsPerGpu")[0]
    more = "UnitsPerGpu=92\nMemPerUnit=500\nMemoryGRES=gpumem\nNodeName=n2 UnitsPerGpu=81\nNodeName=n3 UnitsPerGpu=30"
    with configured(mixed, text + more):
        assert memories(mixed, "-wn1", "--gres=gpumem:20G") == [("n1", 41, 20500)]
        assert memories(mixed, "-wn2", "--gres=gpumem:20G") == [("n2", 41, 20500)]
        assert memories(mixed, "-wn3", "--gres=gpumem:15000") == [("n3", 30, 15000)]
        job, _ = accepted(mixed, "--gres=gpumem:20G")
        assert mixed.fields(job)["ExcNodeList"] == "n3"
