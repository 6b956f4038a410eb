# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings that many sites have: a node with another name than its machine, several prologs, a shell on the node for
salloc. And mistakes there that drain nodes or stop slurmd, which `gpushare check` must say."""

import json
import re

import pytest
from gpus import OPEN, SHARES, entered, opened
from terminal import Terminal

HALF = SHARES["own"].half_gpu
CGROUP = "/etc/slurm/cgroup.conf"


@pytest.fixture(scope="module")
def site(shapes):
    """Prologs and epilogs of its own around gpushare's."""
    for one in ("prolog", "epilog"):
        folder = f"/etc/slurm/{one}.d"
        own = f"printf '#!/bin/sh\\nexit 0\\n' >{folder}/10-own && chmod 755 {folder}/10-own"
        shapes.ok(f"mkdir {folder} && {own} && cp {folder}/10-own {folder}/90-own && touch {folder}/.keep")
        shapes.ok(f"ln -s /usr/sbin/gpushare-{one} {folder}/50-gpushare")
    return shapes


@pytest.fixture
def shape(site):
    yield site
    site.tidy()


def wrong(cluster, node=None):
    """[(about, said, fix)] of what is wrong; here a machine sees the slurmd of the other one, too."""
    found = json.loads(cluster.run(["gpushare", "check", "--json"], node=node).stdout)["findings"]
    found = [one for one in found if one["status"] == "wrong" and one["about"] != "slurmd"]
    return [(one["about"], one["said"], one["fix"]) for one in found]


def test_each_kind_of_step_can_open_the_jobs_gpu(shape):
    steps = ["", "--overlap", "--exclusive", "--whole", "--gres=none", "--gpu-bind=map_gpu:3", "--interactive"]
    script = "; ".join([OPEN, *(f"srun {step} {OPEN}" for step in steps), "sleep 100"])
    other = shape.start(HALF)[0]
    job, gpu = shape.start(HALF, "-t1", script=script)
    shape.wait(lambda: len(opened(shape.output(job))) == 1 + len(steps), "the steps")
    outside = f"srun --jobid={job} --overlap {OPEN}"

    def all_open():
        said = "\n".join([shape.output(job), shape.ok(outside, "alice"), entered(shape, job, "alice", OPEN)])
        assert opened(said) == [{int(gpu)}] * (3 + len(steps)), said

    all_open()
    for what in ("/lab/service restart slurmd", "scontrol reconfigure"):
        shape.ok(what)
        assert set(shape.ledger()) == {job, other}
    shape.wait(lambda: shape.run(f"timeout 10 {outside}", "alice").returncode == 0, "a step")
    all_open()
    shape.ok(f"scontrol requeuehold {job}")
    shape.wait(lambda: set(shape.ledger()) == {other}, "the release")


def test_salloc_gives_a_shell_in_the_fence(shape):
    command = shape.inside("salloc", HALF, user="alice")
    with Terminal(command) as terminal:
        terminal.type(f"{OPEN}; srun {OPEN}; env | grep -c ^GPUSHARE_GPU=0; exit\n")
        shape.wait(lambda: not terminal.read(0.1), "the end")
    said = terminal.text().replace("\r", "")
    assert opened(said) == [{0}, {0}] and "\n1\n" in said, said


def test_a_node_with_another_name_than_its_machine_is_known(shape):
    [node] = shape.findings("node")
    assert (node["status"], node["said"]) == ("ok", "GPU-01 is IDLE") and not wrong(shape), wrong(shape)
    assert "NodeName=GPU-01 " in shape.ok("gpushare conf gres")
    job = shape.start(HALF)[0]
    assert "from this node's ledger" in shape.ok(f"gpushare explain {job}", "alice")


def test_a_node_without_gpus_needs_nothing(shape):
    assert opened(shape.ok(["srun", "-pcpu", OPEN], "alice")) == [set()]
    assert not wrong(shape, "cpu1"), wrong(shape, "cpu1")


@pytest.mark.parametrize("file", ["README", "sub/"])
def test_a_file_that_is_no_program_among_the_prologs_is_found(shape, file):
    """Slurm runs whatever the pattern names, and drains the node if it can't."""
    path = f"/etc/slurm/prolog.d/{file.rstrip('/')}"
    shape.ok(f"mkdir {path}" if file.endswith("/") else f"touch {path}")
    try:
        [(about, said, fix)] = wrong(shape)
        assert about == "Prolog" and f"can't run {path}:" in said, said
        shape.sbatch(HALF)
        shape.wait(lambda: "Prolog error" in shape.node_state(), "a drained node")
    finally:
        shape.ok(f"rm -r {path}")
    shape.cancel_all()
    shape.ok("scontrol update nodename=GPU-01 state=resume")
    shape.wait(lambda: not wrong(shape), "nothing wrong")


def test_an_empty_folder_of_prologs_is_found(shape):
    shape.ok("mv /etc/slurm/epilog.d /etc/slurm/away && mkdir /etc/slurm/epilog.d && touch /etc/slurm/epilog.d/.keep")
    try:
        [(about, said, fix)] = wrong(shape)
        assert about == "Epilog" and "/etc/slurm/epilog.d/*" in said and "put a program there" in fix, (said, fix)
    finally:
        shape.ok("rm -r /etc/slurm/epilog.d && mv /etc/slurm/away /etc/slurm/epilog.d")


def test_cgroups_that_are_switched_off_are_the_first_to_mend(shape):
    """What else is wrong doesn't matter without."""
    conf = shape.ok(["cat", CGROUP])
    shape.write(CGROUP, "CgroupPlugin=disabled\n")
    try:
        [(about, _, fix)] = wrong(shape)
        assert about == "CgroupPlugin", about
        line = re.search(r": (\S+); then restart slurmd on ", fix)[1]
        shape.write(CGROUP, line + "\nIgnoreSystemd=yes\n")
        shape.ok("/lab/service restart slurmd", timeout=90)
        # gpushare's own filter needs neither Slurm's nor its task plugin.
        assert not wrong(shape)
        assert opened(shape.ok(["srun", HALF, OPEN], "alice")) == [{0}]
    finally:
        shape.write(CGROUP, conf)
        shape.ok("/lab/service restart slurmd", timeout=90)
