# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare status`: of the cluster as anybody sees it (--nodes, --collected), in colours or without, and with names
that would take a terminal over."""

import json
import os
import re
import subprocess
import time

import pytest
from lab import BUILDS, RELEASES
from terminal import Terminal

PROGRAM = BUILDS / RELEASES[0] / "gpushare"
# The share's GRES, what fills a GPU, and a share.
SHARES = {
    "follow-mps": ("mps", 100, 40), "follow-shard": ("shard", 8, 3), "own": ("gpushare", 80, 40),
    "override": ("mps", 80, 40),
}
NASTY = "\x1b[31mred\x1b]0;title\x07\u009b2J|\"\\\n   UserId=root(0)\n"


def obeyed(text):
    """What of a text a terminal would obey."""
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@pytest.fixture
def node(status_nodes):
    status_nodes.cancel_all()
    yield status_nodes
    status_nodes.cancel_all()
    status_nodes.wait_no_shares()


def nodes(node, *options, user="alice"):
    return node.status("--nodes", *options, user=user)["nodes"]


def users(row):
    return sorted({job["user"] or "?" for job in row["jobs"]})


def on(row, gpu):
    """The jobs on a GPU."""
    return [str(job["job"]) for job in row["jobs"] if gpu["index"] in job["gpus"]]


def three_shares(node):
    gres, _, units = SHARES[node.kind]
    return [node.start(f"--gres={gres}:{units}", user=user)[0] for user in ("alice", "bob", "alice")]


def test_anybody_sees_the_cluster_as_slurm_counts_it(node):
    gres, full, units = SHARES[node.kind]
    [row] = nodes(node)
    empty = {
        "node": node.name, "state": "idle", "usable": True, "reason": None, "gpu_count": 4, "whole": 0, "units": 0,
        "free": 4 * full, "capacity": 4 * full, "gpus": row["gpus"], "jobs": [], "partitions": row["partitions"],
        "age": None,
    }
    assert row["partitions"]
    assert {**row, "state": row["state"].replace("planned", "idle")} == empty
    jobs = three_shares(node)
    [row] = nodes(node)
    expected = {"state": "mixed", "units": 3 * units, "free": 4 * full - 3 * units}
    assert row == {**empty, **expected, "gpus": row["gpus"], "jobs": row["jobs"]}
    assert [str(job["job"]) for job in row["jobs"]] == jobs and users(row) == ["alice", "bob"], row
    if node.kind in ("own", "override"):
        # Only the node knows which GPU it is.
        assert row["gpus"] == [] and all(job["gpus"] == [] for job in row["jobs"]), row
    else:
        by_ledger = node.ledger()
        for index, gpu in enumerate(row["gpus"]):
            mine = [job for job in jobs if by_ledger[job] == index]
            assert (gpu["index"], gpu["whole"]) == (index, False) and on(row, gpu) == mine, row
            assert gpu["units"] == units * len(mine) and gpu["units"] + gpu["free"] == gpu["capacity"] == full, row
        assert len(row["gpus"]) == 4
    # What people get has the same, and the sums.
    shown = node.ok(["gpushare", "status", "--nodes"], "alice")
    assert f"1 node: 4 GPUs, 0 whole; {3 * units} of {4 * full} units in use" in shown, shown
    assert "3 jobs of 2 users" in shown, shown
    shown = node.ok(["gpushare", "status", "--nodes", node.name, "--gpus"], "bob")
    assert len(shown.splitlines()) == 3 + max(len(row["gpus"]), 1), shown
    assert all(job["units"] == units for job in row["jobs"])
    failed = node.run(["gpushare", "status", "--nodes", "nowhere[1-3]"], "alice")
    assert (failed.returncode, failed.stdout) == (2, ""), failed
    assert failed.stderr == "gpushare: the cluster has no nodes nowhere1, nowhere2, nowhere3; see sinfo -N\n"


def test_a_whole_gpu_has_no_room(node):
    if not node.kind.startswith("follow"):
        pytest.skip("NOT TESTED: no whole GPUs beside shares")
    _, full, units = SHARES[node.kind]
    whole = node.start("--gres=gpu:a40:1", user="bob")[0]
    shares = three_shares(node)
    [row] = nodes(node)
    assert (row["whole"], row["units"], row["free"]) == (1, 3 * units, 3 * full - 3 * units), row
    by_ledger = node.ledger()
    for gpu in row["gpus"]:
        is_whole = gpu["index"] == by_ledger[whole]
        assert gpu["whole"] == is_whole, row
        assert not is_whole or (gpu["free"], on(row, gpu)) == (0, [whole]), row
    assert all(by_ledger[job] != by_ledger[whole] for job in shares)


def test_jobs_and_nodes_are_chosen_as_with_squeue(node):
    gres, _, units = SHARES[node.kind]
    names = {}
    for user, name in (("alice", "zebra"), ("bob", "ant|x"), ("alice", "my job")):
        names[node.start(f"--gres={gres}:{units}", "-J", name, user=user)[0]] = name
    first, second, third = names

    def shown(*options, user="alice"):
        """{job: itself}"""
        return {str(job["job"]): job for one in node.status(*options, user=user)["nodes"] for job in one["jobs"]}

    def own(*options, user="root"):
        """The same of the node's own view."""
        return {str(job["job"]): job for job in node.status(*options, user=user)["jobs"]}

    [partition] = {job["partition"] for job in shown("--nodes").values()}
    assert {job: one["name"] for job, one in shown(node.name).items()} == names
    assert list(shown("-p", partition)) == [first, second, third]
    [(job, one)] = shown("--nodes", "-u", "bob").items()
    assert (job, one["user"], one["units"]) == (second, "bob", units)
    assert [one["user"] for one in shown("--nodes", f"--jobs={first},{third}").values()] == ["alice", "alice"]
    assert nodes(node, "-u", "nobody") == []
    text = node.ok(["gpushare", "status", "--nodes", "--jobs", "-u", "bob"], "alice").splitlines()
    assert text[0].split() == ["JOB", "NAME", "USER", "PARTITION", "NODE", "GPUS", "UNITS"]
    assert text[1].split()[:5] == [second, "ant|x", "bob", partition, node.name], text
    # The node's own view: root sees all, a user their own.
    assert {job: one["user"] for job, one in own().items()} == {third: "alice", second: "bob", first: "alice"}
    assert list(own(user="bob")) == list(own("-u", "bob")) == [second]
    mine = node.ledger()[second]
    assert [gpu["index"] for gpu in node.status("-u", "bob")["gpus"]] == [mine]
    wrong = (
        (["-p", "nope"], f"no node is in a partition 'nope'; partitions with nodes: {partition}"),
        ([f"{node.name},nowhere"], "the cluster has no node nowhere; see sinfo -N"),
    )
    for options, why in wrong:
        failed = node.run(["gpushare", "status", *options], "alice")
        assert (failed.returncode, failed.stdout) == (2, "") and failed.stderr.startswith(f"gpushare: {why}"), failed


