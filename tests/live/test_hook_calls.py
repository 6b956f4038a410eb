# SPDX-License-Identifier: GPL-2.0-or-later
"""How many system calls the hooks of spank_gpushare.so make in slurmstepd: a quarter more than tests/data/costs.tsv
says is a failure. timed_spank.so, which hands each call on to spank_gpushare.so, marks where a hook begins and ends."""

import contextlib
import re
import subprocess
import tempfile
from pathlib import Path

import client
import costs
import pytest
from gpus import SHARES
from lab import TOP
from waiting import wait

OUT = "/lab/out/hooks"
HOOKS = ["init", "user_init", "task_post_fork", "task_init", "exit"]
# Slurm's numbers of these steps (slurm.h).
KINDS = {"0": "srun", "4294967291": "batch", "4294967292": "extern"}


@pytest.fixture(scope="module")
def node(hooked):
    """A node whose steps load the plugin that marks."""
    with tempfile.TemporaryDirectory() as folder:
        source = TOP / "tests/bench/timed_spank.c"
        plugin = client.compiled(source, hooked.release, f"{folder}/timed_spank.so", "-shared", "-fPIC")
        client.install(hooked, plugin, f"{hooked.ok('echo /usr/lib/*/slurm-wlm')}/timed_spank.so")
    hooked.write("/etc/slurm/plugstack.conf", "required timed_spank.so\n")
    return hooked


def slurmd(cluster):
    """This machine's PID of the cluster's slurmd."""
    space = Path(f"/proc/{cluster.first()}/ns/pid").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (path / "comm").read_text() == "slurmd\n" and (path / "ns/pid").readlink() == space:
                found.append(int(path.name))
    # It may have a child.
    return str(min(found))


def counted(trace):
    """{(kind of step, hook): system calls} of the lines of a trace."""
    found, begun = {}, {}
    for line in trace:
        thread, call = line.split(maxsplit=1)
        if start := re.search(rf'^access\("{OUT}/(\w+)"', call):
            begun[thread] = [start[1], 0]
        elif thread in begun and (note := re.search(r'^write\(\d+, "\d+ (\d+) (\w+) \d+\\n"', call)):
            hook, calls = begun.pop(thread)
            assert note[2] == hook, line
            found[KINDS[note[1]], hook] = calls - 1  # without the openat(2) of the note
        elif thread in begun and re.match(r"\w+\(", call):
            begun[thread][1] += 1
    return found


def test_system_calls_of_each_hook(node):
    request = SHARES[node.kind].half_gpu
    node.ok(f": >{OUT} && chmod 666 {OUT}")
    job = node.sbatch(request, script="srun true")  # warms up
    node.finished(job)
    pid = slurmd(node)
    with tempfile.NamedTemporaryFile("r") as trace:
        strace = ["strace", "-f", "-q", "-s", "200", "-o", trace.name, "-p", pid]
        tracer = subprocess.Popen(strace, stderr=subprocess.PIPE)
        try:
            wait(lambda: "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text(), "strace to attach")
            job = node.sbatch(request, script="srun true")
            node.finished(job)
            node.wait(lambda: node.ok(f"grep -c '^{job} .* exit' {OUT}") == "3", "the end of all steps")
        finally:
            tracer.terminate()
            tracer.communicate(timeout=30)
        found = counted(trace)
    expected = {(kind, hook) for kind in KINDS.values() for hook in HOOKS}
    expected -= {("extern", "user_init"), ("extern", "task_init")}
    assert set(found) == expected, found
    for kind in KINDS.values():
        calls = sum(number for (of, _), number in found.items() if of == kind)
        costs.check(f"hooks, Slurm {node.release}, {node.kind}, {node.cgroup}, {kind}", calls)
