# SPDX-License-Identifier: GPL-2.0-or-later
"""The headers that packaging/release builds with for a Slurm without a root in the lab: those that Slurm installs. The
repository is a stand-in, made of the headers of a release's root, with Slurm's tag and names."""

import os
import re
import subprocess

import pytest
from lab import RELEASES, TOP, root
from packages import slurm_of

RELEASE = RELEASES[0]
MICRO = slurm_of(RELEASE).micro
INSTALLED = root(RELEASE) / "usr/include/slurm"
NAMES = ["slurm.h", "slurm_errno.h", "slurm_version.h", "slurmdb.h", "spank.h"]
DEFINED = re.compile(r"(?m)^#define SLURM_VERSION_NUMBER 0x\w+$")


def installed(name):
    # Where the file comes from, as configure has written it.
    return re.sub(r"\A/\* \S+  Generated from \S+ by configure\.  \*/\n", "", (INSTALLED / name).read_text())


@pytest.fixture
def repository(tmp_path):
    source = tmp_path / "slurm.git"
    (source / "slurm").mkdir(parents=True)
    for name in NAMES:
        text = installed(name)
        if name == "slurm_version.h":
            name, text = f"{name}.in", DEFINED.sub("#undef SLURM_VERSION_NUMBER", text)
        (source / "slurm" / name).write_text(text)
    tag = f"slurm-{MICRO.replace('.', '-')}-1"
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Slurm"], ["tag", tag]):
        settings = ("commit.gpgsign=false", "tag.gpgsign=false", "user.name=nobody", "user.email=nobody@localhost")
        git = ["git", *(word for setting in settings for word in ("-c", setting)), "-C", source, *words]
        subprocess.run(git, check=True, capture_output=True)
    return source


def headers(repository, *words):
    command = [TOP / "packaging/slurm-headers", *words]
    return subprocess.run(
        command, env=os.environ | {"SLURM_GIT": str(repository)}, capture_output=True, text=True, timeout=60
    )


def test_they_are_those_that_slurm_installs(repository, tmp_path):
    done = headers(repository, MICRO, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, ""), done
    written = {path.name: path.read_text() for path in (tmp_path / "out/slurm").iterdir()}
    assert written == {name: installed(name) for name in NAMES}
    assert DEFINED.search(written["slurm_version.h"])[0].endswith(f" 0x{slurm_of(RELEASE).number:06x}")


def test_a_version_without_a_tag_is_named(repository, tmp_path):
    done = headers(repository, "24.11.99", tmp_path / "out")
    assert done.returncode == 1 and f"{repository} has no tag slurm-24-11-99-1, or can't be read" in done.stderr
    done = headers(tmp_path / "nowhere", MICRO, tmp_path / "out")
    assert done.returncode == 1 and "SLURM_GIT names another repository" in done.stderr


@pytest.mark.parametrize("words", [[], ["24.11"], ["24.11", "out"], ["24.11.5"], ["latest", "out"]])
def test_other_words_are_refused(repository, words):
    done = headers(repository, *words)
    assert done.returncode == 1 and done.stderr.startswith("slurm-headers: usage: slurm-headers VERSION DIR")
