# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare qos` in a cluster, and what Slurm's database has afterwards."""

FILE = "/lab/out/gpushare.conf"
NOTHING = "= nothing to do\n"


def write(cluster, text, path=FILE):
    cluster.ok(["tee", path], stdin=text)


def qos(cluster, *words, conf=FILE, user="root", path=""):
    """The result of `gpushare qos WORDS`; with CONF None, for the cluster's own file. `apply` doesn't ask."""
    immediate = ["--immediate"] if words[0] == "apply" else []
    command = ["env", f"PATH={path}/usr/sbin:/usr/bin:/sbin:/bin", "gpushare", "qos", *words, *immediate]
    return cluster.run(command + (["--conf", conf] if conf else []), user)


def apply(cluster, text, *words):
    """Applies the file TEXT, which must work; returns the output."""
    write(cluster, text)
    result = qos(cluster, "apply", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def apply_until_heard(cluster, text, *words):
    """The same right after slurmdbd was away: slurmctld may have missed changes, which is reported and fixed."""
    write(cluster, text)
    result = qos(cluster, "apply", *words)
    if "slurmctld missed changes while it could not reach slurmdbd" in result.stderr:
        assert result.returncode == 1
        mend(cluster)
    else:
        assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def mend(cluster):
    """Makes slurmctld read all QOSes again."""
    command = ["scontrol", "reconfigure"] if cluster.newer_than("23.11") else ["/lab/service", "restart", "slurmctld"]
    cluster.ok(command)

    def knows():
        planned = qos(cluster, "plan")
        return planned.returncode == 0 and "slurmctld missed" not in planned.stdout

    cluster.wait(knows, "slurmctld to know the QOSes")


def plan(cluster, text, *words):
    write(cluster, text)
    result = qos(cluster, "plan", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def transactions(cluster):
    """How many changes slurmdbd has recorded."""
    return len(cluster.ok(["sacctmgr", "-nP", "show", "transactions", "format=timestamp,action,info"]).splitlines())


def field(cluster, name, column):
    return cluster.ok(["sacctmgr", "-nP", "show", "qos", "where", f"name={name}", f"format={column}"])


def qoses(cluster):
    return set(cluster.ok(["sacctmgr", "-nP", "show", "qos", "format=name"]).split())


def may_use(cluster, user, account):
    """The QOSes that a user has in an account, including inherited ones."""
    words = ["sacctmgr", "-nP", "show", "assoc", "where", f"user={user}", f"account={account}", "format=qos"]
    return set(cluster.ok(words).split(","))


def limits_in_slurmctld(cluster, name):
    """slurmctld's data about a QOS in memory, as `Name=value` words."""
    return cluster.ok(["scontrol", "-o", "show", "assoc_mgr", "flags=qos", f"qos={name}"])
