# SPDX-License-Identifier: GPL-2.0-or-later
"""What one user does with one job, from its submission on."""

from dataclasses import dataclass

USERS = ["alice", "alice", "bob"]
RELEASE = {"priority": "INFINITE"}


@dataclass
class Story:
    kind: str
    actions: list
    plain: bool = False  # a typed request within every limit: its submission must be accepted

    def __len__(self):
        return len([action for action in self.actions if action.verb != "wait"])
