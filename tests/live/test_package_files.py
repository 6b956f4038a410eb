# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in the .debs and .rpms, what they ask for,
and what their scripts do in a release's root where nothing runs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import install
import packages
import pytest
from lab import RELEASES, TOP
from packages import NAMES, PLUGIN_DIR, Slurm, in_root, slurm_of

RELEASE = RELEASES[0]
CONF = "/etc/slurm/gpushare.conf"
FRAGMENT = "/etc/slurm/plugstack.conf.d/50-gpushare.conf"
ETC = "cd /etc && find slurm -name '*gpushare*' | LC_ALL=C sort"
VERSION = re.search(r'(?m)^version = "(.*)"$', (TOP / "Cargo.toml").read_text()).group(1)


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    return install.built(RELEASE, tmp_path_factory.mktemp("built") / "release")


@pytest.fixture(scope="module")
def out(tmp_path_factory, builds):
    """The directory with the packages of `make deb` and `make rpm`."""
    out = tmp_path_factory.mktemp("packages")
    for kind in ("deb", "rpm"):
        packages.built(kind, TOP, RELEASE, out, BUILT=str(builds))
    return out


def sources(tmp_path):
    (tmp_path / "sources").mkdir(parents=True)
    install.sources(RELEASE, tmp_path / "sources")
    return tmp_path / "sources"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def deb_content(package):
    """{path: (mode, owner, where a link leads)}, without folders."""
    found = {}
    for line in run("dpkg-deb", "-c", package).splitlines():
        mode, owner, _, _, _, path = line.split(None, 5)
        path, _, leads = path.partition(" -> ")
        if mode[0] != "d":
            found[path.removeprefix(".")] = (mode, owner.replace("/", ":"), leads)
    return found


def rpm_content(package):
    # A blank behind each, for links lead nowhere in most.
    lines = run(
        "rpm", "-qp", "--qf", "[%{FILENAMES}|%{FILEMODES:perms}|%{FILEUSERNAME}:%{FILEGROUPNAME}|%{FILELINKTOS}\n]",
        package,
    )
    fields = [line.split("|") for line in lines.splitlines()]
    return {path: (mode, owner, leads) for path, mode, owner, leads in fields if mode[0] != "d"}


def test_each_file_is_in_its_package(out, tmp_path, builds):
    """The packages together are what `make install` puts into place, and the .debs have what the .rpms have."""
    tree = tmp_path / "tree"
    run(
        "make", "--silent", "-C", TOP, "install", f"DESTDIR={tree}", f"SLURM_PLUGIN_DIR={PLUGIN_DIR}", f"BUILT={builds}"
    )
    debs = {name: deb_content(path) for name, path in packages.found("deb", out).items()}
    rpms = {name: rpm_content(path) for name, path in packages.found("rpm", out).items()}
    # What only one kind of packages has.
    for name in NAMES[1:]:
        assert debs[name].pop(f"/usr/share/doc/{name}")[2] == "gpushare"
    for file in ("copyright", "changelog.Debian.gz"):
        assert debs["gpushare"].pop(f"/usr/share/doc/gpushare/{file}")
    for name in ("gpushare", "gpushare-slurmd"):
        assert debs[name].pop(f"/usr/share/lintian/overrides/{name}")
    assert rpms["gpushare"].pop("/usr/share/licenses/gpushare/LICENSE")
    text = "/usr/share/{}/gpushare/THIRD-PARTY".format
    rpms["gpushare"][text("doc")] = rpms["gpushare"].pop(text("licenses"))
    zsh = "/usr/share/zsh/{}/_gpushare".format
    rpms["gpushare"][zsh("vendor-completions")] = rpms["gpushare"].pop(zsh("site-functions"))
    assert debs == rpms

    of = {name: set(content) for name, content in debs.items()}
    assert of["gpushare-slurmctld"] == {f"{PLUGIN_DIR}/job_submit_gpushare.so"}
    assert of["gpushare-client"] == {f"{PLUGIN_DIR}/spank_gpushare.so", "/usr/share/gpushare/plugstack-login.conf"}
    assert of["gpushare-slurmd"] == {
        *(f"{PLUGIN_DIR}/{name}.so" for name in ("spank_gpushare", "spank_gpushare_prolog")),
        *(f"/usr/sbin/gpushare-{name}" for name in ("prolog", "epilog", "nvml")),
        "/usr/lib/tmpfiles.d/gpushare.conf", "/usr/share/gpushare/plugstack.conf",
    }
    installed = {f"/{path.relative_to(tree)}" for path in tree.rglob("*") if path.is_symlink() or path.is_file()}
    installed = {f"{path}.gz" if path.startswith("/usr/share/man/") else path for path in installed}
    # Put into place by scripts.
    placed = {FRAGMENT, "/etc/slurm/prolog.d/50-gpushare", "/etc/slurm/epilog.d/50-gpushare"}
    added = {"/usr/share/gpushare/plugstack.conf", "/usr/share/gpushare/plugstack-login.conf"}
    assert set.union(*of.values()) == installed - placed | added | {"/usr/share/doc/gpushare/changelog.gz"}
    for content in debs.values():
        for path, (mode, owner, leads) in content.items():
            program = path.startswith(("/usr/bin/", "/usr/sbin/"))
            assert (mode, owner, leads) == ("-rwxr-xr-x" if program else "-rw-r--r--", "root:root", ""), path


