# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of `packaging/glibc 2.28` on Debian 11, whose glibc is 2.31: Debian's mirrors have no older one.
No Slurm is there; a library has the names that the plugins want of it."""

import os
import subprocess
from pathlib import Path

import install
import pytest
from elf import run
from lab import TOP

BUILT = Path(os.environ.get("GPUSHARE_GLIBC_BUILD", TOP / "target/glibc-2.28"))
PLUGIN_DIR = "/usr/lib64/slurm"
# Unpacked only, nothing is run.
MAKE = """
    . tests/lab/host/root.sh
    mmdebstrap --quiet --mode=root --variant=extract --include=libc6,perl-base,bash,coreutils bullseye "$1" \
        "deb [signed-by=$DEBIAN_KEYRING] $(debian_mirror) bullseye main"
"""
# Loads each file as slurmctld and slurmd do, every name bound, and prints what it says of itself.
LOAD = r"""
    require DynaLoader;
    my ($slurm, @plugins) = @ARGV;
    DynaLoader::dl_load_file($slurm, 1) or die DynaLoader::dl_error(), "\n";
    for my $path (@plugins) {
        my $plugin = DynaLoader::dl_load_file($path, 0) or die DynaLoader::dl_error(), "\n";
        my ($type, $version) = map {
            pack("Q", DynaLoader::dl_find_symbol($plugin, $_) || die "$path has no $_")
        } qw(plugin_type plugin_version);
        printf "%s %u\n", unpack("p", $type), unpack("L", unpack("P4", $version));
    }
"""


def stand_in(path):
    """A library with the names that the plugins want of Slurm, and no need of any other."""
    lines = [
        line for plugin in install.PLUGINS
        for line in run("nm", "-D", "--undefined-only", BUILT / f"lib{plugin}.so").splitlines()
        if "@" not in line and " w " not in line
    ]
    source = "".join(f"long {name}[64];\n" for name in sorted({line.split()[-1] for line in lines}))
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", path], input=source, text=True, check=True
    )


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """Runs a command in a Debian 11 in which `make install` has put these files where RHEL has them."""
    if not BUILT.is_dir():
        pytest.skip("NOT TESTED: an older glibc; packaging/glibc 2.28 builds for it, and wants zig (docs/install.md)")
    root = tmp_path_factory.mktemp("debian") / "11"
    made = subprocess.run(["bash", "-euc", MAKE, "-", root], cwd=TOP, capture_output=True, text=True, timeout=300)
    if made.returncode != 0:
        pytest.skip("NOT TESTED: an older glibc; Debian 11 can't be made here, without root, mmdebstrap or a mirror")
    variables = {"DESTDIR": str(root), "BUILT": str(BUILT), "SLURM_PLUGIN_DIR": PLUGIN_DIR}
    subprocess.run([TOP / "packaging/install"], env={**os.environ, **variables}, check=True, capture_output=True)
    stand_in(root / "slurm.so")
    # `gpushare check` knows Slurm's directory by such a file.
    (root / PLUGIN_DIR[1:] / "auth_munge.so").touch()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PERL_DL_NONLAZY": "1"}

    def inside(*command):
        return subprocess.run(
            ["chroot", root, *command], env=environment, capture_output=True, text=True, timeout=60
        )

    assert "2.31" in inside("/lib/x86_64-linux-gnu/libc.so.6").stdout
    return inside


def loaded(debian):
    plugins = [f"{PLUGIN_DIR}/{name}.so" for name in install.PLUGINS]
    done = debian("perl", "-e", LOAD, "/slurm.so", *plugins)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


def test_it_loads_the_plugins_with_every_name_bound(debian):
    types, versions = zip(*loaded(debian))
    assert types == ("job_submit/gpushare", "spank", "spank") and len(set(versions)) == 1


def test_the_programs_run(debian):
    version = debian("gpushare", "--version")
    assert version.stdout.startswith("gpushare ") and version.returncode == 0, version.stderr
    for name in ("prolog", "epilog"):
        done = debian(f"gpushare-{name}")
        assert done.stderr.startswith(f"gpushare-{name}: SLURM_JOB_ID is not set"), done.stderr
    # It was loaded, and is no NVML.
    library = "/lib/x86_64-linux-gnu/libm.so.6"
    done = debian("gpushare-nvml", "--library", library)
    assert done.returncode == 1 and f"{library}: undefined symbol: nvml" in done.stderr, done.stderr


def test_check_knows_them(debian):
    number = int(loaded(debian)[0][1])
    slurm = f"{number >> 16}.{number >> 8 & 255:02}.{number & 255}"
    done = debian("gpushare", "check", "--for", slurm)
    for name in ("job_submit_gpushare", "spank_gpushare"):
        assert f"{PLUGIN_DIR}/{name}.so is built for Slurm {slurm}" in done.stdout, done.stdout + done.stderr
