# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares in containers of pyxis and enroot themselves, which no Debian has: tried where GPUSHARE_PYXIS names a
directory in which they are installed as below / (spank_pyxis.so in usr/local/lib, for the release that is tested, and
enroot), without enroot's hook 98-nvidia.sh, which wants nvidia-container-cli."""

import os
import subprocess
from pathlib import Path

import pytest
from test_containers import EXAMPLES, HALF, NO_DAEMON, PLUGSTACK, REACHED
from test_containers import node as with_image  # noqa: F401

FOLDER = os.environ.get("GPUSHARE_PYXIS")
PYXIS, OURS = "required /usr/local/lib/spank_pyxis.so container_scope=global", "required spank_gpushare.so"
DATA = "/srv/enroot"
# A container that is there already: enroot downloads none. Programs of the node's for it.
CONTAINER = f"""
mkdir -p {DATA}/data && cp -a /srv/image {DATA}/data/pyxis_image && cd {DATA}/data/pyxis_image
for p in bash ls; do
    cp -L /bin/$p bin; ldd /bin/$p | awk '/=>/ {{ print $3 }}' | xargs -I@ cp -Ln @ usr/lib/$(uname -m)-linux-gnu
done
ln -s bash bin/sh; chown -R alice {DATA}
for n in RUNTIME DATA CACHE CONFIG; do echo ENROOT_${{n}}_PATH {DATA}/${{n,,}}; done >>/etc/enroot/enroot.conf
"""
OPEN = "for g in 0 1 2 3; do true </dev/nvidia$g; done"


@pytest.fixture(scope="module")
def node(with_image):  # noqa: F811
    if not FOLDER:
        pytest.skip("NOT TESTED: no folder with pyxis and enroot in GPUSHARE_PYXIS")
    packed = subprocess.run(["tar", "-C", Path(FOLDER), "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(with_image.inside("tar", "-C", "/", "-x", "--no-same-owner"), input=packed, check=True)
    with_image.ok(CONTAINER)
    return with_image


def said(node, *lines, options=(HALF,), command="cuda-client"):
    """What a program in the container says, with these lines of plugstack.conf."""
    node.ok(f"cat >{PLUGSTACK} && /lab/service restart slurmd", stdin="\n".join(lines) + "\n", timeout=80)
    result = node.run(["srun", "-Q", *options, "--container-name=image", "bash", "-c", command], "alice")
    return result.stdout + result.stderr


def test_a_share_in_a_container_of_pyxis_reaches_its_daemon_or_fails(node):
    # Its GPUs have no driver here: what the fence lets through is "No such device".
    text = said(node, PYXIS, OURS, options=(), command=OPEN)
    assert text.count("Operation not permitted") == 4, text
    text = said(node, PYXIS, OURS)
    assert "its MPS daemon can't be reached from here" in text and "cuInit" not in text, text
    text = said(node, OURS, PYXIS)
    assert NO_DAEMON in text, f"in silence, as gpushare check says of that order: {text}"
    mounts = (EXAMPLES / "50-gpushare.fstab").read_text()
    node.ok("cat >/etc/enroot/mounts.d/50-gpushare.fstab", stdin=mounts)
    text = said(node, PYXIS, OURS)
    assert REACHED in text, text
    text = said(node, PYXIS, OURS, command=OPEN)
    assert text.count("Operation not permitted") == 3 and text.count("No such device") == 1, text