def test_the_code_of_others_is_named_with_its_license(builds):
    """Each crate that leaves its name in a plugin or program: panics name its files."""
    text = (builds / "THIRD-PARTY").read_text()
    named = set(re.findall(r"(?m)^([a-z][a-z0-9_-]*) [0-9]+\.[0-9.]+ +[A-Z]", text))
    assert str(Path.home()) not in text and str(TOP) not in text
    assert {"zmij", "strsim", "plotters", "libloading", "parking_lot", "libc"} <= named
    assert not {name for name in named if name.startswith(("gpushare", "slurm"))}
    assert not {"serde_derive", "bindgen", "proptest"} & named
    seen = set()
    for path in builds.iterdir():
        seen |= {name.decode() for name in re.findall(rb"/crates/([a-z0-9_-]+?)-[0-9]+\.[0-9]+", path.read_bytes())}
    assert "parking_lot_core" in seen and seen <= named
    for words in ("MIT OR Apache-2.0", "Permission is hereby granted", "Apache License", "ISC"):
        assert words in text
    static = "INTERP" not in run("readelf", "-lW", builds / "gpushare-prolog")
    assert static == ("GNU LESSER GENERAL PUBLIC LICENSE" in text)
    # What the copyright file, and the spec, say of all of them.
    spec = re.search(r"(?m)^License: +(.*)$", (TOP / "packaging/rpm/gpushare.spec").read_text()).group(1)
    licenses = set(re.findall(r"(?m)^[a-z][a-z0-9_-]* [0-9]+\.[0-9.]+ +(\S.*?)  +[0-9]", text))
    alike = {"Apache-2.0 OR MIT": "MIT OR Apache-2.0"}
    words = {alike.get(license, license) for license in licenses} | {"GPL-2.0-or-later", "LGPL-2.1-or-later"}
    assert {part.strip("()") for part in spec.split(" AND ")} == words


FAKE_CARGO = """#!/bin/sh
case $1 in
tree)
    printf '%s\\n' 'a v1.0.0|MIT|https://h/a' 'a-too v1.1.0|MIT|https://h/a.git' \\
        'b v2.0.0|MIT|https://h/b' 'ours v1 (/x)|GPL|' ;;
metadata) for name in a a-too b; do printf '{"manifest_path":"%s/%s/Cargo.toml"}' "$HERE" $name; done ;;
esac
"""


def test_a_crate_without_a_license_stops_the_build(tmp_path):
    """Unless another crate of its repository, with the same license, has the text."""
    for name, version in (("a", "1.0.0"), ("a-too", "1.1.0"), ("b", "2.0.0")):
        (tmp_path / name).mkdir()
        manifest = f'[package]\nname = "{name}"\nversion = "{version}"\n[lib]\nname = "c"\n'
        (tmp_path / name / "Cargo.toml").write_text(manifest)
    (tmp_path / "cargo").write_text(FAKE_CARGO)
    (tmp_path / "cargo").chmod(0o755)
    (tmp_path / "a/LICENSE").write_text("The license of a\r\n")

    def made():
        where = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HERE": str(tmp_path)}
        return subprocess.run([TOP / "packaging/third-party", "no"], env=where, capture_output=True, text=True)

    done = made()
    assert done.returncode != 0
    assert done.stderr == "third-party: the crate b 2.0.0 (license: 'MIT') has no text of its license\n"
    (tmp_path / "b/COPYING").write_text("The license of b\n")
    done = made()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("The license of a\n") == 1 and done.stdout.count("The license of b\n") == 1
    assert "\n1. a 1.0.0, a-too 1.1.0\n" in done.stdout and "ours" not in done.stdout


SCRIPTS = {
    "gpushare": ["preinst", "postinst", "prerm", "postrm"],
    "gpushare-slurmctld": ["postinst", "prerm", "postrm"],
    "gpushare-slurmd": ["postinst", "prerm"],
    "gpushare-client": ["postinst", "prerm"],
}


def test_no_file_is_one_to_ask_about(out):
    """What an administrator edits is in no package, so that an upgrade has nothing to ask."""
    for name, path in packages.found("deb", out).items():
        control = {
            member.split("/")[-1] for member in run("sh", "-c", f"dpkg-deb --ctrl-tarfile '{path}' | tar -t").split()
        }
        assert control - {"", ".", "control", "md5sums"} == set(SCRIPTS[name]), name
        assert not any(file.startswith("/etc/") for file in deb_content(path)), name
    for name, path in packages.found("rpm", out).items():
        flags = run("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]", path).splitlines()
        assert not [line for line in flags if re.search(r" \w*[cn]", line)], name
        tags = {"preinst": "PREIN", "postinst": "POSTIN", "prerm": "PREUN", "postrm": "POSTUN"}
        scripts = "".join(f"%|{tag}?{{{tag} }}:{{}}|" for tag in tags.values())
        assert run("rpm", "-qp", "--qf", scripts, path).split() == [
            tag for script, tag in tags.items() if script in SCRIPTS[name]
        ], name


def relations(package, tag):
    return set(run("rpm", "-qp", f"--{tag}", package).splitlines())


