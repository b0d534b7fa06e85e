"""One hypervisor, one Zabbix, one controller, and everything between them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import yaml

from vcrecovery.snmp.mib import ENTERPRISE
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.net_snmp import AUTH, PRIVACY, USER, Agent
from vcrecovery_lab.pair.process import start
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.zabbix.laid_out import PATIENCE, LaidOut
from vcrecovery_lab.zabbix.stack import Stack

HOST = "hv1"
PROGRAM = CHECKOUT / ".venv/bin/vcrecovery"


def plan_without_standby(uuid: str, port: int, **detection: Any) -> dict[str, Any]:
    """The sections for one service, web, of a VM of `HOST`: its failovers are begun, and refused."""
    return {
        "secondaries": {
            "sec1": {
                "lxd": "/nonexistent/lxd.socket",
                "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
                "receiver": {"address": "127.0.0.1"},
            }
        },
        "services": {
            "web": {
                "primary": {"hypervisor": HOST, "uuid": uuid, "address": "127.0.0.1"},
                "standby": {"secondary": "sec1", "address": "10.20.0.10"},
                "ports": [port],
            }
        },
        "detection": detection,
    }


class Chain:
    """Makes its files in `folder`, which `nobody` can reach; `lay_out`, `start` and `close` do what they say.

    `plan` has `services` and what else differs from the chain's own plan; `uri` is the hypervisor.
    """

    def __init__(self, stack: Stack, folder: Path, uri: str, plan: Mapping[str, Any], poll: str = "1s") -> None:
        self.stack, self.folder, self.uri = stack, folder, uri
        self._poll = poll
        self.plan_file = folder / "plan.yml"
        self.state_dir = folder / "state"
        self._secrets()
        self._snmp = Agent(folder / "snmpd", self._table_command(), "." + ".".join(map(str, ENTERPRISE)))
        self.plan = self._plan() | dict(plan)
        self.plan_file.write_text(yaml.safe_dump(self.plan))
        self.zabbix = LaidOut(stack, folder, self.plan, self._event_program())
        self._api = stack.api()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    # -- its files ---------------------------------------------------------------------------------------------

    def _secrets(self) -> None:
        for name, text in (("auth", AUTH), ("privacy", PRIVACY)):
            file = self.folder / name
            file.touch(mode=0o600)
            file.write_text(f"{text}\n")

    def _plan(self) -> dict[str, Any]:
        user = {"auth_file": str(self.folder / "auth"), "privacy_file": str(self.folder / "privacy")}
        return {
            "version": 1,
            "state_dir": str(self.state_dir),
            "hypervisors": {
                HOST: {"uri": self.uri, "snmp": {"address": "127.0.0.1", "port": self._snmp.port, "user": USER}}
            },
            "snmp": {"users": {USER: user}, "traps": {"listen": "127.0.0.1", "port": free_port()}, "poll": self._poll},
            "zabbix": {
                "trapper": {"address": "127.0.0.1", "port": self.stack.trapper_port},
                "api": {"url": self.stack.url, "token_file": str(self.folder / "secrets/token")},
            },
            "detection": {"embedded": False},
        }

    def _table_command(self) -> str:
        # snmpd splits at spaces.
        return f"{PROGRAM} snmp-agent table --host {HOST} --uri {self.uri}"

    def _event_program(self) -> Path:
        """`vcrecovery` for Zabbix's agent, which may not reach the checkout: a copy, with all that `event` needs."""
        copy = self.folder / "program"
        for package in (CHECKOUT / "controller/src/vcrecovery", Path(click.__file__).parent):
            shutil.copytree(package, copy / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        program = self.folder / "vcrecovery"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={copy} exec /usr/bin/python3 -m vcrecovery "$@"\n')
        program.chmod(0o755)
        # As where it is installed: it is compiled once, not at each event.
        run(["/usr/bin/python3", "-m", "compileall", "-q", copy], timeout=120)
        return program

    def _notifier_settings(self) -> Path:
        file = self.folder / "snmp-agent.yml"
        traps, users = self.plan["snmp"]["traps"], self.plan["snmp"]["users"]
        destination = {"address": traps["listen"], "port": traps["port"], "user": USER}
        settings = {"host": HOST, "uri": self.uri, "users": users, "destinations": [destination]}
        file.write_text(yaml.safe_dump(settings))
        return file

    # -- its life ----------------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """What the role does to Zabbix, which needs none of the guests: before `start`."""
        self.zabbix.play()

    def start(self) -> None:
        """Returns when Zabbix knows the guests, and the controller takes events."""
        self.start_snmpd()
        self.start_relay()
        self._start(
            "notify", "following libvirt's events", "snmp-agent", "notify", "--config", self._notifier_settings()
        )
        self.start_watch()
        for service in self.plan["services"].values():
            self.wait_for_value(f"vcr.state[{service['primary']['uuid']}]", "running")

    def start_snmpd(self) -> None:
        self._snmp.start()

    def stop_snmpd(self) -> None:
        self._snmp.stop()

    def start_relay(self) -> None:
        self._start("relay", "listening on", "relay", "--plan", self.plan_file)

    def start_watch(self) -> None:
        self._start("watch", "watching", "watch", "--plan", self.plan_file)

    def _start(self, name: str, ready: str, *words: str | Path) -> None:
        """`name` is the log's, too; `ready` is what stands in it when it works."""
        before = self.said(name, ready)
        process = start([PROGRAM, *words], self.log(name))
        self._running[name] = process
        wait_until(lambda: process.poll() is not None or self.said(name, ready) > before, name, PATIENCE)
        if process.poll() is not None:
            raise LabError(f"{name} ended by itself: {self.log(name).read_text()[-2000:]}")

    def stop_part(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        process.wait(PATIENCE)

    def close(self) -> None:
        for name in list(self._running):
            self.stop_part(name)
        self._snmp.stop()
        self.zabbix.stop_agent()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str, text: str) -> int:
        """How often."""
        return self.log(name).read_text(errors="replace").count(text) if self.log(name).exists() else 0

    # -- what is seen ------------------------------------------------------------------------------------------

    @property
    def trap_port(self) -> int:
        port: int = self.plan["snmp"]["traps"]["port"]
        return port

    def run_event(self, number: str) -> None:
        """What Zabbix's action starts."""
        run([self.zabbix.program, "event", number, "--spool", self.state_dir / "events"], timeout=60)

    def newest(self, key: str) -> tuple[str, int]:
        """The newest value that Zabbix has, and its time in seconds; empty and 0 while there is none."""
        found = self._api.item.get(host=HOST, filter={"key_": key}, output=["lastvalue", "lastclock"])
        return (found[0]["lastvalue"], int(found[0]["lastclock"])) if found else ("", 0)

    def wait_for_value(self, key: str, text: str) -> None:
        wait_until(lambda: self.newest(key)[0] == text, f"{key} = {text} in Zabbix", PATIENCE, poll=0.1)

    def set_macro(self, name: str, value: str) -> None:
        """Of the hypervisor's host."""
        (host,) = self._api.host.get(filter={"host": HOST}, output=["hostid"])
        found = self._api.usermacro.get(hostids=host["hostid"], filter={"macro": name}, output=["hostmacroid"])
        if found:
            self._api.usermacro.update(hostmacroid=found[0]["hostmacroid"], value=value)
        else:
            self._api.usermacro.create(hostid=host["hostid"], macro=name, value=value)

    def wait_for_calm(self) -> None:
        """Until no problem is open."""
        wait_until(lambda: self.problems() == [], "an end of all problems", PATIENCE, poll=0.1)

    def problems(self) -> list[dict[str, str]]:
        """The tags of the open ones that start a recovery, and what was answered to them."""
        found = self._api.problem.get(
            output=["eventid", "name"],
            selectTags=["tag", "value"],
            selectAcknowledges=["message"],
            sortfield="eventid",
            tags=[{"tag": "vcr", "value": "recover", "operator": 1}],
        )
        return [
            {
                "event": one["eventid"],
                "name": one["name"],
                "answers": "\n".join(a["message"] for a in one["acknowledges"]),
                **{tag["tag"]: tag["value"] for tag in one["tags"]},
            }
            for one in found
        ]

    def episodes(self) -> list[dict[str, Any]]:
        """What `vcrecovery history` tells, newest first."""
        done = run([PROGRAM, "history", "--json", "--plan", self.plan_file], timeout=60)
        found: list[dict[str, Any]] = json.loads(done.stdout)["episodes"]
        return found


@contextmanager
def chain(stack: Stack, folder: Path, uri: str, plan: Mapping[str, Any], poll: str = "1s") -> Iterator[Chain]:
    """Up, and gone again."""
    made = Chain(stack, folder, uri, plan, poll)
    try:
        made.lay_out()
        made.start()
        yield made
    finally:
        made.close()
