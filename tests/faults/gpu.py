# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/gpu/prove, which is for a node with a GPU, as far as it goes without one: that it isn't dead text."""

import re
import subprocess
from pathlib import Path

from bare_node import TOP
from mps_node import strangers


def remains():
    """What the script might leave behind; /run/gpushare may be there from another part."""
    return {*Path("/run").glob("gpushare*"), *Path("/tmp").glob("gpushare-prove-*")}


def test_prove(control):
    """tests/gpu/prove against NVIDIA's own control daemon, with stand-ins for libcuda and NVML; and it can fail."""
    before = remains()
    command = [TOP / "tests/gpu/prove", "--pretend", control.parents[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    rows = re.findall(r"^(ok|WRONG|not tried)\s+(.*?)\s{2,}", done.stdout, re.M)
    assert done.returncode == 0 and len(rows) == 9 and {verdict for verdict, _ in rows} == {"ok"}, done
    done = subprocess.run([*command, "--units", "81"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stdout.count("WRONG") == 6, done
    left = remains() - before
    assert not strangers() and not left, (strangers(), left)