def test_packages_ask_for_their_slurm(out):
    slurm = slurm_of(RELEASE)
    major, minor, micro = map(int, slurm.micro.split("."))
    version = f"{VERSION}+slurm{slurm.micro}-1"
    next_micro, next_release = f"{slurm.release}.{micro + 1}~", f"{major}.{minor + 1:02}~"

    debs = packages.found("deb", out)
    assert {packages.deb_field(path, "Version") for path in debs.values()} == {version}
    ranges = {
        "gpushare-slurmctld": ("slurmctld", slurm.micro, next_micro),
        "gpushare-slurmd": ("slurmd", slurm.release, next_release),
        "gpushare-client": ("slurm-client", slurm.release, next_release),
    }
    for name, (part, first, end) in ranges.items():
        depends = packages.deb_field(debs[name], "Depends").split(", ")
        assert depends[-3:] == [f"gpushare (= {version})", f"{part} (>= {first})", f"{part} (<< {end})"]
        assert packages.deb_field(debs[name], "Breaks") == f"{part} (<< {first}), {part} (>= {end})"
        conflicts = ["gpushare-client"] * 2 if name == "gpushare-slurmd" else ["", ""]
        assert [packages.deb_field(debs[name], field) for field in ("Conflicts", "Replaces")] == conflicts
    assert packages.deb_field(debs["gpushare"], "Breaks") == ", ".join(
        f"{name} ({sign} {version})" for name in NAMES[1:] for sign in ("<<", ">>")
    )
    assert packages.deb_field(debs["gpushare-slurmd"], "Provides") == f"gpushare-client (= {version})"
    assert "slurm" not in packages.deb_field(debs["gpushare"], "Depends")

    rpms = packages.found("rpm", out)
    assert {f"gpushare = {version}", f"slurm-slurmctld = {slurm.micro}"} <= relations(
        rpms["gpushare-slurmctld"], "requires"
    )
    for name, part in (("gpushare-slurmd", "slurm-slurmd"), ("gpushare-client", "slurm")):
        asked = {f"gpushare = {version}", f"{part} >= {slurm.release}", f"{part} < {next_release}"}
        assert asked <= relations(rpms[name], "requires")
    assert relations(rpms["gpushare-slurmd"], "conflicts") == {"gpushare-client"}
    assert f"gpushare-client = {version}" in relations(rpms["gpushare-slurmd"], "provides")
    assert not any(
        "slurm" in word for word in relations(rpms["gpushare"], "requires") if not word.startswith("config(")
    )
    assert not any(relations(path, "obsoletes") for path in rpms.values())
    for name, path in rpms.items():
        scripts = run("rpm", "-qp", "--qf", "[%{REQUIREFLAGS:deptype} %{REQUIRENAME}\n]", path).splitlines()
        for program in ("coreutils", "diffutils", "grep", "sed"):
            [kinds] = [line.split()[0] for line in scripts if line.endswith(f" {program}")]
            assert {"post", "preun", "postun"} <= set(kinds.split(",")), (name, kinds)


def test_packages_ask_for_the_libraries_that_their_programs_need(out, builds):
    debs = packages.found("deb", out)
    programs = {
        "gpushare": ["gpushare"],
        "gpushare-slurmctld": ["libjob_submit_gpushare.so"],
        "gpushare-client": ["libspank_gpushare.so"],
        "gpushare-slurmd": [
            "libspank_gpushare.so", "libspank_gpushare_prolog.so", "gpushare-prolog", "gpushare-epilog",
            "gpushare-nvml",
        ],
    }
    owners = {"libc.so.6": "libc6", "libgcc_s.so.1": "libgcc-s1", "libm.so.6": "libc6", "ld-linux-x86-64.so.2": None}
    for name, files in programs.items():
        about = "".join(run("readelf", "-dVW", builds / file) for file in files)
        asked = [tuple(map(int, text.split("."))) for text in re.findall(r"Name: GLIBC_([0-9.]+)", about)]
        needed = {owners[library] for library in re.findall(r"\(NEEDED\).*\[(.*)\]", about)} - {None}
        newest = ".".join(map(str, max(asked)))
        expected = {f"libc6 (>= {newest})" if package == "libc6" else package for package in needed}
        depends = packages.deb_field(debs[name], "Depends").split(", ")
        assert {word for word in depends if word.startswith("lib")} == expected, name
        assert f"libc.so.6(GLIBC_{newest})(64bit)" in relations(packages.found("rpm", out)[name], "requires")


def test_the_same_sources_make_the_same_packages(out, builds, tmp_path):
    for kind in ("deb", "rpm"):
        again = packages.built(kind, TOP, RELEASE, tmp_path, BUILT=str(builds))
        first = packages.found(kind, out)
        assert {name: path.read_bytes() for name, path in again.items()} == {
            name: path.read_bytes() for name, path in first.items()
        }, kind


def test_rpmlint_finds_nothing_but_what_its_settings_explain(out):
    if shutil.which("rpmlint") is None:
        pytest.skip("NOT TESTED: rpmlint, which is not installed")
    settings, spec = TOP / "packaging/rpm/rpmlint.toml", TOP / "packaging/rpm/gpushare.spec"
    rpms = packages.found("rpm", out).values()
    done = subprocess.run(["rpmlint", "--config", settings, spec, *rpms], capture_output=True, text=True)
    assert "4 packages and 1 specfiles checked; 0 errors, 0 warnings" in done.stdout, done.stdout


def lintian(out, *options):
    """The tags that lintian prints for a directory's .debs."""
    if shutil.which("lintian") is None:
        pytest.skip("NOT TESTED: lintian, which is not installed")
    debs = packages.found("deb", out).values()
    said = subprocess.run(["lintian", *options, *debs], capture_output=True, text=True).stdout
    lines = [line for line in said.splitlines() if not line.startswith("N:")]
    return {re.match(r"[EWIO]: \S+: (\S+)", line).group(1) for line in lines}


def test_lintian_complains_of_what_the_page_names(out, builds, tmp_path):
    page = (TOP / "packaging/README.md").read_text()
    sentence = re.search(r"(?s)\n- lintian .*?(?=\n- |\Z)", page).group(0)
    assert lintian(out) == set(re.findall(r"`([a-z-]+)`", sentence)) != set()
    # It is gone with a maintainer. What the packages' own files explain is still there to be explained.
    packages.built("deb", TOP, RELEASE, tmp_path, BUILT=str(builds), DEBEMAIL="gpushare@debian.org")
    explained = re.findall(r"(?m)^gpushare\S*: (\S+)", "".join(
        path.read_text() for path in (TOP / "packaging/deb/overrides").iterdir()
    ))
    assert lintian(tmp_path, "--show-overrides") == set(explained)


