# SPDX-License-Identifier: GPL-2.0-or-later
"""SURF's node where process 1 is a real systemd:
NVIDIA's own MPS daemons are units of it, whatever starts and ends them.

slurmd and its jobs are real; what goes wrong is tried with the prolog and epilog alone, as slurmd runs them."""

import contextlib
import re

import client
import pytest
from lab import TOP, nvidia
from pages import steps
from test_mps import configured

DIR = "/run/gpushare/mps"
# One that the node doesn't know.
ALICE, STRANGER = 2001, 2999
# What a prolog of a job that Slurm knows nothing of needs; such jobs share the first GPU.
SITE = "/run/site"
SETTINGS = [
    "Placement=own", "GpuFile=/dev/nvidia0", "ShareGRES=gpushare", "UnitsPerGpu=80", "Mps=per-user", "MemPerUnit=300",
]
UNIT = "gpushare-mps-0.2001"
JOBS = (901, 902)


@pytest.fixture(scope="module")
def prepared(with_systemd):
    with_systemd.ok(
        f"mkdir -p {SITE} /opt/mps && touch {SITE}/slurm.conf && groupadd -g 3000 gpus && usermod -aG gpus alice"
    )
    for file in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        with_systemd.write(f"/opt/mps/{file}", (TOP / "tests/fakes" / file).read_text(), 755)
    with_systemd.ok("cp /usr/bin/nvidia-cuda-mps-control /opt/mps/real")
    return with_systemd


@pytest.fixture(scope="module")
def with_client(with_systemd):
    client.install_cuda(with_systemd)


@pytest.fixture
def node(prepared):
    """Every test begins and ends with an idle node without any daemon or unit of ours, failed ones included."""
    configure(prepared)
    clear(prepared)
    yield prepared
    clear(prepared)
    assert prepared.node_state().split()[0] == "idle", prepared.node_state()


def clear(node):
    node.cancel_all()
    for job in JOBS:
        epilog(node, job)
    node.wait_no_shares()
    assert node.run(f"ls -A {DIR}").stdout == ""
    node.wait(lambda: units(node) == {}, "the units to be gone")
    processes = "for p in /proc/[0-9]*; do [[ $(readlink $p/exe) == *nvidia-cuda-mps* ]] && echo $p; done; true"
    assert node.run(processes).stdout == ""


def configure(node, *lines):
    given = {line.split("=")[0] for line in lines}
    kept = [line for line in SETTINGS if line.split("=")[0] not in given]
    node.write(f"{SITE}/gpushare.conf", "".join(f"{line}\n" for line in [*kept, *lines]))


@contextlib.contextmanager
def replaced(node, path, script):
    """With another program at PATH; in SCRIPT @REAL@ is the one that was there."""
    node.ok(f"if [[ -e {path} ]]; then mv {path} {path}.real; fi")
    if script:
        node.write(path, "#!/bin/bash\n" + script.replace("@REAL@", f"{path}.real"), 755)
    try:
        yield
    finally:
        node.ok(f"rm -f {path}; if [[ -e {path}.real ]]; then mv {path}.real {path}; fi")


def begun(node):
    """A job whose script has begun. Slurm calls it running earlier, while the prolog still starts the daemon."""
    job = node.sbatch("--gres=mps:40", script="echo begun; sleep 600")
    node.wait(lambda: node.output(job), "the job's first line")
    return job


def hook(name, job, user=ALICE):
    """A command line: prolog or epilog with the environment that slurmd gives it."""
    variables = f"SLURM_CONF={SITE}/slurm.conf SLURM_JOB_ID={job} SLURM_JOB_UID={user} SLURM_JOB_RESTART_COUNT=0"
    variables += f" SLURM_JOB_GID={user}"
    return f"env -i {variables} SPANK_GPUSHARE_SHARE=gpushare:20 /usr/sbin/gpushare-{name}"


def prolog(node, job, user=ALICE):
    """What it says, without the lines on the GPU and, once on a node, on NVML."""
    done = node.run(hook("prolog", job, user))
    assert done.returncode == 0 and done.stdout == "", done
    aside = (" units on GPU ", "no load from NVML")
    return [line for line in done.stderr.splitlines() if not any(words in line for words in aside)]


def epilog(node, job):
    done = node.run(hook("epilog", job))
    assert done.returncode == 0 and done.stdout == "", done
    return done.stderr.splitlines()


