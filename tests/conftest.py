# SPDX-License-Identifier: GPL-2.0-or-later
"""Lets every test import what is in harness/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "harness"))
