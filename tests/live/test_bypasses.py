# SPDX-License-Identifier: GPL-2.0-or-later
"""Every known way round a typed limit, a test each, on every release. The table at the end says what became of each.

The group owns A40s: QOS qos_lafferty has GrpTRES=gres/gpu:a40=4. alice and bob may use it.
"""

import json
import re

import client
import pytest
from lab import TOP

QOS = "--qos=qos_lafferty"
GRES_ERROR = "Invalid generic resource (gres) specification"


def row(number, title):
    """Marks a test as the one of a row in the table."""
    return pytest.mark.bypass(number, title)


@pytest.fixture
def absent(record_property):
    """For a way that a release doesn't have: absent(REASON), after its absence was seen."""
    return lambda reason: record_property("not applicable", reason)


class Ways:
    """Submitting and updating on a cluster, and what must come of it."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.prefix = "gres/" if cluster.newer_than("23.11") else "gres:"
        # 22.05 keeps the old request in an update, so no job is moved under a limit there.
        self.moves = cluster.newer_than("23.02")
        self.not_restated = "GS110" if self.moves else "GS115"

    def submit(self, *options, command="sbatch", user="alice"):
        words = {
            "sbatch": ["sbatch", "-H", "-o", "/dev/null", *options, "--wrap", "sleep 60"],
            "salloc": ["salloc", *options, "true"],
            "srun": ["srun", *options, "true"],
        }
        return self.cluster.run(words[command], user)

    def refused(self, number, *options, keep=(), **how):
        """OPTIONS are refused with that message, and what it says to try is accepted beside the options in KEEP."""
        result = self.submit(*options, *keep, **how)
        assert result.returncode != 0 and number in result.stderr, f"{options}: {result.stdout}{result.stderr}"
        advice = re.search(r"try: (.*)", result.stderr)
        if advice:
            advice = advice.group(1).replace("TYPE", "a40")
            words = [word for word in advice.split() if word.split("=")[0] not in {k.split("=")[0] for k in keep}]
            accepted = self.submit(*words, *keep, **how)
            assert accepted.returncode == 0, f"advice {words}: {accepted.stderr}"
        return result.stderr

    def held(self, *options, user="alice"):
        """The number of a held job that is accepted."""
        result = self.submit("--parsable", *options, user=user)
        assert result.returncode == 0, f"{options}: {result.stderr}"
        return result.stdout.strip()

    def show(self, job):
        text = self.cluster.ok(["scontrol", "-o", "show", "job", job])
        fields = dict(re.findall(r"(\S+?)=(\S*)", text.splitlines()[0]))
        return {key: fields.get(key) for key in ("QOS", "TresPerNode", "TresPerJob", "TresPerTask", "Partition")}

    def update(self, job, changes, user="alice"):
        return self.cluster.run(f"scontrol update job={job} {changes}", user)

    def update_refused(self, number, job, changes, user="alice"):
        """The update is refused with that message, changes nothing, and what the message says to try is accepted."""
        before, seen = self.show(job), len(self.cluster.log("slurmctld"))
        result = self.update(job, changes, user)
        assert result.returncode != 0, f"{changes} was accepted"
        assert self.show(job) == before
        assert f"refused {number}" in self.cluster.log("slurmctld")[seen:], changes
        if not self.cluster.newer_than("23.02"):
            return  # no message can be given
        assert number in result.stderr, result.stderr
        advice = re.search(r"try: scontrol update (.*?);", result.stderr)
        if advice:
            accepted = self.cluster.run(
                f"scontrol update {advice.group(1).replace('TYPE', 'a40').replace('COUNT', '1')}", user
            )
            assert accepted.returncode == 0, f"{advice.group(0)}: {accepted.stderr}"
            assert self.show(job)["QOS"].lower() != "normal" or "partition=" in advice.group(1)

    def updated(self, job, changes, user="alice"):
        result = self.update(job, changes, user)
        assert result.returncode == 0, f"{changes}: {result.stderr}"


@pytest.fixture(scope="module")
def way(ways):
    """A cluster with another partition, one whose own QOS has the limit, and reservations."""
    ways.ok("scontrol create partition=owned nodes=ALL qos=qos_partition")
    # Far ahead: one that begins soon would keep the node from all other jobs.
    later = "starttime=now+10days duration=60 users=alice,bob nodecnt=1 flags=overlap"
    ways.ok(f"scontrol create reservation=free {later}")
    ways.ok(f"scontrol create reservation=in_q partition=q {later}")
    yield Ways(ways)
    ways.cancel_all()


@row(1, "sbatch, --wrap, salloc, srun")
def test_commands(way):
    for command in ("sbatch", "salloc", "srun"):
        for option in ("--gres=gpu:1", "--gpus=1", "--gpus-per-node=1"):
            way.refused("GS101", QOS, option, command=command)


@row(1, "#SBATCH lines")
def test_script_lines(way):
    script = "#!/bin/sh\n#SBATCH -H\n#SBATCH --qos=qos_lafferty\n#SBATCH --gres=gpu:%s\nsleep 60\n"
    refused = way.cluster.run(["sbatch", "-o", "/dev/null"], "alice", stdin=script % "2")
    assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stderr
    accepted = way.cluster.run(["sbatch", "-o", "/dev/null"], "alice", stdin=script % "a40:2")
    assert accepted.returncode == 0, accepted.stderr


@row(1, "SBATCH_, SALLOC_, SLURM_ variables")
def test_environment(way):
    for variables, command in (
        ("SBATCH_QOS=qos_lafferty SBATCH_GRES=gpu:1", "sbatch -H -o /dev/null --wrap true"),
        ("SBATCH_QOS=qos_lafferty SBATCH_GPUS=1", "sbatch -H -o /dev/null --wrap true"),
        ("SALLOC_QOS=qos_lafferty SALLOC_GPUS_PER_NODE=1", "salloc true"),
        ("SLURM_QOS=qos_lafferty SLURM_GPUS=1", "srun true"),
        ("SLURM_QOS=qos_lafferty SLURM_NTASKS_PER_GPU=1", "srun -n2 true"),
    ):
        refused = way.cluster.run(f"{variables} {command}", "alice")
        assert refused.returncode != 0 and re.search("GS10[15]", refused.stderr), f"{variables}: {refused.stderr}"
        typed = re.sub("=(gpu:)?1$", r"=\1a40:1", variables)
        if typed != variables and "NTASKS" not in variables:
            accepted = way.cluster.run(f"{typed} {command}", "alice")
            assert accepted.returncode == 0, f"{typed}: {accepted.stderr}"


@row(2, "srun inside an allocation")
def test_steps_stay_inside_the_jobs_gpus(way):
    more = "srun --gres=gpu:a40:2 --overlap true || srun --gpus=2 --overlap true"
    result = way.cluster.run(["salloc", QOS, "--gres=gpu:a40:1", "bash", "-c", f"timeout 20 bash -c '{more}'"], "alice")
    assert result.returncode != 0, "a step got more GPUs than its job"


@row(3, "job arrays")
def test_arrays(way):
    way.refused("GS101", QOS, "--gres=gpu:1", keep=["--array=0-3"])


@row(4, "het jobs, any component")
def test_het_jobs(way):
    typed, untyped = [QOS, "--gres=gpu:a40:1"], [QOS, "--gres=gpu:1"]
    for command, tail in (("sbatch", ["--wrap", "true"]), ("salloc", ["true"]), ("srun", ["true", ":", "true"])):
        for first, second in ((typed, untyped), (untyped, typed)):
            if command == "srun":
                words = ["srun", *first, "true", ":", *second, "true"]
            else:
                hold = ["-H", "-o", "/dev/null"] if command == "sbatch" else []
                words = [command, *hold, *first, ":", *second, *tail]
            result = way.cluster.run(words, "alice")
            assert result.returncode != 0 and "GS101" in result.stderr, f"{words}: {result.stderr}"
    accepted = way.cluster.run(["sbatch", "-H", "-o", "/dev/null", *typed, ":", *typed, "--wrap", "true"], "alice")
    assert accepted.returncode == 0, accepted.stderr


@pytest.fixture
def governed_default(way):
    """bob's default QOS guarantees GPUs."""
    way.cluster.ok(
        "sacctmgr -i modify user bob where account=acct partition= set qos+=qos_lafferty defaultqos=qos_lafferty"
    )
    yield way
    way.cluster.ok("sacctmgr -i modify user bob where account=acct partition= set defaultqos=normal")