def units(node):
    """{unit: its main process, "0" for none} of ours that systemd knows, also failed ones."""
    tell_of_empty_cgroups(node)
    names = node.ok("systemctl list-units --all --plain --no-legend 'gpushare-mps-*' | cut -d' ' -f1").split()
    return {name.removesuffix(".service"): show(node, name, "MainPID") for name in names}


def known_units(node):
    """The same, once systemd knows the main process of each: it looks for that after the unit has started."""
    return node.wait(lambda: (found := units(node)) and "0" not in found.values() and found, "the main processes")


def tell_of_empty_cgroups(node):
    """Where systemd uses cgroup v1 the kernel starts this program of systemd's,
    but not from within a cgroup namespace."""
    if node.cgroup == "v1":
        node.ok("cd /sys/fs/cgroup/systemd && for unit in system.slice/gpushare-mps-*.service; do [[ ! -d $unit || "
                "$(cat $unit/cgroup.procs) ]] || /lib/systemd/systemd-cgroups-agent /$unit; done")


def show(node, unit, name):
    return node.ok(["systemctl", "show", "--property", name, "--value", unit])


def holder(node, folder="0.2001"):
    """The process of the daemon that the directory's state names."""
    state = f"{DIR}/{folder}/state"
    # The ledger has the job's entry a moment before.
    return node.wait(
        lambda: re.findall(r"^process=(\d+) ", node.run(f"cat {state}").stdout, re.M), f"a process in {state}"
    )[-1]


def lives(node, pid):
    return node.run(f"[[ -e /proc/{pid}/exe ]]").returncode == 0


def answers(node, folder="0.2001"):
    command = f"CUDA_MPS_PIPE_DIRECTORY={DIR}/{folder}/pipe timeout 10 nvidia-cuda-mps-control"
    return node.run(command, stdin="get_default_active_thread_percentage\n").stdout.strip() != ""


def cgroups(node, pid):
    """Where systemd, and the device controller, have a process."""
    lines = [line.split(":", 2) for line in node.ok(f"cat /proc/{pid}/cgroup").splitlines()]
    wanted = ("",) if node.cgroup == "v2" else ("name=systemd", "devices")
    return [path for _, controller, path in lines if controller in wanted]


# Stands for NVIDIA's server, which opens devices: says what it may open, and stays.
SERVER = r"""
exec >/lab/out/server.new 2>&1
/lab/open-gpus
for device in nvidiactl nvidia-uvm nvidia-uvm-tools dri/renderD128 null; do
    said=$(exec 2>&1 5<>/dev/$device) && echo "$device OK" || echo "$device ${said##*: }"
done
mv /lab/out/server.new /lab/out/server
exec sleep 3600
"""
# No driver is behind the devices: ENXIO is what a device says that may be opened.
THERE, DENIED = "No such device or address", "Operation not permitted"


def opened(node, gpu, folder="0.2001", user="alice"):
    """What a server of the daemon could open; it stays."""
    node.ok("rm -f /lab/out/server")
    command = f"CUDA_MPS_PIPE_DIRECTORY={DIR}/{folder}/pipe timeout 10 nvidia-cuda-mps-control"
    node.ok(command, user, stdin="start_server -uid $(id -u)\n".replace("$(id -u)", "2001" if user == "alice" else "0"))
    lines = node.wait(lambda: node.run("cat /lab/out/server").stdout.splitlines(), "the server")
    return lines[0], dict(line.split(" ", 1) for line in lines[1:])


OWN_ONLY = {
    "nvidiactl": THERE, "nvidia-uvm": THERE, "nvidia-uvm-tools": THERE, "dri/renderD128": DENIED, "null": "OK",
}


def gpus(*own):
    text = ",".join(str(gpu) for gpu in own) or "-"
    return f"open={text} denied={','.join(str(gpu) for gpu in range(4) if gpu not in own) or '-'} other=-"


# --- a job's daemon ------------------------------------------------------------------------------------------------


