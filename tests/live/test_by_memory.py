# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares that are asked for by their GPU memory (MemoryGRES):
what Slurm, the node and the job see is the share in units."""

import pytest
from test_rules import CONF, accepted, configured, refused


@pytest.fixture(autouse=True)
def clean(by_memory):
    yield
    by_memory.tidy()


def test_the_job_has_the_fewest_units_with_that_memory(by_memory):
    job = by_memory.sbatch(
        "--gres=gpumem:12G",
        script="echo $GPUSHARE_UNITS $GPUSHARE_MEM_MIB; srun bash -c 'echo step $GPUSHARE_UNITS'; sleep 60",
    )
    by_memory.wait(lambda: "step" in by_memory.output(job), "the step")
    # 12,288 MiB are 40.96 units.
    assert by_memory.output(job).split() == ["41", "12300", "step", "41"]
    assert by_memory.fields(job)["TresPerNode"].endswith("gpushare:41")
    assert [row["UNITS"] for row in by_memory.shares()] == ["41"], by_memory.shares()
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
        assert refused(by_memory, "GS129", *options) == "--gres=gpushare:80"
    assert refused(by_memory, "GS125", "--gres=gpumem:3000,gpushare:40") == "--gres=gpushare:10"
    if by_memory.newer_than("23.11"):
        assert refused(by_memory, "GS125", "-n1", "--tres-per-task=gres/gpumem:3000") == "-n1 --gres=gpushare:10"
    by_memory.start("--gres=gpushare:80")


def test_no_rule_is_got_round(by_memory):
    own = by_memory.ok(["cat", CONF])
    with configured(by_memory, own + "\nShareSizes=20,40\nMaxCPUsPerGpu=8"):
        job, told = accepted(by_memory, "--gres=gpumem:6001")
        assert by_memory.fields(job)["TresPerNode"].endswith("gpushare:40") and "GS156" in told, told
        assert refused(by_memory, "GS129", "--gres=gpumem:12001") == "--gres=gpushare:40"
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