@pytest.mark.parametrize("folder, names", [
    ("/usr/lib/x86_64-linux-gnu/slurm", ["slurm-smd-slurmctld", "slurm-smd-slurmd", "slurm-smd-client"]),
    ("/opt/slurm/lib/slurm", []),
])
def test_other_packages_of_slurm(folder, names, builds, tmp_path):
    """SchedMD's, and a Slurm that is none's."""
    found = packages.built("deb", TOP, RELEASE, tmp_path, BUILT=str(builds), SLURM_PLUGIN_DIR=folder)
    asked = [packages.deb_field(found[name], "Depends") for name in NAMES[1:]]
    assert [re.findall(r"(slurm\S*) \(>=", text) for text in asked] == ([[name] for name in names] or [[]] * 3)
    assert f"{folder}/job_submit_gpushare.so" in deb_content(found["gpushare-slurmctld"])


def test_a_repository_around_the_sources_is_not_theirs(tmp_path):
    """Its last commit says nothing of when gpushare changed, and is no source to distribute."""
    source = sources(tmp_path)
    run("git", "init", "-q", tmp_path)
    commit = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m"]
    run(*commit, "a distribution's")
    os.utime(source / "CHANGELOG.md", (1_600_000_000, 1_600_000_000))
    script = ". packaging/packages.sh; SLURM_VERSION=24.11.5; find_versions; echo $SOURCE_DATE_EPOCH"
    done = subprocess.run(["bash", "-c", script], cwd=source, env={"PATH": os.environ["PATH"]}, capture_output=True)
    assert done.stdout == b"1600000000\n", done.stderr
    done = subprocess.run([source / "packaging/dist"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "dist: needs a clone of gpushare\n")


def refused(kind, source, tmp_path, **variables):
    """The line with which a build is refused; it makes nothing."""
    done = packages.run_build(kind, source, RELEASE, tmp_path / "out", **variables)
    assert done.returncode != 0 and not list(tmp_path.glob("out/*.*")), done.stdout
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_what_can_not_be_right_is_not_built(kind, builds, tmp_path):
    slurm = slurm_of(RELEASE)
    said = refused(kind, TOP, tmp_path, BUILT=str(builds), SLURM_VERSION="20.02.7")
    assert f"job_submit_gpushare.so is built for Slurm {slurm.micro}, and the headers" in said
    assert "are of 20.02.7" in said
    said = refused(kind, TOP, tmp_path, BUILT=str(builds), SLURM_VERSION="24.11")
    assert said.endswith("SLURM_VERSION can't be '24.11'")
    said = refused(kind, TOP, tmp_path, BUILT=str(builds), SLURM_INCLUDE_DIR="/no/such")
    assert said == "packaging/headers: SLURM_INCLUDE_DIR is '/no/such', but there is no slurm/slurm.h in it"
    (tmp_path / "source/slurm").mkdir(parents=True)
    (tmp_path / "source/slurm/slurm.h").touch()
    said = refused(kind, TOP, tmp_path, BUILT=str(builds), SLURM_INCLUDE_DIR=str(tmp_path / "source"))
    assert said == (
        f"packaging/headers: {tmp_path}/source has slurm/slurm.h, but no slurm/slurm_version.h: these are sources; "
        "run ./configure --without-munge there first, or install Slurm's development package"
    )
    assert "is not there: run make first" in refused(kind, TOP, tmp_path, BUILT="/no/such")
    # A file that is new in packaging/install, and in no package.
    source = sources(tmp_path)
    script = source / "packaging/install"
    before = "    # Names without a dot"
    assert before in script.read_text()
    more = '    "$call" file 644 packaging/gpushare.conf "$PREFIX/lib/new"\n' + before
    script.write_text(script.read_text().replace(before, more, 1))
    said = refused(kind, source, tmp_path)
    assert "packaging/packages.sh doesn't say in which package /usr/lib/new belongs" in said


def test_without_slurms_headers_nothing_is_built(tmp_path):
    """One sentence, from `make` too, which would build programs first."""
    where = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PKG_CONFIG_LIBDIR": "/no/such",
        "PACKAGES": str(tmp_path / "out"),
    }
    script = 'mount -t tmpfs tmpfs /usr/include && exec make --silent -C "$0" "$1"'
    for target in ("all", "deb", "rpm"):
        command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, TOP, target]
        done = subprocess.run(command, env=where, capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
        assert done.returncode != 0 and len(lines) == 1 and not done.stdout, done.stdout + done.stderr
        assert "Slurm's headers were not found: slurm/slurm.h is not in /usr/include" in lines[0]
        assert "or set SLURM_INCLUDE_DIR" in lines[0] and not (tmp_path / "out").exists()


# ---- What the scripts do.

def in_a_root(kind, out, script, outside=""):
    """What SCRIPT says in a root. Its lines INSTALL NAME… and REMOVE NAME… are the work of dpkg or rpm,
    and end with a line `=STATUS`; lines OUTSIDE … run on this machine, with the root in root/."""
    lines = []
    for line in script.strip().splitlines():
        word, *names = line.split()
        if word in ("INSTALL", "REMOVE"):
            line = f"{tool(kind, word, names, out)} 2>&1; echo =$?"
        elif word == "OUTSIDE":
            line = line.split(None, 1)[1]
        else:
            line = f"chroot root bash -c {quoted(line)}"
        lines.append(line)
    everything = [outside, "export PATH=/usr/sbin:/usr/bin:/sbin:/bin; set +e", *lines]
    done = in_root(RELEASE, out, "true", "\n".join(everything))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(kind, word, names, out):
    """The command that does it. rpm is not in the root, and Slurm is not a package of rpm's there."""
    if kind == "deb":
        files = [f"/packages/{name}_*.deb" for name in names]
        return "chroot root bash -c " + quoted(
            " ".join(["dpkg -i", *files] if word == "INSTALL" else ["dpkg --purge", *names])
        )
    files = [f"{out}/{name}-{VERSION}+*.rpm" for name in names]
    return " ".join(
        ["rpm --root $PWD/root --nosignature --nodeps", *(["-i", *files] if word == "INSTALL" else ["-e", *names])]
    )


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_what_slurm_acts_on_comes_last_and_goes_first(kind, out):
    said = in_a_root(kind, out, f"""
        INSTALL gpushare gpushare-slurmctld gpushare-slurmd
        {ETC}
        grep ^required {FRAGMENT}
        ls -d /usr/share/gpushare /usr/lib/tmpfiles.d/gpushare.conf
        echo '# Edited.' >>{FRAGMENT}; ln -sf /bin/true /etc/slurm/epilog.d/50-gpushare
        mkdir -p /run/gpushare/failed
        ls /etc/slurm/gpushare.conf; echo Mode=warn >{CONF}
        REMOVE gpushare gpushare-slurmctld gpushare-slurmd
        {ETC}
        find /usr -xdev -name '*gpushare*'; ls -d /run/gpushare
        INSTALL gpushare gpushare-slurmd
        tail -n 1 {FRAGMENT}
    """)
    fragments = [
        "slurm/epilog.d/50-gpushare", "slurm/plugstack.conf.d/50-gpushare.conf", "slurm/prolog.d/50-gpushare",
    ]
    lines = [line for line in said.splitlines() if line.startswith(("slurm/", "required", "/", "=", "#", "optional"))]
    assert lines == [
        "=0", *fragments, "required spank_gpushare.so", "/usr/lib/tmpfiles.d/gpushare.conf", "/usr/share/gpushare",
        # Not gpushare's any more, or never.
        "=0", "slurm/epilog.d/50-gpushare", "slurm/gpushare.conf", "=0", "#required spank_gpushare_prolog.so",
    ], said


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_shared_folder_of_slurms_files_is_left_alone(kind, out):
    shared = f"mount -t tmpfs tmpfs root/etc/slurm; mkdir root/etc/slurm/plugstack.conf.d; echo ours >root{FRAGMENT}"
    said = in_a_root(kind, out, f"""
        INSTALL gpushare gpushare-slurmd
        {ETC}
        echo required spank_gpushare.so >{FRAGMENT}
        REMOVE gpushare-slurmd
        echo ours >{FRAGMENT}
        REMOVE gpushare gpushare-slurmd
        {ETC}
        cat {FRAGMENT}
    """, shared)
    assert (
        "gpushare-slurmd: /etc/slurm is on another file system than /etc, perhaps shared: it is not changed" in said
    )
    assert (
        f"gpushare-slurmd: Slurm still needs it, and would fail: {FRAGMENT}:required spank_gpushare.so (of all "
        "machines). First take"
        in said
    )
    assert [line for line in said.splitlines() if line.startswith(("slurm/", "=", "ours"))] == [
        "=0", "slurm/plugstack.conf.d/50-gpushare.conf",
        "=1", "=0", "slurm/plugstack.conf.d/50-gpushare.conf", "ours",
    ], said


# Programs with the names of Slurm's daemons, which have in memory what those would have. Their processes have other
# names.
RUNNING = r"""
cp root/bin/sleep root/tmp/slurmctld; cp root/bin/bash root/tmp/slurmd
cp root/lib/x86_64-linux-gnu/libm.so.6 root/tmp/job_submit_gpushare.so
chroot root bash -c 'LD_PRELOAD=/tmp/job_submit_gpushare.so exec -a other /tmp/slurmctld 1000' &
chroot root bash -c '
    exec -a other /tmp/slurmd -c "read -r has; touch /tmp/ready; while :; do sleep 1; done" <<</usr/sbin/gpushare-prolog
' &
for try in {1..500}; do [[ -e root/tmp/ready ]] && grep -qs job_submit root/proc/[0-9]*/maps && break; sleep 0.01; done
"""


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_what_runs_keeps_its_packages_unless_root_insists(kind, out):
    said = in_a_root(kind, out, f"""
        INSTALL gpushare gpushare-slurmctld gpushare-slurmd
        REMOVE gpushare-slurmctld
        REMOVE gpushare-slurmd
        {ETC}
    """, RUNNING)
    assert "gpushare-slurmctld: Slurm still needs it, and would fail: slurmctld (process " in said
    assert ") has loaded job_submit_gpushare.so. First take" in said
    assert "gpushare-slurmd: Slurm still needs it, and would fail: slurmd (process " in said
    assert ") runs /usr/sbin/gpushare-prolog. First take" in said
    assert [line for line in said.splitlines() if line.startswith("=")] == ["=0", "=1", "=1"], said
    assert said.splitlines()[-1] == "slurm/prolog.d/50-gpushare", said
    said = in_a_root(kind, out, """
        INSTALL gpushare gpushare-slurmctld gpushare-slurmd
        REMOVE gpushare-slurmctld gpushare-slurmd
    """, RUNNING + "export GPUSHARE_REMOVE=anyway\n")
    assert [line for line in said.splitlines() if line.startswith("=")] == ["=0", "=0"], said


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_running_job_keeps_its_fence_though_slurmd_is_stopped(kind, out):
    said = in_a_root(kind, out, """
        INSTALL gpushare gpushare-slurmd
        mkdir -p /run/gpushare/jobs; touch /run/gpushare/jobs/7
        REMOVE gpushare-slurmd
        rm /run/gpushare/jobs/7
        REMOVE gpushare-slurmd
    """)
    assert "gpushare-slurmd: Slurm still needs it, and would fail: running jobs with GPUs (7). First take" in said
    assert [line for line in said.splitlines() if line.startswith("=")] == ["=0", "=1", "=0"], said


def test_a_refused_removal_is_remembered_and_can_be_undone(out):
    """dpkg would remove the package when its opposite is installed; not while a job runs."""
    said = in_a_root("deb", out, """
        INSTALL gpushare gpushare-slurmd
        mkdir -p /run/gpushare/jobs; touch /run/gpushare/jobs/7
        REMOVE gpushare-slurmd
        INSTALL gpushare-client
        ls /etc/slurm/prolog.d
        rm /run/gpushare/jobs/7
        echo gpushare-slurmd install | dpkg --set-selections
        INSTALL gpushare-client
        dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' gpushare-slurmd gpushare-client
    """)
    assert said.count("gpushare-slurmd: Slurm still needs it, and would fail: running jobs with GPUs (7). First") == 2
    undo = "\ngpushare-slurmd: dpkg remembers the removal, for a later dpkg -i; to cancel it: "
    assert said.count(undo + "echo gpushare-slurmd install | dpkg --set-selections\n") == 2, said
    assert [line for line in said.splitlines() if line.startswith("=")] == ["=0", "=1", "=1", "=1"], said
    assert "\n50-gpushare\n" in said and "ii  gpushare-slurmd" in said and "ii  gpushare-client" not in said, said


def test_a_login_node_that_becomes_a_compute_node_has_its_fence(out):
    """dnf puts the new package there before it takes the old one away."""
    said = in_a_root("rpm", out, f"""
        INSTALL gpushare gpushare-client
        INSTALL gpushare-slurmd
        echo required spank_gpushare.so >/etc/slurm/plugstack.conf
        REMOVE gpushare-client
        grep ^required {FRAGMENT}
    """)
    assert said.splitlines()[-1] == "required spank_gpushare.so", said
    assert [line for line in said.splitlines() if line.startswith("=")] == ["=0", "=0", "=0"], said


def test_rpm_replaces_files_and_leaves_fragments_at_an_upgrade(out, builds, tmp_path):
    packages.built("rpm", TOP, RELEASE, tmp_path, BUILT=str(builds), REVISION="2")
    plugin = f"root{PLUGIN_DIR}/spank_gpushare.so"
    newer = f"{tmp_path}/gpushare-{VERSION}+*.rpm {tmp_path}/gpushare-slurmd-*.rpm"
    said = in_a_root("rpm", out, f"""
        INSTALL gpushare gpushare-slurmd
        echo '# Edited.' >>{FRAGMENT}; rm /etc/slurm/prolog.d/50-gpushare; echo Mode=warn >{CONF}
        OUTSIDE exec 3<{plugin}; stat -Lc %h /proc/self/fd/3
        OUTSIDE rpm --root $PWD/root --nosignature --nodeps -U {newer}; echo =$?
        OUTSIDE stat -Lc %h /proc/self/fd/3; cmp /proc/self/fd/3 {plugin} && rpm --root $PWD/root -q gpushare-slurmd
        {ETC}
        tail -n 1 {FRAGMENT}; cat {CONF}
    """)
    version = f"{VERSION}+slurm{slurm_of(RELEASE).micro}"
    # Debian's rpm says first that it is not for Debian.
    lines = [line for line in said.splitlines() if not line.startswith(("warning:", "rpm:"))]
    # The old file has no name any more, so it was not written into.
    assert lines == [
        "=0", "1", "=0", "0", f"gpushare-slurmd-{version}-2.x86_64", "slurm/epilog.d/50-gpushare",
        "slurm/gpushare.conf", "slurm/plugstack.conf.d/50-gpushare.conf", "# Edited.", "Mode=warn",
    ], said


@pytest.fixture(scope="module")
def earlier(out, tmp_path_factory):
    """Packages of before, in out/before: {kind: the package gpushare}."""
    source = tmp_path_factory.mktemp("before")
    install.sources(RELEASE, source / "sources")
    packages.make_earlier(source / "sources", "0.0.9")
    return {
        kind: packages.built(kind, source / "sources", RELEASE, out / "before")["gpushare"] for kind in ("deb", "rpm")
    }


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "as-it-was"])
@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_settings_of_an_earlier_package_become_the_administrators(kind, edited, out, earlier):
    """An upgrade neither asks nor takes them away, nor does a purge after it. dpkg doesn't even move them: nodes read
    them for each job."""
    before, now = earlier[kind], packages.found(kind, out)["gpushare"]
    # A move changes the time.
    look = f"echo $(md5sum <{CONF} {f'; stat -c %z {CONF}' if kind == 'deb' else ''})"
    rpm = "OUTSIDE rpm --root $PWD/root --nosignature --nodeps"
    first, upgrade, remove = {
        "deb": (
            f"dpkg -i /packages/before/{before.name} 2>&1",
            f"dpkg -i /packages/{now.name} </dev/null 2>&1; dpkg-divert --list | grep gpushare",
            "dpkg --purge gpushare",
        ),
        "rpm": (f"{rpm} -i {before}", f"{rpm} -U {now} 2>&1", f"{rpm} -e gpushare"),
    }[kind]
    said = in_a_root(kind, out, f"""
        {first}
        {f"echo Mode=warn >>{CONF}" if edited else "true"}
        {look}
        {upgrade}
        {ETC}; {look}
        {remove}; echo removed
        find /etc -name '*gpushare*'; {look}
    """)
    lines = [line for line in said.splitlines() if re.match(r"[0-9a-f]{32} |slurm/|/etc/|removed|.*diver", line)]
    looks = lines[0]
    assert lines == [looks, "slurm/gpushare.conf", looks, "removed", CONF, looks], said