@row(5, "a default QOS")
def test_default_qos(governed_default):
    way = governed_default
    text = way.refused("GS101", "--gres=gpu:1", user="bob")
    assert "QOS 'qos_lafferty'" in text
    for command in ("salloc", "srun"):
        way.refused("GS101", "--gpus=1", command=command, user="bob")
    job = way.held("--gres=gpu:a40:1", user="bob")
    assert way.show(job)["QOS"] == "qos_lafferty"
    way.cluster.ok(["scancel", job])


@row(6, "the QOS's name in capitals, with blanks, by number")
def test_spelling_of_the_qos(way):
    way.refused("GS101", "--qos=QOS_Lafferty", "--gres=gpu:1")
    number = way.cluster.ok("sacctmgr -nP show qos qos_lafferty format=id")
    for name in ("qos_lafferty ", " qos_lafferty", number):
        result = way.submit(f"--qos={name}", "--gres=gpu:1")
        assert result.returncode != 0, f"'{name}' is a QOS to Slurm"


@row(7, "a list of QOSes")
def test_lists(way, absent):
    for names in ("normal,qos_lafferty", "qos_lafferty,normal", "qos_lafferty,qos_other"):
        way.refused("GS106", f"--qos={names}", keep=["--gres=gpu:a40:1"])
    if not way.cluster.newer_than("24.11"):
        absent("24.11 and newer have lists; refused all the same")