def test_a_jobs_daemon_is_a_unit_and_runs_as_its_user(node):
    job = begun(node)
    gpu = node.ledger()[job]
    unit = f"gpushare-mps-{gpu}.{ALICE}"
    pid = holder(node, f"{gpu}.{ALICE}")
    assert known_units(node) == {unit: pid}
    assert all(path.endswith(f"/system.slice/{unit}.service") for path in cgroups(node, pid)), cgroups(node, pid)
    status = node.ok(f"cat /proc/{pid}/status")
    assert f"Uid:\t{ALICE}\t{ALICE}\t{ALICE}\t{ALICE}" in status, status
    # Of nobody's group, so that its user can't trace it, and of the user's groups; none of root's.
    assert "Gid:\t65534\t65534\t65534\t65534" in status and re.search(r"^Groups:\s*3000 65534 *$", status, re.M), status
    assert re.search(r"^CapEff:\t0+$", status, re.M), status
    stat = node.ok(f"cat /proc/{pid}/stat").rsplit(")", 1)[1].split()
    assert stat[3] == pid, "it leads a session: that is what is ended"
    # What an administrator sees.
    text = node.run(["systemctl", "status", "--no-pager", unit]).stdout
    assert f"gpushare: MPS daemon of /dev/nvidia{gpu} for user {ALICE}" in text and "active (running)" in text, text
    said = f"gpushare-prolog.*job {job}: MPS daemon {gpu}.{ALICE} started, process {pid}, unit {unit}$"
    node.wait(
        lambda: re.search(said, node.ok("journalctl --no-pager --quiet"), re.M), "the prolog's line in the journal"
    )


def test_the_daemon_of_a_user_whom_only_slurmd_knows_is_a_unit_too(node):
    """systemd starts nothing as a user whom it doesn't know."""
    said = prolog(node, JOBS[0], STRANGER)
    pid = holder(node, f"0.{STRANGER}")
    assert known_units(node) == {f"gpushare-mps-0.{STRANGER}": pid}, said
    status = node.ok(f"cat /proc/{pid}/status")
    assert re.findall(r"^(?:Uid|Gid|Groups):\s+(\d+)", status, re.M) == [f"{STRANGER}", "65534", f"{STRANGER}"], status
    assert re.search(r"^CapEff:\t0+$", status, re.M), status
    assert show(node, f"gpushare-mps-0.{STRANGER}", "DevicePolicy") == "closed"


def test_it_can_open_its_own_gpu_and_no_other(node):
    with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER):
        job = begun(node)
        gpu = node.ledger()[job]
        assert opened(node, gpu, f"{gpu}.{ALICE}") == (gpus(gpu), OWN_ONLY)
        assert show(node, f"gpushare-mps-{gpu}.{ALICE}", "DevicePolicy") == "closed"
        node.cancel_all()


def test_the_daemon_of_a_job_with_whole_gpus_can_open_all_of_these_and_no_other(node, with_client):
    quits = "echo quit -t 1 | nvidia-cuda-mps-control; rm -rf $CUDA_MPS_PIPE_DIRECTORY/*"
    script = f"until [ -e /lab/out/go ]; do sleep 0.1; done; {quits}; srun {client.CUDA_CLIENT}; true"
    with configured(node, "MpsWholeGpus=yes"):
        with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER):
            job = node.sbatch("--gpu-mps", "--gres=gpu:2", script=script)
            folder = f"j{job}-{ALICE}"
            pid, unit = holder(node, folder), f"gpushare-mps-{folder}"
            assert known_units(node) == {unit: pid} and show(node, unit, "DevicePolicy") == "closed"
            assert opened(node, None, folder) == (gpus(0, 1), OWN_ONLY)
        node.ok("touch /lab/out/go")
        state = node.finished(job)
        node.ok("rm /lab/out/go")
        said = node.output(job)
        assert state == "COMPLETED" and "It has been started again for this step" in said, said
        assert "cuInit=805" in said, said


def test_its_end_is_not_slurmds(node):
    job = begun(node)
    before = known_units(node)
    if node.newer_than("25.11"):
        # Slurm puts slurmd into a cgroup below that of its unit.
        own = cgroups(node, node.ok("pgrep -ox slurmd"))
        assert own[-1].endswith(f"/slurmd@{node.name}.service/slurmd"), own
    node.ok(f"systemctl stop slurmd@{node.name}")
    try:
        node.wait(lambda: show(node, f"slurmd@{node.name}", "ActiveState") != "active", "slurmd's end")
        assert units(node) == before and len(before) == 1
    finally:
        node.ok("/lab/service start slurmd")
    assert units(node) == before and node.state(job) == "RUNNING"
    node.cancel_all()
    node.wait(lambda: units(node) == {}, "the unit to go with its last job")


