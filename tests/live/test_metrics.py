# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare metrics` on a node that is its controller too, with a real node_exporter and a real Prometheus."""

import os
import re
import subprocess
import threading
import time
from collections import Counter

import client
import monitoring
import picture
import pytest
from gpus import uuids
from lab import TOP
from monitoring import Monitoring

COUNTS = "/run/slurm/gpushare.counts"
OUT = "/lab/out/metrics/gpushare.prom"
HALF, QUARTER = "--gres=mps:40", "--gres=mps:20"
CONF = "/etc/slurm/gpushare.conf"
LIBRARY = "/lab/out/libnvidia-ml.so.1"
# As CONF, but shares belong into a reservation.
RESERVED = "/lab/out/reserved.conf"


@pytest.fixture(scope="module", autouse=True)
def tools():
    if not monitoring.programs():
        pytest.skip("NOT TESTED: Debian's prometheus and prometheus-node-exporter can't be had here")


@pytest.fixture
def node(met):
    """Every test begins and ends with an empty, healthy node and the cluster's own gpushare.conf."""
    kept = met.ok(["cat", CONF])
    met.cancel_all()
    yield met
    met.ok(["tee", CONF], stdin=kept + "\n")
    met.tidy()


def metrics(node, *options, status=0):
    """{(name, labels): number} of what is printed, which promtool has nothing to say against."""
    done = node.run(["gpushare", "metrics", *options])
    assert done.returncode == status, done.stdout + done.stderr
    lint(done.stdout)
    return samples(done.stdout)


def lint(text):
    checked = subprocess.run(
        [monitoring.programs() / "promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", ""), checked.stderr


def samples(text):
    found = {}
    for line in text.splitlines():
        if line[0] != "#":
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\d+)", line).groups()
            found[name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels or "")))] = int(value)
    return found


def by(found, name, *labels):
    """{labels' values: number} of one name; without labels the number."""
    rows = {
        tuple(dict(pairs)[label] for label in labels): value for (known, pairs), value in found.items() if known == name
    }
    return rows.get(()) if not labels else {key[0] if len(key) == 1 else key: value for key, value in rows.items()}


def refused(node, *options):
    result = node.run(["sbatch", *options, "--wrap", "true"], "alice")
    assert result.returncode != 0, result.stdout
    return re.search(r"GS\d+", result.stderr).group()


def test_gpus_shares_jobs_and_users_are_what_runs(node):
    before = metrics(node)
    jobs = [node.start(HALF, user=user)[0] for user in ("alice", "bob", "alice", "bob", "alice")]
    jobs.append(node.start(QUARTER, user="bob")[0])
    now = metrics(node)
    ledger = node.shares()
    assert sorted(row["job"] for row in ledger) == sorted(jobs)
    units = Counter({str(gpu): 0 for gpu in range(4)})
    users = {str(gpu): set() for gpu in range(4)}
    for row in ledger:
        units[str(row["index"])] += row["units"]
        users[str(row["index"])].add(row["user_id"])
    assert by(now, "gpushare_gpu_units_assigned", "gpu") == dict(units)
    assert by(now, "gpushare_gpu_users", "gpu") == {gpu: len(here) for gpu, here in users.items()}
    jobs_on = Counter(str(row["index"]) for row in ledger)
    assert by(now, "gpushare_gpu_jobs", "gpu") == {gpu: jobs_on[gpu] for gpu in units}
    assert by(now, "gpushare_gpu_units_capacity", "gpu") == dict.fromkeys(units, 80)
    for name, value in (("healthy", 1), ("whole", 0), ("mig_enabled", 0)):
        assert by(now, f"gpushare_gpu_{name}", "gpu") == dict.fromkeys(units, value), name
    info = by(now, "gpushare_gpu_info", "gpu", "uuid", "device")
    assert info == {(str(gpu), uuid, f"/dev/nvidia{gpu}"): 1 for gpu, uuid in enumerate(uuids(node))}
    assert (by(now, "gpushare_jobs"), by(now, "gpushare_users"), by(now, "gpushare_gpus")) == (6, 2, 4)
    assert (by(now, "gpushare_up"), by(now, "gpushare_gpus_missing"), by(now, "gpushare_failed_jobs")) == (1, 0, 0)
    daemons = {(str(row["index"]), str(row["user_id"])) for row in ledger}
    running = Counter(gpu for gpu, _ in daemons)
    assert by(now, "gpushare_mps_daemons", "gpu", "state") == {
        (gpu, state): running[gpu] if state == "running" else 0
        for gpu in running for state in ("running", "stuck", "stopped")
    }
    placed = [by(found, "gpushare_placements_total", "holding") for found in (before, now)]
    assert placed[1]["share"] - placed[0]["share"] == 6 and placed[1]["whole"] == placed[0]["whole"]
    assert by(now, "gpushare_placement_failures_total") == by(before, "gpushare_placement_failures_total")
    assert not any(label in ("job", "user", "uid") for _, pairs in now for label, _ in pairs)


