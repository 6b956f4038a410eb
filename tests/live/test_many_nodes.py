# SPDX-License-Identifier: GPL-2.0-or-later
"""A controller with 10,000 configured nodes: the same verdicts as with one, and every command of ours works there."""

import time

import many
import pytest
import shares
from clusters import started
from lab import EXAMPLES, RELEASES

COUNT = 10000
# Longer than a command of Slurm's own takes there on a busy machine.
LONG = 120

SHARE = "QOS=qos_lafferty Account=lafferty Users=alice GPUs=a40:4\n"


@pytest.fixture(scope="module", params=RELEASES)
def crowd(request, tmp_path_factory):
    release = request.param
    conf = [EXAMPLES / "contributors", many.overlay(tmp_path_factory.mktemp("many"), COUNT)]
    with started("mn-many", release, conf=conf) as cluster:
        yield cluster


def took(what, start):
    """For the report of whoever runs this by hand (pytest -rP); no test is on it."""
    print(f"{what}: {time.monotonic() - start:.2f} s")


def test_slurmctld_has_them_all_and_the_real_one_runs_jobs(crowd):
    lines = crowd.ok(["scontrol", "-a", "-o", "show", "node"], timeout=LONG).splitlines()
    assert len(lines) == COUNT + 1
    said = crowd.ok(["srun", "--qos=qos_lafferty", "--gres=gpu:a40:1", "echo", "ran"], "alice", timeout=LONG)
    assert said.endswith("ran")


@pytest.mark.parametrize("partition", ["p", "cloud"])
def test_the_verdicts_are_those_of_any_cluster(crowd, partition):
    asked = [
        "sbatch", "--parsable", "--hold", f"--partition={partition}", "--qos=qos_lafferty", "--output=/dev/null",
        "--wrap=true",
    ]
    for request, number in {
        "--gres=gpu:1": "GS101", "--gpus=2": "GS101", "--gres=gpu:k80:1": "GS102", "--gpus-per-task=1": "GS101",
    }.items():
        start = time.monotonic()
        refused = crowd.run([*asked, "-n1", request], "alice", timeout=LONG)
        took(f"refused {request}", start)
        assert refused.returncode != 0 and number in refused.stderr, f"{request}: {refused.stdout}{refused.stderr}"
    start = time.monotonic()
    job = crowd.ok([*asked, "--gres=gpu:a40:1"], "alice", timeout=LONG)
    took("accepted", start)
    crowd.ok([*asked, "-N", "1", "--gpus-per-node=a40:4"], "alice", timeout=LONG)
    crowd.ok(
        ["sbatch", "--hold", "--qos=normal", "--gres=gpu:1", "--output=/dev/null", "--wrap=true"], "alice", timeout=LONG
    )
    prefix = "gres/" if crowd.newer_than("23.11") else "gres:"
    start = time.monotonic()
    changed = crowd.run(["scontrol", "update", f"job={job}", f"TresPerNode={prefix}gpu:2"], "alice", timeout=LONG)
    took("refused change", start)
    assert changed.returncode != 0
    assert "GS101" in (changed.stderr if crowd.newer_than("23.02") else crowd.log("slurmctld")), changed.stderr
    crowd.ok(["scontrol", "update", f"job={job}", f"TresPerNode={prefix}gpu:a40:2"], "alice", timeout=LONG)
    crowd.ok(["scancel", "--user=alice"], timeout=LONG)


def test_explain_agrees_with_slurmctld(crowd):
    for options, refused in ((["--gres=gpu:1"], True), (["--gres=gpu:a40:1"], False)):
        start = time.monotonic()
        said = crowd.run(["gpushare", "explain", "--", "--qos=qos_lafferty", *options], "alice", timeout=LONG)
        took("explain", start)
        assert (said.returncode != 0) == refused, said.stdout + said.stderr


def test_check_conf_and_plan_work(crowd):
    shares.write(crowd, SHARE)
    plan = ["qos", "plan", "--conf", shares.FILE]
    for words in (["check"], ["check", "--json"], ["conf", "slurm"], ["conf", "gres"], plan, ["status"]):
        start = time.monotonic()
        said = crowd.run(["gpushare", *words], timeout=LONG)
        took(" ".join(words[:2]), start)
        assert said.returncode == 0 and said.stdout, said.stdout + said.stderr
