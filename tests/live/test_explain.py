# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare explain` says of a command what sbatch says of it: same verdict, same number, same lines."""

import re
import shlex
from dataclasses import dataclass, field

import pytest

QOS = "--qos=qos_lafferty"

# Verdicts beside the number of a refusal.
ACCEPTED = "accepted"
# gpushare lets it pass, and Slurm refuses it for a reason of its own.
SLURM = "refused by Slurm"
# sbatch refuses it before slurmctld sees it; what explain says of it is its own affair.
CLIENT = "refused by sbatch"
# Nothing that could be checked.
UNKNOWN = "not judged"


@dataclass
class Case:
    verdict: str
    words: str = ""
    # #SBATCH lines and commands; behind " -- " in words stand the script's own arguments, which are no options
    script: str = None
    env: dict = field(default_factory=dict)
    # The verdict before 23.11, where it differs.
    old: str = None

    def expected(self, cluster):
        if self.old is UNKNOWN and cluster.release == "23.02":
            # It has the option, and the spelling of before 23.11.
            return "GS101" if "gres:gpu:1" in self.words else "GS104"
        return self.verdict if self.old is None or cluster.newer_than("23.11") else self.old


RULES = {
    "gres": Case("GS101", f"{QOS} --gres=gpu:2"),
    "gres-typed": Case(ACCEPTED, f"{QOS} --gres=gpu:a40:2"),
    "gpus": Case("GS101", "-q qos_lafferty -G2"),
    "gpus-typed": Case(ACCEPTED, "-qqos_lafferty -G a40:2"),
    "gpus-per-node": Case("GS101", f"{QOS} --gpus-per-node 2"),
    "gpus-per-node-typed": Case(ACCEPTED, f"{QOS} --gpus-per-node=a40:2"),
    "gpus-per-task": Case("GS101", f"{QOS} -n2 --gpus-per-task=1"),
    "gpus-per-task-typed": Case(ACCEPTED, f"{QOS} -n2 --gpus-per-task=a40:1"),
    "gpus-per-socket": Case("GS101", f"{QOS} --sockets-per-node=2 --gpus-per-socket=1"),
    "two-options": Case("GS103", f"{QOS} --gpus=3090:1 --gres=gpu:a40:1"),
    "none": Case(ACCEPTED, f"{QOS} --gres=NONE"),
    "nothing": Case(ACCEPTED, QOS),
    "capitals-in-qos": Case("GS101", "--qos=QOS_Lafferty --gres=gpu:2"),
    "foreign": Case("GS103", f"{QOS} --gres=gpu:3090:1"),
    "hash-look-alike": Case("GS102", f"{QOS} --gres=gpu:mAA0zxtUzzzz:1"),
    "unreadable": Case("GS104", f"{QOS} --gres=gpu:a40=x=1"),
    "type-with-a-colon": Case("GS102", f"{QOS} --gres=gpu:a40:1:1", old=CLIENT),
    "ntasks-per-gpu": Case("GS105", f"{QOS} -n4 --ntasks-per-gpu=2"),
    "ntasks-per-gpu-typed": Case(ACCEPTED, f"{QOS} --gpus=a40:2 --ntasks-per-gpu=2"),
    "tres-per-task": Case("GS101", f"{QOS} -n1 --tres-per-task=gres/gpu:1", old=UNKNOWN),
    "tres-per-task-colon": Case("GS101", f"{QOS} -n1 --tres-per-task=gres:gpu:1", old=UNKNOWN),
    "tres-per-task-typed": Case(ACCEPTED, f"{QOS} -n1 --tres-per-task=cpu=1,gres/gpu:a40=1", old=UNKNOWN),
    "tres-per-task-hidden": Case("GS104", f"{QOS} -n1 --tres-per-task=gresgpu", old=UNKNOWN),
    "list": Case("GS106", "--qos=normal,qos_lafferty --gres=gpu:a40:1"),
    "comma-form": Case("GS107", "--qos=qos_lafferty,--gres=gpu:2"),
    "too-long": Case("GS108", f"{QOS} --gres={','.join(['gpu:a40:1'] * 200)}"),
    "other-qos": Case(ACCEPTED, "--qos=normal --gpus=2"),
    "no-such-qos": Case(SLURM, "--qos=nobodys --gpus=2"),
    "default-qos": Case(ACCEPTED, "--gres=gpu:2"),
    "default-qos-of-an-account": Case("GS101", "-A group --gres=gpu:2"),
    "default-qos-is-the-only-one": Case("GS101", "--account=LONE --gres=gpu:2"),
    "default-qos-without-partition": Case(ACCEPTED, "-A parted --gres=gpu:2"),
    "default-qos-of-a-partition": Case("GS101", "-A parted -p q --gres=gpu:2"),
    "account-above": Case("GS101", "-A below --gres=gpu:2"),
    "account-above-typed": Case(ACCEPTED, "-A below --gres=gpu:3090:1"),
    "account-look-alike": Case("GS102", "-A below --gres=gpu:mAA0zxtUzzzz:1"),
    "account-ntasks-per-gpu": Case("GS105", "-A below -n4 --ntasks-per-gpu=2"),
    "account-and-qos": Case("GS101", f"-A below {QOS} --gres=gpu:2"),
    "association-of-a-partition": Case("GS101", "-A below -p q --gpus=2"),
    "association-of-one-of-the-partitions": Case("GS101", "-A below -p p,q --gpus=2"),
    "association-of-a-partition-typed": Case(ACCEPTED, "-A below -p q --gpus=a40:2"),
    "no-association": Case(SLURM, "-A nobodys --gres=gpu:2"),
    "a-number-is-a-type": Case("GS101", "--qos=qos_numbers --gres=gpu:1"),
    "abbreviated": Case("GS101", f"{QOS} --gpus-per-n=2"),
    "the-last-wins": Case(ACCEPTED, f"{QOS} --gres=gpu:2 --gres=gpu:a40:2"),
    "environment": Case("GS101", env={"SBATCH_QOS": "qos_lafferty", "SBATCH_GPUS": "2"}),
    "line-over-environment": Case(ACCEPTED, "--gpus=a40:2", env={"SBATCH_QOS": "qos_lafferty", "SBATCH_GPUS": "2"}),
    "script": Case("GS101", script=f"#SBATCH {QOS}  # whose\n#SBATCH --gres=gpu:2"),
    "script-typed": Case(
        ACCEPTED, script=f"# a comment\n\n#SBATCH {QOS} \"--gres=gpu:a40:2\"\n#SBATCH --comment='a b'"
    ),
    "script-after-a-command": Case(ACCEPTED, script=f"#SBATCH --gres=gpu:2\ncd /\n#SBATCH {QOS}"),
    "line-over-script": Case(ACCEPTED, "--gres=gpu:a40:2", script=f"#SBATCH {QOS} --gres=gpu:2"),
    "arguments-are-no-options": Case("GS101", f"{QOS} -- --gres=gpu:a40:2", script="#SBATCH --gres=gpu:2"),
    "environment-over-script": Case("GS101", script=f"#SBATCH {QOS} --gres=gpu:a40:2", env={"SBATCH_GRES": "gpu:2"}),
    "exclusive": Case(ACCEPTED, f"{QOS} --exclusive"),
    "unknown-option": Case(UNKNOWN, f"{QOS} --no-such-option=2 --gres=gpu:2"),
    "bad-value": Case(UNKNOWN, f"{QOS} --gres=gpu:2 -n0"),
}

