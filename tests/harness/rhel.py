# SPDX-License-Identifier: GPL-2.0-or-later
"""A root that looks to rpm like RHEL with SchedMD's Slurm: packages called slurm, slurm-slurmctld, slurm-slurmd have
/usr/lib64/slurm and /etc/slurm, and rpm and dnf check all that a package requires. It isn't RHEL: its programs are
Debian's."""

import os
import re
import subprocess

import elf
import packages
from lab import TOP

PLUGIN_DIR = "/usr/lib64/slurm"


def libraries(newest):
    """What glibc provides up to version NEWEST, or up to this machine's."""
    found = set(re.findall(r"GLIBC_(2[0-9.]*)", elf.run("readelf", "-VW", "/lib/x86_64-linux-gnu/libc.so.6")))
    versions = sorted(tuple(map(int, text.split("."))) for text in found)
    limit = tuple(map(int, newest.split("."))) if newest else versions[-1]
    words = ["()", *(f"(GLIBC_{'.'.join(map(str, version))})" for version in versions if version <= limit)]
    # Before 2.34, glibc had more files, and the builds of packaging/glibc require those.
    return ", ".join(
        f"{file}{word}(64bit)" for file in ("libc.so.6", "libpthread.so.0", "libdl.so.2") for word in words
    )


def slurm_packages(folder, version, suffix="%{nil}"):
    """Builds the packages of a Slurm into a folder; SUFFIX ends their names. $GPUSHARE_GLIBC is the glibc for which
    they are built."""
    defines = {
        "_topdir": folder / "work",
        "_rpmdir": folder,
        "_build_name_fmt": "%%{NAME}-%%{VERSION}.rpm",
        "slurm_version": version,
        "slurm_suffix": suffix,
        "libraries": libraries(os.environ.get("GPUSHARE_GLIBC")),
    }
    words = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
    command = [
        "rpmbuild", "--quiet", "--nodeps", "--dbpath", folder / "database", "-bb", *words,
        TOP / "tests/fakes/slurm.spec",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


# rpm and dnf of this machine, on the root. Their first line, that rpm isn't meant for Debian, is dropped. `tree` prints
# what exists; for folders, only Slurm's and gpushare's, because RHEL has the others.
START = r"""
rm -rf root/etc/slurm root/usr/lib/*/slurm-wlm root/usr/{s,}bin/slurm* root/usr/bin/{srun,sbatch}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin; set +e
quietly() { "$@" 2>&1 | grep -vE '^(rpm: |warning: Unable to get systemd)'; return "${PIPESTATUS[0]}"; }
rpm() { quietly command rpm --root "$PWD/root" --nosignature "$@"; }
dnf() {
    quietly command dnf --installroot "$PWD/root" --releasever 9 --disablerepo '*' --setopt reposdir=/none \
        --nogpgcheck -qy "$@"
}
inside() { chroot root bash -c "$1" 2>&1; }
tree() { (cd root && find etc usr -xdev ! -type d -o -path '*slurm*' -o -path '*gpushare*') | LC_ALL=C sort; }
"""


def in_rhel(release, folder, script):
    """The output of SCRIPT, which runs on this machine with the root in root/: after each of its lines, `=STATUS`."""
    lines = [f"{line}; echo =$?" for line in script.strip().splitlines()]
    done = packages.in_root(release, folder, "true", START + "\n".join(line.strip() for line in lines))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
