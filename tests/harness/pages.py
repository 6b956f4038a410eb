# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of docs as scripts: the commands in their blocks are run, and must print what the page says.

In a block, a line `WHO$ COMMAND` or `WHO# COMMAND` is a command of a user, or of root on a machine. The following lines
are its output or, for `cat` of a file that doesn't exist, the file. A line `…` matches any lines, and `…` in a line
matches any text. Blanks, times and the numbers of jobs and processes may differ.
"""

import re
from dataclasses import dataclass, field

from lab import TOP

PROMPT = re.compile(r"^(\w+)[#$] (.*)$")
# These commands change nothing, so they are repeated until they print what the page says.
LOOKS = re.compile(
    r"(squeue|sinfo|sacct|cat|grep|tail|scontrol show|gpushare (status|check|explain|qos (plan|show|docs)))\b"
)


@dataclass
class Step:
    section: str
    line: int
    who: str
    command: str
    said: list = field(default_factory=list)

    @property
    def looks(self):
        return LOOKS.match(self.command)

    def is_said(self, output):
        """Whether OUTPUT is what the page says; anything is, if the page says nothing."""
        return is_printed(self.said, output)


# Sections of pages that are pages of their own to the tests, as docs/users.md#Tools that submit jobs; the page without
# them is docs/users.md.
PARTS = {
    "docs/commands.md": [f"gpushare {command}" for command in ("check", "explain", "status", "audit", "conf")],
    "docs/running-cluster.md": ["Migrate"],
    "docs/users.md": ["Tools that submit jobs"],
}


def parts(page):
    """The names of a page and of its parts."""
    return [page, *(f"{page}#{part}" for part in PARTS.get(page, ()))]


def text_of(page):
    """A page, or a part of one, with empty lines in the place of what isn't in it."""
    path, _, part = page.partition("#")
    text = (TOP / path).read_text()
    if path not in PARTS:
        return text
    kept, current = [], ""
    for line in text.splitlines():
        if line.startswith("## ") and line.strip("# ") in PARTS[path]:
            current = line.strip("# ")
        elif line.startswith("## "):
            current = ""
        kept.append(line if current == part else "")
    return "\n".join(kept) + "\n"


def steps(page):
    """The commands of a page, in its order. A part's sections are those below it."""
    found, section, inside, current = [], "", False, None
    heading = "### " if "#" in page else "## "
    for number, line in enumerate(text_of(page).splitlines(), 1):
        if line.startswith("```"):
            inside, current = not inside, None
        elif not inside:
            section = line.strip("# ") if line.startswith(heading) else section
        elif match := PROMPT.match(line):
            current = Step(section, number, *match.groups())
            found.append(current)
        elif current:
            current.said.append(line)
    return found


def is_printed(said, output, varies=()):
    return not plain("\n".join(said)) or re.fullmatch(pattern(said, varies), plain(output)) is not None