def test_what_nodes_have_said_fills_in_what_slurm_does_not_know(node):
    _, full, units = SHARES[node.kind]
    jobs = three_shares(node)
    file = f"/lab/out/collected/{node.name}.json"
    collected = ["--collected", "/lab/out/collected"]
    node.ok(f"mkdir -p /lab/out/collected && gpushare status --json >{file} && chmod -R a+rX /lab/out/collected")
    [row] = nodes(node, *collected)
    by_ledger = node.ledger()
    assert [gpu["index"] for gpu in row["gpus"]] == [0, 1, 2, 3]
    for gpu in row["gpus"]:
        mine = [job for job in jobs if by_ledger[job] == gpu["index"]]
        assert sorted(on(row, gpu)) == mine and gpu["units"] == units * len(mine), row
    assert (row["age"] is not None) == (node.kind in ("own", "override")), row
    assert (row["units"], row["capacity"], users(row)) == (3 * units, 4 * full, ["alice", "bob"]), row
    # What can't be used is said, and Slurm's count is shown.
    for spoil, why in (
        (f"truncate -s 50 {file}", "EOF while parsing"),
        (f"echo '{{}}' >{file}", "missing field"),
        (f"gpushare status --json | sed 's/^ *\"time\": .*/\"time\": 1000,/' >{file}", "s old; the limit is 900 s"),
        (f"gpushare status --json | sed 's/^ *\"node\": .*/\"node\": \"x\",/' >{file}", "it is for node 'x'"),
        (f"rm {file} && mkfifo {file}", "it is not a file"),
    ):
        node.ok(spoil)
        result = node.run(["gpushare", "status", "--nodes", "--json", *collected], "alice")
        assert result.returncode == 0 and f"{node.name}.json is ignored: " in result.stderr, result
        assert why in result.stderr, result
        [row] = json.loads(result.stdout)["nodes"]
        assert row["age"] is None and row["units"] == 3 * units, row
    node.ok(f"rm {file}")
    result = node.run(["gpushare", "status", "--nodes", "--collected", "/no/such"], "alice")
    assert result.returncode == 0 and "/no/such: No such file" in result.stderr, result


