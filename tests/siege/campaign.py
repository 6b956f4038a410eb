# SPDX-License-Identifier: GPL-2.0-or-later
"""A siege: rounds of stories side by side on one cluster, with a look after every few actions;
what breaks an invariant is replayed alone and made as short as it gets."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

import judge
import scripted
from box import Hung
from stories import Author, Story

ROUND = 22  # stories side by side
LOOK_EVERY = 8  # actions


@dataclass
class Finding:
    after: int  # actions
    violations: list
    stories: list
    shortest: list = None  # lists of actions
    look: object = None
    again: bool = False  # seen again when played alone


@dataclass
class Tally:
    actions: int = 0
    accepted: int = 0
    stories: Counter = field(default_factory=Counter)
    looks: int = 0
    ran: int = 0  # jobs seen running
    ran_limited: int = 0
    full: int = 0  # looks at which a limit was used up
    errors: Counter = field(default_factory=Counter)
    refused_plain: list = field(default_factory=list)
    plain: int = 0
    plain_accepted: int = 0


class Siege:
    def __init__(self, box, seed, actions, seconds=None, report=print):
        self.box, self.seed, self.wanted, self.report = box, seed, actions, report
        self.author = Author(random.Random(seed), box.members, box.release, bool(box.limits.caps.cpus))
        self.author.site = box.site
        self.end = time.monotonic() + seconds if seconds else None
        self.tally, self.seen_running = Tally(), set()
        self.log = None
        self.turns = 0

    def rounds(self):
        """Plays rounds until there are enough actions; gives (violations, the stories of their jobs, the look)."""
        while self.tally.actions < self.wanted and not (self.end and time.monotonic() > self.end):
            stories = [self.author.story() for _ in range(ROUND)]
            yield from self.round(stories)

    def again(self, stories, turn):
        """The violations when STORIES are played side by side once more."""
        self.jobs, self.owners = [0] * len(stories), {}
        real, self.tally = self.tally, Tally()
        try:
            found = self.interleave([Story("again", actions) for actions in stories], turn) or self.watch()
            self.box.tidy()
            if self.box.controller() == self.box.pid:
                return found[0] if found else []
        except Hung:
            pass
        finally:
            self.tally = real
        self.box.revive()
        return [judge.DOWN]

    def round(self, stories):
        """One round; what broke in it, if anything, as in rounds()."""
        turn = self.turn = self.tally.actions
        self.jobs, self.owners = [0] * len(stories), {}
        try:
            found = self.interleave(stories, turn) or self.watch()
            self.box.ask_guard()
            self.box.tidy()
            self.turns += 1
            if self.turns % 10 == 0 and self.box.controller() != self.box.pid:
                raise Hung("another slurmctld")
        except Hung:
            self.box.revive()
            yield [judge.DOWN], [story.actions for story in stories], None
            return
        if found:
            violations, look = found
            yield violations, self.guilty(found, stories), look

    def interleave(self, stories, turn):
        """Plays the stories' actions in an order of chance, which TURN decides."""
        order = random.Random(turn * 31 + self.seed)
        waiting, pauses = [list(story.actions) for story in stories], [0.0] * len(stories)
        while any(waiting):
            open = [i for i, rest in enumerate(waiting) if rest and pauses[i] <= time.monotonic()]
            if not open:
                time.sleep(0.05)
                continue
            one = order.choice(open)
            action = waiting[one].pop(0)
            if action.verb == "wait":
                pauses[one] = time.monotonic() + float(action.fields.get("for", 0.6))
                continue
            answer = self.perform(stories[one], action, self.jobs[one])
            if answer.job:
                self.jobs[one] = answer.job
                self.owners[answer.job] = one
            elif not self.jobs[one] and action.verb not in ("root", "mode"):
                # What root has begun goes on.
                waiting[one] = [rest for rest in waiting[one] if rest.verb in ("root", "mode")]
            if self.tally.actions % LOOK_EVERY == 0 and (found := self.look()):
                return found
        return None

    def watch(self):
        """Looks until the scheduler has seen every job."""
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            if found := self.look():
                return found
            time.sleep(0.25)
        return None

    def perform(self, story, action, job):
        answer = self.box.perform(action, job)
        self.tally.actions += 1
        self.tally.accepted += not answer.error
        if self.log:
            said = f"{answer.error}\t{answer.job}\t{answer.text[:150]!r}"
            self.log.write(f"{self.tally.actions}\t{story.kind}\t{job}\t{action}\t{said}\n")
        self.tally.errors[answer.text.split("\n")[0][:60] if answer.error else ""] += 1
        if story.plain and action is story.actions[0]:
            self.tally.stories[story.kind] += 1
            self.tally.plain += 1
            self.tally.plain_accepted += not answer.error
            if answer.error:
                self.tally.refused_plain.append((action, answer))
        elif action is story.actions[0]:
            self.tally.stories[story.kind] += 1
        return answer

    def look(self):
        look = self.box.look()
        self.tally.looks += 1
        running = [job for job in look.jobs if judge.runs(job)]
        new = {job["id"] for job in running} - self.seen_running
        self.tally.ran += len(new)
        self.tally.ran_limited += len(
            [job for job in running if job["id"] in new and job.get("qos") in self.box.limits.governed]
        )
        self.seen_running |= new
        self.tally.full += any(judge.used_up(look, self.box.limits))
        violations = self.box.breaches(look)
        return (violations, look) if violations else None

    def guilty(self, found, stories):
        """The stories whose jobs broke it: of arrays and het jobs by their first number;
        all if somebody's can't be told."""
        violations, look = found
        jobs = {job["id"]: job for job in look.jobs}
        chosen = set()
        for id in {id for violation in violations for id in violation.jobs}:
            keys = [id, jobs[id]["array"], jobs[id]["het"]]
            one = next((self.owners[key] for key in keys if key in self.owners), None)
            if one is None:
                likely = [story.actions for story in stories if story.kind in ("command", "rest", "shaped", "cron")]
                return likely or [story.actions for story in stories]
            chosen.add(one)
        return [stories[one].actions for one in sorted(chosen)]


