# SPDX-License-Identifier: GPL-2.0-or-later
"""`make dist`, as docs/dev/releasing.md has it: a source that needs no network, the same from the same commit."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from lab import TOP
from pages import commands

PAGE = "docs/dev/releasing.md"
# The last one is `make`, which compiles for minutes.
DIST, UNPACK, _ = (command.text for command in commands(PAGE, (TOP / PAGE).read_text()))


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    if subprocess.run(["git", "-C", TOP, "rev-parse"], capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: make dist, which needs a clone")
    folder = tmp_path_factory.mktemp("dist")
    for command in (DIST.split(), ["packaging/dist", folder]):
        subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True, timeout=300)
    other, = folder.glob("gpushare-*.tar.gz")
    return [TOP / "target/dist" / other.name, other]


def test_the_same_commit_makes_the_same_file(twice):
    first, second = (path.read_bytes() for path in twice)
    assert first == second


def test_its_crates_are_all_there_without_a_network(twice, tmp_path):
    with tarfile.open(twice[0]) as archive:
        names = archive.getnames()
    unpack = UNPACK.replace("target/", f"{TOP}/target/")
    top = Path(subprocess.run(
        ["bash", "-c", f"{unpack} && pwd"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip())
    assert top.parent == tmp_path
    tracked = subprocess.run(
        ["git", "-C", TOP, "ls-tree", "-r", "--name-only", "HEAD"], check=True, capture_output=True, text=True
    )
    assert {f"{top.name}/{name}" for name in tracked.stdout.splitlines()} <= set(names)
    # A namespace with no network, and a cargo that has fetched nothing before.
    environment = {**os.environ, "CARGO_HOME": str(tmp_path / "home"), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    for words in (["tree", "--workspace", "-e", "all"], ["check", "--quiet", "-p", "gpushare"]):
        command = ["unshare", "--net", "cargo", words[0], "--offline", "--locked", *words[1:]]
        done = subprocess.run(command, cwd=top, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
