# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of docs as scripts: the commands of their blocks are run, and must print what the page says.

In a block, a line `WHO$ COMMAND` or `WHO# COMMAND` is a command of a user, or of root on a machine; what follows is what it
prints, or for `cat` of a file that isn't there, the file. A line `…` stands for any lines, and `…` in one for any text.
Blanks, times and the numbers of jobs and processes may differ.
"""

import re
from dataclasses import dataclass, field

PROMPT = re.compile(r"^(\w+)[#$] (.*)$")
# They only look, so they are asked again until they say what the page says.
LOOKS = re.compile(r"(squeue|sinfo|sacct|cat|grep|tail|scontrol show|gpushare (status|check|explain|qos (plan|show|docs)))\b")


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
        """Whether OUTPUT is what the page says; all is, where it says nothing."""
        return not self.said or re.fullmatch(pattern(self.said), plain(output)) is not None


def steps(page):
    """The commands of a page, in its order."""
    found, section, inside, current = [], "", False, None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside, current = not inside, None
        elif not inside:
            section = line.strip("# ") if line.startswith("## ") else section
        elif match := PROMPT.match(line):
            current = Step(section, number, *match.groups())
            found.append(current)
        elif current:
            current.said.append(line)
    return found


def plain(text):
    """The lines that are not empty, without blanks that only align."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return "".join(line + "\n" for line in lines if line)


VARIES = [
    (r"\d+(?:-\d\d-\d\dT|-)?\d*:\d\d(?::\d\d)?", r"[\\dT:-]+"),  # times
    (r"(?<=[Jj]ob )\d+|(?<=process )\d+|^\d+(?= )", r"\\d+"),
]


def pattern(lines):
    parts = []
    for line in plain("\n".join(lines)).splitlines():
        if line == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        text = re.escape(line).replace(r"\ ", " ").replace(r"\-", "-").replace("…", ".*")
        for varies, instead in VARIES:
            text = re.sub(varies, instead, text)
        parts.append(text + r"\n")
    return "".join(parts)
