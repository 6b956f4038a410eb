# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's node_exporter and Prometheus, on this machine's loopback, for a directory of .prom files."""

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

from lab import TOP
from waiting import PATIENCE, wait

ALERTS = TOP / "docs/metrics/alerts.yml"
DASHBOARD = TOP / "docs/metrics/dashboard.json"


def programs():
    """The directory of the programs; None if this machine can't have them."""
    done = subprocess.run([TOP / "tests/prometheus"], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Monitoring:
    """`with Monitoring(folder, work) as monitoring:` scrapes the files in FOLDER every second; WORK is for its own
    files."""

    def __init__(self, folder, work):
        self.folder, self.work, self.processes = folder, work, []
        self.exporter, self.server = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"

    def __enter__(self):
        try:
            self.start(
                "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                f"--collector.textfile.directory={self.folder}", f"--web.listen-address={self.exporter}",
            )
            conf = self.work / "prometheus.yml"
            conf.write_text(
                "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                f"rule_files: [{ALERTS}]\n"
                "scrape_configs:\n- job_name: node\n  static_configs:\n"
                f"  - {{targets: ['{self.exporter}'], labels: {{instance: node}}}}\n"
            )
            self.start(
                "prometheus", f"--config.file={conf}", f"--storage.tsdb.path={self.work / 'data'}",
                f"--web.listen-address={self.server}",
            )
            self.wait(lambda: self.value('up{job="node"}') == 1, "a first scrape")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name, *options):
        with open(self.work / f"{name}.log", "wb") as log:
            self.processes.append(
                subprocess.Popen([programs() / name, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def logs(self):
        return "".join(path.read_text()[-2000:] for path in self.work.glob("*.log"))

    def api(self, path, **parameters):
        """The data in an answer of Prometheus' HTTP API."""
        url = f"http://{self.server}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        # Doesn't use the machine's proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as answer:
            answer = json.load(answer)
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """[(labels, value)] of an expression now."""
        data = self.api("query", query=expression)
        found = data["result"] if data["resultType"] == "vector" else [{"metric": {}, "value": data["result"]}]
        return [(row["metric"], float(row["value"][1])) for row in found]

    def value(self, expression):
        """The only value of an expression; None if there is none yet, or no server answers yet."""
        try:
            rows = self.query(expression)
        except OSError:
            assert all(process.poll() is None for process in self.processes), self.logs()
            return None
        assert len(rows) <= 1, rows
        return rows[0][1] if rows else None

    def wait(self, condition, what):
        wait(condition, what, pause=0.2, more=self.logs)


def panels():
    """The dashboard's panels that show something."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel.get("targets")]


def expression(target, rate="10m"):
    """A target's expression, as Grafana sends it with all machines selected."""
    return target["expr"].replace("$__rate_interval", rate).replace("$instance", ".*")
