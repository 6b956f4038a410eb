# SPDX-License-Identifier: GPL-2.0-or-later
"""The files built for each release, and the daemons of that release."""

import subprocess
from pathlib import Path

import pytest
from lab import LAB, RELEASES, TOP


class Built:
    """What was built for a release, and where that release's Slurm is."""

    def __init__(self, release):
        self.release = release
        self.folder = TOP / "target/lab" / release
        include = subprocess.run([LAB, "include", release], capture_output=True, text=True, check=True)
        self.root = Path(include.stdout.strip()).parents[1]


@pytest.fixture(params=RELEASES)
def built(request):
    return Built(request.param)
