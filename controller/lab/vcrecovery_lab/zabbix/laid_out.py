"""A Zabbix that the role `monitoring` has laid out, with the agent that it has configured."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import LabError

from .agent import Agent, Psk
from .process import USER
from .stack import Stack

#: The controller's agent, as Zabbix knows it.
AGENT = "vcrecovery-controller"
#: Seconds; for a slow machine that is busy.
PATIENCE = 240.0


class LaidOut:
    """The playbook `monitoring.yml` for one plan, against a Zabbix that runs.

    `program` is what the agent starts in the place of /opt/vcrecovery/bin/vcrecovery. It runs as `nobody`.
    `more` are variables of the playbook beside those, or in their place.
    """

    def __init__(
        self, stack: Stack, folder: Path, plan: Mapping[str, Any], program: Path, more: Mapping[str, Any] | None = None
    ) -> None:
        self.stack, self.folder, self.program = stack, folder, program
        self.agent_port = free_port()
        self.agent_log = folder / "log/zabbix-agent.log"
        for name in ("agent", "agent/conf.d", "agent/run"):
            (folder / name).mkdir()
        Path(plan["state_dir"]).mkdir(exist_ok=True)
        shutil.chown(folder / "agent/run", USER)
        starter = folder / "agentd"
        starter.write_text(f'#!/bin/sh\nexec env {stack.agent_command} "$@"\n')
        starter.chmod(0o755)
        config = self._configure_agent()
        local = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        groups: dict[str, Any] = {"monitoring": {"hosts": {"zbx": {}}}, "controllers": {"hosts": {"ctl": {}}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": local, "children": groups}}))
        variables = {
            "vcrecovery_plan": dict(plan),
            "vcrecovery_run_dir": str(folder / "run"),
            "vcrecovery_log_dir": str(folder / "log"),
            "monitoring_engine": "zabbix",
            "monitoring_zabbix_password": "zabbix",
            "monitoring_relay": False,
            "monitoring_program": str(program),
            "monitoring_agent_packages": [],
            "monitoring_agent_address": "127.0.0.1",
            "monitoring_agent_server": "127.0.0.1",
            "monitoring_agent_port": self.agent_port,
            "monitoring_agent_program": str(starter),
            "monitoring_agent_group": "nogroup",
            "monitoring_agent_config": str(config),
            "monitoring_agent_config_dir": str(folder / "agent/conf.d"),
            "monitoring_agent_psk_file": str(folder / "agent/psk"),
            **(more or {}),
        }
        (folder / "variables.yml").write_text(yaml.safe_dump(variables))

    def _configure_agent(self) -> Path:
        lines = {
            "PidFile": self.folder / "agent/run/pid", "LogType": "console", "User": USER, "Hostname": AGENT,
            "ListenIP": "127.0.0.1", "ListenPort": self.agent_port, "StartAgents": 2,
            "Include": self.folder / "agent/conf.d/*.conf",
        }  # fmt: skip
        config = self.folder / "agent/agentd.conf"
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return config

    def play(self, *words: str) -> str:
        """What the playbook printed. Raises LabError with its end when it fails."""
        done = self.playbook("monitoring", *words)
        if done.returncode:
            raise LabError(
                f"ansible-playbook playbooks/monitoring.yml failed: {done.stdout[-6000:]}{done.stderr[-2000:]}"
            )
        return done.stdout

    def playbook(
        self, name: str, *words: str, timeout: float = 500, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One of the collection's, for this site."""
        command: list[str | Path] = [
            CHECKOUT / ".venv/bin/ansible-playbook", f"playbooks/{name}.yml",
            "-i", self.folder / "hosts.yml", "-e", f"@{self.folder}/variables.yml", *words,
        ]  # fmt: skip
        env = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
            **(environment or {}),
        }
        return subprocess.run(
            command,
            cwd=CHECKOUT,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def daemon(self, name: str) -> int | None:
        """The process of what the role has started; None when it has not, or it has ended."""
        record = self.folder / f"run/daemons/{name}.json"
        if not record.exists():
            return None
        entry = json.loads(record.read_text())
        return int(entry["pid"]) if _started(entry["pid"]) == entry["started"] else None

    def stop(self, name: str) -> None:
        """Returns when it is gone. It may never have run."""
        pid = self.daemon(name)
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: self.daemon(name) is None, f"the end of {name}", PATIENCE)

    def stop_agent(self) -> None:
        self.stop("zabbix-agent")

    def start_agent(self) -> None:
        self.play("--limit", "ctl")

    def ask_agent(self, key: str) -> str:
        """What it answers to somebody who has its key."""
        return Agent(
            self.stack.installation, AGENT, self.agent_port, self.folder, Psk(AGENT, self.folder / "agent/psk")
        ).ask(key)


def _started(pid: int) -> str | None:
    """When, in the kernel's ticks. A process that nobody has waited for yet counts as gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
