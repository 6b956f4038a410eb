# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways to keep a prolog from recording a share, and what must happen then."""

from contextlib import contextmanager
from dataclasses import dataclass

RUN = "/run/gpushare"
PROLOG = "/usr/sbin/gpushare-prolog"
CONF = "/etc/slurm/gpushare.conf"


@dataclass(frozen=True)
class Way:
    """Shell commands, and what a step is told where Slurm doesn't tell it of its share."""

    begin: str
    end: str
    says: str

    @contextmanager
    def broken(self, node):
        node.ok(self.begin)
        try:
            yield
        finally:
            node.ok(self.end)


def mounted(options, then, says):
    return Way(f"mkdir -p {RUN}; mount -t tmpfs -o mode=755,{options} ledger {RUN}; {then}", f"umount {RUN}", says)


FILL = f"mkdir {RUN}/jobs; touch {RUN}/lock; n=0; while touch {RUN}/fill$n 2>/dev/null; do n=$((n + 1)); done"
WAYS = [
    mounted("ro", "true", "Read-only file system"),
    mounted("nr_inodes=9", FILL, "No space left on device"),
    mounted("size=1m", f"mkdir {RUN}/lock", "lock"),
    mounted("size=1m", f"chmod 777 {RUN}", "must be a directory that only root can change"),
    # A prolog waits for ten seconds, a step for two.
    Way(
        f"mkdir -p {RUN}; touch {RUN}/lock; setsid flock {RUN}/lock sleep 600 >/dev/null 2>&1 & echo $! >/tmp/locker; "
        f"until ! flock -n {RUN}/lock true; do sleep 0.1; done",
        "kill -9 -$(cat /tmp/locker)",
        "was held by others",
    ),
    # No prolog: what steps ask is still there.
    Way(
        f"cp -p {PROLOG} /tmp/; printf '#!/bin/sh\\nexec /tmp/gpushare-prolog ${{1:?}}\\nexit 0\\n' >{PROLOG}".replace(
            "exec /tmp/gpushare-prolog ${1:?}", "[ -z \"$1\" ] || exec /tmp/gpushare-prolog \"$1\""
        ),
        f"mv /tmp/gpushare-prolog {PROLOG}",
        "gpushare-prolog gave it no GPU on this node",
    ),
    # Root can record it, and the user can't read that.
    Way(f"mkdir -p {RUN}; chmod 700 {RUN}", f"chmod 755 {RUN}", "permission denied"),
    Way(f"echo Nonsense=1 >>{CONF}", f"sed -i /Nonsense/d {CONF}", "Nonsense"),
]


def fails_alone(node, share, says):
    """A job with the share fails, in batch and in srun, and its user reads why; one without it runs on, as does the
    node."""
    job, other = node.sbatch(share, script="echo ran"), node.sbatch(script="srun echo ran")
    srun = node.run(["srun", share, "echo", "ran"], "alice")
    assert srun.returncode != 0 and node.finished(job) == "FAILED", node.output(job)
    for text in (node.output(job), srun.stdout + srun.stderr):
        assert "ran" not in text.splitlines() and "gpushare: this job can't have its GPU here" in text, text
        assert says in text, text
    assert node.finished(other) == "COMPLETED" and "ran" in node.output(other), node.output(other)
    assert node.node_state().split()[0] in ("idle", "mixed", "allocated", "completing"), node.node_state()
