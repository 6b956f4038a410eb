# SPDX-License-Identifier: GPL-2.0-or-later
"""The members of a release's job_desc_msg_t that a user's own client can set:
read from its header, so none is left out."""

import re

# Lengths of arrays that the client itself fills; a wrong one crashes the client, and slurmctld never sees it.
LENGTHS = {"argc", "env_size", "spank_job_env_size"}
NUMBER = re.compile(r"(?:uint(?:8|16|32|64)_t|time_t)\s+(\w+)$")
STRING = re.compile(r"char\s+\*\s*(\w+)$")


def members(header):
    """(strings, numbers) of the job description in the text of slurm.h."""
    body = re.search(r"typedef struct job_descriptor \{(.*?)\n\} job_desc_msg_t;", header, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    strings, numbers = [], []
    for statement in body.split(";"):
        statement = " ".join(statement.split())
        if found := STRING.match(statement):
            strings.append(found.group(1))
        elif found := NUMBER.match(statement):
            numbers.append(found.group(1))
    return strings, [name for name in numbers if name not in LENGTHS]


def c_table(header):
    """What client.c includes as members.h."""
    strings, numbers = members(header)
    entry = "    {{\"{0}\", offsetof(job_desc_msg_t, {0}), {1}}},\n"
    lines = [entry.format(name, 0) for name in strings]
    lines += [entry.format(name, f"sizeof(((job_desc_msg_t *) 0)->{name})") for name in numbers]
    return "".join(lines)