@row(7, "--qos=NAME,--gres=… in one word")
def test_option_inside_qos(way):
    for option in ("--gres=gpu:a40:2", "--gres=gpu:2", "--gpus=2"):
        text = way.refused("GS107", f"--qos=qos_lafferty,{option}")
        assert "a40:2" in text, text


@row(8, "scontrol update qos=")
def test_update_of_the_qos(way):
    for options in (["--gres=gpu:2"], ["--gpus=2"], ["-n2", "--gpus-per-task=1"], ["--gres=gpu:a40:2"], []):
        way.update_refused("GS1", way.held(*options), "qos=qos_lafferty")
    way.update_refused(way.not_restated, way.held(QOS, "--gres=gpu:a40:1"), "qos=qos_other")
    job = way.held("--gres=gpu:a40:2")
    move = f"qos=qos_lafferty TresPerNode={way.prefix}gpu:a40:1"
    if not way.moves:
        way.update_refused("GS115", job, move)
        return
    # Slurm takes over an update's fields one by one: with one that it refuses the job would be moved, its GPUs as they
    # were.
    for other in ("Nice=-5", "Contiguous=yes", "Features=nope", "NumNodes=1"):
        way.update_refused("GS117", way.held("--gres=gpu:a40:2"), f"{move} {other}")
    way.updated(job, move)
    way.updated(job, "qos=normal")


@row(8, "scontrol update qos= to a governed default")
def test_update_back_to_the_default_qos(governed_default):
    way = governed_default
    job = way.held("--qos=normal", "--gres=gpu:1", user="bob")
    result = way.update(job, "qos=", user="bob")
    assert result.returncode != 0 and way.show(job)["QOS"] == "normal"


@row(9, "scontrol update Gres=, TresPer…=")
def test_update_of_the_request(way):
    p = way.prefix
    for change in ("Gres=gpu:2", f"TresPerNode={p}gpu:2", f"TresPerJob={p}gpu:2", f"TresPerTask={p}gpu:2",
                   f"TresPerNode=x{p}gpu:2", "TresPerNode=gresgpu", f"TresPerNode={p}gpu:3090:1"):
        way.update_refused("GS10", way.held(QOS, "-n1"), change)
    # Slurm itself wants the sockets per node as well, so what the message says is not tried.
    assert way.update(way.held(QOS), f"TresPerSocket={p}gpu:2").returncode != 0
    other = "gres:" if p == "gres/" else "gres/"
    # From 23.11 Slurm turns the old spelling into its own before any plugin sees it; up to 23.02 the new one is
    # unknown.
    way.update_refused("GS10", way.held(QOS), f"TresPerNode={other}gpu:2")
    way.updated(way.held(QOS), f"TresPerNode={p}gpu:a40:2")


@row(9, "an array and a het job by scontrol update")
def test_update_of_many_records(way):
    array = way.held("--gres=gpu:1", "--array=0-3")
    way.updated(f"{array}_2", "Nice=5")  # splits the task off
    result = way.update(array, "qos=qos_lafferty")
    assert result.returncode != 0, result.stderr
    shown = way.cluster.ok(["squeue", "-h", "-r", "-j", array, "-o", "%q"])
    assert set(shown.split()) == {"normal"}, shown
    way.update(array, f"qos=qos_lafferty TresPerNode={way.prefix}gpu:a40:1")
    rows = way.cluster.ok(["squeue", "-h", "-r", "-j", array, "-o", "%q %b"]).splitlines()
    assert all("a40" in line or line.startswith("normal ") for line in rows), rows
    het = way.cluster.ok(
        ["sbatch", "--parsable", "-H", "-o", "/dev/null", "--gres=gpu:1", ":", "--gres=gpu:1", "--wrap", "true"],
        "alice",
    )
    way.update(het, "qos=qos_lafferty")
    way.update(f"{het}+1", "qos=qos_lafferty")
    assert set(way.cluster.ok(["squeue", "-h", "-j", het, "-o", "%q"]).split()) == {"normal"}


@row(10, "clear the request, then move")
def test_clear_then_move(way):
    for clear in ("TresPerNode=", f"TresPerNode={way.prefix}gpu:0"):
        job = way.held("--gres=gpu:2")
        way.update(job, clear)
        way.update_refused("GS1", job, "qos=qos_lafferty")
        job = way.held("--gres=gpu:2")
        way.update_refused("GS1", job, f"qos=qos_lafferty {clear}")
    job = way.held(QOS, "--gres=gpu:a40:2")
    way.updated(job, "TresPerNode=")  # giving GPUs up is everybody's right