CALLER = (
    f"systemd-run --quiet --unit=caller --collect --property=Type=oneshot --property=RemainAfterExit=yes "
    f"--property=DevicePolicy=closed --property=TimeoutStopSec=1s --property=StandardError=truncate:/lab/out/caller "
)


def test_it_is_neither_ended_nor_fenced_with_whoever_called_the_prolog(node):
    """As where slurmd is stopped with all that is in its cgroup, and where the prolog runs in the job (RunInJob)."""
    with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER):
        node.ok(CALLER + hook("prolog", 901))
        pid = holder(node)
        assert known_units(node) == {UNIT: pid}
        assert opened(node, 0) == (gpus(0), OWN_ONLY)
        node.ok("systemctl stop caller")
        assert answers(node) and holder(node) == pid
        epilog(node, 901)


def test_without_a_unit_it_would_be(node):
    """That the test above can fail; and what the remark of such a start is about."""
    with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER), replaced(node, "/usr/bin/systemd-run", ""):
        node.ok(CALLER.replace("systemd-run", "/usr/bin/systemd-run.real") + hook("prolog", 901))
        pid = holder(node)
        said = node.ok("cat /lab/out/caller")
        assert f"process {pid}, without a unit" in said and units(node) == {}, said
        assert "it is not a systemd unit" in said and "/usr/bin/systemd-run can't be run" in said, said
        assert all(path.endswith("/caller.service") for path in cgroups(node, pid)), cgroups(node, pid)
        assert opened(node, 0)[0] == gpus()
        node.ok("systemctl stop caller")
        node.wait(lambda: not lives(node, pid), "the daemon's end with its caller")
        epilog(node, 901)


# --- its end, and the next one -------------------------------------------------------------------------------------


def test_the_epilog_ends_the_unit_and_the_next_job_has_one_at_once(node):
    for _ in range(15):
        said = prolog(node, 901)
        assert len(said) == 1 and re.search(rf", unit {UNIT}(-\d+)?$", said[0]), said
        assert answers(node)
        assert epilog(node, 901)[-1].endswith("MPS daemon 0.2001 ended")
    node.wait(lambda: units(node) == {}, "the unit to be gone")
    assert show(node, UNIT, "LoadState") == "not-found"
    assert node.ok("systemctl --failed --plain --no-legend") == ""


def test_servers_of_a_dead_daemon_go_on_and_keep_its_name(node):
    """They may be at work for other jobs. The next daemon's unit has another name."""
    with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER):
        prolog(node, 901)
        opened(node, 0)
        old = node.ok(
            f"cat /sys/fs/cgroup{'' if node.cgroup == 'v2' else '/devices'}/system.slice/{UNIT}.service/cgroup.procs"
        ).split()
        daemon = holder(node)
        server, = set(old) - {daemon}
        node.ok(f"kill -KILL {daemon}")
        node.wait(lambda: show(node, UNIT, "MainPID") == "0", "systemd to see it")
        said = prolog(node, 902)
        assert len(said) == 2 and "the earlier daemon is dead" in said[1], said
        name = re.search(r", unit (\S+)$", said[0]).group(1)
        assert re.fullmatch(rf"{UNIT}-\d+", name), said
        node.wait(lambda: units(node).get(name) == holder(node), "systemd to find the daemon")
        assert lives(node, server), "its server was ended under a job"
        assert opened(node, 0) == (gpus(0), OWN_ONLY)
        epilog(node, 901)
        assert answers(node)
        epilog(node, 902)
        assert not lives(node, server)


def test_a_unit_that_is_stopped_by_hand_leaves_servers_at_work(node):
    with replaced(node, "/usr/bin/nvidia-cuda-mps-server", SERVER):
        prolog(node, 901)
        opened(node, 0)
        daemon = holder(node)
        server = node.ok(
            f"for p in /proc/[0-9]*; do read -r _ _ _ _ _ session _ <$p/stat && [[ $session == {daemon} ]] && "
            "echo ${p##*/}; done 2>/dev/null; true"
        ).split()
        server, = set(server) - {daemon}
        node.ok(f"systemctl stop {UNIT}")
        assert not lives(node, daemon) and lives(node, server)
        epilog(node, 901)
        assert not lives(node, server)


