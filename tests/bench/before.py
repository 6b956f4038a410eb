# SPDX-License-Identifier: GPL-2.0-or-later
"""gpushare as it was at another commit, to be measured by turns with this one. Touches target/before, where such builds
stay."""

import os
import shutil
import subprocess

from boxes import TOP

FOLDER = TOP / "target/before"


def git(*words):
    return subprocess.run(["git", "-C", TOP, *words], check=True, stdout=subprocess.PIPE).stdout


def built(commit, release, names, *commands):
    """The commit's short name, and its directory with the files NAMES of target/release, which COMMANDS make."""
    commit = git("rev-parse", "--short=12", f"{commit}^{{commit}}").decode().strip()
    folder = FOLDER / f"{commit}-{release}"
    if not all((folder / name).exists() for name in names):
        print(f"bench: building {', '.join(names)} of {commit} for Slurm {release}", flush=True)
        source = FOLDER / "source"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", source], input=git("archive", commit), check=True)
        include = subprocess.run([TOP / "tests/lab/lab", "include", release], check=True, stdout=subprocess.PIPE).stdout
        slurm = {**os.environ, "SLURM_INCLUDE_DIR": include.decode().strip()}
        for command in commands:
            subprocess.run([*command, "--target-dir", source / "target"], cwd=source, env=slurm, check=True)
        folder.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(source / "target/release" / name, folder)
        shutil.rmtree(source)
    return commit, folder


def plugin(commit, release):
    """The commit's short name, and its job_submit plugin."""
    name = "libjob_submit_gpushare.so"
    build = ["packaging/cargo", "build", "--quiet", "--locked", "--release", "-p", "job_submit_gpushare"]
    commit, folder = built(commit, release, [name], build)
    return commit, folder / name


def programs(commit, release):
    """The commit's short name, and its prolog and epilog."""
    names = ["gpushare-prolog", "gpushare-epilog"]
    commit, folder = built(commit, release, names, ["packaging/programs", "--quiet"])
    return commit, [folder / name for name in names]
