# SPDX-License-Identifier: GPL-2.0-or-later
"""Submissions by slurmrestd, as one user."""

import json
import re

from action import Answer

# release: API version, options of slurmrestd, whether an environment is a list and a request is raw strings
VERSIONS = {
    "22.05": ("v0.0.38", "-s openapi/v0.0.38", False),
    "24.11": ("v0.0.42", "-s openapi/slurmctld -d v0.0.42", True),
    "26.05": ("v0.0.45", "-s openapi/slurmctld -d v0.0.45", True),
}

# The old API has names and values of sbatch's options.
OLD_NAMES = {"tres_per_node": "gres", "tres_per_job": "gpus", "tres_per_task": "gpus_per_task", "num_tasks": "tasks"}


def post(box, user, fields):
    """FIELDS are the members of the job as the API names them."""
    if box.release not in VERSIONS:
        return Answer(-2, 0, "no slurmrestd known for this release")
    version, options, lists = VERSIONS[box.release]
    job = dict(fields)
    if not lists:
        job = {OLD_NAMES.get(name, name): value.removeprefix("gres:") for name, value in fields.items()}
    job |= {"name": "rest", "current_working_directory": "/tmp"}
    job["environment"] = ["PATH=/bin"] if lists else {"PATH": "/bin"}
    body = json.dumps({"script": "#!/bin/sh\nsleep 600\n", "job": job})
    head = (f"POST /slurm/{version}/job/submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
    # It believes a pipe to come from the pipe's owner, so both ends are the user's.
    done = box.cluster.run(f"cat | slurmrestd {options} -a rest_auth/local | cat", user, stdin=head + body)
    found = re.search(r'"job_id": *([1-9][0-9]*)', done.stdout)
    return Answer(0 if found else 1, int(found.group(1)) if found else 0, done.stdout[-600:] + done.stderr[-600:])
