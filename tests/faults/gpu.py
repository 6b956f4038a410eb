# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/gpu/prove, which is for a node with a GPU, as far as it goes without one: that it isn't dead text."""

import re
import subprocess
from pathlib import Path

from daemons import nvidia, strangers
from node import TOP


def remains():
    """What the script might leave behind; /run/gpushare may be there from another part."""
    return {*Path("/run").glob("gpushare*"), *Path("/tmp").glob("gpushare-prove-*")}


def prove():
    """tests/gpu/prove against NVIDIA's own control daemon, with stand-ins for libcuda and NVML; and it can fail."""
    control = nvidia("24.11")
    if not control:
        return
    before = remains()
    command = [TOP / "tests/gpu/prove", "--pretend", control.parents[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    rows = re.findall(r"^(ok|WRONG|not tried)\s+(.*?)\s{2,}", done.stdout, re.M)
    assert done.returncode == 0 and len(rows) == 9 and {verdict for verdict, _ in rows} == {"ok"}, done
    done = subprocess.run([*command, "--units", "81"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stdout.count("WRONG") == 6, done
    left = remains() - before
    assert not strangers() and not left, (strangers(), left)
    print(f"ok: gpu: tests/gpu/prove without a GPU: {len(rows)} rows, and wrong ones where no share fits", flush=True)