def test_a_failed_upgrade_leaves_the_settings_to_the_earlier_package(out, earlier):
    """Its archive breaks off. The administrator may then try again, or stay."""
    whole = packages.found("deb", out)["gpushare"]
    broken = out / "broken.deb"
    broken.write_bytes(whole.read_bytes()[:-100_000])
    version = "dpkg-query -W -f '${Version} ${db:Status-Abbrev}${Conffiles}\\n' gpushare"
    said = in_a_root("deb", out, f"""
        dpkg -i /packages/before/{earlier["deb"].name} >/dev/null 2>&1; echo Mode=warn >>{CONF}
        dpkg -i /packages/{broken.name} 2>&1 </dev/null; echo =$?
        {version}; dpkg-divert --list | grep gpushare
        dpkg -i /packages/{whole.name} >/dev/null 2>&1 </dev/null; echo =$?
        {version}; dpkg-divert --list | grep gpushare; tail -n 1 {CONF}
    """)
    lines = [line for line in said[said.index("=1"):].splitlines() if line]
    micro = slurm_of(RELEASE).micro
    assert re.fullmatch(rf"0\.0\.9\+slurm{micro}-1 ii  {CONF} [0-9a-f]{{32}}", lines.pop(1)), said
    assert lines == ["=1", "=0", f"{VERSION}+slurm{micro}-1 ii ", "Mode=warn"], said