@row(10, "get it in an exempt place, then leave")
def test_leaving_an_exemption(way):
    """A request that Slurm doesn't show, made where no rule applies."""
    conf = "/etc/slurm/gpushare.conf"
    old = way.cluster.ok(["cat", conf])
    try:
        rewrite(way, old + "\nExemptPartitions=q\nExemptReservations=free\n")
        for exempt, leave in (("--partition=q", "partition=p"), ("--reservation=free", "ReservationName=")):
            here = [exempt] if "partition" in exempt else [exempt, "--partition=p"]
            if "partition" in exempt:
                way.update_refused("GS115", way.held(QOS, *here, "-n2", "--ntasks-per-gpu=1"), leave)
            else:  # a reservation can end without anybody being asked, and these GPUs are in no string
                way.refused("GS105", QOS, "--ntasks-per-gpu=1", keep=[*here, "-n2"])
            job = way.held(QOS, *here, "--gres=gpu:2")
            way.update_refused("GS115", job, leave)
            way.update_refused("GS115", job, f"{leave} TresPerNode={way.prefix}gpu:a40:1")
            job = way.held(QOS, *here, "--gres=gpu:2")
            way.update(job, "TresPerNode=,")
            if "gpu" not in (way.show(job)["TresPerNode"] or ""):
                way.update_refused("GS115", job, leave)
                way.update_refused("GS115", job, f"{leave} TresPerNode={way.prefix}gpu:a40:1")
    finally:
        rewrite(way, old)


def rewrite(way, content):
    """Replaces gpushare.conf and waits until slurmctld has read it."""
    read = lambda: way.cluster.log("slurmctld").count("gpushare.conf read again")
    before = read()
    way.cluster.write("/etc/slurm/gpushare.conf", content + "\n")

    def seen():
        # It looks when there is something to judge.
        way.cluster.run(["sbatch", "--test-only", "--wrap", "true"], "alice")
        return read() > before

    way.cluster.wait(seen, "the new gpushare.conf")


@row(11, "--ntasks-per-gpu, no GPU option")
def test_ntasks_per_gpu(way):
    for command in ("sbatch", "salloc", "srun"):
        way.refused("GS105", QOS, "--ntasks-per-gpu=1", keep=["-n2"], command=command)


@row(11, "--ntasks-per-gpu, then move")
def test_ntasks_per_gpu_then_move(way):
    job = way.held("-n2", "--ntasks-per-gpu=1")
    way.update_refused("GS115", job, "qos=qos_lafferty")
    way.update_refused("GS115", job, f"qos=qos_lafferty TresPerNode={way.prefix}gpu:a40:1")


@row(12, "types that hash alike, are empty or unknown")
def test_made_up_types(way):
    for gres in ("gpu:mAA0zxtUzzzz:1", "gpu:UUUUUUUUVUUU:1"):
        way.refused("GS102", QOS, f"--gres={gres}")
    for options in (["--gpus=mAA0zxtUzzzz:1"], ["-n1", "--gpus-per-task=mAA0zxtUzzzz:1"]):
        way.refused("GS102", QOS, *options, keep=[o for o in options if o == "-n1"])
    for gres in ("gpu::2", "gpu:=2", "gpu:a40:x:1"):
        assert way.submit(QOS, f"--gres={gres}").returncode != 0, gres
    p = way.prefix
    for kind in ("mAA0zxtUzzzz", "UUUUUUUUVUUU"):
        way.update_refused("GS102", way.held(QOS), f"TresPerNode={p}gpu:{kind}:1")
    assert way.update(way.held(QOS), f"TresPerNode={p}gpu::2").returncode != 0
    # No node has it in capitals: the limit on a40 counts it, and it gets none.
    if not way.moves:
        # There an entry in other capitals would stay beside the first, and hide it from the limit.
        way.update_refused("GS115", way.held(QOS), f"TresPerNode={p}gpu:A40:1")
    for job in (way.held(QOS, "--gres=gpu:A40:1"), *([way.held(QOS)] if way.moves else [])):
        assert way.update(job, f"TresPerNode={p}gpu:A40:1").returncode == 0
        way.cluster.ok(["scontrol", "release", job])
        shown = lambda: way.cluster.ok(["scontrol", "show", "job", job])
        way.cluster.wait(lambda: "Reason=BadConstraints" in shown(), "Slurm to find no node")
        assert "gres/gpu:a40=1" in shown()


