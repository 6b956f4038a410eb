# SPDX-License-Identifier: GPL-2.0-or-later
"""A node on which a user keeps processes that nobody can look at (tests/live/tools/locked-map.c). They have the names
of those that gpushare looks for. A test in such a cluster must not read every /proc/PID/cmdline, as pgrep -f does."""

import contextlib
import select
import subprocess
import tempfile

import client
from lab import TOP

# The kernel keeps 15 bytes of a name.
NAMES = ["slurmstepd", "slurmd", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-smi", "python"]
PROGRAM = "/usr/local/bin/locked-map"


@contextlib.contextmanager
def haunted(cluster, user="bob", names=NAMES):
    """Such processes of USER, in no job, until the end of its `with`; yields their numbers."""
    with tempfile.TemporaryDirectory() as folder:
        source = TOP / "tests/live/tools/locked-map.c"
        program = client.compiled(source, cluster.release, f"{folder}/locked-map", "-static", "-pthread")
        client.install(cluster, program, PROGRAM)
    cluster.ok("[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229")
    process = subprocess.Popen(
        cluster.inside(PROGRAM, *names, user=user), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        # It has hung once itself.
        answered, _, _ = select.select([process.stdout], [], [], 30)
        assert answered and process.stdout.readline() == "locked\n", "no process can lock its memory map here"
        yield numbers(cluster, names)
    finally:
        process.stdin.close()
        process.wait(timeout=20)


def numbers(cluster, names):
    """The processes that wait so in the kernel, by their names."""
    listed = cluster.ok("for folder in /proc/[0-9]*; do echo ${folder#/proc/} $(<$folder/comm); done 2>/dev/null")
    named = dict(line.split(" ", 1)[::-1] for line in listed.splitlines() if " " in line)
    found = [named[name[:15]] for name in names]
    # The proof: one look, which a deadline ends.
    late = cluster.run(f"timeout -s KILL 0.3 cat /proc/{found[-1]}/cmdline")
    assert late.returncode in (137, -9), late
    return found
