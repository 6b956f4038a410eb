# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks into a .so file with binutils."""

import subprocess


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(path, *options):
    """Names of the dynamic symbols that nm(1) prints with OPTIONS, without versions."""
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", *options, path).splitlines()}


def place(path, symbol):
    """(offset in the file, size) of a data symbol."""
    for line in run("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if fields and fields[-1] == symbol:
            address, size = int(fields[1], 16), int(fields[2])
    for line in run("readelf", "-SW", path).splitlines():
        fields = line.split("]", 1)[-1].split()
        if len(fields) > 5 and fields[0].startswith("."):
            start, offset, length = (int(field, 16) for field in fields[2:5])
            if start and start <= address < start + length:
                return address - start + offset, size
    raise AssertionError(f"{symbol} is in no section of {path}")


def data(path, symbol):
    """The bytes of a data symbol."""
    offset, size = place(path, symbol)
    return path.read_bytes()[offset:offset + size]