def plain(text):
    """The lines that are not empty, without blanks for alignment."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return "".join(line + "\n" for line in lines if line)


VARIES = [
    (r"\d+(?:-\d\d-\d\dT|-)?\d*:\d\d(?::\d\d)?", r"[\\dT:-]+"),  # times
    (r"(?<=[Jj]ob )\d+|(?<=process )\d+|^\d+(?= )", r"\\d+"),
]


def pattern(lines, more=()):
    parts = []
    for line in plain("\n".join(lines)).splitlines():
        if line == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        text = re.escape(line).replace(r"\ ", " ").replace(r"\-", "-").replace("…", ".*")
        for varies, instead in [*VARIES, *more]:
            text = re.sub(varies, instead, text)
        parts.append(text + r"\n")
    return "".join(parts)


# Every block of a page: text between fences, or indented text after an empty line.
FENCE = re.compile(r" *```")
# `alice$ COMMAND`, `head# COMMAND`, `$ COMMAND`, and `# COMMAND` if that isn't a comment.
SHOWN = re.compile(r"^(\w*)([#$]) (.*)$")
CRON = re.compile(r"^(?:[\d*/,-]+ +){5}(\w+) +(.*)$")
ASSIGNS = re.compile(r"^(?:[A-Z_]+=\S+ *)+$")
ASSIGNED = re.compile(r"^(?:[A-Z_]+=\S+ +)+")
PROGRAMS = set("""
        apt apt-get apt-mark awk bash bpftool bwrap cargo cat ch-run chmod chown clush cp curl cd df dnf dpkg dpkg-deb
    dpkg-query     echo enroot env find fuser git gpg gpushare grep install journalctl kill ln ls make mkdir mount mv
    nvidia-cuda-mps-control nvidia-smi pdsh pip podman lab printf promtool pytest-3 python3 rm rpm rsync     sacct
    sacctmgr salloc sattach sbatch scancel scontrol scp scrontab sed sha256sum sinfo snakemake sprio squeue srun ssh
    sshare sstat su sudo systemctl systemd-run tail tar tee timeout touch umount useradd usermod wget apptainer
""".split())
# Lines of programs' output that begin like a command: values.
PRINTED = re.compile(r"^srun true, v[12]|±")


@dataclass
class Command:
    page: str
    line: int
    who: str
    """Who runs it, by the prompt: a user, a machine; empty if there is none."""
    text: str
    said: list = field(default_factory=list)

    @property
    def looks(self):
        return LOOKS.match(self.text)


def blocks(text):
    """For each block of a page, its lines with their numbers, without their common indentation."""
    fenced, empty, current = False, True, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if FENCE.match(line):
            if current:
                yield current
            fenced, empty, current = not fenced, False, []
        elif fenced or (line.startswith("    ") and (current or empty)):
            current.append((number, line))
        elif current and not line:
            current.append((number, line))
        else:
            if any(one for _, one in current):
                yield current
            empty, current = not line, []
    if any(one for _, one in current):
        yield current


def unindented(block):
    indent = min(len(line) - len(line.lstrip()) for _, line in block if line.strip())
    return [(number, line[indent:]) for number, line in block]


def program(line):
    """The first word of a line, if that is a program's name."""
    line = ASSIGNED.sub("", line)
    word = (line.split() or [""])[0]
    ours = re.match(r"(tests|packaging)/\w", word) and ":" not in word
    return word if (word in PROGRAMS or ours) and not PRINTED.search(line) else None


def commands(page, text):
    """The commands in a page's blocks, in its order."""
    for block in map(unindented, blocks(text)):
        if has_prompts(block):
            yield from prompted(page, block)
        elif any(program(line) for _, line in block):
            yield from bare(page, block)


def prompt(line):
    """Who runs what, if a line is a command with a prompt."""
    if cron := CRON.match(line):
        return cron[1], cron[2]
    shown = SHOWN.match(line)
    return (shown[1], shown[3]) if shown and (shown[1] or shown[2] == "$" or program(shown[3])) else None


def has_prompts(block):
    return any(prompt(line) for _, line in block)


def prompted(page, block):
    """The commands of a block that also has their output."""
    current = None
    for number, line in block:
        if found := prompt(line):
            current = Command(page, number, *found)
            yield current
        elif current:
            current.said.append(line)


def bare(page, block):
    """The commands of a block with only commands; each may have a comment."""
    lines, start, unfinished = [], None, False
    for number, line in block:
        if not unfinished and not (program(line) or ASSIGNS.match(line)):
            continue
        start = start if unfinished else number
        line = re.sub(r"\s+# .*$", "", line).rstrip()
        lines.append(line.strip() if unfinished else line)
        unfinished = line.endswith(("\\", "|", "&&"))
        if not unfinished:
            yield Command(page, start, "", " ".join(line.removesuffix("\\").strip() for line in lines))
            lines = []
