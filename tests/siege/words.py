# SPDX-License-Identifier: GPL-2.0-or-later
"""Values for the members of a request, plausible ones and hostile ones.
{P} stands for "gres/", in old releases "gres:"."""

KNOWN = ["a40", "h100"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_VAL, NO_VAL16, INFINITE = 0xFFFFFFFE, 0xFFFE, 0xFFFFFFFF


def type_number(name):
    """The number by which Slurm compares names of types."""
    return sum(byte << 8 * (i % 4) for i, byte in enumerate(name.encode("latin-1"))) % 2**32


def colliding(random, number):
    """A fresh name with that number, of letters."""
    while True:
        length = random.randrange(2, 6)
        columns, rest = [], number
        for _ in range(4):
            letters = [ord(random.choice(LETTERS)) for _ in range(length)]
            last = (rest - sum(letters[:-1])) % 256
            if chr(last) not in LETTERS:
                break
            letters[-1] = last
            columns.append(letters)
            rest = (rest - sum(letters)) >> 8
        else:
            name = "".join(chr(column[i]) for i in range(length) for column in columns)
            if type_number(name) == number:
                return name


def type_name(random):
    """The name of a type: mostly a known one, else one that Slurm might take for it."""
    if random.random() < 0.6:
        return random.choice(["a40", "a40", "h100"])
    return random.choice(
        [
            lambda: colliding(random, type_number(random.choice(KNOWN))),
            lambda: colliding(random, type_number(random.choice(KNOWN))),
            lambda: "mAA0zxtUzzzz",
            lambda: random.choice(["A40", "H100", "a4", "a400", "v100"]),
            lambda: colliding(random, random.choice([0, NO_VAL, INFINITE])),
            lambda: random.choice(
                ["", " ", "=", "gpu", "no_consume", "0", "a40 ", " a40", "\xff\xfe", "a40\t", "%s%n", "x" * 2000]
            ),
        ]
    )()


def amount(random):
    if random.random() < 0.85:
        return str(random.choice([1, 1, 1, 2, 2, 3, 4]))
    return random.choice(["0", "5", "8", "64", "1K", "1k", "-1", "4294967295", "4294967296", "4294967297",
                          "18446744073709551614", "18446744073709551615", "1.5", "0x2", " 2", "", "00002"])


def gpu_token(random):
    shape = random.random()
    kind, count = type_name(random), amount(random)
    if shape < 0.62:
        return f"{{P}}gpu:{kind}:{count}"
    if shape < 0.74:
        return f"{{P}}gpu:{count}"
    return random.choice(
        [
            "{P}gpu", "gresgpu", f"gpu:{kind}:{count}", f"gpu:{count}", f"{{P}}gpu:{kind}={count}", f"{{P}}gpu={count}",
            f"{{P}}gpu={kind}:{count}", f"x{{P}}gpu:{count}", f"{{P}}gpu:{kind}", f"{{P}}gpu::{count}",
            f"{{P}}gpu:={count}", f"license/{{P}}gpu:{count}", f"cpu=1,{{P}}gpu:{count}", f"{{P}}GPU:{kind}:{count}",
            f"{{P}}gpu:{kind}:{count}:no_consume", f"gres/gpu:{count}", f"gres:gpu:{count}", f"{{P}}shard:{count}",
            f"{{P}}mps:{count}", f"{{P}}none", f"{{P}}gpu:{kind}:{count}(IDX:0-3)", f"{{P}}gpu:{kind}:{count}(S:0)",
            "none", f"{{P}}gpushare:{count}", f"{{P}}gpushare:{kind}:{count}", "{P}gpushare:40",
            f"gres/{{P}}gpu:{count}",
            f"{{P}}gpu:{kind}:{kind}:{count}", f" {{P}}gpu:{count}",
            f"{{P}}gpu :{count}", "", "0",
        ]
    )


def gpu_list(random):
    """A tres_per_ value."""
    tokens = [gpu_token(random)]
    while random.random() < 0.12 and len(tokens) < 5:
        tokens.append(gpu_token(random))
    return random.choice([",", ",", ",", ";", ",,"]).join(tokens)


def typed(random):
    """A request that is counted: more than most limits, or as much."""
    return f"{{P}}gpu:{random.choice(['a40', 'a40', 'a40', 'h100'])}:{random.choice([1, 1, 2, 3, 4, 4])}"


def share(random):
    """Units of shares: a limit's, or more."""
    return f"{{P}}gpushare:{random.choice(['', '', 'a40:', 'a40:', 'h100:'])}{random.choice([10, 20, 21, 40, 61, 101])}"


QOSES = [
    "qos_lafferty", "qos_h", "qos_job", "qos_user", "qos_node", "qos_acct", "qos_share", "qos_share", "qos_units",
    "qos_all", "qos_total", "qos_three",
]
QOS_LISTS = ["free,qos_lafferty", "qos_all,normal", "normal,free", "qos_units,free", "qos_job,qos_job"]
ACCOUNTS = ["acct", "capped", "sub", "personal", "lab"]
PLAUSIBLE = {
    "qos": [*QOSES, *QOS_LISTS, "qos_lafferty", "normal", "free"],
    "account": [*ACCOUNTS, "ACCT", "Capped"],
    "partition": ["p", "x", "p,x", "x,p", ""],
    "num_tasks": ["1", "2", "3", "4", "8", "65", "70", "130"],
    "min_nodes": ["1", "1", "2", "3", "4"],
    "max_nodes": ["1", "2", "3", "4", "0"],
    "min_cpus": ["1", "2", "64", "65", "130"],
    "max_cpus": ["1", "64", "130"],
    "cpus_per_task": ["1", "2", "16", "33", "64"],
    "ntasks_per_node": ["1", "2", "4"],
    "ntasks_per_socket": ["1", "2"],
    "ntasks_per_core": ["1", "2"],
    "ntasks_per_board": ["1", "2"],
    "ntasks_per_tres": ["0", "1", "2", "4"],
    "sockets_per_node": ["1", "2"],
    "sockets_per_board": ["1", "2"],
    "boards_per_node": ["1", "2"],
    "cores_per_socket": ["1", "16", "32"],
    "threads_per_core": ["1", "2"],
    "pn_min_cpus": ["1", "32", "64"],
    "pn_min_memory": ["1", "1000", "2000", "0", str(2**63 | 10)],
    "pn_min_tmp_disk": ["0", "1", "100"],
    "shared": ["0", "1", "2", "3", "4"],
    "contiguous": ["0", "1"],
    "overcommit": ["0", "1"],
    "core_spec": ["0", "1", "2", str(0x8000 | 1)],
    "bitflags": [str(1 << bit) for bit in range(64)],
    "features": ["a40", "h100", "both", "a40|h100", "[a40|h100]", "a40&h100", "a40*1&h100*1", "(a40|h100)&both"],
    "prefer": ["a40", "h100", "both"],
    "batch_features": ["a40", "h100"],
    "cluster_features": ["a40"],
    "req_nodes": ["n2", "h1", "m1", "n2,m1", "h1,m1", "{NODE}", "{NODE},n2"],
    "exc_nodes": ["n2", "h1", "m1", "{NODE}", "h1,m1"],
    "licenses": ["tool:1", "tool:4", "gres/gpu:a40:1", "tool:1,gres/gpu:2"],
    "tres_bind": ["{P}gpu:single:1", "gres/gpu:closest", "{P}gpu:map:0", "gpu:none", "{P}gpu:mask_gpu:0x1"],
    "tres_freq": ["gpu:low", "gpu:memory=low", "{P}gpu:a40:2"],
    "nice": ["2147483648", "2147483747"],
    "requeue": ["0", "1"],
    "reboot": ["0"],
    "plane_size": ["1", "2"],
    "task_dist": ["1", "2", "4", "65537"],  # for 3 see stories.py
    "segment_size": ["1", "2"],
    "job_size_str": ["1-2", "1,2", "2"],
    "req_switch": ["1"],
    "wait4switch": ["1"],
    "time_limit": ["1", "60", "INFINITE"],
    "delay_boot": ["0", "1"],
    "wait_all_nodes": ["0", "1"],
    "mem_bind_type": ["1"],
    "extra": ["x=1"],
    "wckey": ["w"],
    "mcs_label": ["m"],
    "clusters": ["lab"],
    "reservation": [""],
}
# Where the site has caps (conf-caps): values about them.
MEMORY = ["1024", "8192", "16384", "17408", "32768", "65536", "512000", "0", str(2**63 | 1024), str(2**63 | 16384)]
ABOUT_CAPS = {
    "partition": ["p", "g", "p,g", "g,p", ""],
    "pn_min_memory": MEMORY,
    "min_cpus": ["1", "2", "8", "9", "16", "17", "64", "65"],
    "max_cpus": ["8", "9", "64"],
    "pn_min_cpus": ["1", "8", "9", "17", "64"],
    "cpus_per_task": ["1", "2", "4", "8", "9", "16", "17"],
    "num_tasks": ["1", "2", "3", "4", "8", "9", "17"],
    "ntasks_per_node": ["1", "2", "8", "9"],
    "ntasks_per_tres": ["1", "8", "9"],
    "cpus_per_tres": ["{P}gpu:1", "{P}gpu:8", "{P}gpu:9", "{P}gpu:a40:9", "{P}gpu:17", "{P}gpu:h100:16"],
    "mem_per_tres": ["{P}gpu:1024", "{P}gpu:16384", "{P}gpu:17408", "{P}gpu:a40:17408", "{P}gpu:65536", "{P}gpu:0"],
    "threads_per_core": ["1", "2"],
}
GPU_STRINGS = ["tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"]
GPU_MODIFIERS = ["cpus_per_tres", "mem_per_tres"]
# Members that say who submits, when, or where output goes: hostile values there would only end the story early.
LEFT_ALONE = {
    "job_id", "job_id_str", "user_id", "group_id", "alloc_resp_port", "other_port", "alloc_sid", "end_time",
    "begin_time", "deadline", "script", "std_err", "std_in", "std_out", "work_dir", "array_inx", "het_job_offset",
    "priority", "immediate", "restart_cnt", "x11", "x11_magic_cookie", "x11_target", "x11_target_port", "container",
    "container_id", "crontab_entry", "burst_buffer", "warn_flags", "warn_signal", "warn_time", "mail_type", "mail_user",
    "licenses_tot", "alloc_node", "resp_host", "alloc_tls_cert", "time_min", "kill_on_node_fail", "dependency",
    "origin_cluster", "fed_siblings_active", "fed_siblings_viable", "profile", "name", "selinux_context", "req_context",
    "acctg_freq", "env_hash", "script_hash",
}
ODD_NUMBERS = [
    "0", "1", "2", "NO_VAL", "INFINITE", "65533", "4294967293", "18446744073709551613", "32768", "2147483648",
]
ODD_STRINGS = [
    "", " ", "0", "\xff\xfe\xfd", "%s%n%s", "a" * 1023, "a" * 1025, "gres/gpu:4", "gresgpu", ",", ";", "a40", "\t",
    "\n",
]


def value(random, name, width, caps=False):
    """A value for the member NAME: of a number's WIDTH in bytes, or 0 for a string; CAPS:
    there are the site's caps to pass."""
    if caps and name in ABOUT_CAPS and random.random() < 0.85:
        return random.choice(ABOUT_CAPS[name])
    if name in GPU_STRINGS or name in GPU_MODIFIERS:
        return gpu_list(random)
    if name in PLAUSIBLE and random.random() < 0.85:
        return random.choice(PLAUSIBLE[name])
    return random.choice(ODD_NUMBERS if width else ODD_STRINGS)