@pytest.fixture(scope="module")
def later(out, builds):
    """The next revision of the packages, in out/later: {kind: {name: package}}."""
    return {
        kind: packages.built(kind, TOP, RELEASE, out / "later", BUILT=str(builds), REVISION="2")
        for kind in ("deb", "rpm")
    }


def test_dpkg_has_all_parts_of_one_version(out, later):
    """One alone is refused before anything is written; all of them go forward and back."""
    versions = "dpkg-query -W -f '${db:Status-Abbrev} ${Version} ${Package}\\n' 'gpushare*' | grep ^[^u]"
    said = in_a_root("deb", out, f"""
        INSTALL gpushare gpushare-slurmctld gpushare-slurmd
        dpkg -i /packages/later/gpushare_*.deb 2>&1; echo =$?
        {versions}
        cd /packages/later && dpkg -i gpushare-slurmctld_*.deb gpushare-slurmd_*.deb gpushare_*.deb 2>&1; echo =$?
        {versions}
        cd /packages && dpkg -i gpushare-slurmctld_*.deb gpushare-slurmd_*.deb gpushare_*.deb 2>&1; echo =$?
        {versions}
        cd /packages/later && dpkg -iB gpushare_*.deb gpushare-slurmctld_*.deb gpushare-slurmd_*.deb 2>&1; echo =$?
        {versions}
    """)
    assert " gpushare breaks gpushare-slurmctld (<< " in said and "deconfiguration is not permitted" in said, said
    lines = [line for line in said.splitlines() if re.match(r"=\d|\w\w  ", line)]
    first, second = (
        [f"ii  {packages.deb_field(debs[name], 'Version')} {name}" for name in NAMES[:3]]
        for debs in (packages.found("deb", out), later["deb"])
    )
    assert lines == ["=0", "=1", *first, "=0", *second, "=0", *first, "=0", *second], said


