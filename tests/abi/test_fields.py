# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/dev/requests.md against Slurm's headers: no field of a job description may be unknown to it,
and none may be made up."""

import os
import re
from pathlib import Path

import pytest
from elf import symbols
from lab import RELEASES, TOP
from lab import root as lab_root

PAGE = TOP / "docs/dev/requests.md"
# A field in the first cell of a row: `id` (since 23.11), `job_id` (until 25.05), or both with a comma between.
FIELD = re.compile(r"`(\w+)`(?: \((?:since ([\d.]+))?(?:, )?(?:until ([\d.]+))?\))?")
CANT_MATTER = "Fields that don't affect GPUs"
PROVIDERS = {"libslurmfull": "usr/lib/*/slurm-wlm/libslurmfull.so", "slurmctld": "usr/sbin/slurmctld-wlm"}


def series(text):
    """24.11 as numbers that can be compared."""
    return tuple(int(number) for number in text.split("."))


def tables(page):
    """Heading: the rows of its tables without their two first lines, each a list of cells."""
    found = {}
    for part in page.split("\n## ")[1:]:
        heading, text = part.split("\n", 1)
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
        found[heading] = [
            [cell.strip() for cell in line.strip("|").split(" | ")]
            for block in blocks
            for line in block.splitlines()[2:]
        ]
    return found


def fields(page):
    """Name: (first release, last release) of all fields in the tables of fields;
    None where it was or is always there."""
    found = {}
    for heading, rows in tables(page).items():
        if not heading.startswith("Fields"):
            continue
        for cells in rows:
            names = cells[0].lstrip("| ")
            assert not FIELD.sub("", names).strip(" ,"), f"docs/dev/requests.md: what is '{names}'?"
            for name, since, until in FIELD.findall(names):
                assert name not in found, f"docs/dev/requests.md has `{name}` twice"
                found[name] = (since and series(since), until and series(until))
    return found


def of_release(found, release):
    return {name for name, (since, until) in found.items()
            if (not since or since <= release) and (not until or release <= until)}


def members(header):
    """The members of struct job_descriptor in the text of a slurm.h."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", " ", header, flags=re.S | re.M)
    body = re.search(r"struct job_descriptor \{(.*?)\} *job_desc_msg_t;", text, re.S)
    assert body, "no struct job_descriptor in this slurm.h: see by what name it goes now"
    declarations = re.sub(r"\[[^]]*\]", "", body.group(1)).split(";")
    return {re.search(r"(\w+)\s*$", name).group(1) for text in declarations if text.strip() for name in text.split(",")}


def compare(page, include):
    """What must be done where page and header disagree, a line each."""
    version = re.search(r"SLURM_VERSION_NUMBER 0x(..)(..)", (include / "slurm/slurm_version.h").read_text())
    named = ".".join(f"{int(number, 16):02}" for number in version.groups())
    theirs, ours = members((include / "slurm/slurm.h").read_text()), of_release(fields(page), series(named))
    return [
        f"slurm.h of {named} has `{name}`, and docs/dev/requests.md hasn't: look up in Slurm's source whether "
        "it can lead to GPUs, "
        "and write it into one of the tables (docs/dev/new-slurm-release.md, 'A new field')"
        for name in sorted(theirs - ours)
    ] + [
        f"docs/dev/requests.md has `{name}` for {named}, and slurm.h hasn't: write (since …) or (until …) behind it"
        for name in sorted(ours - theirs)
    ]


def tell(wrong):
    """Fails with these lines alone."""
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.fixture(params=RELEASES)
def root(request):
    return lab_root(request.param)


def test_every_field_of_a_job_description_is_on_the_page(root):
    tell(compare(PAGE.read_text(), root / "usr/include"))


@pytest.mark.skipif("SLURM_INCLUDE_DIR" not in os.environ, reason="no other headers are given")
def test_every_field_in_the_headers_that_were_given_is_on_the_page():
    tell(compare(PAGE.read_text(), Path(os.environ["SLURM_INCLUDE_DIR"])))


@pytest.fixture
def copy(root, tmp_path):
    """The release's headers, to be changed."""
    (tmp_path / "slurm").mkdir()
    for name in ("slurm.h", "slurm_version.h"):
        (tmp_path / "slurm" / name).write_text((root / "usr/include/slurm" / name).read_text())
    return tmp_path


def test_a_new_field_is_told_with_what_to_do(copy):
    header = copy / "slurm/slurm.h"
    new = "\tchar *tres_per_rack;\t/* new; */\n} job_desc_msg_t;"
    header.write_text(header.read_text().replace("} job_desc_msg_t;", new))
    told = compare(PAGE.read_text(), copy)
    assert len(told) == 1 and "has `tres_per_rack`, and docs/dev/requests.md hasn't: look up" in told[0], told


def test_a_field_without_its_row_and_a_row_without_its_field_are_told(copy):
    page = PAGE.read_text()
    told = compare(page.replace("| `tres_per_task` |", "| `tres_per_rank` |"), copy)
    assert len(told) == 2 and "has `tres_per_task`" in told[0] and "`tres_per_rank` for" in told[1], told


def test_every_input_of_slurms_check_is_a_field():
    found = fields(PAGE.read_text())
    rows = tables(PAGE.read_text())["Inputs of `gres_job_state_validate`"]
    inputs = {name for cells in rows for name in re.findall(r"`(\w+)`", cells[0])}
    assert len(inputs) == 16 and inputs <= set(found), inputs - set(found)


def test_rules_and_keys_on_the_page_exist():
    page = PAGE.read_text()
    rules = (TOP / "docs/messages.md").read_text()
    keys = re.findall(r"\w+", (TOP / "src/config/names.rs").read_text())
    judges = " ".join(cells[-1] for heading, rows in tables(page).items() for cells in rows if heading != CANT_MATTER)
    wrong = [number for number in sorted(set(re.findall(r"GS\d+", page))) if f"\n## {number}: " not in rules]
    wrong += [key for key in sorted(set(re.findall(r"`([A-Z]\w+)`", judges))) if key not in keys]
    assert not wrong, f"docs/dev/requests.md names {wrong}"


def test_slurms_functions_on_the_page_are_still_exported(root):
    """That they are there is all that can be compared: no installed header has their arguments."""
    last = PAGE.read_text().rsplit("\n\n", 1)[1].replace("\n", " ")
    found = re.findall(r"((?:`\w+`(?:, | and )?)+) by (\w+)", last)
    assert {provider for _, provider in found} == set(PROVIDERS), found
    for names, provider in found:
        file = next(root.glob(PROVIDERS[provider]))
        missing = set(re.findall(r"\w{6,}", names)) - symbols(file, "--defined-only")
        assert not missing, f"{file.name} has no {missing}: read what took their place, and rules that lean on it"
