# SPDX-License-Identifier: GPL-2.0-or-later
"""The Ansible role in packaging/ansible on a running cluster, with a real systemd: installed, with a placement,
removed. Jobs run all along, and no run drains a node. Ansible reaches the cluster as root, by a stand-in for ssh that
starts the command in it. All names of an inventory are the cluster's one machine."""

import json
import os
import re
import shutil
import subprocess

import install
import packages
import pytest
from clusters import started
from installed import could_open, healthy, no_step_is_left
from lab import CASES, EXAMPLES, RELEASES, STATE, TOP

ANSIBLE = "/usr/bin/ansible-playbook"
# One release shows it, unless all are wanted. Ansible is as old as this machine's Debian, and may not fit sid's Python.
ONE = ["24.11"] if "24.11" in RELEASES else RELEASES[:1]
WANTED = RELEASES if "GPUSHARE_EVERY_RELEASE" in os.environ else ONE
EXTRA, RULES, STACK = "/etc/slurm/extra.conf", "/etc/slurm/gpushare.conf", "/etc/slurm/plugstack.conf"
SSH = """#!/bin/bash
exec {enter} /proc/{box} root '' sh -c "${{!#}}"
"""
# Each step must end on the node before the next begins on the controller; one machine that is both takes half the time.
TWO, ONE_MACHINE = "[controller]\nhead\n[nodes]\nn1\n[login]\n", "[controller]\nhead\n[nodes]\nhead\n[login]\n"
# Not what Python writes beside its modules, and apt's own.
FILES = "find /usr /etc ! -type d ! -path '*/__pycache__/*' | LC_ALL=C sort"
REFUSED = ["sbatch", "--qos=qos_lafferty", "--gres=gpu:1", "--wrap", "true"]
PLACEMENT = "GetUserEnv=drop\nNodeName={node} Placement=follow UnitsPerGpu=100\nNodeName={node} Placement=off\n"
SITE = "include /etc/slurm/plugstack.conf.d/99-site.conf"


@pytest.fixture(scope="module", params=WANTED)
def cluster(request):
    conf = [EXAMPLES / "follow-mps", CASES / "ansible"]
    with started(
        "ansible", request.param, "v2", conf=conf, plugins=CASES / "install", systemd=True, ssh=True
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def role(cluster, tmp_path_factory):
    """Runs the playbook with some variables: the result, and how many tasks changed anything."""
    if shutil.which(ANSIBLE) is None:
        pytest.skip("NOT TESTED: Ansible, which is not installed")
    folder = tmp_path_factory.mktemp("ansible")
    built = install.built(cluster.release, folder / "built")
    packages.built("deb", TOP, cluster.release, folder / "debs", BUILT=str(built))
    always = {
        "ansible_become": False, "gpushare_packages": str(folder / "debs"), "gpushare_slurm_conf": EXTRA,
        "gpushare_slurmd_service": f"slurmd@{cluster.name}",
    }
    outer = (STATE / "run" / cluster.name / "pid").read_text().strip()
    with open(f"/proc/{outer}/task/{outer}/children") as file:
        box = file.read().split()[0]
    (folder / "ssh").write_text(SSH.format(enter=STATE / "tools/enter", box=box))
    (folder / "ssh").chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_EXECUTABLE": str(folder / "ssh"), "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
        "ANSIBLE_PIPELINING": "1", "ANSIBLE_FORKS": "1", "ANSIBLE_GATHER_SUBSET": "min",
    }

    def run(*words, inventory=ONE_MACHINE, **variables):
        (folder / "inventory.ini").write_text(inventory)
        variables = always | {f"gpushare_{name}": value for name, value in variables.items()}
        playbook = [TOP / "packaging/ansible/gpushare.yml", "-e", json.dumps(variables), *words]
        done = subprocess.run(
            [ANSIBLE, "-i", folder / "inventory.ini", *playbook], env=environment, capture_output=True, text=True,
            timeout=300,
        )
        done.changed = sum(map(int, re.findall(r" changed=(\d+)", done.stdout)))
        return done

    cluster.ok(f"rm {RULES}")
    cluster.ok("systemctl mask --now systemd-networkd.{service,socket} systemd-networkd-wait-online.service")
    cluster.ok("/lab/service stop slurmctld && systemctl start slurmctld", timeout=60)
    # As Slurm's own unit has it: the lab's way to start it leaves no trace in the journal.
    cluster.ok(f"systemctl restart slurmd@{cluster.name}", timeout=60)
    assert healthy(cluster)
    return run


