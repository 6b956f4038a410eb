# SPDX-License-Identifier: GPL-2.0-or-later
"""The files built for each release, and the daemons of that release."""

import pytest
from lab import BUILDS, RELEASES, root


class Built:
    """What was built for a release, and where that release's Slurm is."""

    def __init__(self, release):
        self.release = release
        self.folder = BUILDS / release
        self.root = root(release)


@pytest.fixture(params=RELEASES)
def built(request):
    return Built(request.param)
