# SPDX-License-Identifier: GPL-2.0-or-later
"""view.py: what PyTorch, CUDA and the shell see of the GPU in this job, as one line of JSON.

    {"available": true, "count": 1, "error": null, "init": 0, "nodes": ["nvidia0"], "variables": {...}}
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import cuda

OURS = "CUDA_", "GPUSHARE_", "NVIDIA_", "XLA_", "TF_"


def can_open(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        # A node without a driver behind it: ENXIO. The fence says EPERM.
        return error.errno not in (errno.EPERM, errno.EACCES)
    return True


def by_torch():
    try:
        import torch
    except ImportError as error:
        return {"available": None, "error": f"no PyTorch: {error}"}
    said = {"available": torch.cuda.is_available(), "count": torch.cuda.device_count(), "error": None}
    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        said["error"] = str(error).splitlines()[0]
    return said


def main():
    # By a program of its own, as cuInit's answer stays for a program's life.
    looked = subprocess.run([sys.executable, cuda.__file__, "look"], capture_output=True, text=True, timeout=60)
    said = by_torch() | {
        "init": json.loads(looked.stdout).get("init"),
        "nodes": sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*") if can_open(path)),
        "variables": {name: value for name, value in os.environ.items() if name.startswith(OURS)},
    }
    print(json.dumps(said), flush=True)


main()
