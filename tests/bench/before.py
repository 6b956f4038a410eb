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


def short(commit):
    """A commit's short name."""
    return git("rev-parse", "--short=12", f"{commit}^{{commit}}").decode().strip()


def built(commit, release, names, *commands):
    """The commit's short name, and its directory with the files NAMES of target/release, which COMMANDS make."""
    commit = short(commit)
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


def whole(commit, release):
    """A directory as target/lab, with the commit's build for the release."""
    plugins = ["job_submit_gpushare", "spank_gpushare", "spank_gpushare_prolog"]
    programs = ["gpushare", "gpushare-prolog", "gpushare-epilog", "gpushare-nvml"]
    build = ["packaging/cargo", "build", "--quiet", "--locked", "--release", *(f"-p{plugin}" for plugin in plugins)]
    files = [f"lib{plugin}.so" for plugin in plugins] + programs
    _, folder = built(commit, release, files, ["packaging/programs", "--quiet"], build)
    lab = folder / "lab" / release
    lab.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(folder / file, lab / file.removeprefix("lib"))
    return lab.parent