def test_a_whole_gpu_and_a_job_that_cannot_run_are_counted(node):
    before = metrics(node)
    whole = node.start("--gres=gpu:titanrtx:1")[0]
    gpu = str(node.ledger()[whole])
    now = metrics(node)
    assert by(now, "gpushare_gpu_whole", "gpu")[gpu] == 1 and by(now, "gpushare_gpu_units_assigned", "gpu")[gpu] == 0
    assert (
        by(now, "gpushare_placements_total", "holding")["whole"]
        == by(before, "gpushare_placements_total", "holding")["whole"] + 1
    )
    node.cancel_all()
    kept = node.ok(["cat", CONF])
    # No such program: the job's daemon can't be had, and the job fails.
    node.ok(["tee", CONF], stdin=f"{kept}\nMpsControl=/usr/bin/no-such-program\n")
    job = node.sbatch(HALF)
    assert node.finished(job) == "FAILED"
    node.ok(["tee", CONF], stdin=kept + "\n")
    failures = by(metrics(node), "gpushare_placement_failures_total") - by(before, "gpushare_placement_failures_total")
    assert failures == 1


def verdicts(node):
    found = metrics(node)
    rows = {(key, "refused"): value for key, value in by(found, "gpushare_refusals_total", "message").items()}
    rows |= by(found, "gpushare_passes_total", "message", "outcome")
    rows |= {(key, "changed"): value for key, value in by(found, "gpushare_changes_total", "message").items()}
    return Counter(rows)


def test_every_message_is_counted_as_slurmctlds_log_has_it(node):
    def logged():
        lines = re.findall(
            r"job_submit/gpushare: (refused|changed|accepted) (?:\((\w+)[\w ]*\) )?(GS\d+)", node.log("slurmctld")
        )
        words = {"warn": "warned", "audit": "audited"}
        return Counter((number, words.get(why, why) or verdict) for verdict, why, number in lines)

    assert +verdicts(node) == logged()
    assert refused(node, "--qos=qos_titan", "--gres=gpu:1") == "GS101"
    assert refused(node, "--gres=mps:39") == refused(node, "--gres=mps:41") == "GS122"
    accepted = verdicts(node)
    node.cancel_all()
    node.start(HALF)
    assert verdicts(node) == accepted, "what is accepted is not counted"
    asked = ["sbatch", "-H", "--qos=qos_titan", "--gres=gpu:1", "--wrap", "true"]
    for mode, verdict in (("warn", "warned"), ("audit", "audited")):
        kept = node.ok(["cat", CONF])
        node.ok(["tee", CONF], stdin=f"{kept}\nMode={mode}\n")
        before = verdicts(node)
        node.wait(lambda: node.run(asked, "alice").returncode == 0, f"Mode={mode}")
        passed = verdicts(node) - before
        assert passed["GS101", verdict] == 1 and +verdicts(node) == logged(), (mode, passed)
        node.ok(["tee", CONF], stdin=kept + "\n")
        node.wait(lambda: node.run(asked, "alice").returncode != 0, "the old rules")
    assert +verdicts(node) == logged()
    before = verdicts(node)
    node.ok("/lab/service restart slurmctld")
    assert verdicts(node) == before, "a restart goes on counting"
    assert refused(node, "--gres=mps:39") == "GS122"
    assert (verdicts(node) - before) == {("GS122", "refused"): 1}


