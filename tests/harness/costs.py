# SPDX-License-Identifier: GPL-2.0-or-later
"""What programs and hooks may cost, in counts that don't depend on how busy a machine is: system calls, and
instructions of the programs. tests/data/costs.tsv has what they cost when it was written; a quarter more is a failure.
GPUSHARE_WRITE_COSTS=1 writes what is found instead."""

import fcntl
import os

from lab import TOP

TABLE = TOP / "tests/data/costs.tsv"
MORE = 1.25
# A thread that waits may make a call more or less.
SLACK = 4


def rows():
    """The table's head, and {case: [numbers]}."""
    lines = TABLE.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    split = [line.split("\t") for line in lines if not line.startswith("#")]
    return head, {case: [int(number) for number in numbers] for case, *numbers in split}


def check(case, *found):
    """Fails if one of the numbers FOUND of a case is a quarter above the table's."""
    if "GPUSHARE_WRITE_COSTS" in os.environ:
        with open(TABLE) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            head, table = rows()
            lines = ["\t".join(map(str, [case, *numbers])) for case, numbers in sorted((table | {case: found}).items())]
            TABLE.write_text("\n".join([*head, *lines]) + "\n")
        return
    _, table = rows()
    assert case in table, f"tests/data/costs.tsv doesn't have '{case}': {found}"
    for number, known in zip(found, table[case], strict=True):
        assert 0 < number <= known * MORE + SLACK, (
            f"'{case}' costs {found}, and cost {table[case]} when tests/data/costs.tsv was written. If that is worth "
            "it: GPUSHARE_WRITE_COSTS=1"
        )
