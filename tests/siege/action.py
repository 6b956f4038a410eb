# SPDX-License-Identifier: GPL-2.0-or-later
"""What the users of a siege do, and what is answered."""

import json
from dataclasses import dataclass, field


@dataclass
class Action:
    """One thing that a user does. VERB is the client's, or `cli` (ARGV is a command), `rest`,
    `root` (ARGV, by root)."""

    user: str
    verb: str
    fields: dict = field(default_factory=dict)
    argv: list = field(default_factory=list)
    more: list = field(default_factory=list)  # further components of a het job

    def __str__(self):
        words = [f"{name}={value!r}" for name, value in self.fields.items()]
        words += [f": {name}={value!r}" for one in self.more for name, value in one.items()]
        return " ".join([f"{self.user}: {self.verb}", *self.argv, *words])


@dataclass
class Answer:
    error: int
    job: int
    text: str

    @property
    def absent(self):
        """Whether this release doesn't have what was to be set."""
        return self.error == -2 or "unrecognized option" in self.text or "invalid option" in self.text.lower()


def to_json(actions):
    return json.dumps([vars(action) for action in actions])


def from_json(text):
    return [Action(**one) for one in json.loads(text)]
