# SPDX-License-Identifier: GPL-2.0-or-later
"""The example's hub, with logins and a token for the test; users stock1 and stock2 get batchspawner's own script."""

from batchspawner import SlurmSpawner

load_subconfig("/etc/slurm/jupyterhub_config.py")  # noqa: F821


class Spawner(c.JupyterHub.spawner_class):  # noqa: F821
    async def _get_batch_script(self, **variables):
        if self.user.name.startswith("stock"):
            self.batch_script = SlurmSpawner.batch_script.default_value
            # There isn't even a PATH.
            variables["cmd"] = f"/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin {variables['cmd']}"
        return await super()._get_batch_script(**variables)


c.JupyterHub.spawner_class = Spawner  # noqa: F821
c.JupyterHub.authenticator_class = "dummy"  # noqa: F821
c.Authenticator.allow_all = True  # noqa: F821
c.JupyterHub.services = [{"name": "test", "api_token": "0123456789abcdef"}]  # noqa: F821
c.JupyterHub.load_roles = [{"name": "test", "services": ["test"], "scopes": ["access:servers"]}]  # noqa: F821