@row(13, "gresgpu, licence and cpu tokens with a GPU inside")
def test_hidden_requests(way, absent):
    for text in ("gresgpu", "cpu=1,gresgpu", "license/gres/gpu:1"):
        result = way.submit(QOS, "-n1", f"--tres-per-task={text}")
        assert result.returncode != 0, text
        if way.cluster.newer_than("23.02") and "license" not in text:
            assert "GS104" in result.stderr, result.stderr
    if not way.cluster.newer_than("23.02"):
        assert "unrecognized option" in result.stderr
        absent("no --tres-per-task; by scontrol in row 9")
        return
    typed = "cpu=1,gres/gpu:a40:1" if way.cluster.newer_than("23.11") else "cpu:1,gres:gpu:a40:1"
    assert way.submit(QOS, "-n1", f"--tres-per-task={typed}").returncode == 0


@row(13, "strings that no command sends")
def test_raw_strings(way, tmp_path):
    program = client.compiled(
        TOP / "tests/live/tools/submit-raw.c", way.cluster.release, tmp_path / "submit-raw", "-lslurm"
    )
    client.install(way.cluster, program, "/lab/out/submit-raw")
    p = way.prefix
    way.cluster.ok(f"printf '{p}gpu:\\377\\376:1' > /lab/out/bytes")
    for text in (
        "@/lab/out/bytes", f"x{p}gpu:2", f" {p}gpu:2", "gresgpu", f"{p}gpu:2 ", f"{p}gpu:\n2",
        f"{p}gpu:a40:1,x{p}gpu:2", f"{p}gpu:%s%n:1",
    ):
        result = way.cluster.run(["/lab/out/submit-raw", "qos_lafferty", text], "alice")
        assert result.returncode != 0 and re.search("GS10[124]", result.stderr), f"{text!r}: {result.stderr}"
    assert way.cluster.run(["/lab/out/submit-raw", "qos_lafferty", f"{p}gpu:a40:1"], "alice").returncode == 0


@row(14, "typed and untyped together")
def test_mixtures(way):
    for options in (["--gres=gpu:a40:1,gpu:1"], ["--gpus=1", "--gres=gpu:a40:1"], ["--gres=gpu:a40:1,gpu:3090:1"]):
        result = way.submit(QOS, *options)
        # From 24.11 sbatch itself refuses some.
        assert result.returncode != 0, f"{options}: {result.stderr}"
        assert re.search("GS10[13]|Invalid GRES", result.stderr), f"{options}: {result.stderr}"
    job = way.held(QOS, "--gres=gpu:a40:1")
    assert way.update(job, f"TresPerJob={way.prefix}gpu:1").returncode != 0


@row(15, "shares of GPUs (shard, mps)")
def test_shares(way):
    way.refused("GS109", QOS, "--gres=shard:4")
    assert way.submit("--gres=shard:4").returncode == 0
    way.update_refused("GS115", way.held("--gres=shard:4"), f"qos=qos_lafferty TresPerNode={way.prefix}shard:4")
    way.cluster.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/shard=4")
    try:
        way.cluster.wait(lambda: way.submit(QOS, "--gres=shard:4").returncode == 0, "the limit on shards")
    finally:
        way.cluster.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/shard=-1")


def test_every_kind_of_limit_governs(way):
    """auto is for limits of any kind on a type, not only GrpTRES."""
    kinds = ("GrpTRES", "MaxTRESPerJob", "MaxTRESPerNode", "MaxTRESPerUser", "MaxTRESPerAccount", "GrpTRESMins",
             "GrpTRESRunMins", "MaxTRESMinsPerJob")
    way.cluster.ok("sacctmgr -i add qos qos_kinds; sacctmgr -i modify user alice set qos+=qos_kinds")
    answer = lambda: way.submit("--qos=qos_kinds", "--gres=gpu:1").returncode
    for kind in kinds:
        way.cluster.ok(f"sacctmgr -i modify qos qos_kinds set {kind}=gres/gpu:a40=3")
        way.cluster.wait(lambda: answer() != 0, f"{kind} to govern")
        assert way.submit("--qos=qos_kinds", "--gres=gpu:a40:1").returncode == 0, kind
        way.cluster.ok(f"sacctmgr -i modify qos qos_kinds set {kind}=gres/gpu:a40=-1")
        way.cluster.wait(lambda: answer() == 0, f"{kind} to be gone")


@row(16, "--exclusive")
def test_exclusive(way):
    """Slurm itself counts a whole node by types: four are its limit, so a second node's worth waits."""
    way.cluster.cancel_all()
    way.cluster.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/gpu:a40=1")
    try:
        job = way.cluster.sbatch(QOS, "--exclusive")
        reason = lambda: way.cluster.ok(["squeue", "-h", "-j", job, "-o", "%T %r"])
        way.cluster.wait(lambda: reason() == "PENDING QOSGrpGRES", "the job to wait for its QOS")
    finally:
        way.cluster.cancel_all()
        way.cluster.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/gpu:a40=4")