def test_rpm_has_all_parts_of_one_version(out, later):
    now = {name: path for name, path in packages.found("rpm", out).items() if name != "gpushare-client"}
    next = {name: path for name, path in later["rpm"].items() if name in now}
    # Slurm isn't a package of rpm's here.
    rpm = "OUTSIDE rpm --root $PWD/root --nosignature"
    said = in_a_root("rpm", out, f"""
        INSTALL {" ".join(now)}
        {rpm} -U {next["gpushare"]} 2>&1; echo =$?
        {rpm} --nodeps -U {" ".join(map(str, next.values()))} 2>&1; echo =$?
        {rpm} --nodeps -U --oldpackage {" ".join(map(str, now.values()))} 2>&1; echo =$?
        {rpm} -qa
    """)
    version = f"{VERSION}+slurm{slurm_of(RELEASE).micro}"
    assert f"gpushare = {version}-1 is needed by (installed) gpushare-slurmd-{version}-1" in said, said
    assert [status != "0" for status in re.findall(r"(?m)^=(\d+)", said)] == [False, True, False, False], said
    assert set(said.splitlines()[-3:]) == {f"{name}-{version}-1.x86_64" for name in now}, said


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_nothing_is_left_where_no_systemd_runs(kind, out):
    """In an image whose timer is on."""
    wants = "/etc/systemd/system/timers.target.wants"
    figures = "/var/lib/prometheus/node-exporter"
    others = " ".join(f"! -path '{path}'" for path in ("*dpkg*", "*rpm*", "/tmp/*", "/var/log/*"))
    everything = (
        f"find / -xdev '(' ! -type d -o -name '*gpushare*' -o -name timers.target.wants ')' {others} | LC_ALL=C sort"
    )
    said = in_a_root(kind, out, f"""
        mkdir -p {figures}; {everything} >/tmp/before
        INSTALL gpushare gpushare-slurmctld gpushare-slurmd
        ls {wants}/gpushare* /etc/slurm/gpushare.conf 2>&1
        mkdir -p {wants}; ln -s /usr/lib/systemd/system/gpushare-{{metrics,guard,idle}}.timer {wants}
        touch {figures}/gpushare{{,-guard}}.prom {figures}/.gpushare{{,-guard}}.prom.17; mkdir -p /run/gpushare/jobs
        {everything} | diff /tmp/before - | grep -c '^>'
        REMOVE gpushare gpushare-slurmctld gpushare-slurmd
        {everything} | diff /tmp/before - && echo nothing
    """)
    assert said.count("No such file") == 2, said
    lines = [line for line in said.splitlines() if re.match(r"[<>=]|\d+$|nothing", line)]
    assert lines[0] == "=0" and int(lines[1]) > 100 and lines[2:] == ["=0", "nothing"], said


