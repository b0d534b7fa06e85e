"""The unit files as the roles install them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

TEMPLATES = sorted((Path(__file__).resolve().parents[3] / "templates").glob("*.j2"))
#: What the settings of a plan change in the units: none of the options, and the ones that ask for most rights.
VARIANTS: dict[str, dict[str, Any]] = {
    "least": {"service": {}, "consistency": "files", "every": "1mo"},
    "most": {
        "service": {"virtual_ip": {"address": "192.0.2.50/24", "interface": "eth0"}},
        "consistency": "snapshot",
        "every": "1d",
    },
}


def rendered(template: Path, variant: str) -> str:
    """One of TEMPLATES, for one of VARIANTS; each variable that it asks for has to be here."""
    options = VARIANTS[variant]
    variables = {
        "ansible_managed": "Ansible managed",
        "controller_watch_argv": ["/bin/true", "watch"],
        "controller_drill_argv": ["/bin/true", "drill"],
        "controller_report_argv": ["/bin/true", "report", "--scheduled"],
        "controller_report_dir": "/var/lib/vcrecovery/reports",
        "controller_report_every": options["every"],
        "controller_report_sendmail": options["every"] == "1d",
        "controller_state_dir": "/var/lib/vcrecovery",
        "controller_plan": {"services": {"web": options["service"]}},
        "hypervisor_libvirt_snmp_argv": ["/bin/true", "-f"],
        "hypervisor_snmp_notify_argv": ["/bin/true", "snmp-agent"],
        "hypervisor_snmp_uri": "qemu:///system",
        "monitoring_agent_group": "daemon",
        "monitoring_next_agent_argv": ["/bin/true", "--foreground"],
        "monitoring_state_dir": "/var/lib/vcrecovery",
        "monitoring_relay_argv": ["/bin/true", "relay"],
        "monitoring_relay_user": "daemon",
        "monitoring_relay_state_dir": "/var/lib/vcrecovery/relay",
        "secondary_receiver_argv": ["/bin/true", "-D"],
        "secondary_disk_argv": ["/bin/true", "secondary"],
        "dns_daemon": {"argv": ["/bin/true", "-f"]},
        "dns_zone_dir": "/var/lib/bind",
        "primary_config_dir": "/etc/vcrecovery",
        "primary_heartbeat": "10s",
        "primary_program_dir": "/usr/local/lib/vcrecovery",
        "primary_python": "/usr/bin/python3",
        "primary_last_files_timeout": 240,
        "primary_asks_for": 15,
        "primary_run_dir": "/run/vcrecovery",
        "primary_sync_memory": "512M",
        "primary_reconcile": "1800s",
        "primary_consistency": {"kind": options["consistency"]},
    }
    text: str = jinja2.Template(template.read_text(), undefined=jinja2.StrictUndefined).render(variables)
    return text