def must(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def said(done):
    """What a run that must fail says of its last task."""
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stdout.split("\nTASK ")[-1]


def starts(cluster):
    """The daemons in the order in which systemd started them last."""
    at = {
        name: int(cluster.ok(f"systemctl show --property ExecMainStartTimestampMonotonic --value {name}"))
        for name in ("slurmctld", f"slurmd@{cluster.name}")
    }
    return [name.split("@")[0] for name in sorted(at, key=at.get)], at


def drained(cluster, command):
    """What it returns, with the node drained and without jobs, as docs/running-cluster.md says."""
    cluster.ok(f"scontrol update node={cluster.name} state=drain reason=gpushare; scancel -u alice")
    cluster.wait(lambda: "State=IDLE+DRAIN" in cluster.ok(f"scontrol show node {cluster.name}"), "a drained node")
    done = command()
    cluster.ok(f"scontrol update node={cluster.name} state=resume")
    assert healthy(cluster)
    return done


def go_on(cluster, job):
    """The job runs, and no node is drained."""
    assert cluster.state(job) == "RUNNING"
    assert "drain" not in cluster.ok(["sinfo", "-h", "-N", "-o", "%T"])
    return True


def test_one_machine_that_is_left_out_or_fails_stops_all_before_anything_is_changed(cluster, role):
    files = cluster.ok(FILES)
    for variable, why in (
        ("gpushare_state=wrong", "gpushare_state 'wrong' must be present or absent"),
        ("ansible_ssh_executable=/bin/false", "n9 failed or can't be reached"),
    ):
        done = role(inventory=f"{ONE_MACHINE}[nodes]\nn9 {variable}\n")
        assert done.returncode and why in done.stdout.split("\nTASK ")[-1] and done.changed == 0, done.stdout
    cluster.ok("ln -s /run /etc/shared")
    wrong = said(role("--limit", "head", inventory=TWO, slurm_conf="/etc/shared/slurm.conf"))
    assert "/etc/shared is shared: run this without --limit" in wrong and "(n1)" in wrong, wrong
    cluster.ok("rm /etc/shared")
    assert cluster.ok(FILES) == files


def test_the_role_from_beginning_to_end(cluster, role):
    cluster.ok(f"echo {SITE} >>{STACK}")
    stack = cluster.ok(["cat", STACK])
    files, extra = cluster.ok(FILES), cluster.ok(["cat", EXTRA])
    job = cluster.sbatch("--gres=gpu:a40:1", script="sleep 1000")
    cluster.wait_state(job, "RUNNING")

    # --check changes nothing, and says that it would.
    assert must(role("--check", hooks=True)).changed > 0
    assert cluster.ok(FILES) == files and cluster.ok(["cat", EXTRA]) == extra

    # Rules in the mode that only logs, and plugin, prolog and epilog that do nothing yet.
    wrong = said(role(conf="Mode=enforce"))
    assert "gpushare_conf must have no line Mode=" in wrong, wrong
    assert must(role(hooks=True, inventory=TWO)).changed > 0
    assert go_on(cluster, job) and starts(cluster)[0] == ["slurmd", "slurmctld"]
    assert cluster.ok(["cat", EXTRA]).splitlines()[-3:] == [
        "Prolog=/usr/sbin/gpushare-prolog", "Epilog=/usr/sbin/gpushare-epilog", "JobSubmitPlugins=gpushare",
    ]
    assert cluster.ok(["cat", f"{EXTRA}.before-gpushare"]) == extra
    assert cluster.ok(["cat", STACK]) == f"{stack}\ninclude /etc/slurm/plugstack.conf.d/*.conf"
    assert cluster.ok(f"cat {STACK}.*~") == stack
    assert "GetUserEnv" not in cluster.ok(["cat", RULES])
    assert cluster.run(REFUSED, "alice").returncode == 0
    assert ", 0 wrong, " in cluster.ok("gpushare check")

    # slurmctld has the settings, but it and slurmd are older than the packages and Slurm's files.
    cluster.ok(f"""sed -i.site '/^JobSubmitPlugins=/s/=.*/="gpushare"/' {EXTRA}""")
    assert "has JobSubmitPlugins= with quotes" in said(role(hooks=True))
    cluster.ok(f"mv {EXTRA}.site {EXTRA}")
    slurmd, first = f"slurmd@{cluster.name}", starts(cluster)[1]
    must(role(hooks=True, inventory=TWO))
    then = starts(cluster)[1]
    assert then["slurmctld"] == first["slurmctld"] and then[slurmd] > first[slurmd]
    cluster.ok("dpkg -i /var/cache/apt/archives/gpushare*.deb", timeout=60)
    must(role(hooks=True, inventory=TWO))
    before = starts(cluster)
    assert before[1]["slurmctld"] > first["slurmctld"] and before[1][slurmd] == then[slurmd]
    assert go_on(cluster, job)
    again = must(role(hooks=True, inventory=TWO))
    assert again.changed == 0 and starts(cluster) == before, again.stdout

    # A mistake in gpushare.conf reaches no machine.
    rules = cluster.ok(["cat", RULES])
    assert "line 3: unknown key" in said(role(hooks=True, conf="Placment=own"))
    assert cluster.ok(["cat", RULES]) == rules

    # A placement, once the node is drained; then the rules are enforced, without a restart.
    conf = PLACEMENT.format(node=cluster.name)
    wrong = said(role(hooks=True, conf=conf))
    assert f"another placement for {cluster.name}. Drain it" in wrong, wrong
    assert cluster.ok(["cat", RULES]) == rules and go_on(cluster, job)
    must(drained(cluster, lambda: role(hooks=True, conf=conf, mode="enforce")))
    assert starts(cluster) == before
    assert len(could_open(cluster, "--gres=mps:50")[0]) == 1
    cluster.wait(lambda: cluster.run(REFUSED, "alice").returncode != 0, "the rules in force")
    assert "GS101" in cluster.run(REFUSED, "alice").stderr or cluster.release == "22.05"
    assert ", 0 wrong, " in cluster.ok("gpushare check")
    for other in (conf + "GpuFile=/dev/nvidia[0-3]\n", "\n".join(sorted(conf.split("\n"), reverse=True))):
        wrong = said(role(hooks=True, conf=other, mode="enforce"))
        assert f"another placement for {cluster.name}. Drain it" in wrong, wrong

    # Removed: not with a placement, and a package not before the jobs have ended that have its plugin.
    wrong = said(role(state="absent"))
    assert "has a Placement: first end the shares" in wrong, wrong
    must(drained(cluster, lambda: role(hooks=True)))
    job = cluster.sbatch("--gres=gpu:a40:1", script="sleep 1000")
    cluster.wait(lambda: cluster.run("pgrep -f 'sleep 1000'").stdout, "the job's program")
    cluster.ok(f"truncate --size -1 {EXTRA}")
    wrong = said(role(state="absent"))
    assert "gpushare-slurmd: Slurm still needs it, and would fail: running steps" in wrong, wrong
    assert go_on(cluster, job) and starts(cluster)[0] == ["slurmctld", "slurmd"]
    assert cluster.ok(["cat", EXTRA]) == extra
    cluster.ok(["scancel", job])
    cluster.finished(job)
    assert no_step_is_left(cluster)
    must(role(state="absent", inventory=TWO))
    left = set(cluster.ok(FILES).splitlines()) - set(files.splitlines())
    assert left == {RULES, f"{EXTRA}.before-gpushare", cluster.ok(f"echo {STACK}.*~").strip()}, left
    assert len(could_open(cluster, "--gres=gpu:a40:2")[0]) == 2 and healthy(cluster)