def shorten(siege, stories, kinds, tries=60):
    """STORIES without whatever isn't needed to break the same kind of invariant; (stories, number of tries)."""
    turn = siege.turn

    def still(candidate):
        nonlocal tries
        tries -= 1
        if tries < 0:
            return False
        if kinds == {"down"}:
            return judge.DOWN in siege.again(candidate, turn)
        return any(violation.kind in kinds for violation in scripted.alone(siege.box, candidate).violations)

    if not still(stories):
        return None
    changed = True
    while changed and tries > 0:
        changed = False
        for candidate in smaller_each(stories):
            if tries <= 0:
                break
            if still(candidate):
                stories, changed = candidate, True
                break
    return stories


def smaller_each(stories):
    """Ways to leave something out: half of the stories, a story, an action, a member."""
    if len(stories) > 3:
        half = len(stories) // 2
        yield from (stories[:half], stories[half:])
    if len(stories) > 1:
        for i in range(len(stories)):
            yield stories[:i] + stories[i + 1:]
    for i, actions in enumerate(stories):
        for j, action in enumerate(actions):
            if len(actions) > 1:
                yield stories[:i] + [actions[:j] + actions[j + 1:]] + stories[i + 1:]
        for j, action in enumerate(actions):
            for k in [k for k, word in enumerate(action.argv) if word.startswith("-") and word not in ("-o", "--wrap")]:
                less = type(action)(**{**vars(action), "argv": action.argv[:k] + action.argv[k + 1:]})
                yield stories[:i] + [actions[:j] + [less] + actions[j + 1:]] + stories[i + 1:]
            for name in action.fields:
                if name in ("priority", "job_id_str"):
                    continue
                less = type(action)(**{**vars(action), "fields": {n: v for n, v in action.fields.items() if n != name}})
                yield stories[:i] + [actions[:j] + [less] + actions[j + 1:]] + stories[i + 1:]
