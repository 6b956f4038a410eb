# SPDX-License-Identifier: GPL-2.0-or-later
"""The files built for each release, and the daemons of that release."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
RELEASES = os.environ.get("GPUSHARE_RELEASES", "22.05 24.11 26.05").split()


class Built:
    """What was built for a release, and where that release's Slurm is."""

    def __init__(self, release):
        self.release = release
        self.folder = TOP / "target/lab" / release
        include = subprocess.run([TOP / "tests/lab/lab", "include", release], capture_output=True, text=True, check=True)
        self.root = Path(include.stdout.strip()).parents[1]


@pytest.fixture(params=RELEASES)
def built(request):
    return Built(request.param)
