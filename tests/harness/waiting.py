# SPDX-License-Identifier: GPL-2.0-or-later
"""A test judges no time: it waits for a condition, with an end."""

import time

# Longest that anything in a healthy cluster takes; a wait that runs into it is a failure.
PATIENCE = 40


def wait(condition, what, patience=PATIENCE, pause=0.1, more=lambda: ""):
    """What CONDITION gives as soon as that is true, asked after PAUSE seconds, later after up to four times as many.
    If it isn't in time, the failure names WHAT, and says what MORE gives."""
    end, longest = time.monotonic() + patience, 4 * pause
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience} s for {what}\n{more()}".strip())
        time.sleep(pause)
        pause = min(1.25 * pause, longest)
    return found
