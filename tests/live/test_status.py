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


def table(text):
    head, *lines = text.splitlines()
    return [dict(zip(head.split("|"), line.split("|"), strict=True)) for line in lines]


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
    return table(node.ok(["gpushare", "status", "--nodes", "-P", *options], user))


def three_shares(node):
    gres, _, units = SHARES[node.kind]
    return [node.start(f"--gres={gres}:{units}", user=user)[0] for user in ("alice", "bob", "alice")]


def test_anybody_sees_the_cluster_as_slurm_counts_it(node):
    gres, full, units = SHARES[node.kind]
    [row] = nodes(node)
    empty = {
        "NODE": node.name, "STATE": "idle", "USABLE": "yes", "GPUS": "4", "WHOLE": "0", "UNITS": "0",
        "FREE": str(4 * full), "CAPACITY": str(4 * full), "JOBS": "0", "USERS": "", "AGE": "", "REASON": "",
        "PARTITIONS": row["PARTITIONS"],
    }
    assert row["PARTITIONS"]
    assert {**row, "STATE": row["STATE"].replace("planned", "idle")} == empty
    jobs = three_shares(node)
    [row] = nodes(node)
    expected = {
        "STATE": "mixed", "UNITS": str(3 * units), "FREE": str(4 * full - 3 * units), "JOBS": "3", "USERS": "alice,bob",
    }
    assert row == {**empty, **expected}
    rows = nodes(node, "--gpus")
    if node.kind in ("own", "override"):
        # Only the node knows which GPU it is.
        assert [row["GPU"] for row in rows] == [""] and rows[0]["UNITS"] == str(3 * units)
        assert rows[0]["JOBS"].split(",") == jobs
    else:
        by_ledger = node.ledger()
        for index, row in enumerate(rows):
            mine = [job for job in jobs if by_ledger[job] == index]
            assert row["GPU"] == str(index) and row["WHOLE"] == "no"
            assert row["UNITS"] == str(units * len(mine)) and row["JOBS"] == ",".join(mine)
            assert int(row["UNITS"]) + int(row["FREE"]) == int(row["CAPACITY"]) == full
        assert len(rows) == 4
    # What people get has the same, and the sums.
    shown = node.ok(["gpushare", "status", "--nodes"], "alice")
    assert f"1 node: 4 GPUs, 0 whole; {3 * units} of {4 * full} units in use" in shown, shown
    assert "3 jobs of 2 users" in shown, shown
    shown = node.ok(["gpushare", "status", "--nodes", node.name, "--gpus"], "bob")
    assert len(shown.splitlines()) == 3 + len(rows), shown
    told = json.loads(node.ok(["gpushare", "status", "--nodes", "--json"], "alice"))
    assert [job["job"] for job in told["nodes"][0]["jobs"]] == list(map(int, jobs))
    assert all(job["units"] == units for job in told["nodes"][0]["jobs"])
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
    assert (row["WHOLE"], row["UNITS"], row["FREE"]) == ("1", str(3 * units), str(3 * full - 3 * units)), row
    by_ledger = node.ledger()
    for row in nodes(node, "--gpus"):
        is_whole = int(row["GPU"]) == by_ledger[whole]
        assert row["WHOLE"] == ("yes" if is_whole else "no"), row
        assert not is_whole or (row["FREE"], row["JOBS"], row["USERS"]) == ("0", whole, "bob"), row
    assert all(by_ledger[job] != by_ledger[whole] for job in shares)


