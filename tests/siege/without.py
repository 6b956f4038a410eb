# SPDX-License-Identifier: GPL-2.0-or-later
"""gpushare's mends by the names that src/mend.rs knows, and what is open without each."""

import re
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
NEWER = ["24.11", "26.05"]
CALL = re.compile(r'mended\(\s*"([^"]*)"')


@dataclass
class Mend:
    name: str
    ways: list = field(default_factory=list)  # parts of titles; one of them must be open on each release
    releases: list = field(default_factory=lambda: ["22.05", *NEWER])
    site: str = ""  # whose ways: caps, cores or course; else those of tests/siege/conf
    beside: list = field(default_factory=list)  # what closes the same ways too: out beside it, but not alone
    test: str = ""  # of `cargo test -p gpushare --lib`, where the way is no limit passed


MENDS = [
    Mend("types-known", ["an empty type", "a type that hashes alike"], NEWER, beside=["lookalike"]),
    Mend("lookalike", ["a type that hashes alike, then moved"], ["22.05"],
         beside=["updates-in-entries", "update-alone", "moves-by-halves"]),
    Mend("lookalike", ["a type that hashes alike"], NEWER, beside=["types-known"]),
    Mend("per-gpu-strings", ["CpusPerTres", "MemPerTres"], beside=["lookalike"]),
    Mend("nodes-of-types", ["--gpus=a40:", "--gpus-per-node=a40:1, then"], NEWER),
    Mend("updates-in-entries", ["then moved and restated"], ["22.05"],
         beside=["lookalike", "update-alone", "moves-by-halves"]),
    Mend("zero-tasks-per-gpu", ["ntasks_per_tres=0"], NEWER),
    Mend("accounts", ["an account's", "a parent account's", "a user's"]),
    Mend("gpu-prefix", ["untyped, under a QOS that counts all"]),
    Mend("shares-governed", ["shares of a name of the site's own"]),
    Mend("whole-gpus-under-shares", ["whole GPUs under a limit on shares"]),
    Mend("reservation-ends", ["exempt by a reservation, which"]),
    Mend("reservation-seen-later", ["tasks for each GPU, exempt by a reservation"], ["26.05"]),
    Mend("follow-reservation", ["whose reservation ends"], site="course"),
    Mend("counted-one-way", ["--gpus of one type beside"]),
    Mend("uneven-tasks", ["--gpus-per-task, tasks that"], NEWER, beside=["nodes-of-types"]),
    Mend("uneven-tasks", ["a core for each task"], NEWER, site="cores", beside=["nodes-of-types"]),
    Mend("limits-on-all", ["a limit on all GPUs"], NEWER),
    Mend("billing", ["a limit on billing"]),
    Mend("moves-by-halves", ["an update of which Slurm takes", "and an update of which"], NEWER),
    Mend("update-alone", ["an update of which Slurm takes the QOS and refuses"], NEWER,
         beside=["moves-by-halves", "reservation-ends"]),
    Mend("qos-lists", ["untyped, a list of QOSes"], NEWER),
    Mend("corrections-complete", test="policy::tests::corrections"),
    Mend("caps-cpus", ["CPUs, "], site="caps"),
    Mend("caps-tasks", ["CPUs, more tasks on"], NEWER, site="caps"),
    Mend("caps-enforce-binding", ["CPUs, --gres-flags", "CPUs, own client, enforce"], NEWER, site="caps"),
    Mend("caps-memory", ["memory, "], site="caps"),
    Mend("gpu-partitions", ["no GPU, "], site="caps"),
    Mend("alternates", ["a partition that passes its jobs on"], site="caps"),
]


def in_source():
    """The names of all calls of mended() in the product."""
    files = [*(TOP / "src").rglob("*.rs"), *(TOP / "plugins").rglob("*.rs"), *(TOP / "node").rglob("*.rs")]
    return {name for file in files for name in CALL.findall(file.read_text())}


def named():
    return {mend.name for mend in MENDS} | {name for mend in MENDS for name in mend.beside}
