# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests don't measure time: they wait for a condition, with a time limit."""

import time

# Longer than anything in a healthy cluster takes; a wait that reaches it is a failure.
PATIENCE = 40


def wait(condition, what, patience=PATIENCE, pause=0.1, more=lambda: ""):
    """The value of CONDITION as soon as it is true, checked after PAUSE seconds, later after up to four times as many.
    If the time is over, the failure names WHAT, and includes the result of MORE."""
    end, longest = time.monotonic() + patience, 4 * pause
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience} s for {what}\n{more()}".strip())
        time.sleep(pause)
        pause = min(1.25 * pause, longest)
    return found
