# SPDX-License-Identifier: GPL-2.0-or-later
"""What a siege says: each finding with the shortest sequence that does it, and what was tried in all."""

import time

import campaign
import judge
import kinds
from action import to_json


def outcome(result):
    """The actions of one script, their answers and what came of them."""
    for action, answer in result.answers:
        text = " | ".join(answer.text.strip().split("\n"))[:200].strip(" |")
        print(f"           {action} -> {answer.error} {answer.job} {text}")
    for violation in result.violations:
        print(f"           ! {violation}", flush=True)


class Findings:
    def __init__(self, siege, keep_going):
        self.siege, self.keep_going = siege, keep_going
        self.known = {}  # signature: how often
        self.alone = 0  # not seen again when played alone

    def collect(self):
        """Plays the siege; how much it found."""
        start, spent = time.monotonic(), 0.0
        for violations, stories, look in self.siege.rounds():
            begun = time.monotonic()
            self.take(violations, stories)
            spent += time.monotonic() - begun
            if not self.keep_going:
                break
        self.summary(time.monotonic() - start - spent)
        return len(self.known) + self.alone + len(self.siege.tally.refused_plain)

    def take(self, violations, stories):
        for known in self.known if self.siege.box.guard is None else []:
            if violations != [judge.DOWN] and kinds.explains(known, stories):
                self.known[known] += 1
                return
        if self.siege.box.guard is not None and violations != [judge.DOWN]:
            self.known[tuple(sorted({violation.kind for violation in violations}))] = 1
            return  # it is guard that is tried, not each way
        after = self.siege.tally.actions
        print(f"FOUND after {after} actions, seed {self.siege.seed}:")
        for violation in violations:
            print(f"  ! {violation}")
        short = campaign.shorten(self.siege, stories, {violation.kind for violation in violations})
        if short is None:
            self.alone += 1
            print("  not again when played alone; the round's stories of these jobs:")
        else:
            self.known[kinds.signature(short)] = 1
            print("  shortest:")
        for actions in short or stories:
            for action in actions:
                print(f"    {action}")
            print(f"    replay: {to_json(actions)}", flush=True)

    def summary(self, seconds):
        tally = self.siege.tally
        print(
            f"{tally.actions} actions in {seconds:.0f} s ({tally.actions / max(seconds, 1):.0f} a second), "
            f"{tally.accepted} accepted; "
            f"{tally.looks} looks, {tally.full} of them with a limit used up; {tally.ran} jobs ran, "
            f"{tally.ran_limited} under a typed limit"
        )
        print("stories: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.stories.items())))
        print(f"plain typed requests within the limit: {tally.plain}, accepted {tally.plain_accepted}")
        for action, answer in tally.refused_plain[:10]:
            print(f"  REFUSED: {action}: {answer.text[:300]}")
        deaths = sum(client.deaths for client in self.siege.box.clients.values())
        print(
            f"clients that died: {deaths}; findings: {len(self.known)} kinds {list(self.known.values())}, "
            f"{self.alone} not seen again alone"
        )