# gpushare.conf in conf/explain-site.
SITE = {
    "type-added": Case(ACCEPTED, "--qos=qos_soft --gres=gpu:2"),
    "type-not-to-be-added": Case("GS103", "--qos=qos_soft --gres=gpu:3090:2"),
    "warned": Case(ACCEPTED, "--qos=qos_warn --gres=gpu:2"),
    "audited": Case(ACCEPTED, "--qos=qos_audit --gres=gpu:2"),
    "exempt": Case(ACCEPTED, f"-A staff {QOS} --gres=gpu:2"),
    "requeued-appended-throttled": Case(ACCEPTED, "--qos=free --gpus=1 -a 0-63 -t 3:00:00"),
    "throttled": Case(ACCEPTED, "--qos=free --array=0-63%16 --no-requeue --open-mode=truncate"),
    "not-throttled": Case(ACCEPTED, "--qos=free --array=0-63 --time=2:00:00"),
    "favoured-by-environment": Case(
        ACCEPTED, "--qos=free", env={"SBATCH_NO_REQUEUE": "", "SBATCH_OPEN_MODE": "append"}
    ),
    "share-uncounted": Case("GS109", f"{QOS} --reservation=course --gres=mps:40"),
    "share-without-reservation": Case("GS121", "--gres=mps:40"),
    "share-size": Case("GS122", "--reservation=course_1 --gres=mps:41"),
    "share": Case(SLURM, "--qos=qos_shares --reservation=course_1 -p p --gres=mps:40"),
    "whole-gpu-among-shares": Case("GS123", "-p shares --gres=gpu:1"),
    "whole-node-among-shares": Case("GS123", "-p p,shares --exclusive"),
    "node-of-a-user-among-shares": Case(ACCEPTED, "-p p,shares --exclusive=user"),
    "no-gpu-among-gpus": Case("GS126", "-p q -c4"),
    "cpus-of-a-gpu": Case(ACCEPTED, "-p q --gres=gpu:a40:1 -c4"),
    "too-many-cpus": Case("GS127", "-p q --gres=gpu:a40:1 -n2 -c4"),
    "too-many-cpus-on-a-node": Case("GS127", "-p q --gpus=a40:1 --mincpus=5"),
    "whole-gpu-in-a-reservation": Case("GS123", "--reservation=course_1 --gres=gpu:1"),
}


