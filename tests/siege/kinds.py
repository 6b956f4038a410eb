# SPDX-License-Identifier: GPL-2.0-or-later
"""Which findings are one and the same way: by the members that a shortest story sets and by what
kind of value they have."""

import re

import words

TOKEN = re.compile(r"^(?:\{P\}|gres[/:])?gpu(?:[:=](.*))?$", re.S)


def kind(name, value):
    """A word for a value: of a GPU string what its tokens name, else the value where it is one of few."""
    if name not in words.GPU_STRINGS + words.GPU_MODIFIERS:
        return value if name in ("shared", "partition", "bitflags", "ntasks_per_tres") else ""
    if not value:
        return "empty"
    found = set()
    for token in re.split("[,;]", value):
        match = TOKEN.match(token)
        if not match:
            found.add("odd")
            continue
        parts = (match.group(1) or "").split(":")
        kinds = [part for part in parts if not part.strip().isdigit() and part]
        found.add("untyped" if not kinds else "typed" if kinds[0] in words.KNOWN else "alien")
    return "+".join(sorted(found))


def signature(stories):
    """Comparable: a shortest story's actions, with whose limit only as QOS or account."""
    result = []
    for actions in stories:
        for action in actions:
            fields = {
                name: kind(name, value)
                for name, value in action.fields.items()
                if name not in ("priority", "job_id_str")
            }
            if action.argv:
                fields = {word.split("=")[0]: "" for word in action.argv if word.startswith("-")}
                fields |= {"argv": action.argv[0]}
            verb = "update" if action.verb == "update1" else action.verb
            result.append((verb, tuple(sorted(fields.items()))))
    return tuple(result)


def explains(short, stories):
    """Whether SHORT, a signature, is in STORIES: its actions one after another, each with these members at least."""
    rest = list(short)
    for verb, fields in signature(stories):
        if rest and rest[0][0] == verb and set(rest[0][1]) <= set(fields):
            rest.pop(0)
    return not rest