@row(17, "-C a40 --gres=gpu:2")
def test_features(way):
    way.refused("GS101", QOS, "--gres=gpu:2", keep=["--constraint=a40"])


@row(18, "a list of partitions")
def test_partition_lists(governed_default):
    way = governed_default
    way.refused("GS101", QOS, "--gres=gpu:1", keep=["--partition=p,q"])
    result = way.submit("--partition=q,p", "--gres=gpu:1", user="bob")
    assert result.returncode != 0, "bob's association for q has a governed default"


@row(18, "a reservation's partition and its default QOS")
def test_reservations(way):
    """bob's default QOS is governed in partition q only, where the reservation lies;
    slurmctld sees that later than we do."""
    way.refused("GS101", QOS, "--gres=gpu:1", keep=["--reservation=free"])
    result = way.submit("--reservation=in_q", "--gres=gpu:1", user="bob")
    assert result.returncode != 0 and "QOS 'qos_lafferty' requires a GPU type" in result.stderr, result.stderr
    job = way.held("--reservation=in_q", "--gres=gpu:a40:1", user="bob")
    assert way.show(job)["QOS"] == "qos_lafferty"
    assert way.submit("--partition=p", "--gres=gpu:1", user="bob").returncode == 0
    # alice's default is the same everywhere; but the reservation might lie in the governed partition.
    assert way.submit("--reservation=free", "--partition=p", "--gres=gpu:1").returncode == 0
    result = way.submit("--reservation=free", "--gres=gpu:1")
    assert result.returncode != 0 and "a reservation without --partition" in result.stderr, result.stderr


@row(18, "a partition's own QOS")
def test_partition_qos(way):
    way.refused("GS101", "--gres=gpu:1", keep=["--partition=owned"])
    way.refused("GS101", "--gres=gpu:1", keep=["--partition=p,owned"])
    result = way.submit("--qos=normal,qos_other", "--partition=owned", "--gres=gpu:1")
    assert result.returncode != 0, "a list of QOSes"
    way.update_refused("GS1", way.held("--gres=gpu:1"), "partition=owned")
    way.update_refused(way.not_restated, way.held("--gres=gpu:a40:1"), "partition=owned")
    result = way.submit("--reservation=free", QOS, "--gres=gpu:1")
    assert result.returncode != 0


@pytest.fixture
def passed_on(way):
    """Partitions that take no jobs: old's get to owned, which is governed, by way of older; idle's to p."""
    chain = {"older": "owned", "old": "older", "idle": "p"}
    for name, to in chain.items():
        way.cluster.ok(f"scontrol create partition={name} nodes=ALL alternate={to} state={DRAINED[name]}")
    yield way
    way.cluster.cancel_all()
    for name in chain:
        way.cluster.ok(f"scontrol delete partition={name}")


DRAINED = {"old": "drain", "older": "inactive", "idle": "drain"}


@row(18, "a drained partition's Alternate=")
def test_alternate_partitions(passed_on):
    """slurmctld moves such a job after it has asked its plugins. owned's own QOS, which counts a40, is governed."""
    way = passed_on
    for keep in ("--partition=old", "--partition=older", "--partition=p,old"):
        way.refused("GS101", "--gres=gpu:1", keep=[keep])
        explained = way.cluster.run(["gpushare", "explain", "--", keep, "--gres=gpu:1", "--wrap=true"], "alice")
        assert explained.returncode == 1 and "GS101" in explained.stdout, f"{explained.stdout}{explained.stderr}"
    assert way.show(way.held("--partition=old", "--gres=gpu:a40:1"))["Partition"] == "owned"
    assert way.show(way.held("--partition=idle", "--gres=gpu:1"))["Partition"] == "p"
    way.update_refused("GS1", way.held("--gres=gpu:1"), "partition=old")
    way.cluster.ok("scontrol update partition=older state=up")
    assert way.show(way.held("--partition=old", "--gres=gpu:1"))["Partition"] == "older"
    way.cluster.ok("scontrol update partition=older state=drain")
    way.refused("GS101", "--gres=gpu:1", keep=["--partition=old"])
    # An update that names the job's own partition leaves it there, where it needs a type.
    job = way.held("--partition=owned", "--gres=gpu:a40:1")
    way.cluster.ok("scontrol update partition=owned state=drain alternate=p")
    try:
        way.update_refused("GS10", job, f"partition=owned TresPerNode={way.prefix}gpu:1")
    finally:
        way.cluster.ok("scontrol update partition=owned state=up alternate=none")
    # Where the default partition passes its jobs on, nobody names it.
    way.cluster.ok("scontrol update partition=p state=drain alternate=owned")
    try:
        result = way.submit("--gres=gpu:1")
        assert result.returncode != 0 and "partition 'owned' requires a GPU type" in result.stderr, result.stderr
    finally:
        way.cluster.ok("scontrol update partition=p state=up alternate=none")


