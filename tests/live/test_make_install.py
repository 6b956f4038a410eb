# SPDX-License-Identifier: GPL-2.0-or-later
"""`make install` and `make uninstall` into a directory:
what is put where, how files are replaced, and what is left alone."""

import mmap
import os
import subprocess

import install
import pytest
from lab import RELEASES, TOP

PLUGIN_DIR = "/usr/lib/slurm"
JOB_SUBMIT = "usr/lib/slurm/job_submit_gpushare.so"
CONF = "etc/slurm/gpushare.conf"
FRAGMENT = "etc/slurm/plugstack.conf.d/50-gpushare.conf"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return install.built(RELEASES[0], tmp_path_factory.mktemp("built") / "release")


def make(target, *variables, path=None, **environment):
    """The result of `make TARGET` with the variables, and with only those of the environment that are given."""
    environment["PATH"] = path or os.environ["PATH"]
    command = ["/usr/bin/make", "--silent", "-C", TOP, target, *map(str, variables)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def into(tree, built, *more):
    return [f"DESTDIR={tree}", f"SLURM_PLUGIN_DIR={PLUGIN_DIR}", f"BUILT={built}", *more]


@pytest.fixture
def tree(tmp_path, built):
    """A tree into which it was installed."""
    tree = tmp_path / "tree"
    done = make("install", *into(tree, built))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return tree


def listing(tree):
    """{path: all that a copy of the tree could differ in}, directories too."""
    found = {}
    for path in sorted(tree.rglob("*")):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(tree))] = (about.st_ino, about.st_mode, about.st_mtime_ns, content)
    return found


def files(tree):
    return {name for name in listing(tree) if (tree / name).is_symlink() or not (tree / name).is_dir()}


def test_everything_is_in_its_place(tree):
    expected = {f"usr/lib/slurm/{plugin}.so": 0o644 for plugin in install.PLUGINS}
    expected |= {f"usr/sbin/{program}": 0o755 for program in install.PROGRAMS if program != "gpushare"}
    expected |= {"usr/bin/gpushare": 0o755, FRAGMENT: 0o644, "usr/lib/tmpfiles.d/gpushare.conf": 0o644}
    expected |= {f"usr/share/man/man{page.suffix[1:]}/{page.name}": 0o644 for page in (TOP / "man").iterdir()}
    expected |= {
        "usr/share/bash-completion/completions/gpushare": 0o644,
        "usr/share/fish/vendor_completions.d/gpushare.fish": 0o644,
        "usr/share/zsh/vendor-completions/_gpushare": 0o644,
    }
    units = [f"gpushare-{what}.{kind}" for what in ("metrics", "guard", "idle") for kind in ("service", "timer")]
    expected |= {f"usr/lib/systemd/system/{unit}": 0o644 for unit in units}
    expected |= {"usr/lib/systemd/system-preset/90-gpushare.preset": 0o644}
    docs = [path.relative_to(TOP / "docs") for path in (TOP / "docs").rglob("*") if path.is_file()]
    expected |= {f"usr/share/doc/gpushare/{path}": 0o644 for path in [*docs, "gpushare.conf", "THIRD-PARTY"]}
    links = {"etc/slurm/prolog.d/50-gpushare": "/usr/sbin/gpushare-prolog"}
    links |= {"etc/slurm/epilog.d/50-gpushare": "/usr/sbin/gpushare-epilog"}
    assert files(tree) == set(expected) | set(links)
    assert {name: (tree / name).stat().st_mode & 0o7777 for name in expected} == expected
    assert {name: os.readlink(tree / name) for name in links} == links
    # A directory of programs is read by run-parts too.
    for folder in ("prolog.d", "epilog.d"):
        # run-parts looks where a link leads, which is in no other tree.
        (tree / "etc/slurm" / folder / "50-gpushare").unlink()
        (tree / "etc/slurm" / folder / "50-gpushare").symlink_to("/bin/true")
        names = subprocess.run(["run-parts", "--test", tree / "etc/slurm" / folder], capture_output=True, text=True)
        assert names.stdout.split() == [str(tree / "etc/slurm" / folder / "50-gpushare")]


