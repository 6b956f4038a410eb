# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds packages, and tries them in a release's root, on a layer that is removed after the command."""

import os
import re
import struct
import subprocess
from dataclasses import dataclass

import elf
import install
from lab import TOP, root

NAMES = ["gpushare", "gpushare-slurmctld", "gpushare-slurmd", "gpushare-client"]
PLUGIN_DIR = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
# Good compression would take most of the time of building packages.
QUICKLY = {"DPKG_DEB_COMPRESSOR_LEVEL": "0", "RPM_PAYLOAD": "w0.xzdio"}


@dataclass
class Slurm:
    """A version of Slurm; `number` is the number in plugins."""

    number: int

    @property
    def micro(self):
        return f"{self.number >> 16}.{self.number >> 8 & 255:02}.{self.number & 255}"

    @property
    def release(self):
        return f"{self.number >> 16}.{self.number >> 8 & 255:02}"


def slurm_of(release):
    """The Slurm that a release's root has."""
    lines = (root(release) / "usr/include/slurm/slurm_version.h").read_text().splitlines()
    return Slurm(next(int(line.split()[2], 16) for line in lines if line.startswith("#define SLURM_VERSION_NUMBER ")))


def restamp(built, slurm):
    """Makes the plugins in a directory claim to be built for another SLURM; they can't be loaded after that."""
    for name in install.PLUGINS:
        path = built / f"lib{name}.so"
        offset, size = elf.place(path, "plugin_version")
        assert size == 4
        content = bytearray(path.read_bytes())
        content[offset:offset + 4] = struct.pack("<I", slurm.number)
        path.write_bytes(content)


def run_build(kind, sources, release, out, **variables):
    """The result of packaging/KIND/build on this machine, for a release's Slurm."""
    environment = {
        "PATH": os.environ["PATH"], "SLURM_INCLUDE_DIR": str(root(release) / "usr/include"),
        "SLURM_PLUGIN_DIR": PLUGIN_DIR, "PACKAGES": str(out), "SOURCE_DATE_EPOCH": "1700000000", **QUICKLY, **variables,
    }
    command = ["/usr/bin/make", "--silent", "-C", TOP, "-f", TOP / "Makefile", kind]
    if sources != TOP:
        command = [sources / "packaging" / kind / "build"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def built(kind, sources, release, out, **variables):
    """{name: its package} of a build, which must succeed."""
    done = run_build(kind, sources, release, out, **variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return found(kind, out)


def found(kind, out):
    separator = {"deb": "_", "rpm": "-[0-9]"}[kind]
    return {name: next(out.glob(f"{name}{separator}*.{kind}")) for name in NAMES}


# Packages of before had gpushare.conf as a file to be edited, no scripts for the timer, and nothing against other
# versions of each other.
BEFORE = {
    "packages.sh": {
        '"$PREFIX"/share/*) packages=gpushare': '"$PREFIX"/share/* | "$SYSCONFDIR/gpushare.conf") packages=gpushare',
        '    install -d -m 755 "$tree$SHARED"\n':
            '    install -d -m 755 "$tree$SHARED"\n    install -m 644 packaging/gpushare.conf "$tree$SYSCONFDIR"\n',
    },
    "deb/build": {
        "    gpushare) scripts+=(preinst postrm) ;;\n": "    gpushare) scripts=() ;;\n",
        "    if [[ $1 == gpushare ]]; then\n": "    if false; then\n",
        '    scripts "$1" "$folder"\n':
            '    scripts "$1" "$folder"\n'
            '    [[ $1 != gpushare ]] || echo "$SYSCONFDIR/gpushare.conf" >"$folder/DEBIAN/conffiles"\n',
    },
    "rpm/build": {
        "        case $path in\n":
            '        case $path in\n        "$SYSCONFDIR"/*) echo "%config(noreplace) $path" ;;\n',
    },
    "rpm/gpushare.spec": {
        f"%{word} -p /bin/bash -f %{{gpushare_lists}}/gpushare.{word}{more}\n": ""
        for word, more in (("pre", ""), ("post", ""), ("postun", ""), ("triggerpostun", " -- gpushare"))
    },
}


def make_earlier(sources, version):
    """Makes SOURCES those of packages of before, of a VERSION of their own."""
    for file, changes in BEFORE.items():
        path = sources / "packaging" / file
        text = path.read_text()
        for now, before in changes.items():
            assert text.count(now) == 1, now
            text = text.replace(now, before)
        path.write_text(text)
    number(sources, version)


def number(sources, version):
    """Gives SOURCES a version."""
    manifest = (sources / "Cargo.toml").read_text()
    (sources / "Cargo.toml").write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', manifest, count=1))


def deb_field(package, field):
    return subprocess.run(["dpkg-deb", "-f", package, field], check=True, capture_output=True, text=True).stdout.strip()


IN_ROOT = r"""
mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir upper work root
mount -t overlay overlay -o "lowerdir=$1,upperdir=upper,workdir=work" root && root=/mnt/root
mkdir root/packages && mount --bind "$2" root/packages && mount -t proc proc root/proc && mount --bind /dev root/dev
"""


def in_root(release, packages, script, outside=""):
    """The result of SCRIPT in a release's root, with the directory of packages in /packages;
    OUTSIDE, where the root is $root, runs first."""
    run = 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin; chroot root bash -c "$3"'
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    command += ["bash", "-ec", IN_ROOT + outside + "\n" + run]
    return subprocess.run(
        [*command, "-", root(release), packages, script], capture_output=True, text=True, errors="replace", timeout=120
    )
