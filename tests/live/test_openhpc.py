# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/openhpc/recipe.sh with real rpm and dnf, a root that looks like OpenHPC's master and one like Warewulf's
image. Stand-ins: slurmctld's answers, systemctl; the packages of OpenHPC's names are empty. No OpenHPC, no Warewulf."""

import re
import shutil
import subprocess

import install
import packages
import pytest
from lab import RELEASES, TOP
from packages import slurm_of
from rhel import PLUGIN_DIR, START, slurm_packages

RELEASE = RELEASES[0]
RECIPE = f"bash {TOP}/packaging/openhpc/recipe.sh"

# The master is root/, the image is image/, and Slurm's folder of the master is also this machine's, in the mounts of
# the test alone. $1 is the release's root.
MACHINES = r"""
mkdir upper2 work2 image etc etc.work
mount -t overlay overlay -o "lowerdir=$1,upperdir=upper2,workdir=work2" image
mount -t proc proc image/proc
mount -t overlay overlay -o "lowerdir=/etc,upperdir=etc,workdir=etc.work" /etc
rm -rf image/etc/slurm image/usr/lib/*/slurm-wlm image/usr/{s,}bin/slurm* image/usr/bin/{srun,sbatch}
REAL=$(type -P dnf)
dnf() { quietly command dnf --releasever 9 --disablerepo '*' --setopt reposdir=/none --nogpgcheck -q "$@"; }
options="-y --repofrompath slurm,file://SLURM install rhel slurm-ohpc"
dnf --installroot "$PWD/root" $options slurm-slurmctld-ohpc
dnf --installroot "$PWD/image" $options slurm-slurmd-ohpc
chmod 755 image/usr/sbin/slurmd
mkdir -p /etc/slurm
mount --bind root/etc/slurm /etc/slurm
printf ClusterName=ohpc >/etc/slurm/slurm.conf # without a newline

mkdir bin
PATH=$PWD/bin:$PATH
program() { { echo '#!/bin/bash'; cat; } >"bin/$1"; chmod 755 "bin/$1"; }
program dnf <<END
[[ \$* == *--installroot* ]] || set -- --installroot $PWD/root "\$@"
echo "dnf \$*" >>$PWD/ran
exec $REAL --releasever 9 --disablerepo '*' --setopt reposdir=/none --nogpgcheck -q "\$@"
END
# The whole check needs Slurm's daemons; what needs none is ours.
program gpushare <<END
echo "gpushare \$*" >>$PWD/ran
[[ \$* != check ]] || { ! grep -q WRONG $PWD/says 2>/dev/null; exit; }
exec chroot $PWD/root gpushare "\$@"
END
program systemctl <<<"echo \"systemctl \$*\" >>$PWD/ran; sed -n /^JobSubmitPlugins/p /etc/slurm/slurm.conf >$PWD/loaded"
program scontrol <<<"[[ \$1 != ping ]] || { echo 'Slurmctld(primary) at sms is UP'; exit; }; cat $PWD/loaded || true"
program sinfo <<<"echo slurm MICRO"
program hostname <<<"echo sms"
export CHROOT=$PWD/image gpushare_rpms=RPMS
ran() { cat ran; rm ran; }
tree() { (cd "$1" && find etc usr -xdev ! -type d -name '*gpushare*' ! -path '*/share/*') | LC_ALL=C sort; }
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder with packages: "slurm" with OpenHPC's names, "ours" for that, "schedmd" for SchedMD's names."""
    if shutil.which("dnf") is None or shutil.which("createrepo_c") is None:
        pytest.skip("NOT TESTED: dnf, which is not installed, or createrepo_c")
    out = tmp_path_factory.mktemp("openhpc")
    built = install.built(RELEASE, out / "built")
    for name, suffix in (("ours", "-ohpc"), ("schedmd", "")):
        packages.built(
            "rpm", TOP, RELEASE, out / name, BUILT=str(built), SLURM_PLUGIN_DIR=PLUGIN_DIR, SLURM_SUFFIX=suffix
        )
    slurm_packages(out / "slurm", slurm_of(RELEASE).micro, "-ohpc")
    subprocess.run(["createrepo_c", "--quiet", out / "slurm"], check=True, capture_output=True)
    return out


def said(out, *commands):
    """[(what each of COMMANDS says, its status)] on the two machines as they were made."""
    machines = MACHINES.replace("SLURM", str(out / "slurm")).replace("RPMS", str(out / "ours"))
    machines = machines.replace("MICRO", slurm_of(RELEASE).micro)
    around = "\necho; echo =BEGIN=; {} 2>&1; status=$?; echo; echo =END $status="
    script = "".join(around.format(command) for command in commands)
    done = packages.in_root(RELEASE, out, "true", START + machines + script.replace("SCHEDMD", str(out / "schedmd")))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"(?s)=BEGIN=\n(.*?)\n=END (\d+)=", done.stdout)
    assert len(found) == len(commands), done.stdout + done.stderr
    return [(text.strip(), int(status)) for text, status in found]


BOTH = {"usr/bin/gpushare", "etc/slurm/gpushare.conf", "usr/lib64/slurm/spank_gpushare.so"}
FRAGMENT = "etc/slurm/plugstack.conf.d/50-gpushare.conf"
MASTER = {*BOTH, FRAGMENT, "usr/lib64/slurm/job_submit_gpushare.so", "etc/slurm/slurm.conf.before-gpushare"}
IMAGE = {
    *BOTH, FRAGMENT, "usr/lib64/slurm/spank_gpushare_prolog.so", "etc/slurm/prolog.d/50-gpushare",
    "etc/slurm/epilog.d/50-gpushare", *(f"usr/sbin/gpushare-{name}" for name in ("prolog", "epilog", "nvml")),
}


def test_the_recipe_installs_on_master_and_image_and_again_changes_nothing(out):
    texts = "cat /etc/slurm/{slurm,gpushare}.conf image/etc/slurm/gpushare.conf"
    first, ran, conf, master, image, lines, again, ran_again, *same = said(
        out, RECIPE, "ran", texts, "tree root", "tree image", f"grep -h ^[or] root/{FRAGMENT} image/{FRAGMENT}",
        RECIPE, "ran", texts, "tree root", "tree image",
    )
    assert first[1] == 0 and first[0].splitlines()[-1].startswith("recipe: done."), first
    assert [line for line in ran[0].splitlines() if line.startswith("systemctl")] == ["systemctl restart slurmctld"]
    assert ran[0].splitlines()[-1] == "gpushare check", ran
    assert conf[0].splitlines() == ["ClusterName=ohpc", "JobSubmitPlugins=gpushare", "Mode=audit", "Mode=audit"]
    found = [set(text.splitlines()) for text, _ in (master, image)]
    assert MASTER <= found[0] and IMAGE <= found[1], found
    assert "usr/sbin/gpushare-prolog" not in found[0] and "usr/lib64/slurm/job_submit_gpushare.so" not in found[1]
    assert lines[0].splitlines() == ["optional spank_gpushare.so", "required spank_gpushare.so"]
    # Again: nothing is installed, written or restarted.
    assert again[1] == 0 and "systemctl" not in ran_again[0], again
    assert same == [conf, master, image]


@pytest.mark.parametrize("before, why", [
    ("export sms_name=other", "this is sms, not the master 'other' (sms_name)"),
    ("export CHROOT=/nowhere", "'/nowhere' (CHROOT) is no image with slurmd"),
    ("export gpushare_rpms=/nowhere", "'/nowhere' (gpushare_rpms) must have one gpushare-*.rpm"),
    ("echo JobSubmitPlugins=lua >/etc/slurm/slurm.conf", "slurm.conf has JobSubmitPlugins=lua: append gpushare"),
    ("export gpushare_conf=Placment=own", "unknown key 'Placment' here"),
    ("export gpushare_rpms=SCHEDMD", "nothing provides slurm-slurmctld = "),
])
def test_it_stops_before_slurmctld_is_touched(out, before, why):
    _, done, conf, ran = said(out, before, RECIPE, "cat /etc/slurm/slurm.conf", "cat ran; true")
    assert done[1] != 0 and why in done[0], done
    assert "JobSubmitPlugins=gpushare" not in conf[0] and "systemctl" not in ran[0]


def test_it_accepts_gpushare_before_other_plugins_and_an_input_file_here(out):
    settings = "echo JobSubmitPlugins=gpushare,lua >/etc/slurm/slurm.conf"
    _, _, done, conf = said(
        out, settings, f"cp {TOP}/packaging/openhpc/input.local here",
        f"GPUSHARE_INPUT_LOCAL=here {RECIPE}", "cat /etc/slurm/slurm.conf",
    )
    assert done[1] == 0 and conf[0] == "JobSubmitPlugins=gpushare,lua", (done, conf)


def test_what_is_wrong_is_its_status(out):
    _, done = said(out, "echo WRONG >says", RECIPE)
    assert done[1] == 1 and "recipe: done" not in done[0], done