# --- what fails ----------------------------------------------------------------------------------------------------


def faulty(node, how, *more):
    configure(node, "MpsControl=/opt/mps/nvidia-cuda-mps-control", *more)
    node.write("/opt/mps/control", how + "\n")


def test_a_daemon_that_cannot_start_says_why(node):
    faulty(node, "exit")
    line, = prolog(node, 901)
    assert "Cannot access CUDA_MPS_PIPE_DIRECTORY" in line, line
    assert f"as a systemd unit: Job for {UNIT}.service failed" in line, line
    faulty(node, "no-daemon")
    line, = prolog(node, 902)
    assert "started no daemon" in line and "as a systemd unit: " in line, line


def test_one_that_hangs_is_given_up_and_nothing_of_it_stays(node):
    faulty(node, "hang", "MpsTimeout=4000")
    line, = prolog(node, 901)
    # systemd's own answer: it gave up in time.
    assert f"no answer in 4000 ms; as a systemd unit: Job for {UNIT}.service failed" in line, line
    node.wait(lambda: units(node) == {}, "the unit to be given up")
    # It became sleep(1).
    assert node.run("grep -zlx '360[0]' /proc/[0-9]*/cmdline").stdout == ""


def test_without_systemds_help_it_starts_all_the_same_and_says_so(node):
    for script, why in (
        ("echo 'Failed to connect to bus: Host is down' >&2; exit 1", "Failed to connect to bus: Host is down"),
        ("exec sleep 3600", "/usr/bin/systemd-run did not answer in 500 ms"),
        ("exit 1", "it printed nothing"),
        ("exit 0", "/usr/bin/systemd-run started it, but it is not running"),
    ):
        configure(node, "MpsTimeout=1000")
        with replaced(node, "/usr/bin/systemd-run", script):
            started, remark = prolog(node, 901)
        assert started.endswith(", without a unit") and why in remark, (started, remark)
        assert answers(node)
        assert node.run("grep -zlx '360[0]' /proc/[0-9]*/cmdline").stdout == ""
        assert epilog(node, 901)[-1].endswith("MPS daemon 0.2001 ended")


def test_a_unit_that_comes_late_is_none(node):
    """systemd was asked, did not answer in time, and does it all the same:
    the daemon that is there stays the only one."""
    configure(node, "MpsTimeout=1000")
    script = (
        'setsid -f bash -c \'sleep 1.5; "$@"; touch /lab/out/late\' - @REAL@ "$@" </dev/null >/dev/null '
        '2>&1; exec sleep 3600'
    )
    node.ok("rm -f /lab/out/late")
    with replaced(node, "/usr/bin/systemd-run", script):
        started, remark = prolog(node, 901)
        node.wait(lambda: node.run("ls /lab/out/late").returncode == 0, "the late unit")
    assert started.endswith(", without a unit") and "did not answer" in remark, (started, remark)
    node.wait(lambda: units(node) == {}, "the late unit's end")
    assert answers(node) and holder(node) == re.search(r"process (\d+),", started).group(1)


def test_a_device_that_is_not_there_yet_is_asked_for_and_missed_aloud(node):
    """systemd lets a unit open what is there when it starts;
    without the device of unified memory no CUDA program works."""
    node.ok("mv /dev/nvidia-uvm /dev/uvm.kept")
    try:
        started, remark = prolog(node, 901)
        assert started.endswith(f", unit {UNIT}"), started
        assert "can open every GPU: /dev/nvidia-uvm is missing" in remark, remark
        assert show(node, UNIT, "DevicePolicy") == "auto"
        epilog(node, 901)
        with replaced(
            node, "/usr/bin/nvidia-modprobe", '[[ $* == "-u -c=0" ]] && /bin/mv /dev/uvm.kept /dev/nvidia-uvm'
        ):
            started, = prolog(node, 901)
        assert started.endswith(f", unit {UNIT}") and show(node, UNIT, "DevicePolicy") == "closed"
    finally:
        node.run("mv /dev/uvm.kept /dev/nvidia-uvm")


# --- others --------------------------------------------------------------------------------------------------------


