# SPDX-License-Identifier: GPL-2.0-or-later
"""Under a governed QOS every GPU must be asked for by a type that counts, whatever the command and the option."""

import re

import client
import pytest
from lab import TOP

QOS = "--qos=qos_lafferty"

# option without a type, the same with one
OPTIONS = {
    "gres": (["--gres=gpu:2"], ["--gres=gpu:a40:2"]),
    "gpus": (["--gpus=2"], ["--gpus=a40:2"]),
    "gpus-per-node": (["--gpus-per-node=2"], ["--gpus-per-node=a40:2"]),
    "gpus-per-task": (["-n2", "--gpus-per-task=1"], ["-n2", "--gpus-per-task=a40:1"]),
    "gpus-per-socket": (
        ["--sockets-per-node=2", "--gpus-per-socket=1"],
        ["--sockets-per-node=2", "--gpus-per-socket=a40:1"],
    ),
}
COMMANDS = {
    "sbatch": lambda options: ["sbatch", "-o", "/dev/null", *options, "--wrap", "true"],
    "srun": lambda options: ["srun", *options, "true"],
    "salloc": lambda options: ["salloc", *options, "true"],
}
STRERROR = "Invalid generic resource (gres) specification"


def submit(cluster, command, options, user="alice"):
    return cluster.run(COMMANDS[command](options), user)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_untyped_is_refused_and_typed_is_accepted(contributors, command, option):
    untyped, typed = OPTIONS[option]
    refused = submit(contributors, command, [QOS, *untyped])
    assert refused.returncode != 0
    assert "gpushare: QOS 'qos_lafferty' requires a GPU type" in refused.stderr, refused.stderr
    assert "GS101" in refused.stderr and STRERROR in refused.stderr, refused.stderr
    accepted = submit(contributors, command, [QOS, *typed])
    assert accepted.returncode == 0, accepted.stderr


@pytest.mark.parametrize("option", OPTIONS)
def test_the_command_in_the_message_works(contributors, option):
    """What the user is told to type is accepted as it stands; other options stay as they were."""
    untyped, _ = OPTIONS[option]
    refused = submit(contributors, "sbatch", [QOS, *untyped])
    advice = re.search(r"try: (.*)", refused.stderr).group(1).split()
    others = [word for word in untyped if not word.startswith(("--gres", "--gpus"))]
    accepted = submit(contributors, "sbatch", [*advice, *others])
    assert accepted.returncode == 0, f"{advice}: {accepted.stderr}"


@pytest.mark.parametrize("option", OPTIONS)
def test_without_the_plugin_slurm_accepts_untyped(plain, option):
    """The hole is there: what the plugin refuses, Slurm alone would have started beyond the limit."""
    untyped, _ = OPTIONS[option]
    accepted = submit(plain, "sbatch", [QOS, *untyped])
    assert accepted.returncode == 0, accepted.stderr


def test_without_the_plugin_more_runs_than_the_group_owns(plain):
    """Four A40s are all the node has, so the limit is lowered to one to see jobs beyond it."""
    plain.cancel_all()
    plain.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/gpu:a40=1")
    jobs = [plain.sbatch(QOS, "--gres=gpu:1") for _ in range(3)]
    for job in jobs:
        plain.wait_state(job, "RUNNING")
    plain.cancel_all()


def test_other_qos_may_ask_untyped(contributors):
    assert submit(contributors, "sbatch", ["--gres=gpu:2"]).returncode == 0
    assert submit(contributors, "sbatch", ["--qos=normal", "--gpus=2"]).returncode == 0


def test_jobs_without_gpus_pass_under_a_governed_qos(contributors):
    assert submit(contributors, "sbatch", [QOS]).returncode == 0


def test_the_name_of_the_qos_is_compared_as_slurm_does(contributors):
    refused = submit(contributors, "sbatch", ["--qos=QOS_Lafferty", "--gres=gpu:2"])
    assert "QOS 'qos_lafferty' requires a GPU type" in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    "number, options",
    [
        ("GS102", ["--gres=gpu:mAA0zxtUzzzz:1"]),  # hashes like a40, so Slurm schedules it there, uncounted
        ("GS103", ["--gres=gpu:3090:1"]),
        ("GS104", ["--gres=gpu:a40=x=1"]),
        ("GS105", ["-n2", "--ntasks-per-gpu=1"]),
    ],
    ids=["hash-look-alike", "foreign-type", "unreadable", "ntasks-per-gpu"],
)
def test_other_ways_round_are_refused(contributors, number, options):
    refused = submit(contributors, "sbatch", [QOS, *options])
    if number == "GS104" and not contributors.newer_than("23.11"):
        assert refused.returncode != 0, "the sbatch of old releases refuses it itself"
        return
    assert refused.returncode != 0 and number in refused.stderr, refused.stderr
    advice = re.search(r"try: (.*)", refused.stderr).group(1).split()
    others = [word for word in options if word.startswith("-n")]
    assert submit(contributors, "sbatch", [*advice, *others]).returncode == 0, advice