def sbatch_and_explain(cluster, case, user="alice"):
    """Both results for the same words, script and environment."""
    before, _, after = case.words.partition(" -- ")
    words = shlex.split(before)
    script = ["--wrap=true"]
    if case.script is not None:
        cluster.ok("cat > /lab/out/job.sh", stdin=f"#!/bin/bash\n{case.script}\nhostname\n")
        script = ["/lab/out/job.sh", *shlex.split(after)]
    env = ["env", *(f"{name}={value}" for name, value in case.env.items())]
    # Held, so that nothing runs: no rule looks at that.
    sbatch = cluster.run([*env, "sbatch", "-H", "-o", "/dev/null", *words, *script], user)
    explain = cluster.run([*env, "gpushare", "explain", "--", *words, *script], user)
    return sbatch, explain


def said_by_sbatch(result):
    """gpushare's lines in what sbatch printed."""
    lines = [re.sub(r"^sbatch: (error: )?", "", line) for line in result.stderr.splitlines()]
    return [line for line in lines if line.startswith(("gpushare: ", "  "))]


def said_by_explain(result):
    return [
        line
        for line in result.stdout.splitlines()
        if not line.startswith(("accepted: ", "Slurm says no: ", "note: "))
    ]


def compare(cluster, case):
    sbatch, explain = sbatch_and_explain(cluster, case)
    cluster.run("squeue -h -o %A | xargs -r scancel")
    both = f"{sbatch.stdout}{sbatch.stderr}\n---\n{explain.returncode}: {explain.stdout}{explain.stderr}"
    expected = case.expected(cluster)
    reached_slurmctld = "Batch job submission failed" in sbatch.stderr
    if expected in (CLIENT, UNKNOWN):
        assert sbatch.returncode != 0 and not reached_slurmctld, both
        if expected == UNKNOWN:
            assert explain.returncode == 2 and len(explain.stderr.splitlines()) == 1, both
        return
    assert said_by_explain(explain) == said_by_sbatch(sbatch), both
    if expected in (ACCEPTED, SLURM):
        start = "Slurm says no: " if expected == SLURM else "accepted: "
        assert explain.returncode == int(expected == SLURM) and explain.stdout.startswith(start), both
        assert (sbatch.returncode == 0) == (expected == ACCEPTED), both
        assert "GS" not in "".join(said_by_sbatch(sbatch)) or expected == ACCEPTED, both
    else:
        assert explain.returncode == 1 and f"  {expected}, see" in explain.stdout, both
        assert sbatch.returncode != 0 and reached_slurmctld, both