def test_jobs_and_nodes_are_chosen_as_with_squeue(node):
    gres, _, units = SHARES[node.kind]
    names = {}
    for user, name in (("alice", "zebra"), ("bob", "ant|x"), ("alice", "my job")):
        names[node.start(f"--gres={gres}:{units}", "-J", name, user=user)[0]] = name.replace("|", "/")
    first, second, third = names

    def shown(columns, *options, user="alice"):
        head, *rows = (line.split("|") for line in node.ok(["gpushare", "status", "-P", *options], user).splitlines())
        return [tuple(dict(zip(head, row))[name] for name in columns.split()) for row in rows]

    [partition] = set(shown("PARTITION", "--nodes", "--jobs"))
    assert shown("JOB NAME", node.name, "--jobs") == list(names.items())
    assert shown("JOB", "-p", *partition, "--jobs") == [(first,), (second,), (third,)]
    assert shown("JOB USER UNITS", "--nodes", "-u", "bob", "--jobs") == [(second, "bob", str(units))]
    assert shown("USER", "--nodes", f"--jobs={first},{third}") == [("alice",), ("alice",)]
    assert shown("NODE USERS JOBS", "--nodes", "-u", "bob") == [(node.name, "bob", "1")]
    assert shown("NODE", "--nodes", "-u", "nobody") == []
    # The node's own view: root sees all, a user their own.
    assert set(shown("JOB USER", user="root")) == {(third, "alice"), (second, "bob"), (first, "alice")}
    assert shown("JOB", user="bob") == shown("JOB", "-u", "bob", user="root") == [(second,)]
    mine = node.ledger()[second]
    assert shown("GPU", "-u", "bob", "--gpus", user="root") == [(str(mine),)]
    wrong = (
        (["-p", "nope"], f"no node is in a partition 'nope'; partitions with nodes: {partition[0]}"),
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
    rows = nodes(node, "--gpus", *collected)
    by_ledger = node.ledger()
    assert [row["GPU"] for row in rows] == ["0", "1", "2", "3"]
    for row in rows:
        mine = [job for job in jobs if by_ledger[job] == int(row["GPU"])]
        assert sorted(filter(None, row["JOBS"].split(","))) == mine and row["UNITS"] == str(units * len(mine)), row
        assert (row["AGE"] != "") == (node.kind in ("own", "override")), row
    [row] = nodes(node, *collected)
    assert (row["UNITS"], row["CAPACITY"], row["USERS"]) == (str(3 * units), str(4 * full), "alice,bob"), row
    # What can't be used is said, and Slurm's count is shown.
    for spoil, why in (
        (f"truncate -s 50 {file}", "EOF while parsing"),
        (f"echo '{{}}' >{file}", "missing field"),
        (f"gpushare status --json | sed 's/^ *\"time\": .*/\"time\": 1000,/' >{file}", "s old; the limit is 900 s"),
        (f"gpushare status --json | sed 's/^ *\"node\": .*/\"node\": \"x\",/' >{file}", "it is for node 'x'"),
        (f"rm {file} && mkfifo {file}", "it is not a file"),
    ):
        node.ok(spoil)
        result = node.run(["gpushare", "status", "--nodes", "-P", *collected], "alice")
        assert result.returncode == 0 and f"{node.name}.json is ignored: " in result.stderr, result
        assert why in result.stderr, result
        [row] = table(result.stdout)
        assert row["AGE"] == "" and row["UNITS"] == str(3 * units), row
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
    assert (row["UNITS"], row["USERS"]) == (str(2 * units), "?,bob"), row
    node.ok(["scancel", job])
    node.wait(lambda: job not in node.ledger(), "its end")
    job = node.start(f"--gres={gres}:{units}", "-J", NASTY + lines.format(others), "--comment", NASTY)[0]
    [row] = nodes(node)
    # Nobody can say which is which, so nobody is blamed.
    assert (row["UNITS"], row["USERS"]) == (str(2 * units), "?"), row
    node.ok(["scontrol", "update", f"nodename={node.name}", "state=drain", f"reason={NASTY}"])
    try:
        for options in ([], ["--nodes"], ["--nodes", "--gpus"], ["--nodes", "-P"], ["--nodes", "-P", "--gpus"], ["-P"],
                        ["--json"], ["--nodes", "--json"]):
            shown = node.ok(["gpushare", "status", *options])
            assert obeyed(shown) == [], shown
            if "--json" in options:
                json.loads(shown)
        [row] = nodes(node)
        assert row["USABLE"] == "no" and row["FREE"] == "0" and "drain" in row["STATE"] and "red" in row["REASON"], row
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
    (fakes.folder / "owners").write_text("".join(f"{number + 1}|user{number}\n" for number in range(0, count, 10)))
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
    rows = table(fakes.run("--nodes", "-P", "--gpus").stdout)
    assert len(rows) == 4 * count and rows[-4]["USERS"] == "user9990" and rows[-3]["USERS"] == ""
    assert len(json.loads(fakes.run("--nodes", "--json").stdout)["nodes"]) == count