@pytest.fixture
def own_associations(way):
    """bob has associations of his own, with another default QOS, for swift, which has the highest tier, and for gone,
    which takes no jobs."""
    for name, words in (("swift", "prioritytier=9"), ("gone", "state=drain")):
        own = f"where account=acct partition={name}"
        way.cluster.ok(f"scontrol create partition={name} nodes=ALL {words}")
        way.cluster.ok(f"sacctmgr -i add user bob account=acct partition={name}")
        way.cluster.ok(f"sacctmgr -i modify user bob {own} set qos=normal,qos_lafferty defaultqos=qos_lafferty")
    yield way
    way.cluster.cancel_all()
    for name in ("swift", "gone"):
        way.cluster.ok(f"sacctmgr -i delete user bob where account=acct partition={name}")
        way.cluster.ok(f"scontrol delete partition={name}")


@row(18, "a list with a drained partition")
def test_lists_with_a_drained_partition(own_associations):
    """slurmctld takes it out of the list, and charges no association for it. A list of partitions with different
    associations it refuses, whatever their order."""
    way = own_associations
    for keep in ("--partition=gone,p", "--partition=p,gone"):
        # slurmctld alone chooses the QOS of a job without GPUs.
        for gpus in ([], ["--gres=gpu:1"]):
            assert way.show(way.held(keep, *gpus, user="bob"))["QOS"] == "normal"
    for keep in ("--partition=p,swift", "--partition=swift,p", "--partition=p,swift,gone"):
        for gpus in ([], ["--gres=gpu:a40:1"]):
            assert "Multiple partition job request" in way.submit(keep, *gpus, user="bob").stderr


@row(19, "--dependency=expand")
def test_expand(way, absent):
    job = way.cluster.sbatch("--gres=gpu:1")
    way.cluster.wait_state(job, "RUNNING")
    result = way.submit(f"--dependency=expand:{job}", QOS)
    way.cluster.ok(["scancel", job])
    assert result.returncode != 0, "a job was expanded into another QOS"
    absent("off unless SchedulerParameters=permit_job_expansion, and within one QOS only")


@row(20, "scrontab")
def test_scrontab(way, absent):
    if way.cluster.run("command -v scrontab").returncode != 0:
        absent("Debian's 22.05 has no scrontab")
        return
    table = "#SCRON --qos=qos_lafferty\n#SCRON --gres=gpu:%s\n0 0 1 1 * /bin/true\n"
    seen = len(way.cluster.log("slurmctld"))
    refused = way.cluster.run(["scrontab", "-"], "alice", stdin=table % "1")
    assert GRES_ERROR in refused.stdout + refused.stderr, refused.stdout + refused.stderr  # Slurm passes no message on
    assert "refused GS101" in way.cluster.log("slurmctld")[seen:]
    accepted = way.cluster.run(["scrontab", "-"], "alice", stdin=table % "a40:1")
    assert accepted.returncode == 0 and "GS1" not in accepted.stderr, accepted.stderr
    way.cluster.run(["scrontab", "-r"], "alice")


def newer_rest(version, kind="gres/", options="-s openapi/slurmctld -d "):
    return (
        version,
        options + version,
        ["PATH=/bin"],
        *({"tres_per_node": f"{kind}gpu:{which}"} for which in ("1", "a40:1")),
    )


# release: API version, options of slurmrestd, how an environment is written, an untyped and a typed request
REST = {
    "22.05": ("v0.0.38", "-s openapi/v0.0.38", {"PATH": "/bin"}, {"gres": "gpu:1"}, {"gres": "gpu:a40:1"}),
    "23.02": newer_rest("v0.0.39", "gres:", "-s openapi/"),
    "23.11": newer_rest("v0.0.40"),
    "24.05": newer_rest("v0.0.41"),
    "24.11": newer_rest("v0.0.42"),
    "25.05": newer_rest("v0.0.43"),
    "25.11": newer_rest("v0.0.44"),
    "26.05": newer_rest("v0.0.45"),
}