@pytest.mark.parametrize("prepare", [
    "mkdir {0}", "mkfifo {0}", "ln -s /lab/out/decoy {0}", "rm -r /run/slurm/counts", "echo site >{0}; chmod 666 {0}",
])
def test_counts_that_cannot_be_written_are_one_line_in_the_log(node, prepare):
    counts = "/run/slurm/counts/gpushare.counts"
    node.ok(f"rm -rf /run/slurm/counts; mkdir /run/slurm/counts; chmod 777 /run/slurm/counts; {prepare.format(counts)}")
    node.ok(["sed", "-i", f"s,^RefusalCounts=.*,RefusalCounts={counts},", CONF])
    lines = lambda: node.log("slurmctld").count(f"messages are not counted: RefusalCounts={counts}: ")
    before = lines()
    node.ok("/lab/service restart slurmctld")
    assert [refused(node, "--gres=mps:39") for _ in range(3)] == ["GS122"] * 3
    assert lines() == before + 1
    assert node.run("test -e /lab/out/decoy").returncode != 0
    assert "site" not in prepare or node.ok(["cat", counts]) == "site", "somebody else's file is left as it is"
    node.ok(["sed", "-i", f"s,^RefusalCounts=.*,RefusalCounts={COUNTS},", CONF])
    node.ok("/lab/service restart slurmctld")


def test_what_cannot_be_read_is_no_success(node):
    node.ok("mkdir -p -m 755 /lab/out/metrics")
    assert node.ok(["gpushare", "metrics", "--out", OUT]) == ""
    success = by(samples(node.ok(["cat", OUT])), "gpushare_last_success_timestamp_seconds")
    good = node.ok(["cat", COUNTS])
    node.ok(["truncate", "-s", "100", COUNTS])
    result = node.run(["gpushare", "metrics", "--out", OUT])
    assert result.returncode == 1 and COUNTS in result.stderr, result
    found = samples(node.ok(["cat", OUT]))
    assert by(found, "gpushare_up") == 0 and by(found, "gpushare_source_up", "source")["refusals"] == 0
    assert by(found, "gpushare_last_success_timestamp_seconds") == success
    assert by(found, "gpushare_refusals_total", "message") == {} and by(found, "gpushare_gpus") == 4
    node.ok(["tee", COUNTS], stdin=good + "\n")
    node.ok(["gpushare", "metrics", "--out", OUT])
    node.ok(f"echo Placement=sideways >{CONF}")
    assert set(by(metrics(node, status=1), "gpushare_source_up", "source").items()) == {("conf", 0)}
    assert node.run(["gpushare", "metrics", "--out", "/lab/out/x.txt"]).returncode == 1
    missing = node.run(["gpushare", "metrics", "--out", "/no/such/folder/x.prom"])
    assert missing.returncode == 1 and "/no/such/folder/x.prom" in missing.stderr
    assert node.ok("ls -A /lab/out/metrics") == "gpushare.prom"
    assert node.ok(f"stat -c %a {OUT}") == "644"


def test_jobstats_files_name_the_job_that_has_a_gpu_alone(node):
    known = uuids(node)
    files = lambda: dict(line.split(":") for line in node.ok("cd /run/gpustat && grep -H '' * ; true").splitlines())
    first = node.start(HALF)[0]
    gpu = node.ledger()[first]
    assert files() == {known[gpu]: f"{first} 2001"}
    others = [node.start(HALF, user="bob")[0] for _ in range(4)]
    ledger = node.ledger()
    alone = [job for job in (first, *others) if list(ledger.values()).count(ledger[job]) == 1]
    assert len(alone) == 3
    assert files() == {known[ledger[job]]: f"{job} {2001 if job == first else 2002}" for job in alone}
    node.cancel_all()
    assert files() == {}


