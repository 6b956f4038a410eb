# JupyterHub with batchspawner: notebooks on shares of GPUs, in the reservations of courses. The hub runs as root.
import grp
import os
import pwd
import re
import socket
from html import escape

from batchspawner import SlurmSpawner
from tornado.web import HTTPError

# What users can choose: gpushare.conf's ShareSizes.
SIZES = {"mps:25": "a quarter of a GPU", "mps:50": "half of a GPU", "mps:100": "a whole GPU"}
# A course is a reservation and a group of the same name: gpushare.conf's ShareReservations.
COURSE = "jupyterhub_course_"


def courses_of(name):
    groups = os.getgrouplist(name, pwd.getpwnam(name).pw_gid)
    return [group for group in (grp.getgrgid(number).gr_name for number in groups) if group.startswith(COURSE)]


def select(label, name, choices):
    options = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in choices.items())
    return f'<label for="{name}">{label}</label><select class="form-control mb-3" name="{name}">{options}</select>'


def form(spawner):
    courses = {name: name.removeprefix(COURSE) for name in courses_of(spawner.user.name)}
    lines = "<style>.spawn-error-msg { white-space: pre-line }</style>"
    return lines + select("GPU", "gres", SIZES) + select("Course", "reservation", courses or {"": "none"})


def chosen(form_data):
    return {name: form_data[name][0] for name in ("gres", "reservation")}


class CourseSpawner(SlurmSpawner):
    """The hub's page shows why Slurm or gpushare refuses a notebook; without this, only the hub's log has it."""

    async def start(self):
        try:
            return await super().start()
        except RuntimeError as error:
            refusal = HTTPError(400, str(error))
            refusal.jupyterhub_message = re.sub(r"(?m)^sbatch: error: ", "", str(error))
            refusal.jupyterhub_html_message = f"<pre>{escape(refusal.jupyterhub_message)}</pre>"
            raise refusal from None


c.JupyterHub.spawner_class = CourseSpawner
c.Spawner.options_form = form
c.Spawner.options_from_form = chosen
c.Spawner.apply_user_options = {"gres": "req_gres", "reservation": "req_reservation"}
# batchspawner's own script has --export and --get-user-env: slurmd would then start a login shell outside of the job
# and its fence. GetUserEnv=drop prevents that, and the notebook would have no modules. `bash -l` reads the profile
# inside the job.
c.SlurmSpawner.batch_script = """#!/bin/bash -l
#SBATCH --job-name=jupyterhub --output={{homedir}}/jupyterhub-%j.log --chdir={{homedir}}
#SBATCH --partition={{partition}} --time={{runtime}} --cpus-per-task={{nprocs}} --gres={{gres}}
{% if reservation %}#SBATCH --reservation={{reservation}}
{% endif %}
{{prologue}}
srun {{cmd}}
"""
c.SlurmSpawner.req_partition = "gpu"
c.SlurmSpawner.req_runtime = "2:00:00"
c.SlurmSpawner.req_nprocs = "2"
# Such as "module load python".
c.SlurmSpawner.req_prologue = ""
c.SlurmSpawner.exec_prefix = "/usr/sbin/runuser -u {username} --"
c.Spawner.http_timeout = 60
# Nodes report to the hub at this address.
c.JupyterHub.hub_ip = socket.gethostname()