def test_a_daemon_for_all_users_is_roots_and_as_closed(node):
    newer = nvidia("555")
    if not newer:
        pytest.skip("NOT TESTED: NVIDIA's programs of 555, which has a daemon for all users, can't be had here")
    # Its server is looked for beside it.
    node.ok("mkdir -p /opt/555")
    client.install(node, newer / "usr/bin/nvidia-cuda-mps-control", "/opt/555/nvidia-cuda-mps-control")
    configure(node, "MpsControl=/opt/555/nvidia-cuda-mps-control", "Mps=multiuser")
    with replaced(node, "/opt/555/nvidia-cuda-mps-server", SERVER):
        started, = prolog(node, 901)
        assert started.endswith(", unit gpushare-mps-0.all"), started
        pid = holder(node, "0.all")
        assert re.search(r"^Uid:\t0\t0\t0\t0$", node.ok(f"cat /proc/{pid}/status"), re.M)
        assert opened(node, 0, "0.all", "root") == (gpus(0), OWN_ONLY)
        epilog(node, 901)


def test_check_tries_a_unit(node):
    line, = [line for line in node.run("gpushare check --all").stdout.splitlines() if re.match(r"\S+ +Mps ", line)]
    assert line.startswith("ok") and "starts as a systemd unit, accepts limits, and ends" in line, line
    with replaced(node, "/usr/bin/systemd-run", "echo no >&2; exit 1"):
        line, = [line for line in node.run("gpushare check --all").stdout.splitlines() if re.match(r"\S+ +Mps ", line)]
    assert line.startswith("WRONG") and "it is not a systemd unit, so it can open every GPU: no" in line, line


# As NVIDIA's documents start it, for all GPUs and users.
SITE_UNIT = """
[Service]
Environment=CUDA_MPS_PIPE_DIRECTORY=/run/site-mps CUDA_MPS_LOG_DIRECTORY=/run/site-mps
RuntimeDirectory=site-mps
ExecStart=/usr/bin/nvidia-cuda-mps-control -f
[Install]
WantedBy=multi-user.target
"""


def test_a_sites_own_unit_is_shown_and_ends_as_the_page_says(node):
    """docs/running-cluster.md; what runs before and after is in test_migration.py."""
    [step] = [step for step in steps("docs/running-cluster.md#Migrate") if step.command.startswith("systemctl disable")]
    node.write("/etc/systemd/system/site-mps.service", SITE_UNIT)
    node.ok("systemctl daemon-reload && systemctl enable --now site-mps")
    try:
        pid = show(node, "site-mps", "MainPID")
        prolog(node, 901)
        ours = holder(node)
        said = [(one["status"], one["said"]) for one in node.findings("Mps")]
        [shown] = [text for status, text in said if status == "unknown"]
        assert f"didn't start: process {pid} of user 0 (pipes in /run/site-mps). Programs" in shown, said
        node.ok(step.command)
        assert not lives(node, pid) and node.run("systemctl is-enabled site-mps").stdout.strip() == "disabled"
        assert [one["status"] for one in node.findings("Mps")] == ["ok"]
        assert holder(node) == ours and lives(node, ours) and answers(node)
    finally:
        node.run("systemctl disable --now site-mps; rm /etc/systemd/system/site-mps.service; systemctl daemon-reload")


def test_the_next_step_starts_a_daemon_again_that_a_script_has_ended(node, with_client):
    """As many sites' job scripts do at their end; the user's other job on that GPU has the same daemon."""
    go = "until [ -e /lab/out/go ]; do sleep 0.1; done"
    share = "--gres=mps:20"
    for _ in range(3):
        node.start("--gres=mps:80", user="bob")
    script = f"{go}; srun -n2 {client.CUDA_CLIENT}; srun -n1 {client.CUDA_CLIENT}; true"
    job, gpu = node.start("-n2", share, script=script)
    quits = "echo quit -t 1 | nvidia-cuda-mps-control; rm -rf $CUDA_MPS_PIPE_DIRECTORY/*"
    node.finished(node.sbatch(share, script=quits))
    node.wait(lambda: node.run(f"[ -e {DIR}/{gpu}.{ALICE}/pipe/control ]").returncode, "the end of the daemon")
    node.ok("touch /lab/out/go")
    try:
        assert node.finished(job) == "COMPLETED", node.output(job)
    finally:
        node.ok("rm /lab/out/go")
    said = node.output(job)
    assert re.findall(r"cuInit=(\d+)", said) == ["805"] * 3, said
    assert said.count("It has been started again for this step") == 1, said
