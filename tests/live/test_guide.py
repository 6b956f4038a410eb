# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/guide.md and docs/users.md, gone through as they stand:
every command is run and prints what the page says."""

import re
import signal
import subprocess
import sys

import pytest
from lab import EXAMPLES
from pages import steps

ETC = "/etc/slurm"
USERS = ("alice", "bob", "carol", "dave", "erin")

# The nodes are in one box: a command on one of them sees that node's GPUs and name only.
AS_NODE = r"""
node=$1 first=$2
mount -t tmpfs tmpfs /mnt && mkdir /mnt/dev /mnt/gpus &&
    cp -ax /dev/. /mnt/dev && cp -a /proc/driver/nvidia/gpus/. /mnt/gpus
for minor in {0..11}; do
    if ((minor < first || minor > first + 3)); then
        rm -r /mnt/dev/nvidia$minor /mnt/gpus/$(printf 0000:%02x:00.0 $((minor + 1)))
    fi
done
# The other machines' slurmds.
for process in /proc/[0-9]*; do
    if [[ $(cat $process/comm) == slurmd* ]] && ! grep -qzx -- $node $process/cmdline; then
        mount -t tmpfs tmpfs $process
    fi
done 2>/dev/null
mount --bind /mnt/gpus /proc/driver/nvidia/gpus && mount --bind /mnt/dev /dev && hostname $node && exec bash -c "$3"
"""
FIRST_GPU = {"gpu1": 0, "gpu2": 4, "course1": 8}


def on_node(cluster, node, command):
    return cluster.run(["unshare", "--uts", "--mount", "bash", "-c", AS_NODE, "-", node, FIRST_GPU[node], command])


def run(cluster, step):
    """What the command of a step prints, and whether it succeeded."""
    # There is no systemd in the box.
    command = re.sub(r"systemctl restart (slurmctld|slurmd)\b", r"/lab/service restart \1", step.command)
    command += "\n" if "<<" in command else ""
    if step.who in FIRST_GPU:
        result = on_node(cluster, step.who, f"exec 2>&1; {command}")
    else:
        user = step.who if step.who in USERS else "root"
        result = cluster.run(f"exec 2>&1; {command}", user)
    # Of which the page speaks once.
    shown = re.sub(r"(?m)^gpushare: \S+ line \d+: warning: before Slurm 25\.05, .*\n", "", result.stdout)
    return shown.replace(cluster.name, "head"), result.returncode == 0


def perform(cluster, step):
    """Runs a step; what it prints must become what the page says."""
    where = f"{step.section}, line {step.line}: {step.who} {step.command}"
    name = step.command.removeprefix("cat ")
    if (
        step.who in USERS
        and name != step.command
        and step.said
        and cluster.run(["test", "-e", name], step.who).returncode
    ):
        # The page's user has written it; some are made by jobs.
        if step.said[0].startswith("#!"):
            cluster.ok(f"cat >{name}", step.who, stdin="\n".join(step.said) + "\n")
            return
    outputs = []

    def is_said():
        output, good = run(cluster, step)
        outputs.append(output)
        return step.is_said(output) and (good or step.said)

    try:
        if not is_said():
            assert step.looks
            cluster.wait(is_said, where)
    except AssertionError as late:
        shown = f"prints at first\n{outputs[0]}\nand last\n{outputs[-1]}"
        raise AssertionError(f"{where}\n{shown}\n{late}") from None


def go_through(cluster, page, sections):
    found = [step for step in steps(f"docs/{page}") if sections(step.section)]
    assert len(found) > 10, found
    for step in found:
        perform(cluster, step)
        if step.command.startswith("gpushare qos apply"):
            cluster.wait(lambda: knows_all(cluster), "slurmctld to know the accounts and their users")


def knows_all(cluster):
    """Whether slurmctld has the database's associations; sacctmgr doesn't wait for that."""
    known = re.findall(r" ID=(\d+) ", cluster.ok("scontrol -o show assoc_mgr flags=assoc"))
    return set(known) == set(cluster.ok("sacctmgr -nP show assoc format=id").split())


@pytest.fixture(scope="module")
def begun(guide):
    """The cluster with programs, plugins and users; nothing is configured."""
    name, folder = guide.name, EXAMPLES / "guide"
    for user in USERS[2:]:
        guide.ok(["useradd", "--create-home", user])
    guide.ok(["tee", f"{ETC}/gpushare.conf"], stdin=(folder / "gpushare.conf").read_text())
    nodes = (folder / "nodes.conf").read_text().replace("@NODE@", name)
    if not guide.newer_than("23.11"):
        nodes = nodes.replace("SelectTypeParameters", "#SelectTypeParameters")
    # A requeued job starts again only when the credential of its first start has run out: two minutes, if nobody says
    # so.
    guide.ok(["tee", f"{ETC}/nodes.conf"], stdin=nodes + "AuthInfo=cred_expire=5\n")
    return guide


def is_before_users(section):
    return int(section.split(".")[0]) < 8


def test_the_cluster_is_set_up_as_the_guide_says(begun):
    go_through(begun, "guide.md", is_before_users)


def test_users_do_what_their_page_says(begun):
    go_through(begun, "users.md", lambda section: True)
    first, then = re.findall(r"^from (\d+)$", begun.ok("cat train.out", "alice"), re.M)
    assert int(first) == 0 and int(then) >= 5, "it went on where it was"
    begun.cancel_all()


def test_the_days_after_are_as_the_guide_says(begun):
    go_through(begun, "guide.md", lambda section: not is_before_users(section))


def test_the_checkpoint_in_python(tmp_path):
    def start():
        return subprocess.Popen([sys.executable, EXAMPLES / "checkpoint/train.py"], cwd=tmp_path)

    first = start()
    while not (tmp_path / "state.json").exists() and first.poll() is None:
        pass
    first.send_signal(signal.SIGTERM)
    assert first.wait(20) == 85
    state = (tmp_path / "state.json").read_text()
    second = start()
    assert second.wait(20) == 0
    assert 1 <= int(re.search(r"\d+", state).group()) < 30, "it was stopped on its way"
    assert "30" in (tmp_path / "state.json").read_text()