@pytest.mark.parametrize("case", RULES)
def test_explain_says_what_sbatch_says(explained, case):
    compare(explained, RULES[case])


@pytest.mark.parametrize("case", SITE)
def test_explain_follows_the_sites_settings(explained_site, case):
    compare(explained_site, SITE[case])


def test_remarks_are_what_the_user_reads(explained_site):
    """The tests above would also pass if both said nothing."""
    sbatch, explain = sbatch_and_explain(explained_site, SITE["requeued-appended-throttled"])
    for number in ("GS152", "GS153", "GS154"):
        assert number in sbatch.stderr and number in explain.stdout, sbatch.stderr + explain.stdout
    explained_site.run("squeue -h -o %A | xargs -r scancel")


def test_every_option_of_sbatch_is_known(explained):
    """Or explain could not tell an option's value from a script."""
    names = set(re.findall(r"(?:^|[\s,])--([a-z][a-z-]+)", explained.ok(["sbatch", "--help"])))
    assert len(names) > 80, names
    script = (
        "exec 2>&1; for name in $(cat); do echo @$name; sbatch --$name=1 --help >/dev/null; echo @; "
        "gpushare explain -- --$name=1 --qos=normal >/dev/null; done"
    )
    _, *said = re.split(r"^@(.*)\n", explained.run(script, stdin=" ".join(names), timeout=180).stdout, flags=re.M)
    found = {name: (sbatch, explain) for name, sbatch, _, explain in zip(*[iter(said)] * 4)}
    assert set(found) == names
    for name, (sbatch, explain) in found.items():
        # Help lists options that are no more.
        known = "unrecognized option" not in sbatch
        assert known == ("knows no option" not in explain), f"--{name}: {sbatch}{explain}"
        takes_none = "doesn't allow an argument" in sbatch
        assert takes_none == ("takes no value" in explain), f"--{name}: {sbatch}{explain}"


def test_another_users_job_is_judged_for_that_user(explained):
    words = ["gpushare", "explain", "--user", "bob", "--", "-A", "group", "--gres=gpu:2"]
    # Slurm answers nobody else for bob, not even root.
    for user in ("alice", "root"):
        said = explained.run(words, user).stdout
        assert said.startswith("accepted: gpushare limits none of the QOSes that the job can have"), said
    bobs = explained.run(["gpushare", "explain", *words[4:]], "bob")
    assert bobs.returncode == 1 and "Slurm says no: Invalid account or account" in bobs.stdout, bobs
    assert explained.run(["gpushare", "explain", "--user", "nobodys", "--", "-n1"]).returncode == 2


def test_another_configuration_can_be_tried(explained):
    explained.ok("printf 'Mode=warn\\n' > /lab/out/warn.conf; printf 'Mode=maybe\\n' > /lab/out/broken.conf")
    words = ["--", QOS, "--gres=gpu:2"]
    warned = explained.run(["gpushare", "explain", "--conf", "/lab/out/warn.conf", *words], "alice")
    assert warned.returncode == 0 and "gpushare: warning: QOS 'qos_lafferty' requires a GPU type" in warned.stdout
    broken = explained.run(["gpushare", "explain", "--conf", "/lab/out/broken.conf", *words], "alice")
    assert broken.returncode == 2 and "line 1: Mode can't be 'maybe'" in broken.stderr, broken.stderr


def test_what_cannot_be_judged_is_one_line_and_status_2(explained):
    for command, part in [
        ("PATH=/nowhere /usr/bin/gpushare explain -- -n1", "can't run 'sbatch'"),
        ("gpushare explain /nowhere/job.sh", "/nowhere/job.sh: No such file"),
        ("gpushare explain --conf /nowhere -- -n1", "/nowhere: there is no such file"),
        ("gpushare explain -- -n1 : -n2", "heterogeneous"),
        ("gpushare explain GS999", "no message 'GS999'"),
    ]:
        result = explained.run(command, "alice")
        assert result.returncode == 2 and part in result.stderr, f"{command}\n{result.stderr}"
        assert len(result.stderr.splitlines()) == 1 and not result.stdout, result.stderr
