# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare qos` in a cluster, and what Slurm's database says of it."""

FILE = "/lab/out/gpushare.conf"
NOTHING = "= nothing to do\n"


def write(cluster, text, path=FILE):
    cluster.ok(["tee", path], stdin=text)


def qos(cluster, *words, conf=FILE, user="root", path=""):
    """The result of `gpushare qos WORDS`; with CONF None, of the cluster's own file."""
    command = ["env", f"PATH={path}/usr/sbin:/usr/bin:/sbin:/bin", "gpushare", "qos", *words]
    return cluster.run(command + (["--conf", conf] if conf else []), user)


def apply(cluster, text, *words):
    """Applies the file TEXT, which must work; gives what was said."""
    write(cluster, text)
    result = qos(cluster, "apply", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def plan(cluster, text, *words):
    write(cluster, text)
    result = qos(cluster, "plan", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def transactions(cluster):
    """How many changes slurmdbd has noted."""
    return len(cluster.ok(["sacctmgr", "-nP", "show", "transactions", "format=timestamp,action,info"]).splitlines())


def field(cluster, name, column):
    return cluster.ok(["sacctmgr", "-nP", "show", "qos", "where", f"name={name}", f"format={column}"])


def qoses(cluster):
    return set(cluster.ok(["sacctmgr", "-nP", "show", "qos", "format=name"]).split())


def may_use(cluster, user, account):
    """The QOSes that a user has in an account, inherited ones too."""
    words = ["sacctmgr", "-nP", "show", "assoc", "where", f"user={user}", f"account={account}", "format=qos"]
    return set(cluster.ok(words).split(","))


def limits_in_slurmctld(cluster, name):
    """`Name=value` words of what slurmctld has in memory of a QOS."""
    return cluster.ok(["scontrol", "-o", "show", "assoc_mgr", "flags=qos", f"qos={name}"])
