# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that other files than pages of docs tell their reader: manual pages, comments of configuration files,
the Makefile, and the sentences of a page."""

import os
import re

from lab import TOP
from pages import ASSIGNED, FENCE, Command, bare, blocks, has_prompts, program, prompted, unindented

# One of gpushare's commands in a sentence.
OURS = re.compile(
    r"\bgpushare (?:audit|check|explain|leaks|metrics|status|conf (?:slurm|gres|cgroup|plugstack)"
    r"|qos (?:plan|apply|show|docs))\b(?: (?:-- |--?)[a-z][a-z-]*(?:=\S*[^\s.,;)])?| GS\d+)*"
)


# Not commands, but several of them.
GROUPS = ("gpushare qos", "gpushare conf")


def is_command(text):
    """Whether TEXT is a program with what it is given, and not only its name; one of the source may stand alone."""
    words = ASSIGNED.sub("", text).removeprefix("sudo ").split()
    if program(text) is None or text in GROUPS:
        return False
    path = TOP / words[0]
    return path.is_file() and os.access(path, os.X_OK) if "/" in words[0] else len(words) > 1


# ---- Manual pages.

ESCAPES = [(r"\-", "-"), (r"\(aq", "'"), (r"\*(Aq", "'"), (r"\&", ""), (r"\e", "\\")]
FONT = re.compile(r"\.(B|I|BR|BI|IB|IR|RB|RI) +(?!\S+ \(\d\))(.*)$")  # not `.BR sacctmgr (1)`
ARGUMENT = re.compile(r'"([^"]*)"|(\S+)')
BOLD = re.compile(r"\\fB(.*?)\\f[RP]")


def unescaped(text):
    for escape, meant in ESCAPES:
        text = text.replace(escape, meant)
    return re.sub(r"\\f[BIRP]", "", text)


def of_manual_page(page, text):
    """Of its blocks as of a page's, and what is bold or one of gpushare's commands in its sentences. What is in one of
    its fonts in the lines behind a command belongs to it: `.B gpushare explain`, `.I number`."""
    block, bold = None, None
    for number, line in enumerate([*text.splitlines(), "."], 1):
        if line in (".EX", ".nf"):
            block = []
        elif line in (".EE", ".fi"):
            yield from of_block(page, block)
            block = None
        elif block is not None:
            block.append((number, unescaped(line)))
            continue
        font = FONT.match(line)
        if font and bold:
            bold[1] += " " + unescaped(" ".join(one or two for one, two in ARGUMENT.findall(font[2])))
            continue
        if bold:
            yield from of_sentence(page, *bold, sure=True)
            bold = None
        if font and font[1].startswith("B"):
            first = ARGUMENT.match(font[2])
            words = font[2] if font[1] == "B" else first[1] or first[2]
            bold = [number, unescaped(words)] if program(words) else None
        elif not line.startswith("."):
            spans = BOLD.findall(line)
            for span in spans:
                yield from of_sentence(page, number, unescaped(span), sure=True)
            if not spans:
                yield from of_sentence(page, number, unescaped(line))


def of_block(page, block):
    block = unindented(block)
    yield from (prompted if has_prompts(block) else bare)(page, block)


def of_sentence(page, number, text, sure=False):
    """TEXT if it is a command (SURE: it is set as one), and otherwise gpushare's commands in it."""
    if sure and is_command(text):
        yield Command(page, number, "", text)
    elif not sure:
        yield from (Command(page, number, "", found) for found in OURS.findall(text))


# ---- Comments of configuration files, and of the Makefile.

def of_comments(page, text):
    """A comment that is a command, or whose last sentence ends in one behind a colon; what stands in `…`, and
    gpushare's commands."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        begins, before = not before.startswith("#"), line
        if not line.startswith("#"):
            continue
        comment = line.lstrip("# -")
        # A command of ours is known by its words; with another program's name a line of a sentence can begin.
        ends = [*([comment] if begins else []), *re.findall(r": (.*)$", comment)]
        whole = [end for end in ends if is_command(end) and program(end) != "gpushare"]
        spans = re.findall(r"`([^`]+)`", comment)
        if whole:
            yield Command(page, number, "", whole[-1])
        else:
            yield from (Command(page, number, "", span) for span in spans if is_command(span))
            yield from of_sentence(page, number, re.sub(r"`[^`]+`", "", comment))


TARGETS = re.compile(r"\bmake ([a-z][a-z-]*(?:, [a-z][a-z-]*)*)")


def of_makefile(page, text):
    """The targets that its first comment names."""
    for number, line in enumerate(text.split("\n\n", 1)[0].splitlines(), 1):
        if re.match(r"# make  +", line):
            yield Command(page, number, "", "make")
        for names in TARGETS.findall(line):
            yield from (Command(page, number, "", f"make {name}") for name in names.split(", "))


# ---- Sentences of a page.

def of_sentences(page, text):
    """What a page sets as code in its sentences and tables, and is a command."""
    lines = {number: "" if FENCE.match(line) else line for number, line in enumerate(text.splitlines(), 1)}
    for block in blocks(text):
        for number, _ in block:
            lines[number] = ""
    kept = "\n".join(lines.values())
    for span in re.finditer(r"`([^`]+)`", kept):
        command = " ".join(span[1].split())
        if is_command(command):
            yield Command(page, kept.count("\n", 0, span.start()) + 1, "", command)
