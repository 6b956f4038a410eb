# SPDX-License-Identifier: GPL-2.0-or-later
"""What the prolog takes of the node's memory."""

import re
import subprocess
import time
from pathlib import Path

from bare_node import PROGRAMS, STRACE, Node

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
