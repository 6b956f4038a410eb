# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make install` and the packages' builds install, without building it again."""

import shutil

from lab import BUILDS, TOP

PLUGINS = ["job_submit_gpushare", "spank_gpushare", "spank_gpushare_prolog"]
PROGRAMS = ["gpushare", "gpushare-prolog", "gpushare-epilog", "gpushare-nvml"]


def built(release, folder):
    """A FOLDER with the build for a release, with cargo's file names."""
    source = BUILDS / release
    folder.mkdir()
    for plugin in PLUGINS:
        shutil.copy(source / f"{plugin}.so", folder / f"lib{plugin}.so")
    for program in [*PROGRAMS, "THIRD-PARTY"]:
        shutil.copy(source / program, folder / program)
    return folder


def sources(release, folder):
    """A FOLDER with all that packaging needs, the build in target/release."""
    for part in ["packaging", "man", "docs"]:
        shutil.copytree(TOP / part, folder / part)
    for part in ["Cargo.toml", "CHANGELOG.md", "LICENSE"]:
        shutil.copy(TOP / part, folder / part)
    (folder / "target").mkdir()
    built(release, folder / "target/release")