# ---- Slurm and gpushare upgraded together by apt, the machine's, from a directory; Slurm's package has no files.

APT = r"""
rm -rf root/etc/apt && mkdir -p root/etc/apt/{apt.conf.d,preferences.d}
mkdir -p root/var/{lib/apt/lists,cache/apt/archives}/partial root/var/log/apt
echo "deb [trusted=yes] copy:$PWD/root/packages/REPOSITORY ./" >root/etc/apt/sources.list
apt="apt-get -qq -o Dir=$PWD/root -o Dir::Bin::dpkg=/usr/bin/dpkg -o DPkg::Chroot-Directory=$PWD/root"
apt+=" -o Dir::State::status=$PWD/root/var/lib/dpkg/status -o APT::Sandbox::User=root"
chroot root bash -c 'dpkg -i /packages/gpushare{,-slurmctld,-slurmd}_*.deb' >/dev/null
$apt update
"""


def repository(folder, debs):
    """A directory of packages that apt takes."""
    folder.mkdir()
    index = ""
    for deb in debs:
        os.link(deb, folder / deb.name)
        control = run("dpkg-deb", "-f", deb)
        sha = run("sha256sum", deb).split()[0]
        index += f"{control.strip()}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {sha}\n\n"
    (folder / "Packages").write_text(index)


def slurmctld_package(folder, version):
    """A package called slurmctld; it notes of which micro release of Slurm the plugin is when it is set up."""
    (folder / "DEBIAN").mkdir(parents=True)
    (folder / "DEBIAN/control").write_text(
        f"Package: slurmctld\nVersion: {version}-1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: none\n"
    )
    script = folder / "DEBIAN/postinst"
    script.write_text(
        f"#!/bin/sh\ncmp {PLUGIN_DIR}/job_submit_gpushare.so /packages/newer.so && echo the new plugin is there\n"
    )
    script.chmod(0o755)
    return Path(run("dpkg-deb", "--root-owner-group", "-Zxz", "-b", folder, folder.parent).split("'")[3])


def test_apt_has_all_parts_of_one_version(out, later):
    """In the order in which the pages name the packages, forward and back."""
    script = APT.replace("$apt update", f"""
        parts="./gpushare_*.deb ./gpushare-slurmctld_*.deb ./gpushare-slurmd_*.deb" there=$PWD/root/packages
        tell() {{
            chroot root dpkg-query -W -f '${{db:Status-Abbrev}} ${{Version}} ${{Package}}\\n' {" ".join(NAMES[:3])}
        }}
        (cd $there/later && $apt -y install $parts </dev/null) && tell
        (cd $there && $apt -y --allow-downgrades install $parts </dev/null) && tell
    """)
    done = in_root(RELEASE, out, "true", script)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (
        [f"ii  {packages.deb_field(debs[name], 'Version')} {name}" for name in NAMES[:3]]
        for debs in (packages.found("deb", out), later["deb"])
    )
    lines = [line for line in done.stdout.splitlines() if re.match(r"=\d|\w\w  ", line)]
    assert lines == [*second, *first], done.stdout + done.stderr


def test_apt_upgrades_slurm_and_gpushare_together(tmp_path, builds):
    first = tmp_path / "first"
    packages.built("deb", TOP, RELEASE, first, BUILT=str(builds))
    newer = Slurm(slurm_of(RELEASE).number + 1)
    copies = install.built(RELEASE, tmp_path / "copies")
    packages.restamp(copies, newer)
    debs = packages.built("deb", TOP, RELEASE, tmp_path / "newer", BUILT=str(copies), SLURM_VERSION=newer.micro)
    (first / "newer.so").write_bytes((copies / "libjob_submit_gpushare.so").read_bytes())
    slurm = slurmctld_package(tmp_path / "slurmctld", newer.micro)
    repository(first / "together", [*debs.values(), slurm])
    repository(first / "alone", [slurm])

    # There is no gpushare for it: Slurm stays.
    done = in_root(
        RELEASE, first, "dpkg -l slurmctld gpushare-slurmctld", APT.replace("REPOSITORY", "alone") + "$apt -y upgrade"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    newer_slurm = re.compile(rf"slurmctld +{newer.micro}")
    assert not newer_slurm.search(done.stdout) and done.stdout.count("\nii ") == 2, done.stdout
    # apt would remove gpushare-slurmctld to have it all the same, and can't.
    outside = RUNNING + APT.replace("REPOSITORY", "alone") + "$apt -y full-upgrade 2>&1 || echo failed"
    done = in_root(RELEASE, first, "dpkg -l slurmctld gpushare-slurmctld", outside)
    assert "gpushare-slurmctld: Slurm still needs it" in done.stdout and "\nfailed\n" in done.stdout, done.stdout
    assert not newer_slurm.search(done.stdout) and done.stdout.count("\nii ") == 2, done.stdout
    # There is: and when slurmctld is set up, and would be restarted, its plugin is there.
    outside = APT.replace("REPOSITORY", "together") + "$apt -y full-upgrade"
    done = in_root(RELEASE, first, "dpkg -l slurmctld gpushare-slurmctld gpushare-slurmd", outside)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the new plugin is there" in done.stdout and done.stdout.count("\nii ") == 3, done.stdout
    assert len(re.findall(rf"\nii  gpushare\S* +{VERSION}.slurm{newer.micro}-1 ", done.stdout)) == 2, done.stdout