def test_a_type_may_be_a_number(contributors):
    refused = submit(contributors, "sbatch", ["--qos=qos_numbers", "--gres=gpu:1"])
    assert "try: --qos=qos_numbers --gres=gpu:3090:1" in refused.stderr, refused.stderr
    for option in ("--gres=gpu:3090:1", "--gpus=3090:1"):
        accepted = submit(contributors, "sbatch", ["--qos=qos_numbers", option])
        assert accepted.returncode == 0, accepted.stderr


def test_ntasks_per_gpu_is_advised_with_all_the_gpus_it_would_take(contributors):
    refused = submit(contributors, "sbatch", [QOS, "-n4", "--ntasks-per-gpu=2"])
    assert "try: --qos=qos_lafferty -n4 --gpus=a40:2 --ntasks-per-gpu=2" in refused.stderr, refused.stderr


def test_a_list_with_a_governed_qos_is_refused(contributors):
    refused = submit(contributors, "sbatch", ["--qos=normal,qos_lafferty", "--gres=gpu:a40:1"])
    assert refused.returncode != 0 and "GS106" in refused.stderr, refused.stderr
    assert "Invalid qos specification" in refused.stderr
    advice = re.search(r"try: (.*)", refused.stderr).group(1).split()
    assert submit(contributors, "sbatch", [*advice, "--gres=gpu:a40:1"]).returncode == 0, advice


def test_the_comma_form_is_taken_apart(contributors):
    """`--qos=NAME,--gres=…` is one QOS to Slurm; users are told the two options."""
    refused = submit(contributors, "sbatch", ["--qos=qos_lafferty,--gres=gpu:a40:2"])
    assert "GS107" in refused.stderr, refused.stderr
    advice = re.search(r"try: (.*)", refused.stderr).group(1).split()
    assert submit(contributors, "sbatch", advice).returncode == 0


def test_a_default_qos_is_governed_too(contributors):
    contributors.ok("sacctmgr -i modify user bob set defaultqos=qos_lafferty")
    try:
        def refused():
            return "GS101" in submit(contributors, "sbatch", ["--gres=gpu:2"], user="bob").stderr
        contributors.wait(refused, "slurmctld to hear of the new default QOS")
        job = contributors.sbatch("-H", "--gres=gpu:a40:1", user="bob")
        shown = contributors.ok(["squeue", "-h", "-j", job, "-o", "%q"])
        assert shown == "qos_lafferty"
    finally:
        contributors.ok("sacctmgr -i modify user bob set defaultqos=normal")
        contributors.cancel_all()


def test_test_only_gives_the_same_answer(contributors):
    refused = contributors.run(["sbatch", "--test-only", QOS, "--gres=gpu:2", "--wrap", "true"], "alice")
    assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stderr


def test_every_refusal_is_one_line_in_the_log(contributors):
    submit(contributors, "sbatch", [QOS, "--gres=gpu:3"])
    lines = [line for line in contributors.log("slurmctld").splitlines() if "asked='gpu:3'" in line]
    assert len(lines) == 1, lines
    assert "job_submit/gpushare: refused GS101 uid=2001 qos='qos_lafferty'" in lines[0]


def test_messages_are_explained(contributors):
    assert "--gres=gpu:TYPE:COUNT" in contributors.ok(["gpushare", "explain", "GS101"], "alice")


def test_an_empty_request_is_slurms_to_judge(contributors):
    result = submit(contributors, "sbatch", [QOS, "--gres="])
    assert "gpushare" not in result.stderr, result.stderr
    if contributors.newer_than("23.11"):
        assert result.returncode == 0, result.stderr


def test_what_is_too_long_for_slurm_is_refused_at_once(contributors, tmp_path):
    """A program of the user's own sends a megabyte; nothing is looked up for it while slurmctld holds its locks."""
    program = client.compiled(
        TOP / "tests/live/tools/submit-raw.c", contributors.release, tmp_path / "submit-raw", "-lslurm"
    )
    client.install(contributors, program, "/lab/out/submit-raw")
    prefix = "gres/" if contributors.newer_than("23.11") else "gres:"
    contributors.ok(f"yes {prefix}gpu:a40:1 | head -60000 | paste -sd, > /lab/out/long")
    refused = contributors.run("/lab/out/submit-raw qos_lafferty @/lab/out/long", "alice")
    assert refused.returncode != 0 and "GS108" in refused.stderr, refused.stderr
    assert len(refused.stderr) < 1000
    assert contributors.run("/lab/service status slurmctld").returncode == 0