def test_dcgms_files_name_all_jobs_of_a_gpu(node):
    files = "cd /run/dcgm-job-mapping && for f in *; do [ -e $f ] && echo $f:$(paste -sd, $f); done; true"
    read = lambda: {
        name: jobs.split(",") for name, jobs in (line.split(":") for line in node.ok(files).splitlines())
    }
    jobs = [node.start(HALF, user=user)[0] for user in ("alice", "bob", "alice", "bob", "bob")]
    ledger = node.ledger()
    assert len(set(ledger.values())) == 4, "one GPU has two jobs"
    expected = {}
    for job in sorted(jobs, key=int):
        expected.setdefault(str(ledger[job]), []).append(str(job))
    assert read() == expected
    node.cancel_all()
    assert read() == {}


def guard(node, *options):
    return node.run(["gpushare", "guard", "--out", "/lab/out/metrics/gpushare-guard.prom", *options])


# A process of every GPU bypasses MPS.
PAST_MPS = "utilization=1 processes=3 clients=2"


def says(node, words):
    """NVML's words of every GPU."""
    common = "total=46068 reserved=260 used=100"
    lines = [f"gpu {uuid} {minor} {common} {words}\n" for minor, uuid in enumerate(uuids(node))]
    node.write(f"{LIBRARY}.state", "".join(lines))


@pytest.fixture
def with_nvml(node, tmp_path):
    """A library that stands in for NVML, for who names it."""
    fake = client.compiled(TOP / "tests/fakes/nvml.c", node.release, tmp_path / "libnvidia-ml.so.1", "-shared", "-fPIC")
    client.install(node, fake, LIBRARY)
    says(node, PAST_MPS)
    return node


def test_a_real_prometheus_has_what_ran_and_the_dashboard_shows_it(with_nvml, tmp_path):
    """What is drawn of it is docs/metrics/dashboard.svg, with GPUSHARE_WRITE_PICTURE=SECONDS."""
    node = with_nvml
    node.ok("rm -rf /lab/out/metrics; mkdir -m 755 /lab/out/metrics")
    folder = f"{node.out}/metrics"
    over = threading.Event()

    def write():
        while not over.wait(0.5):
            node.run(["gpushare", "metrics", "--out", OUT])

    node.ok(["gpushare", "metrics", "--out", OUT])
    assert guard(node).returncode == 0
    writer = threading.Thread(target=write)
    with Monitoring(folder, tmp_path) as server:
        writer.start()
        try:
            server.wait(lambda: server.value("gpushare_up") == 1, "the first figures")
            assert server.value('node_textfile_scrape_error{job="node"}') == 0
            before = server.value('gpushare_refusals_total{message="GS101"}')
            for user in ("alice", "bob") * 3:
                node.start(HALF, user=user)
            for _ in range(3):
                assert refused(node, "--qos=qos_titan", "--gres=gpu:1") == "GS101"
            refused(node, "--gres=mps:39")
            server.wait(
                lambda: server.value('gpushare_refusals_total{message="GS101"}') == before + 3, "three refusals"
            )
            server.wait(lambda: server.value("gpushare_jobs") == 6, "six jobs")
            now = metrics(node)
            for name in (
                "gpushare_gpu_units_assigned", "gpushare_gpu_jobs", "gpushare_gpu_users", "gpushare_gpu_healthy",
            ):
                seen = {labels["gpu"]: value for labels, value in server.query(name)}
                assert seen == by(now, name, "gpu"), name
            assert server.value("sum(gpushare_gpu_units_assigned)") == 240
            # A pass, a change, processes and a broken rule too, so that every panel has something to show.
            kept = node.ok(["cat", CONF])
            node.ok(["tee", CONF], stdin=f"{kept}\nMode=warn\nGetUserEnv=drop\nNvml={LIBRARY}\n")
            node.ok("rm -f /run/gpushare/nvml")  # a prolog remembers that no driver was there
            passed = 'gpushare_passes_total{message="GS101",outcome="warned"}'
            passed_before = server.value(passed)
            warned = ["sbatch", "-H", "--get-user-env", "--qos=qos_titan", "--gres=gpu:1", "--wrap", "true"]
            node.wait(lambda: node.run(warned, "alice").returncode == 0, "Mode=warn")
            server.wait(lambda: server.value(passed) > passed_before, "a pass")
            node.run("scancel -u alice --state=PENDING")
            server.wait(lambda: server.value("sum(gpushare_gpu_processes_without_mps)") == 4, "what NVML says")
            node.ok(["tee", RESERVED], stdin=f"{kept}\nShareReservations=course\n")
            assert guard(node, "--conf", RESERVED).returncode == 1
            server.wait(lambda: server.value("sum(gpushare_guard_over)"), "what guard found")
            for panel in monitoring.panels():
                for target in panel["targets"]:
                    expression = monitoring.expression(target)
                    rows, shown = server.query(expression), set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                    assert rows and all(shown <= set(labels) for labels, _ in rows), (panel["title"], expression, rows)
            series = server.api("series", **{"match[]": '{__name__=~"gpushare_.+"}'})
            names = {row["__name__"] for row in series}
            page = (TOP / "docs/metrics.md").read_text()
            table = re.findall(r"^\| `(gpushare_\w+)` \| \w+(?:; ([\w, ]+))? \|", page, re.M)
            labels = {name: set(filter(None, listed.split(", "))) for name, listed in table}
            for row in series:
                assert set(row) - {"__name__", "instance", "job"} == labels[row["__name__"]], row
            assert names == set(labels)
            rules = [rule for group in server.api("rules")["groups"] for rule in group["rules"]]
            assert len(rules) == 18 and {rule["health"] for rule in rules} == {"ok"}, rules
            firing = [alert for alert in server.api("alerts")["alerts"] if alert["state"] == "firing"]
            assert firing == []
            if seconds := int(os.environ.get("GPUSHARE_WRITE_PICTURE", 0)):
                busy(node, seconds, kept)
                picture.write(server, seconds, TOP / "docs/metrics/dashboard.svg")
            node.cancel_all()
            server.wait(lambda: server.value("gpushare_jobs") == 0, "an empty node")
            over.set()
            writer.join()
            node.ok(f"echo Placement=sideways >{CONF}")
            assert node.run(["gpushare", "metrics", "--out", OUT]).returncode == 1
            server.wait(lambda: server.value("gpushare_up") == 0, "a failure")
            assert server.value("gpushare_jobs") is None, "no old figures"
        finally:
            over.set()
            writer.join()


