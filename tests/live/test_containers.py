# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares in containers, with the programs that start them: without docs/examples/containers a program goes round its
MPS daemon and nothing says so (cuInit gives 100, as without any daemon); with it the daemon is reached (805, see
test_mps)."""

import json

import client
import pytest
from gpus import uuids
from lab import TOP
from told import of_comments

EXAMPLES = TOP / "docs/examples/containers"
HALF = "--gres=mps:40"
NO_DAEMON, REACHED = "cuInit=100", "cuInit=805"
LIBRARY, RULES = "/lab/out/libnvidia-ml.so.1", "/etc/slurm/gpushare.conf"
PLUGSTACK, PLUGIN, ROOT = "/etc/slurm/plugstack.conf", "/lab/out/user-init.so", "/lab/out/root"
# A directory as an image has it, with libcuda, which a container has from the node. podman and ipcns=host want
# /dev/mqueue.
IMAGE = """
i=/srv/image; mkdir -p $i/{bin,dev,proc,sys,tmp,etc,run,var/tmp,home,usr/lib/$(uname -m)-linux-gnu,lib64} /dev/mqueue
ln -s /run $i/var/run; ln -s usr/lib $i/lib
echo alice:x:2001:2001::/home/alice:/bin/sh >$i/etc/passwd
touch $i/etc/{group,hosts,resolv.conf,localtime} /etc/localtime
cp /usr/local/bin/cuda-client $i/bin; cp -L /lib64/ld-* $i/lib64
for l in c dl m pthread rt cuda; do cp -L /usr/lib/*-linux-gnu/lib$l.so.[0-9] $i/usr/lib/*-linux-gnu/; done
chown -R alice $i; printf '[storage]\\ndriver = "vfs"\\n' >/etc/containers/storage.conf
"""
BWRAP = "bwrap --ro-bind /srv/image / --proc /proc --dev-bind /dev /dev"
# In the box nothing may be mounted over its /proc, and no cgroup is the user's.
PODMAN = "podman --cgroup-manager=cgroupfs run --rm --network=host --pid=host"
MPS = "/run/gpushare/mps"
# Since which release the root has it, the command, what it is given for MPS, and the site's file instead of that.
PROGRAMS = {
    "bubblewrap": ("", BWRAP, f"--tmpfs /run --bind {MPS} {MPS}", "", None),
    "charliecloud": ("", "ch-run", "-b /run:/run", "/srv/image --", None),
    "podman": ("", PODMAN, f"--ipc=host --env-host -v {MPS}:{MPS}", "--rootfs /srv/image",
               ("50-gpushare.conf", "/etc/containers/containers.conf.d/50-gpushare.conf")),
    "apptainer": ("26.05", "apptainer exec", f"--bind {MPS}", "/srv/image",
                  ("apptainer.conf", "/etc/apptainer/apptainer.conf")),
}


@pytest.fixture(scope="module")
def node(contained):
    client.install_cuda(contained)
    contained.ok(IMAGE)
    return contained


def said(node, command):
    result = node.run(["srun", "-Q", HALF, *command.split()], "alice")
    return result.stdout + result.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_a_container_reaches_its_daemon_by_the_files_that_are_shipped(node, name):
    since, command, option, image, site = PROGRAMS[name]
    if since and not node.newer_than(since):
        return  # That Debian has no such package.
    assert NO_DAEMON in said(node, f"{command} {image} cuda-client"), "silently without MPS"
    assert REACHED in said(node, f"{command} {option} {image} cuda-client")
    if site:
        ours, path = site
        node.ok(f"mkdir -p $(dirname {path}) && cat >>{path}", stdin=(EXAMPLES / ours).read_text())
        # Of Debian 12: it doesn't read env_host.
        old = "--env-host" if (name, node.release) == ("podman", "22.05") else ""
        assert REACHED in said(node, f"{command} {old} {image} cuda-client"), f"by {path}"
    if name == "apptainer":
        told, = of_comments(ours, (EXAMPLES / "apptainer.conf").read_text())
        node.ok(f"sed -i '/gpushare/d' {path}")
        assert NO_DAEMON in said(node, f"{command} {image} cuda-client")
        node.ok(told.text)
        assert REACHED in said(node, f"{command} {image} cuda-client"), told.text


def test_who_goes_round_mps_is_seen(node, tmp_path):
    """NVML's list of MPS clients lacks them. Here a library says so that stands in for NVML."""
    fake = client.compiled(TOP / "tests/fakes/nvml.c", node.release, tmp_path / "libnvidia-ml.so.1", "-shared", "-fPIC")
    client.install(node, fake, LIBRARY)
    before = node.ok(f"cat {RULES}")
    node.ok(f"rm -f /run/gpushare/nvml; printf '%s\\n' Nvml={LIBRARY} NvmlTimeout=10000 >>{RULES}")
    node.ok(f"cat >{LIBRARY}.state", stdin="".join(
        f"gpu {uuid} {minor} total=46068 reserved=260 used=100 utilization=1 processes=3 clients=2\n"
        for minor, uuid in enumerate(uuids(node))
    ))
    try:
        job = node.sbatch(HALF)
        gpu = node.wait(lambda: node.state(job) == "RUNNING" and str(node.ledger().get(job, "")), "its GPU")
        assert f"GPU {gpu}: 1 of its processes bypass MPS" in node.ok("gpushare status")
        gpus = json.loads(node.ok("gpushare status --json"))["gpus"]
        assert {one["index"]: one["without_mps"] for one in gpus} == {i: 1 if str(i) == gpu else None for i in range(4)}
        family = [
            line
            for line in node.ok("gpushare metrics").splitlines()
            if line.startswith("gpushare_gpu_processes_without_mps")
        ]
        assert len(family) == 1 and f'gpu="{gpu}"' in family[0] and family[0].endswith(" 1"), family
        node.ok(f"sed -i s/clients=2/clients=3/ {LIBRARY}.state")
        assert "bypass MPS" not in node.ok("gpushare status")
    finally:
        node.cancel_all()
        node.ok(f"cat >{RULES}", stdin=before + "\n")


def test_a_plugins_container_without_the_daemon_fails_the_job(node, tmp_path):
    """As pyxis, whose line comes before gpushare's: another root is the task's before gpushare looks."""
    library = client.compiled(
        TOP / "tests/live/tools/user-init.c", node.release, tmp_path / "user-init.so", "-shared", "-fPIC"
    )
    program = client.compiled(TOP / "tests/live/tools/said.c", node.release, tmp_path / "said", "-static")
    client.install(node, library, PLUGIN)
    ours = node.ok(f"cat {PLUGSTACK}")
    node.ok(f"mkdir -p {ROOT}/bin {ROOT}/proc && chmod -R 755 {ROOT} && install -m 666 /dev/null /lab/out/user-init")
    client.install(node, program, f"{ROOT}/bin/said")
    node.ok(f"cat >{PLUGSTACK}", stdin=f"required {PLUGIN}\n{ours}\n")
    try:
        for folder, missing in (("", f"{MPS}/"), (MPS, "/dev/shm is not the node's"), ("/dev/shm", None)):
            node.ok(f"mkdir -p {ROOT}{folder}")
            text = said(node, "/bin/said")
            assert ("in another root" in text) == (missing is None), text
            assert missing is None or ("gpushare: this job can't have its GPU here: " in text and missing in text), text
        node.ok(f"rmdir {ROOT}{MPS} && echo OnMpsFailure=run >>{RULES}")
        assert "in another root" in said(node, "/bin/said"), "without limits, as the site wants"
    finally:
        node.ok(f"sed -i /OnMpsFailure/d {RULES}; cat >{PLUGSTACK}; rm -rf {ROOT}", stdin=ours + "\n")
        node.cancel_all()
    node.wait_idle()


def test_check_says_where_pyxis_comes_too_late(node):
    ours = node.ok(f"cat {PLUGSTACK}")
    try:
        for lines, verdict in (
            (f"{ours}\noptional spank_pyxis.so\n", "wrong"),
            (f"optional spank_pyxis.so\n{ours}\n", None),
        ):
            node.ok(f"cat >{PLUGSTACK}", stdin=lines)
            found = [one for one in node.findings("plugstack.conf") if "pyxis" in one["said"]]
            assert [one["status"] for one in found] == ([verdict] if verdict else []), found
    finally:
        node.ok(f"cat >{PLUGSTACK}", stdin=ours + "\n")
