# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/metrics/dashboard.json and alerts.yml as files: Grafana can import and provision the one, Prometheus can load
the other. test_metrics.py runs their expressions, and the commands that alerts name; tests/documents.rs checks their
labels."""

import json
import re
import subprocess
import sys

import monitoring
import pytest
from lab import TOP

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Grafana's own variables.
BUILT_IN = {"__rate_interval", "__all"}
# Reads a dashboard from standard input into Grafana's types, and writes what they hold.
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard
plugins.register_default_plugins()
print(json.dumps(dashboard.Dashboard.from_json(json.load(sys.stdin)), cls=encoder.JSONEncoder))
"""


def dashboard():
    return json.loads(monitoring.DASHBOARD.read_text())


def everything(value):
    """All objects in the JSON."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from everything(inner)


def differences(ours, read, place="dashboard"):
    """What of OURS was not READ as it is. READ has more: defaults."""
    if isinstance(ours, dict) and isinstance(read, dict):
        return [line for key in ours for line in differences(ours[key], read.get(key), f"{place}.{key}")]
    if isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        pairs = enumerate(zip(ours, read))
        return [line for number, pair in pairs for line in differences(*pair, f"{place}[{number}]")]
    # 1 == True.
    same = (type(ours), ours) == (type(read), read)
    return [] if same else [f"{place}: {ours!r} in the file, {read!r} for Grafana"]


def test_grafanas_types_have_all_that_the_dashboard_says():
    """A misspelt or outdated key: Grafana would ignore it silently."""
    folder = subprocess.run([TOP / "tests/grafana"], capture_output=True, text=True)
    if folder.returncode == 3:
        pytest.skip("NOT TESTED: PyPI's grafana-foundation-sdk can't be had here")
    assert folder.returncode == 0, folder.stderr
    done = subprocess.run(
        [sys.executable, "-B", "-c", READ, folder.stdout.strip()],
        input=monitoring.DASHBOARD.read_text(), capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not differences(dashboard(), json.loads(done.stdout))


def test_grafana_can_import_the_dashboard_and_provision_it():
    ours = dashboard()
    # An `id` belongs to one Grafana. Only an import asks for `__inputs`, a provisioned file keeps the placeholder
    # (github.com/grafana/grafana/issues/10786): a variable chooses the data source in both.
    assert not {"id", "__inputs"} & set(ours)
    assert re.fullmatch(r"[\w-]{1,40}", ours["uid"], re.A) and ours["title"] and ours["schemaVersion"] >= 38
    variables = {one["name"]: one for one in ours["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    sources = [one["datasource"] for one in everything(ours) if "datasource" in one]
    assert len(sources) > 2 * len(ours["panels"]) and all(one == DATA_SOURCE for one in sources)
    used = set(re.findall(r"\$\{?(\w+)", monitoring.DASHBOARD.read_text()))
    assert used == set(variables) | BUILT_IN


def test_panels_lie_side_by_side_and_are_said():
    panels = dashboard()["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(taken) == len(set(taken)) and max(x for x, _ in taken) < 24
    for panel in panels:
        assert panel["title"] and panel["description"] and panel["targets"], panel
        assert all(target["legendFormat"] for target in panel["targets"]), panel


def test_prometheus_takes_the_alerts_and_each_is_raised_by_what_it_is_for():
    programs = monitoring.programs()
    if not programs:
        pytest.skip("NOT TESTED: Debian's prometheus can't be had here")
    subprocess.run([programs / "promtool", "check", "rules", monitoring.ALERTS], check=True, capture_output=True)
    tests = TOP / "tests/data/alerts.test.yml"
    done = subprocess.run([programs / "promtool", "test", "rules", tests], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Each has a row for nothing wrong, and one for what is wrong.
    names = re.findall(r"- alert: (\w+)", monitoring.ALERTS.read_text())
    listed = re.findall(r"alertname: (\w+)", tests.read_text())
    assert names and all(listed.count(name) >= 2 for name in names), names