def busy(node, seconds, conf):
    """Something for a picture: jobs that come and go, and refusals, for some time."""
    node.ok(["tee", CONF], stdin=f"{conf}\nNvml={LIBRARY}\n")
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        user = ("alice", "bob")[turn % 2]
        node.sbatch((HALF, QUARTER, "--gres=mps:80")[turn % 3], user=user, script=f"sleep {20 + 7 * turn % 40}")
        if turn % 4 == 0:
            node.run(["sbatch", "-H", "--qos=qos_titan", "--gres=gpu:1", "--wrap", "true"], "alice")
        if turn % 7 == 0:
            node.run(["sbatch", "-H", "--gres=mps:39", "--wrap", "true"], "alice")
        if turn % 10 == 0:
            says(node, PAST_MPS if turn // 10 % 2 else "utilization=0 processes=0")
        if turn % 5 == 0:
            guard(node, *(["--conf", RESERVED] if turn // 5 % 3 == 1 else []))
        turn += 1
        time.sleep(3)


def test_what_alerts_tell_to_run_can_be_run(node):
    """gpushare's commands run: with 2 they say that a command line is wrong. Units and programs have those names."""
    told = re.findall(r'^      description: "(.+)"$', monitoring.ALERTS.read_text(), re.M)
    assert len(told) == 18 and all("`" in text for text in told)
    for command in {one for text in told for one in re.findall("`(.+?)`", text)}:
        if command.startswith("gpushare "):
            done = node.run(command.replace("{{ $labels.message }}", "GS101"))
            assert done.returncode in (0, 1), (command, done)
        elif command.startswith("systemctl status "):
            units = [unit if "." in unit else f"{unit}.service" for unit in command.split()[2:]]
            assert all((TOP / "packaging" / unit).exists() for unit in units), command
        else:
            program, = re.fullmatch(r"journalctl -t ([\w-]+)", command).groups()
            node.ok(["test", "-x", f"/usr/sbin/{program}"])


def test_commands_that_alerts_tell_name_what_is_wrong(node):
    gone = "/dev/nvidia3"
    assert gone not in node.run("gpushare check").stdout
    node.ok(f"mv {gone} /dev/gone")
    try:
        assert by(metrics(node), "gpushare_gpus_missing") == 1
        assert gone in node.run("gpushare check").stdout
        assert gone not in node.ok("gpushare status --gpus")
    finally:
        node.ok(f"mv /dev/gone {gone}")
    node.ok(f"echo Placement=sideways >{CONF}")
    assert by(metrics(node, status=1), "gpushare_config_error") == 1
    assert "sideways" in node.run("gpushare check").stdout
    assert "sideways" in node.run("gpushare metrics >/dev/null").stderr


PROM = "/var/lib/prometheus/node-exporter/gpushare.prom"
SAID = "/lab/out/said"


@pytest.fixture
def unit(met_systemd):
    """A node with the unit as it is installed, and with all that it may not do."""
    node = met_systemd
    for kind in ("service", "timer"):
        text = (TOP / f"packaging/gpushare-metrics.{kind}").read_text()
        node.ok(["tee", f"/etc/systemd/system/gpushare-metrics.{kind}"], stdin=text)
    node.ok("mkdir -p /var/lib/prometheus/node-exporter && systemctl daemon-reload")
    kept = node.ok(["cat", CONF])
    yield node
    node.run("umount /proc/devices; rm -r /etc/systemd/system/gpushare-metrics.service.d; systemctl daemon-reload")
    node.ok(["tee", CONF], stdin=kept + "\n")
    node.tidy()


def test_the_unit_writes_the_file_where_systemd_is_process_1(unit):
    job = unit.start(HALF)[0]
    said = unit.run("systemctl start gpushare-metrics.service; systemctl status gpushare-metrics.service").stdout
    found = samples(unit.ok(["cat", PROM]))
    assert (by(found, "gpushare_up"), by(found, "gpushare_jobs")) == (1, 1), (said, job)
    assert sum(by(found, "gpushare_mps_daemons", "gpu", "state").values()) == 1
    verified = unit.run("systemd-analyze verify --man=no /etc/systemd/system/gpushare-metrics.{service,timer}")
    # Others' units may have something wrong.
    assert verified.returncode == 0 and "gpushare" not in verified.stderr, verified


def start(node, *lines):
    """Starts the unit, with LINES in place of its own or beside them; returns its exit status, and what it said."""
    drop_in = "/etc/systemd/system/gpushare-metrics.service.d"
    # systemd 252 gives a unit a new /proc, without what the lab has put there.
    proc = "BindReadOnlyPaths=/proc/driver /proc/devices"
    text = "\n".join(["[Service]", proc, *lines, f"StandardOutput=truncate:{SAID}", "StandardError=inherit", ""])
    node.ok(f"mkdir -p {drop_in} && cat >{drop_in}/test.conf", stdin=text)
    # A unit may be started only so often.
    node.run("systemctl daemon-reload; systemctl reset-failed gpushare-metrics; systemctl start gpushare-metrics")
    return int(node.ok("systemctl show -P ExecMainStatus gpushare-metrics")), node.ok(["cat", SAID]).strip()


def instead(node, program):
    """What PROGRAM says in the place of the unit's own."""
    return start(node, "ExecStart=", f"ExecStart={program}")[1]


def by_hand_and_by_the_unit(node):
    """(exit status, what it complains of, {metric: number}), by hand and by the unit, each after asking NVML: what a
    prolog remembers of NVML is removed first."""
    def told(status, complaints, text):
        figures = {
            name: value for name, value in samples(text).items()
            if name[0] not in ("gpushare_last_success_timestamp_seconds", "gpushare_gpu_idle_seconds")
        }
        return status, complaints.strip(), figures

    node.ok(f"rm -f /run/gpushare/nvml {PROM}")
    hand, by_unit = node.run(["gpushare", "metrics"]), start(node)
    return told(hand.returncode, hand.stderr, hand.stdout), told(*by_unit, node.ok(["cat", PROM]))


def started(node, count):
    """Starts that many jobs with a daemon each; returns the last one's number."""
    jobs = [node.start(HALF, user=user)[0] for user in ("alice", "bob")[:count]]
    running = lambda: by(samples(node.ok(["gpushare", "metrics"])), "gpushare_mps_daemons", "gpu", "state")
    node.wait(lambda: sum(value for (_, state), value in running().items() if state == "running") == count, "daemons")
    return jobs[-1]


def test_by_hand_and_in_the_unit_no_driver_is_no_driver(unit):
    """NVIDIA's own library, and no driver."""
    assert unit.run("grep nvidia /proc/devices").returncode == 1
    started(unit, 1)
    for _ in range(2):
        hand, by_unit = by_hand_and_by_the_unit(unit)
        assert hand == by_unit
        assert hand[:2] == (0, "") and by(hand[2], "gpushare_up") == 1, hand
    assert instead(unit, "/usr/sbin/gpushare-nvml") == unit.run("gpushare-nvml").stderr.strip()
    assert unit.run("gpushare-nvml").stderr == "gpushare-nvml: driver not loaded\n"
    # The driver's own device node, which NVIDIA's library makes if it may.
    unit.ok("rm /dev/nvidiactl")
    assert instead(unit, "/usr/sbin/gpushare-nvml") == unit.run("gpushare-nvml").stderr.strip()
    unit.ok("test -e /dev/nvidiactl || mknod -m 666 /dev/nvidiactl c 195 255")


def test_by_hand_and_in_the_unit_a_driver_says_the_same(unit, tmp_path):
    """The kernel has the driver's devices, and an NVML without a GPU answers."""
    unit.ok("sed '/^Character/a 195 nvidia' /proc/devices >/lab/out/devices")
    unit.ok("mount --bind /lab/out/devices /proc/devices")
    fake = client.compiled(
        TOP / "tests/fakes/nvml.c", unit.release, tmp_path / "libnvidia-ml.so.1", "-shared", "-fPIC"
    )
    client.install(unit, fake, LIBRARY)
    unit.ok(["tee", "-a", CONF], stdin=f"Nvml={LIBRARY}\n")
    job = started(unit, 2)
    listed = lambda: re.findall(r"(?m)^(\d+) +\d+ +batch", unit.run(["scontrol", "listpids", job]).stdout)
    inside = unit.wait(listed, f"the processes of job {job}")[0]
    stranger = unit.ok("setpriv --reuid 2001 --clear-groups sleep 1000 >/dev/null 2>&1 & echo $!")
    words = "total=46068 reserved=260 used=100 utilization=1"

    def says(more=""):
        state = "".join(
            f"gpu {uuid} {minor} {words} mode=0 pid={inside}:100 pid={stranger}:7 busy={inside}:40 field=145:0\n"
            for minor, uuid in enumerate(uuids(unit))
        )
        unit.write(f"{LIBRARY}.state", state + more)

    says()
    hand, by_unit = by_hand_and_by_the_unit(unit)
    assert hand == by_unit
    assert hand[:2] == (0, "") and by(hand[2], "gpushare_up") == 1, hand
    assert sum(by(hand[2], "gpushare_gpu_foreign_processes", "gpu").values()) >= 4, hand
    for call, code, why in (
        ("nvmlInit_v2", 999, "an internal driver error occurred"), ("nvmlInit_v2", 4, "does not have permission"),
        ("nvmlDeviceGetCount_v2", 15, "fell off the bus"),
    ):
        says(f"fail {call} {code}\n")
        hand, by_unit = by_hand_and_by_the_unit(unit)
        assert hand == by_unit
        assert hand[0] == 1 and why in hand[1] and by(hand[2], "gpushare_up") == 0, hand
    unit.ok(f"kill {stranger}")
    # What the unit may open: all that a driver has, and nothing that it has not.
    assert instead(unit, "/lab/open-gpus") == unit.ok("/lab/open-gpus") == "open=0,1,2,3 denied=- other=-"
    unit.ok("umount /proc/devices")
    assert instead(unit, "/lab/open-gpus").startswith("open=- ")
