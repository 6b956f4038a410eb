# SPDX-License-Identifier: GPL-2.0-or-later
"""What prolog and epilog take: of the node's memory, and how many system calls and instructions."""

import re
import subprocess
import tempfile
import time
from pathlib import Path

import costs
import pytest
from bare_node import PROGRAMS, STRACE, Node, finished

LIMIT = 4096  # KiB


def peak(command, variables):
    """The peak of a program's own memory in KiB, or of its child's, read while strace holds each at its exit."""
    hold = [*STRACE, "-o", "/dev/null", "--inject=exit_group:delay_enter=500000"]
    tracer = subprocess.Popen([*hold, *command], env=variables, stderr=subprocess.DEVNULL)
    found = 0
    while tracer.poll() is None:
        for child in [own for one in children(tracer.pid) for own in (one, *children(one))]:
            try:
                if Path(f"/proc/{child}/exe").resolve().name == Path(command[0]).resolve().name:
                    text = Path(f"/proc/{child}/status").read_text()
                    found = max([found, *map(int, re.findall(r"VmHWM:\s*(\d+) kB", text))])
            except OSError:
                pass  # it has just ended
        time.sleep(0.01)
    assert tracer.returncode == 0 and found > 0, (command, tracer.returncode)
    return found


def children(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []  # it has just ended


def test_memory(figure):
    node = Node(8, 1000)
    for job in range(1, 1001):
        node.prolog(job, 1, user=2000 + job)
    prolog = peak([PROGRAMS / "gpushare-prolog"], node.variables(2000, 1))
    assert 2000 in node.entries()
    true = peak(["/bin/true"], {})
    assert prolog <= LIMIT, f"the prolog takes {prolog} KiB"
    figure(f"peak memory beside 1,000 jobs of as many users: prolog {prolog} KiB, /bin/true {true} KiB")


def calls(node, program, job, units):
    """A program's system calls, of both its processes."""
    with tempfile.NamedTemporaryFile("r") as trace:
        finished(node.start(program, job, units, before=[*STRACE, "-o", trace.name]))
        return sum(1 for line in trace if re.match(r"\d+ +\w+\(", line))


def instructions(node, program, job, units):
    """A program's instructions, of both its processes."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    said = node.start(program, job, units, before=valgrind).communicate(timeout=60)[1]
    found = re.findall(r"Collected : (\d+)", said)
    assert found, said
    return sum(map(int, found))


@pytest.mark.parametrize("kind, units", (("share", 40), ("no share", None)))
def test_calls(kind, units):
    """Beside two jobs with shares."""
    node = Node()
    node.prolog(1)
    node.prolog(2)
    found = {"gpushare-prolog": [], "gpushare-epilog": []}
    for count in (calls, instructions):
        for program, numbers in found.items():
            numbers.append(count(node, program, 3, units if program == "gpushare-prolog" else None))
    for program, numbers in found.items():
        costs.check(f"{program}, {kind}", *numbers)
