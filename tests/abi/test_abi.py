# SPDX-License-Identifier: GPL-2.0-or-later
"""The .so files as Slurm's loader sees them: exported names, plugin_type, plugin_version, what they need."""

import os
import re
import subprocess

import pytest
from elf import data, run, symbols
from lab import TOP

EXPORTS = {
    "job_submit_gpushare.so": {"plugin_name", "plugin_type", "plugin_version", "init", "job_submit", "job_modify"},
    "spank_gpushare.so": {
        "plugin_name", "plugin_type", "plugin_version", "slurm_spank_init", "slurm_spank_user_init",
        "slurm_spank_task_post_fork", "slurm_spank_task_init", "slurm_spank_exit",
    },
    "spank_gpushare_prolog.so": {
        "plugin_name", "plugin_type", "plugin_version", "slurm_spank_job_prolog", "slurm_spank_job_epilog",
    },
}
TYPES = {
    "job_submit_gpushare.so": b"job_submit/gpushare",
    "spank_gpushare.so": b"spank",
    "spank_gpushare_prolog.so": b"spank",
}
# The builds of packaging/glibc, which GPUSHARE_BUILD may name, need them.
OF_OLD_GLIBC = {"libpthread.so.0", "libdl.so.2"} if "GPUSHARE_BUILD" in os.environ else set()
plugins = pytest.mark.parametrize("plugin", EXPORTS)


@plugins
def test_exactly_what_slurm_looks_up_is_exported(built, plugin):
    assert symbols(built.folder / plugin, "--defined-only") == EXPORTS[plugin]


@plugins
def test_the_type_is_slurms_and_ends_in_nul(built, plugin):
    assert data(built.folder / plugin, "plugin_type") == TYPES[plugin] + b"\0"


@plugins
def test_the_version_is_that_of_the_headers(built, plugin):
    header = (built.root / "usr/include/slurm/slurm_version.h").read_text()
    version = int(re.search(r"#define SLURM_VERSION_NUMBER (0x[0-9a-f]+)", header).group(1), 16)
    assert int.from_bytes(data(built.folder / plugin, "plugin_version"), "little") == version
    assert f"{version >> 16}.{version >> 8 & 255:02}" == built.release, "the root is of that release"


def missing(built, plugin, *providers):
    """Names that the plugin needs and neither the loading process nor the C library has."""
    libraries = run("readelf", "-dW", built.folder / plugin)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", libraries))
    # srun loads a plugin twice in every start, and every library that it needs. Before 2.34 glibc was in more files.
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2"} | OF_OLD_GLIBC, needed
    wanted = {line.split()[-1] for line in run("nm", "-D", "--undefined-only", built.folder / plugin).splitlines()
              if "@" not in line and " w " not in line}
    offered = set()
    for provider in providers:
        for path in built.root.glob(provider):
            offered |= symbols(path, "--defined-only")
    return wanted - offered


def test_slurmctld_has_all_that_the_job_submit_plugin_needs(built):
    providers = ["usr/lib/*/slurm-wlm/libslurmfull.so", "usr/sbin/slurmctld-wlm"]
    assert missing(built, "job_submit_gpushare.so", *providers) == set()


def test_every_slurm_command_has_all_that_the_spank_plugin_needs(built):
    """srun, sbatch and salloc load it too, and have libslurmfull only."""
    for plugin in ("spank_gpushare.so", "spank_gpushare_prolog.so"):
        assert missing(built, plugin, "usr/lib/*/slurm-wlm/libslurmfull.so") == set()


@plugins
def test_they_are_small_and_bound_at_load(built, plugin):
    """Bound at load: a Slurm that lacks a name refuses the plugin instead of dying at the first call."""
    assert (built.folder / plugin).stat().st_size <= (900_000 if plugin == "job_submit_gpushare.so" else 1 << 20)
    assert "NOW" in run("readelf", "-dW", built.folder / plugin)


@pytest.mark.parametrize("plugin", ["spank_gpushare.so", "spank_gpushare_prolog.so"])
def test_a_spank_plugin_that_is_loaded_twice_is_mapped_once(built, plugin):
    """srun and slurmstepd load it, look at its name, unload it and load it.
    slurmctld must be able to load a new job_submit plugin."""
    assert "NODELETE" in run("readelf", "-dW", built.folder / plugin)
    assert "NODELETE" not in run("readelf", "-dW", built.folder / "job_submit_gpushare.so")


@pytest.mark.parametrize("program", ["gpushare-prolog", "gpushare-epilog"])
def test_what_is_started_for_every_job_loads_no_library(built, program):
    archive = run("cc", "-print-file-name=libc.a").strip()
    if not archive.startswith("/"):
        pytest.skip("NOT TESTED: this machine's C library is not there as an archive")
    assert "NEEDED" not in run("readelf", "-dW", built.folder / program)


def test_nothing_says_where_it_was_built(built):
    """Else the same sources would make other files elsewhere. packaging/reproduce compares them all."""
    # Not the checkout itself: /gpushare ends other directories' names too.
    folders = [f"{TOP}/{name}/" for name in ("target", "src")]
    folders += [f"{path}/" for pattern in ("*/src", "*/*/src") for path in TOP.glob(pattern)]
    folders.append(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo"))
    for file in sorted(built.folder.iterdir()):
        content = file.read_bytes()
        assert not [folder for folder in folders if folder.encode() in content], file
        assert b"/library/std/src/" in content or file.name == "THIRD-PARTY", "a path of a kind that is looked for"


@plugins
def test_symbols_of_a_newer_glibc_are_told(built, plugin):
    """packaging/glibc builds for an older one, and checks that."""
    def check(version):
        return subprocess.run(
            [TOP / "packaging/glibc", "--check", version, built.folder / plugin], capture_output=True, text=True
        )

    asked = re.findall(r"Name: GLIBC_2\.(\d+)", run("readelf", "-VW", built.folder / plugin))
    newest = max(map(int, asked))
    done = check(f"2.{newest}")
    assert (done.returncode, done.stderr) == (0, "")
    done = check(f"2.{newest - 1}")
    assert done.returncode == 1 and f"{plugin} needs glibc 2.{newest}, newer than 2.{newest - 1}:\n    " in done.stderr
    assert f"@GLIBC_2.{newest}\n" in done.stderr


def test_headers_that_are_not_there_are_one_message(tmp_path):
    """The build stops with what was tried, the variable and the packages."""
    result = subprocess.run(
        ["cargo", "check", "--quiet", "--locked", "-p", "slurm-sys"], cwd=TOP,
        capture_output=True, text=True, env={**os.environ, "SLURM_INCLUDE_DIR": str(tmp_path)},
    )
    assert result.returncode != 0
    assert f"SLURM_INCLUDE_DIR is '{tmp_path}', but there is no slurm/slurm.h in it" in result.stderr
