"""What a provisioner is told: of which machine it is, and what is to be in it."""

from __future__ import annotations

from typing import Any

import yaml

from vcrecovery.core.lease import Lease
from vcrecovery.drivers.certificate import keep_certificate
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment, folder_of
from vcrecovery.plan.elastic import Elastic

#: Where packages of LXD look for their server's certificate.
_FOLDER = "/var/lib/lxd"
_TRUSTED = "/run/vcrecovery-controller.crt"


def order_of(elastic: Elastic, lease: Lease) -> dict[str, Any]:
    """For every call: enough to find the machine, and to end it. So its options are those of when it was asked for."""
    options = elastic.template.options if lease.options is None else lease.options
    return {"lease": lease.token, "name": lease.name, "options": options}


def order_to_make(env: Environment, elastic: Elastic, lease: Lease) -> dict[str, Any]:
    """Raises ExternalError when the certificates cannot be read, or made."""
    template = elastic.template
    certificate, key = keep_certificate(folder_of(env.plan, lease), lease.name, env.clock.now())
    try:
        trusted = elastic.certificate.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no PEM"
        raise ExternalError(
            f"balance.elastic.certificate {elastic.certificate} cannot be read: {why}", "correct that"
        ) from error
    lxd = {
        "server_certificate": certificate,
        "server_key": key,
        "trusted_certificate": trusted,
        "storage_pool": template.storage_pool,
        "bridge": template.bridge,
        "network": lease.network,
    }
    return {
        **order_of(elastic, lease),
        "cores": template.cores,
        "memory": template.memory,
        "disk": template.disk,
        "lxd": lxd,
        "user_data": user_data(lxd),
    }


def user_data(lxd: dict[str, str]) -> str:
    """For cloud-init: LXD shows that certificate, trusts the controller's, and has the pool and the bridge.

    The files are there before a package of LXD is installed, and an LXD that runs already is started anew.
    """
    preseed = {
        "config": {"core.https_address": "[::]:8443"},
        "storage_pools": [{"name": lxd["storage_pool"], "driver": "dir"}],
        "networks": [
            {
                "name": lxd["bridge"],
                "type": "bridge",
                "config": {
                    "ipv4.address": lxd["network"],
                    "ipv4.nat": "false",
                    "ipv4.dhcp": "false",
                    "ipv6.address": "none",
                    "dns.mode": "none",
                },
            }
        ],
    }
    files = [
        (f"{_FOLDER}/server.crt", lxd["server_certificate"], "0644"),
        (f"{_FOLDER}/server.key", lxd["server_key"], "0600"),
        (_TRUSTED, lxd["trusted_certificate"], "0644"),
        ("/run/vcrecovery-lxd.yml", yaml.safe_dump(preseed), "0600"),
    ]
    config = {
        "write_files": [{"path": path, "content": text, "permissions": mode} for path, text, mode in files],
        "packages": ["lxd"],
        "runcmd": [
            ["systemctl", "restart", "lxd"],
            ["sh", "-c", "lxd init --preseed < /run/vcrecovery-lxd.yml"],
            [
                "lxc",
                "config",
                "trust",
                "add",
                _TRUSTED,
                "--name",
                "vcrecovery",
                "--restricted",
                "--projects",
                "default",
            ],
        ],
    }
    return "#cloud-config\n" + yaml.safe_dump(config, sort_keys=False)
