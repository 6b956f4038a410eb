# SPDX-License-Identifier: GPL-2.0-or-later
"""The siege, tests/siege, in short: the known ways one after another, and a few hundred actions made up at random. What
is checked is what runs. `make test-long` makes it 20,000 actions with a new seed."""

import sys
from pathlib import Path

import pytest
from lab import RELEASES

SIEGE = Path(__file__).resolve().parents[1] / "siege"
sys.path.insert(0, str(SIEGE))

import lending
import report
import scripted
import ways
from box import Box
from campaign import Siege


def besieged(kind, *more, site=""):
    @pytest.fixture(scope="module", params=RELEASES)
    def fixture(request):
        box = Box(f"test-siege-{kind}-{request.param.replace('.', '')}", request.param, [SIEGE / "conf", *more],
                  site=site)
        yield box
        box.close()

    return fixture


scripted_box, random_box = besieged("ways"), besieged("random")
caps_box = besieged("caps", SIEGE / "conf-caps")
cores_box, course_box = besieged("cores", site="cores"), besieged("course", site="course")


def test_no_known_way_round_a_limit_runs(scripted_box):
    # A whole node of a type that no limit names is Slurm's to give: docs/dev/plain-slurm.md.
    none_is_open(scripted_box, [way for way in ways.every() if not way.without_zero])


def test_no_known_way_round_the_sites_caps_runs(caps_box):
    none_is_open(caps_box, ways.CAPS)


def test_no_known_way_runs_where_a_core_is_a_tasks(cores_box):
    none_is_open(cores_box, ways.CORES)


def test_no_share_runs_outside_of_its_reservation(course_box):
    none_is_open(course_box, ways.COURSE)


def none_is_open(box, chosen):
    broken = [f"{way.title}: {'; '.join(map(str, outcome.violations))}" for way, outcome in scripted.ways(box, chosen)
              if outcome.word in ("open", "down")]
    assert not broken, "\n".join(broken)


def test_nothing_made_up_at_random_runs_past_a_limit(random_box):
    tally = survived(Siege(random_box, seed=1, actions=300))
    # It was a siege: jobs ran, limits were reached, users were refused and were not.
    assert tally.ran_limited > 10 and tally.full > 10 and 0 < tally.accepted < tally.actions, vars(tally)
    assert tally.plain_accepted > 5, vars(tally)


def test_nothing_made_up_at_random_runs_past_the_sites_caps(caps_box):
    tally = survived(Siege(caps_box, seed=1, actions=300))
    assert tally.ran_limited > 10 and 0 < tally.accepted < tally.actions and tally.plain_accepted > 5, vars(tally)


def test_nothing_made_up_at_random_takes_a_share_out_of_its_reservation(course_box):
    tally = survived(Siege(course_box, seed=1, actions=150))
    assert 0 < tally.accepted < tally.actions and tally.plain_accepted > 2, vars(tally)


def survived(siege):
    findings = report.Findings(siege, keep_going=False).collect()
    assert not findings, "printed above, with what replays it: tests/siege/run --replay"
    return siege.tally


@pytest.mark.parametrize("lender", RELEASES)
def test_groups_that_lend_get_their_gpus_back(lender):
    """`tests/siege/run --lending`, and 1,000 stories in `make test-long`."""
    with lending.cluster(f"test-siege-lending-{lender.replace('.', '')}", lender, SIEGE / "conf-lending") as cluster:
        tally = lending.Lending(cluster, 1).play(40)
    assert not tally.findings, f"{tally}\n{tally.findings}"