def test_names_and_reasons_are_shown_and_not_obeyed(node):
    gres, _, units = SHARES[node.kind]
    others = node.start(f"--gres={gres}:{units}", user="bob")[0]
    # Names that look like more of scontrol's lines: a job that there isn't, and bob's.
    lines = "x\n   JobState=RUNNING\n\nJobId={} JobName=y\n   UserId=root(0)\n"
    job = node.start(f"--gres={gres}:{units}", "-J", NASTY + lines.format(4711), "--comment", NASTY)[0]
    [row] = nodes(node)
    assert (row["units"], users(row)) == (2 * units, ["?", "bob"]), row
    node.ok(["scancel", job])
    node.wait(lambda: job not in node.ledger(), "its end")
    job = node.start(f"--gres={gres}:{units}", "-J", NASTY + lines.format(others), "--comment", NASTY)[0]
    [row] = nodes(node)
    # Nobody can say which is which, so nobody is blamed.
    assert (row["units"], users(row)) == (2 * units, ["?"]), row
    node.ok(["scontrol", "update", f"nodename={node.name}", "state=drain", f"reason={NASTY}"])
    try:
        for options in ([], ["--nodes"], ["--nodes", "--gpus"], ["--nodes", "--jobs"], ["--json"],
                        ["--nodes", "--json"]):
            shown = node.ok(["gpushare", "status", *options])
            assert obeyed(shown) == [], shown
            if "--json" in options:
                json.loads(shown)
        [row] = nodes(node)
        assert not row["usable"] and row["free"] == 0 and "drain" in row["state"] and "red" in row["reason"], row
        told = json.loads(node.ok(["gpushare", "status", "--json"]))
        assert told["node"] == node.name and abs(told["time"] - time.time()) < 60
        assert sorted(entry["job"] for entry in told["jobs"]) == [int(others), int(job)]
        shown = node.ok(["gpushare", "status", "--nodes"])
        assert "1 node (1 out of service)" in shown and "\\u{1b}[31mred" in shown, shown
    finally:
        node.ok(["scontrol", "update", f"nodename={node.name}", "state=resume"])


# From here on without a cluster: two programs say what scontrol and squeue would.

NODE = """NodeName={name} Arch=x86_64 CoresPerSocket=32
   Gres=gpu:a40:4,mps:400
   GresUsed=gpu:a40:0(IDX:N/A),mps:{used}({used}/100,0/100,0/100,0/100)
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=p
   AllocTRES=cpu=1

"""


