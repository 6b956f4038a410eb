# SPDX-License-Identifier: GPL-2.0-or-later
"""The checker on looks that were made up: it must see each kind of breach, and none where there is none."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import judge
import kinds
import members
import words
from action import Action
from limits import Caps, Limits

USERS = {0: "root", 2001: "alice", 2002: "bob"}
QOS = """normal|||||
units|gres/gpushare=60,gres/gpushare:a40=50||||
typed|gres/gpu:a40=2,gres/gpu:h100=0||||
job||gres/gpu:a40=1|||
user|||gres/gpu:a40=2||
account||||gres/gpu:a40=2|
node|||||gres/gpu:a40=1
all|gres/gpu=3||||"""
ASSOCIATIONS = """root||||
acct||root||
acct|alice|||
acct|bob|||
capped||root|gres/gpu:a40=2|
capped|alice|||
group||root|gres/gpu:a40=3|gres/gpu:a40=2
sub||group||
sub|alice|||
sub|bob|||gres/gpu:a40=1"""
NODES = (
    "node\tname=n1\tgres=gpu:a40:4,gpushare:a40:160\nnode\tname=h1\tgres=gpu:h100:4\n"
    "node\tname=m1\tgres=gpu:a40:2,gpu:h100:2\nsteady\t1\n"
)
LIMITS = Limits.read(QOS, ASSOCIATIONS, USERS)


def job(
    id=1, qos="normal", nodes="n1", detail=("gpu:a40:1(IDX:0)",), alloc="gres/gpu=1,gres/gpu:a40=1", state=1, **more
):
    fields = {"id": id, "state": state, "user": 2001, "nodes_n": len(detail), "array": 0, "het": 0, "account": "acct",
              "qos": qos, "nodes": nodes, "allocated": alloc, "per_node": "gres/gpu:a40:1"} | more
    return (
        "job\t"
        + "\t".join(f"{name}={value}" for name, value in fields.items())
        + "".join(f"\tdetail={one}" for one in detail)
        + "\n"
    )


def found(*jobs):
    return [
        (one.kind, one.who, one.tres, one.held, one.counted_by)
        for one in judge.judge(judge.read("".join(jobs) + NODES), LIMITS)
    ]


def both(who, type, held):
    return [("limit", who, type, held, "AllocTRES"), ("limit", who, type, held, "devices")]


FOUR = {"detail": ("gpu:a40:4(IDX:0-3)",), "alloc": "gres/gpu=4,gres/gpu:a40=4"}
TWO = {"detail": ("gpu:a40:2(IDX:0,3)",), "alloc": "gres/gpu=2,gres/gpu:a40=2"}


def share(units=40, type="a40", **more):
    alloc = f"gres/gpushare={units},gres/gpushare:{type}={units}"
    return job(detail=(f"gpushare:a40(CNT:{units})",), alloc=alloc, per_node=f"gres/gpushare:{units}", **more)


@pytest.mark.parametrize("jobs, expected", [
    ([share()], []),
    ([share(qos="units"), share(20, id=2)], []),
    # By both counts, of all types and of one; the node says which type it is.
    ([share(qos="units"), share(30, id=2, qos="units")],
     both("QOS units GrpTRES", "gpushare", 70)[:1] + both("QOS units GrpTRES", "gpushare:a40", 70)[:1]
     + both("QOS units GrpTRES", "gpushare", 70)[1:] + both("QOS units GrpTRES", "gpushare:a40", 70)[1:]),
    ([share(60, "x", qos="units")], both("QOS units GrpTRES", "gpushare:a40", 60)[1:]),
    # Whole GPUs where only shares are counted, and shares where only GPUs are; but not those of whole nodes.
    ([job(qos="units")], [("uncounted", "QOS units", "gpu", 1, "devices")]),
    ([job(qos="units", whole=1)], []),
    ([share(qos="typed")], [("uncounted", "QOS typed", "gpushare", 40, "devices")]),
    ([share(qos="all")], []),
])
def test_shares_are_judged_by_units(jobs, expected):
    assert found(*jobs) == expected


def test_shares_stay_in_their_reservations():
    limits = Limits.read(QOS, ASSOCIATIONS, USERS)
    limits.share_reservations = ["course"]
    for reservation, expected in (("course-1", []), ("other", [("outside", "gpushare", 40)])):
        breaches = judge.judge(judge.read(share(reservation=reservation) + NODES), limits)
        assert [(one.kind, one.tres, one.held) for one in breaches] == expected


@pytest.mark.parametrize("jobs, expected", [
    # Within every limit.
    ([job(), job(2, "typed"), job(3, "job")], []),
    ([job(qos="typed", **TWO)], []),
    # Each kind of limit of a QOS, alone and added up.
    ([job(qos="typed", **FOUR)], both("QOS typed GrpTRES", "gpu:a40", 4)),
    ([job(1, "typed", **TWO), job(2, "typed", user=2002)], both("QOS typed GrpTRES", "gpu:a40", 3)),
    ([job(qos="job", **TWO)], both("QOS job MaxTRESPerJob", "gpu:a40", 2)),
    ([job(1, "job"), job(2, "job")], []),
    ([job(1, "user", **TWO), job(2, "user")], both("QOS user MaxTRESPerUser", "gpu:a40", 3)),
    ([job(1, "user", **TWO), job(2, "user", user=2002)], []),
    ([job(1, "account", **TWO), job(2, "account", user=2002)], both("QOS account MaxTRESPerAccount", "gpu:a40", 3)),
    ([job(1, "account", **TWO), job(2, "account", account="sub")], []),
    ([job(qos="node", **TWO)], both("QOS node MaxTRESPerNode", "gpu:a40", 2)),
    ([job(qos="all", **FOUR)], both("QOS all GrpTRES", "gpu", 4)),
    # Of an account, of the account above, of a user; MaxTRES comes down from an account.
    ([job(account="capped", **FOUR)], both("association capped/ GrpTRES", "gpu:a40", 4)),
    ([job(account="sub", **TWO), job(2, account="sub", **TWO)], both("association group/ GrpTRES", "gpu:a40", 4)),
    ([job(account="sub", user=2002, **TWO)], both("association sub/bob MaxTRES", "gpu:a40", 2)),
    ([job(account="sub", **TWO)], []),
    ([job(account="sub", detail=("gpu:a40:3(IDX:0-2)",), alloc="gres/gpu=3,gres/gpu:a40=3")],
     both("association sub/alice MaxTRES", "gpu:a40", 3)),
    # What the QOS limits, the account doesn't limit again.
    ([job(1, "typed", account="capped", **TWO), job(2, account="capped", **TWO)], []),
    # By devices alone: the books know of one.
    ([job(qos="job", detail=("gpu:a40:1(IDX:0)", "gpu:a40:1(IDX:1)"), nodes="n1,m1")],
     [("limit", "QOS job MaxTRESPerJob", "gpu:a40", 2, "devices"), ("miscounted", "QOS job", "gpu:a40", 2, "devices")]),
    # A type by the node, whatever the detail calls it; and by the index on a node of two types.
    ([job(qos="typed", nodes="h1", alloc="gres/gpu=1")],
     [("limit", "QOS typed GrpTRES", "gpu:h100", 1, "devices"), ("foreign", "QOS typed", "gpu:h100", 1, "devices"),
      ("miscounted", "QOS typed", "gpu:h100", 1, "devices")]),
    ([job(qos="job", nodes="m1", detail=("gpu:x:1(IDX:3)",), alloc="gres/gpu=1,gres/gpu:h100=1")],
     [("foreign", "QOS job", "gpu:h100", 1, "devices")]),
    # A governed QOS, and a request that names no type.
    ([job(qos="typed", per_node="gres/gpu:1")], [("foreign", "QOS typed", "gpu:a40", 1, "devices")]),
    ([job(per_node="gres/gpu:1")], []),
    # Neither what waits, nor what has ended, nor what is exempt.
    ([job(qos="typed", state=0, **FOUR)], []),
    ([job(qos="typed", state=3, **FOUR)], []),
    ([job(qos="typed", state=1 | judge.COMPLETING, **FOUR)], []),
    ([job(qos="typed", reservation="maint7", **FOUR)], []),
    ([job(qos="typed", reservation="own7", **FOUR)], both("QOS typed GrpTRES", "gpu:a40", 4)),
    ([job(qos="typed", state=2, **FOUR)], both("QOS typed GrpTRES", "gpu:a40", 4)),
])
def test_breaches(jobs, expected):
    assert found(*jobs) == expected


CAPS = Caps.read("MaxCPUsPerGpu=a40:8,h100:16\nMaxMemPerGpu=a40:16G,h100:32G\nGpuPartitions=g,g2")


def with_gpu(tres, **more):
    return job(alloc=f"{tres},gres/gpu=1,gres/gpu:a40=1", **more)


def without_gpu(partition):
    return job(partition=partition, nodes="n1", detail=("-",), alloc="cpu=64,mem=500G", per_node="")


@pytest.mark.parametrize("line, expected", [
    (with_gpu("cpu=8,mem=16G"), []),
    (with_gpu("cpu=9,mem=16G"), [("cap", "CPUs", 9, 8)]),
    (with_gpu("cpu=8,mem=16385M"), [("cap", "MiB", 16385, 16384)]),
    (with_gpu("cpu=1,mem=0.5T"), [("cap", "MiB", 524288, 16384)]),
    (with_gpu("cpu=9,mem=17G", state=0), []),
    # By the device, whatever AllocTRES calls it; and by all of them together.
    (with_gpu("cpu=16,mem=32G", nodes="h1"), []),
    (job(nodes="m1", detail=("gpu:a40:1(IDX:0),gpu:h100:1(IDX:2)",),
         alloc="cpu=25,mem=48G,gres/gpu=2,gres/gpu:a40=1,gres/gpu:h100=1"), [("cap", "CPUs", 25, 24)]),
    # Of a job without a GPU only its partition counts.
    (without_gpu("p"), []),
    (without_gpu("g2"), [("gpuless", "", 0, 1)]),
    (with_gpu("cpu=8,mem=16G", partition="g"), []),
])
def test_caps(line, expected):
    limits = Limits.read(QOS, ASSOCIATIONS, USERS)
    limits.caps = CAPS
    breaches = judge.judge(judge.read(line + NODES), limits)
    assert [(one.kind, one.tres, one.held, one.limit) for one in breaches] == expected
    assert not list(judge.judge(judge.read(line + NODES), LIMITS)), "a site without caps"


def test_host_lists():
    assert judge.hosts("n1,m[1-3,07],h") == ["n1", "m1", "m2", "m3", "m07", "h"]
    assert judge.hosts("") == judge.hosts(None) == []


def test_limit_used_up():
    assert any(judge.used_up(judge.read(job(qos="typed", **TWO) + NODES), LIMITS))
    assert not any(judge.used_up(judge.read(job(qos="typed") + NODES), LIMITS))


def test_collisions_are_collisions():
    chance = random.Random(1)
    for name in words.KNOWN:
        made = {words.colliding(chance, words.type_number(name)) for _ in range(20)}
        assert len(made) > 15 and all(words.type_number(one) == words.type_number(name) for one in made)


def test_members_of_a_header():
    header = """typedef struct job_descriptor { /* a; b */ char *qos; /* char *no; */ uint16_t shared;
        char **argv; uint32_t argc; time_t begin_time; void *id; bitstr_t *array_bitmap; uint64_t *tres_req_cnt;
} job_desc_msg_t;"""
    assert members.members(header) == (["qos"], ["shared", "begin_time"])


def test_a_story_is_explained_by_what_it_contains():
    act = lambda verb, **fields: Action("alice", verb, fields)
    short = [[act("allocate", qos="x", tres_per_node="{P}gpu:a40:4"), act("update", cpus_per_tres="{P}gpu:odd:1")]]
    longer = [[act("allocate", account="y", qos="z", tres_per_node="{P}gpu:h100:1"), act("update", nice="1"),
               act("update1", cpus_per_tres="{P}gpu:other:7", nice="1")]]
    assert kinds.explains(kinds.signature(short), longer)
    assert not kinds.explains(kinds.signature(longer), short)
    assert not kinds.explains(kinds.signature(short), [longer[0][:2]])