@row(21, "slurmrestd")
def test_rest(way):
    version, options, environment, untyped, typed = REST[way.cluster.release]

    def post(path, body):
        body = json.dumps(body)
        head = (f"POST /slurm/{version}/job/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        # It believes a pipe to come from the pipe's owner, so both ends are alice's.
        result = way.cluster.run(f"cat | slurmrestd {options} -a rest_auth/local | cat", "alice", stdin=head + body)
        return result.stdout, result.stderr

    def submit(job):
        job |= {"name": "rest", "qos": "qos_lafferty", "current_working_directory": "/tmp", "environment": environment}
        return post("submit", {"script": "#!/bin/sh\nsleep 60\n", "job": job})

    answer, log = submit(dict(untyped))
    assert GRES_ERROR in answer and "GS101" in log, answer + log
    answer, log = submit(dict(typed))
    assert re.search(r'"job_id": *[1-9]', answer), answer + log
    # For an update 22.05 gives a plugin no place for a message, so only slurmctld's log has the number.
    job, seen = way.held("--gres=gpu:1"), len(way.cluster.log("slurmctld"))
    answer, log = post(job, {"qos": "qos_lafferty"})
    assert f"refused GS115 uid=2001 job='{job}'" in way.cluster.log("slurmctld")[seen:], answer + log
    assert ("GS115" in answer + log) == way.moves, answer + log
    assert way.show(job)["QOS"] == "normal"


@row(22, "--test-only")
def test_test_only(way):
    for command in ("sbatch", "srun"):
        tail = ["--wrap", "true"] if command == "sbatch" else ["true"]
        result = way.cluster.run([command, "--test-only", QOS, "--gres=gpu:1", *tail], "alice")
        assert result.returncode != 0 and "GS101" in result.stderr, result.stderr


@row(23, "root or another cluster for the user")
def test_submitted_by_root(governed_default):
    """A federation's sibling submits as root for the user: the user's QOS counts."""
    way = governed_default
    result = way.submit("--uid=bob", "--chdir=/tmp", "--gres=gpu:1", user="root")
    assert result.returncode != 0 and "GS101" in result.stderr, result.stderr
    result = way.submit(QOS, "--gres=gpu:1", user="root")
    assert result.returncode != 0 and "GS101" in result.stderr, "root's own jobs are judged too"


@row(24, "a plugin after ours")
def test_order(way, absent):
    assert "JobSubmitPlugins       = gpushare" in re.sub(
        r" +=", "       =", way.cluster.ok("scontrol show config | grep JobSubmitPlugins")
    )
    absent("the administrator's doing; an error in the log: test_not_being_the_last_plugin_is_an_error_in_the_log")


@row(25, "hold, release, requeue, suspend, top")
def test_what_changes_no_request(way):
    job = way.held(QOS, "--gres=gpu:a40:1")
    seen = len(way.cluster.log("slurmctld"))
    for command in ("hold", "uhold", "release"):
        way.cluster.ok(f"scontrol {command} {job}", "alice")
    way.cluster.wait_state(job, "RUNNING", "COMPLETED")
    way.cluster.ok(f"scontrol requeue {job}", "alice")
    assert way.show(job)["QOS"] == "qos_lafferty" and "a40" in way.show(job)["TresPerNode"]
    assert "gpushare: refused" not in way.cluster.log("slurmctld")[seen:]
    way.cluster.ok(["scancel", job])


@row(26, "an exempt or privileged submitter")
def test_operators(way):
    job = way.held("--gres=gpu:1")
    way.update_refused("GS115", job, "qos=qos_lafferty", user="root")


@row(27, "the default QOS changes in between")
def test_the_judged_default_is_written_into_the_job(way):
    """Default QOS and submissions change against each other: no untyped job is ever found under the governed one."""
    change = "sacctmgr -i modify user bob where account=acct partition= set defaultqos="
    way.cluster.ok("sacctmgr -i modify user bob where account=acct partition= set qos+=qos_lafferty")
    script = f"""
        for i in 1 2 3 4 5 6; do {change}qos_lafferty; {change}normal; done >/dev/null & changer=$!
        while kill -0 $changer 2>/dev/null; do
            runuser -u bob -- sbatch -H -J race -o /dev/null --gres=gpu:1 --wrap true 2>&1 | grep -o 'GS101\\|Submitted'
        done
        wait
    """
    seen = way.cluster.ok(script, timeout=60)
    jobs = way.cluster.ok(["squeue", "-h", "-n", "race", "-o", "%q"]).split()
    assert "Submitted" in seen and jobs, "nothing was submitted"
    assert set(jobs) == {"normal"}, jobs
    way.cluster.ok("scancel -n race")


@row(28, "slurmctld/nonstop")
def test_nonstop(way, absent):
    assert "nonstop" not in way.cluster.ok("scontrol show config").lower()
    absent("22.05's plugin for Cray systems, in no Debian package")


@row(29, "a user's own client without cli_filter or SPANK")
def test_own_client(way, tmp_path):
    """Nothing here is on the client's side: test_raw_strings submits by the library alone."""
    program = client.compiled(
        TOP / "tests/live/tools/submit-raw.c", way.cluster.release, tmp_path / "submit-raw", "-lslurm"
    )
    client.install(way.cluster, program, "/lab/out/submit-raw")
    result = way.cluster.run(["/lab/out/submit-raw", "qos_lafferty", f"{way.prefix}gpu:1"], "alice")
    assert result.returncode != 0 and "GS101" in result.stderr