class Fakes:
    def __init__(self, folder):
        self.folder = folder
        self.calls = folder / "calls"
        self.write(NODE.format(name="n1", used=100, state="MIXED") + NODE.format(name="n2", used=0, state="DOWN"))
        (folder / "jobs").write_text("")
        (folder / "scontrol").write_text(
            f"#!/bin/sh\necho \"scontrol $*\" >>{folder}/calls\n"
            f"case $* in *job*) cat {folder}/jobs;; *) cat {folder}/nodes;; esac\n")
        (folder / "squeue").write_text(f"#!/bin/sh\necho \"squeue $*\" >>{folder}/calls\ncat {folder}/owners\n")
        for name in ("scontrol", "squeue"):
            (folder / name).chmod(0o755)
        self.variables = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_CONF": str(folder / "slurm.conf")}

    def write(self, nodes):
        (self.folder / "nodes.new").write_text(nodes)
        (self.folder / "nodes.new").rename(self.folder / "nodes")

    def terminal(self, *options, rows=24, columns=80, **variables):
        command = [PROGRAM, "status", "--nodes", *options]
        return Terminal(command, rows, columns, **{**self.variables, **variables})

    def run(self, *options, **variables):
        environment = {"TERM": "xterm", **self.variables, **variables}
        return subprocess.run(
            [PROGRAM, "status", *options], env=environment, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def fakes(tmp_path):
    return Fakes(tmp_path)


def test_colours_are_for_terminals_that_want_them(fakes):
    def on_terminal(*options, **variables):
        with fakes.terminal(*options, **variables) as terminal:
            assert terminal.wait_end() == 0
            return terminal.text().lstrip()  # the key that started it

    coloured = on_terminal()
    assert "\x1b[31mdown\x1b[0m" in coloured and "\x1b[32m300\x1b[0m" in coloured, coloured
    plain = fakes.run("--nodes").stdout
    assert re.sub("\x1b\\[\\d+m", "", coloured).replace("\r", "") == plain.replace("\r", "")
    for text in (plain, on_terminal(NO_COLOR="1"), on_terminal(TERM="dumb"), on_terminal("--color", "never"),
                 fakes.run("--nodes", "--color=never").stdout):
        assert "\x1b" not in text and "down" in text, text
    for text in (on_terminal(NO_COLOR=""), on_terminal("--color", "always", NO_COLOR="1"),
                 fakes.run("--nodes", "--color=always", NO_COLOR="1").stdout):
        assert "\x1b[31mdown" in text, text
    # What is wrong with the command line is clap's to say; it knows terminals and NO_COLOR.
    done = fakes.run("--bogus")
    assert done.returncode == 2 and "\x1b" not in done.stderr, done


def test_ten_thousand_nodes_are_three_questions(fakes):
    count = 10_000
    state = lambda number: "IDLE+DRAIN" if number % 10 == 0 else "MIXED"
    fakes.write("".join(NODE.format(name=f"n{number:05}", used=40, state=state(number)) for number in range(count)))
    job = (
        "JobId={0} JobName=x\n   JobState=RUNNING Reason=None\n     Nodes=n[{1:05}-{2:05}] CPU_IDs=0 Mem=0 "
        "GRES=mps:40(40/100,0/100,0/100,0/100)\n\n"
    )
    (fakes.folder / "jobs").write_text(
        "".join(job.format(number + 1, number, min(number + 9, count - 1)) for number in range(0, count, 10))
    )
    row = "{0}|{0}|N/A|N/A|N/A|2001|user{1}|lab|p|q|RUNNING|None|1|N/A|N/A||cpu=1|N/A|N/A|N/A|N/A|9:00|9:00|1|\n"
    (fakes.folder / "owners").write_text("".join(row.format(number + 1, number) for number in range(0, count, 10)))
    start = time.monotonic()
    done = fakes.run("--nodes")
    print(f"{count} nodes: {1000 * (time.monotonic() - start):.0f} ms")
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == count + 3, len(lines)
    assert lines[-1] == (
        "10000 nodes (1000 out of service): 40000 GPUs, 0 whole; 400000 of 4000000 units in use, 3240000 free, "
        "360000 out of service; "
        "1000 jobs of 1000 users"
    )
    assert len(fakes.calls.read_text().splitlines()) == 3, fakes.calls.read_text()
    told = json.loads(fakes.run("--nodes", "--json").stdout)["nodes"]
    assert len(told) == count and users(told[-1]) == ["user9990"] and on(told[-1], told[-1]["gpus"][0]) == ["9991"]
