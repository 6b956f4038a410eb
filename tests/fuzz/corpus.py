#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The kept inputs of a fuzz target: corpus/TARGET has one a line, as a Python bytes literal, the shortest first.

    corpus.py unpack TARGET DIR     writes each into a file of DIR
    corpus.py pack TARGET DIR       keeps the shortest files of DIR, as many as fit"""

import ast
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST = 27_000  # bytes of one target, so that all of them have less than 200 KB


def unpack(kept, folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = kept.read_text("ascii").splitlines() if kept.exists() else []
    for number, line in enumerate(lines):
        (folder / f"kept-{number}").write_bytes(ast.literal_eval(line))


def pack(kept, folder):
    inputs = sorted({file.read_bytes() for file in folder.iterdir()}, key=lambda data: (len(data), data))
    lines, size = [], 0
    for data in inputs:
        size += len(line := f"{data!r}\n")
        if size > MOST:
            break
        lines.append(line)
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("".join(lines), "ascii")
    print(f"{kept.name}: {len(lines)} of {len(inputs)} inputs kept")


verb, target, folder = sys.argv[1:]
{"unpack": unpack, "pack": pack}[verb](HERE / "corpus" / target, Path(folder))
