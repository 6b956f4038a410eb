# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits on billing where a partition bills GPUs by their types: Slurm tests such a limit with the price of what a
request names, and bills what the job got."""

import pytest
from test_counted import Counted

LIMITS = ["--qos=billed", "-A billed"]


@pytest.fixture
def count(counted):
    yield Counted(counted)
    counted.cancel_all()


def billed(count, job):
    return count.given(job, "billing")


@pytest.mark.parametrize("limit", LIMITS)
def test_where_types_are_billed_a_limit_on_billing_wants_them(count, limit):
    """The limit is 2, the price of one a40."""
    for options in ("--gres=gpu:2", "--gpus=1", "-n1 --gpus-per-task=1", "-n2 --ntasks-per-gpu=1"):
        refusal = count.submit(f"-p billed {limit} {options}")
        assert refusal.returncode and "requires a GPU type" in refusal.stderr or "GS105" in refusal.stderr, refusal
    first = count.job(f"-p billed {limit} --gres=gpu:a40:1")
    assert count.runs(first) == 1 and billed(count, first) == 2
    second = count.job(f"-p billed {limit} --gres=gpu:a40:1")
    count.cluster.wait(lambda: "Billing" in count.cluster.fields(second)["Reason"], "the limit on billing")


@pytest.mark.parametrize("limit", LIMITS)
def test_where_it_bills_no_types_no_type_is_wanted(count, limit):
    for partition in ("p", "alike"):
        job = count.job(f"-p {partition} {limit} --gres=gpu:1")
        assert count.runs(job) == 1, partition
        assert billed(count, job) <= 2
        count.cluster.ok(f"scancel {job}")
    assert count.runs(count.job("-p billed --gres=gpu:1")) == 1, "no limit"


@pytest.mark.parametrize("limit", LIMITS)
def test_the_price_of_gpus_alike_is_that_of_what_runs(count, limit):
    """Slurm puts a GPU on each node that a job gets, and bills the one that it asked for."""
    result = count.submit(f"-p alike {limit} -n70 --gpus=1")
    if result.returncode:
        assert not count.predicts or "node configuration" in result.stderr, result.stderr
        return
    job = result.stdout.strip()
    count.decided(job)
    assert billed(count, job) <= 2


@pytest.mark.parametrize("limit", LIMITS)
def test_a_job_moves_to_where_types_are_billed_only_with_its_types(count, limit):
    untyped = count.job(f"-H -p p {limit} --gres=gpu:2")
    count.update_refused("GS115", untyped, "partition=billed")
    typed = count.job(f"-H -p p {limit} --gres=gpu:a40:1")
    if not count.moves:
        count.update_refused("GS115", typed, "partition=billed")
        return
    count.update_refused("GS110", typed, "partition=billed")
    assert count.update(typed, "partition=billed TresPerNode={P}gpu:a40:1").returncode == 0
    count.cluster.ok(f"scontrol release {typed}", "alice")
    assert count.runs(typed) == 1


def test_a_reservation_may_be_where_types_are_billed(count):
    """slurmctld takes the partition from the reservation, after its plugins."""
    count.cluster.ok(
        "scontrol create reservation=billing starttime=now duration=5 users=alice nodes=n2 partition=billed"
    )
    try:
        advised = count.refused("GS101", "--reservation=billing --qos=billed --gres=gpu:2")
        count.cluster.ok(f"scancel {advised}")  # it has what the limit allows
        assert count.runs(count.job("--reservation=billing --qos=billed --gres=gpu:a40:1")) == 1
    finally:
        count.cluster.cancel_all()
        count.cluster.ok("scontrol delete reservation=billing")


@pytest.mark.parametrize("limit", LIMITS)
def test_explain_knows_what_is_billed(count, limit):
    explain = lambda words: count.cluster.run(f"gpushare explain -- {limit} {words} --wrap=true", "alice")
    for words, number in (
        ("-p billed --gres=gpu:2", "GS101"), ("-p billed --gres=gpu:a40:1", None), ("-p alike --gres=gpu:1", None),
        ("-p p,billed --gpus=1", "GS101"), ("--gres=gpu:1", None), ("--reservation=none --gres=gpu:1", "GS101"),
    ):
        explained = explain(words)
        assert explained.returncode == (1 if number else 0), (words, explained.stdout)
        assert (number or "accept") in explained.stdout, (words, explained.stdout)
