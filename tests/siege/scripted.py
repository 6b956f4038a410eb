# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs scripts of actions on an otherwise empty cluster and says what came of each."""

import time
from dataclasses import dataclass, field

import judge
from box import Hung

WATCH = 3.0  # seconds in which a job that can start does: the scheduler runs every second


@dataclass
class Outcome:
    word: str  # open, closed, refused, absent, down
    violations: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    look: object = None


def play(box, actions, patience=WATCH):
    """Does ACTIONS, which concern one job, and watches what runs."""
    job, answers = 0, []
    for action in actions:
        if action.verb == "wait":
            if not job and answers and answers[-1][1].error:
                continue  # nothing has come of it
            pause(box, job, float(action.fields.get("for", 0)))
            continue
        answer = box.perform(action, job)
        answers.append((action, answer))
        if answer.absent:
            return Outcome("absent", answers=answers)
        job = answer.job or job
    return watch(box, answers, patience)


def watch(box, answers, patience):
    end = time.monotonic() + patience
    started = 0
    while True:
        look = box.look()
        violations = box.breaches(look)
        if violations:
            box.ask_guard()
            return Outcome("open", violations, answers, look)
        # Once all that there is runs, nothing more will start.
        active = [one for one in look.jobs if one["state"] & 0xFF <= 1]
        started = started + 1 if active and all(judge.runs(one) for one in active) else 0
        if started > 1 or time.monotonic() > end or not (active or box.running):
            break
        time.sleep(0.1)
    box.ask_guard()
    of_users = [answer for action, answer in answers if action.verb not in ("root", "mode")]
    refused = any(answer.error for answer in of_users) or box.refused_command()
    return Outcome("refused" if refused else "closed", [], answers, look)


def pause(box, job, seconds):
    """Until JOB runs, or for some seconds."""
    end = time.monotonic() + (seconds or 3)
    while time.monotonic() < end:
        if not seconds and any(one["id"] == job and judge.runs(one) for one in box.look().jobs):
            return
        time.sleep(0.1)


def alone(box, stories):
    """What comes of STORIES, one after another, on an empty cluster, which is empty again afterwards."""
    try:
        for actions in stories[:-1]:
            play(box, actions, patience=0)
        outcome = play(box, stories[-1])
        box.tidy()
        if box.controller() == box.pid:
            return outcome
    except Hung:
        outcome = None
    box.revive()
    return Outcome("down", [judge.DOWN], outcome.answers if outcome else [])


def ways(box, chosen):
    """(way, its outcome) of each; those that want no limits of 0 come last, when the box has none any more."""
    for way in chosen:
        if way.without_zero and not box.without_zero:
            box.drop_zeros()
        yield way, alone(box, [way.actions])