def test_nothing_is_written_outside_of_destdir(tmp_path, built):
    """Everything else is read-only."""
    tree = tmp_path / "tree"
    tree.mkdir()
    script = (
        'mount -t tmpfs tmpfs "$1" && mount -o remount,ro,bind / && ! touch /etc/slurm-probe 2>/dev/null && shift &&'
        ' make --silent -C "$0" install "$@" && make --silent -C "$0" uninstall "$@" && find "$TREE" ! -type d'
    )
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, TOP, tree, *into(tree, built)]
    done = subprocess.run(command, env={**os.environ, "TREE": str(tree)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.count("\n") == 1, done.stdout  # what install says last


def test_installing_twice_changes_nothing(tree, built):
    before = listing(tree)
    assert make("install", *into(tree, built)).returncode == 0
    assert listing(tree) == before


def test_a_plugin_that_is_in_use_stays_whole(tree, built, tmp_path):
    newer = tmp_path / "newer"
    newer.mkdir()
    for file in built.iterdir():
        (newer / file.name).write_bytes(file.read_bytes() + b"newer")
        # gpushare is run: it prints its completions.
        (newer / file.name).chmod(0o755)
    before = listing(tree)
    old = (tree / JOB_SUBMIT).read_bytes()
    with open(tree / JOB_SUBMIT, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert make("install", *into(tree, newer)).returncode == 0
        assert mapped[:] == old and os.fstat(file.fileno()).st_nlink == 0
    after = listing(tree)
    changed = {name for name in files(tree) if after[name] != before[name]}
    assert changed == {f"usr/lib/slurm/{plugin}.so" for plugin in install.PLUGINS} | {
        f"usr/sbin/{program}" for program in install.PROGRAMS if program != "gpushare"
    } | {"usr/bin/gpushare", "usr/share/doc/gpushare/THIRD-PARTY"}
    assert all(after[name][0] != before[name][0] and after[name][3].endswith(b"newer") for name in changed)
    assert set(after) == set(before), "nothing is left over"


def test_what_the_administrator_has_changed_stays(tree, built):
    others = tree / "etc/slurm/prolog.d/10-site"
    others.write_text("#!/bin/sh\n")
    (tree / CONF).write_text("Mode=warn\n")
    (tree / FRAGMENT).write_text("optional spank_gpushare.so\n")
    (tree / "etc/slurm/epilog.d/50-gpushare").unlink()
    (tree / "etc/slurm/epilog.d/50-gpushare").symlink_to("/opt/epilog")
    before = listing(tree)
    done = make("install", *into(tree, built))
    assert listing(tree) == before
    stays = [line.split()[1] for line in done.stdout.splitlines() if line.endswith("exists and stays unchanged")]
    assert stays == [str(tree / name) for name in (FRAGMENT, "etc/slurm/epilog.d/50-gpushare")]
    done = make("uninstall", *into(tree, built))
    assert done.stdout == "" and done.returncode == 0
    # What names a plugin that is gone would fail every step.
    assert files(tree) == {CONF, "etc/slurm/prolog.d/10-site"}


def test_uninstall_leaves_nothing(tree, built):
    (tree / "etc/slurm/slurm.conf").write_text("JobSubmitPlugins=gpushare\n")
    done = make("uninstall", *into(tree, built))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert files(tree) == {"etc/slurm/slurm.conf"}
    assert not (tree / "usr/share/doc/gpushare").exists()


def test_places_can_be_chosen(tmp_path, built):
    tree = tmp_path / "tree"
    done = make("install", *into(tree, built, "PREFIX=/opt/gpushare", "SYSCONFDIR=/opt/etc"))
    assert done.returncode == 0, done.stderr
    found = files(tree)
    assert {"opt/gpushare/sbin/gpushare-prolog", "opt/gpushare/share/zsh/site-functions/_gpushare"} <= found
    assert os.readlink(tree / "opt/etc/prolog.d/50-gpushare") == "/opt/gpushare/sbin/gpushare-prolog"
    unit = (tree / "opt/gpushare/lib/systemd/system/gpushare-metrics.service").read_text()
    assert "\nExecStart=/opt/gpushare/bin/gpushare metrics " in unit and "/usr/" not in unit
    assert all(name.startswith(("opt/", "usr/lib/slurm/")) for name in found)
    assert make("uninstall", *into(tree, built, "PREFIX=/opt/gpushare", "SYSCONFDIR=/opt/etc")).returncode == 0
    assert files(tree) == set()


def test_a_login_node_goes_on_without_the_plugin(tree, tmp_path, built):
    login = tmp_path / "login"
    assert make("install", *into(login, built, "LOGIN_NODE=yes")).returncode == 0
    assert files(login) == files(tree)
    lines = {}
    for where in (login, tree):
        lines[where] = [line for line in (where / FRAGMENT).read_text().splitlines() if line and line[0] != "#"]
    assert lines == {login: ["optional spank_gpushare.so"], tree: ["required spank_gpushare.so"]}
    # What it is was said once, and isn't changed by somebody who leaves it out the next time.
    before = listing(login)
    done = make("install", *into(login, built))
    assert f"install: {login / FRAGMENT} exists and stays unchanged\n" in done.stdout and listing(login) == before
    refused = make("install", *into(tmp_path / "other", built, "LOGIN_NODE=Yes"))
    assert refused.stderr.startswith("install: LOGIN_NODE must be yes or no\n") and refused.returncode != 0
    assert make("uninstall", *into(login, built)).returncode == 0
    assert files(login) == set()


def test_a_shared_folder_of_slurms_files_is_left_alone(tmp_path, built):
    """What one machine puts there, or takes away, all of them have."""
    conf = tmp_path / "slurm"
    (conf / "plugstack.conf.d").mkdir(parents=True)
    variables = [
        f"PREFIX={tmp_path}/usr", f"SYSCONFDIR={conf}", f"SLURM_PLUGIN_DIR={tmp_path}/plugins", f"BUILT={built}",
    ]
    script = """
        mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs "$1" &&
        conf=$1 && shift && mkdir $conf/plugstack.conf.d || exit
        make --silent -C "$0" install "$@" && find $conf ! -type d
        cp "$0/packaging/plugstack.conf" $conf/plugstack.conf.d/50-gpushare.conf
        ! make --silent -C "$0" uninstall "$@" 2>&1 || exit
        sed -i "s/^[^#]/#&/" $conf/plugstack.conf.d/50-gpushare.conf
        make --silent -C "$0" uninstall "$@" && find $conf ! -type d
    """
    # Among processes of its own: other tests' slurmctlds have loaded the plugin.
    alone = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
    command = [*alone, "sh", "-c", script, TOP, conf, *variables]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    left = f"{conf} is on another file system than /etc, perhaps shared: Slurm's directories there are not changed"
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    fragment = f"{conf}/plugstack.conf.d/50-gpushare.conf"
    still = f"Slurm still needs it, and would fail: {fragment}:required spank_gpushare.so (of all machines)"
    lines = [line for line in done.stdout.splitlines() if "done, with" not in line and not line.startswith("make")]
    assert [line.split(". First take")[0] for line in lines] == [
        f"install: {left}", f"uninstall: {left}", f"uninstall: {still}", f"uninstall: {left}", fragment,
    ]
    assert (tmp_path / "usr/sbin").is_dir() and not list((tmp_path / "usr/sbin").iterdir())


def test_what_is_not_built_is_not_installed(tmp_path):
    (tmp_path / "empty").mkdir()
    done = make("install", *into(tmp_path / "tree", tmp_path / "empty"))
    assert done.stderr.splitlines()[0] == (
        f"install: {tmp_path}/empty/libjob_submit_gpushare.so is not there: run make first"
    )
    assert done.returncode != 0 and not (tmp_path / "tree").exists()


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_slurms_plugin_directory_is_found(tmp_path, built):
    """By the variable, by a slurmctld that answers, by pkg-config, beside the headers;
    else one line says what was tried."""
    fakes, tree = tmp_path / "bin", tmp_path / "tree"
    for folder in ("pkg/slurm", "beside/lib64/slurm", "beside/lib/x86_64-linux-gnu/slurm-wlm"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "auth_munge.so").touch()
    path = f"{fakes}:/usr/bin:/bin"

    def found(*more, headers=tmp_path / "beside/include"):
        done = make("install", f"DESTDIR={tree}", f"BUILT={built}", *more, path=path, SLURM_INCLUDE_DIR=str(headers))
        where = [file.parent for file in tree.rglob("job_submit_gpushare.so")]
        subprocess.run(["rm", "-rf", tree], check=True)
        return "/" + str(where[0].relative_to(tree)) if where else done.stderr

    program(fakes, "scontrol", "echo 'PluginDir               = /opt/one:/opt/two'")
    program(fakes, "pkg-config", f'[ "$*" = "--variable=libdir slurm" ] && echo {tmp_path}/pkg')
    assert found("SLURM_PLUGIN_DIR=/opt/given") == "/opt/given"
    assert found() == "/opt/one"
    program(fakes, "scontrol", "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1")
    assert found() == f"{tmp_path}/pkg/slurm"
    program(fakes, "pkg-config", "exit 1")
    assert found() == f"{tmp_path}/beside/lib64/slurm"
    subprocess.run(["rm", "-r", tmp_path / "beside/lib64"], check=True)
    assert found() == f"{tmp_path}/beside/lib/x86_64-linux-gnu/slurm-wlm"
    reason = found(headers="/no/such/include").splitlines()[0]
    assert reason.startswith("install: Slurm's plugin directory was not found: set SLURM_PLUGIN_DIR (tried: ")
    assert "'scontrol show config' says none; /no/such/lib64/slurm-wlm has no auth_*.so; " in reason


def test_bash_completes_commands_and_options(tree):
    script = (
        f'. {tree}/usr/share/bash-completion/completions/gpushare; COMP_WORDS=(gpushare "$@"); COMP_CWORD=$#; '
        f'_gpushare gpushare "${{@: -1}}"'
    )

    def completed(*words):
        done = subprocess.run(
            ["bash", "-c", f'{script}; echo "${{COMPREPLY[@]}}"', "bash", *words], capture_output=True, text=True
        )
        assert done.stderr == "", done.stderr
        return done.stdout.split()

    assert completed("sta") == ["status"]
    assert {"plan", "apply", "show", "docs"} <= set(completed("qos", ""))
    assert completed("qos", "plan", "--det") == ["--detailed-exitcode"]
