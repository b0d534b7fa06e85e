"""The real Zabbix: PostgreSQL, server, PHP's API and agents, on loopback, in one folder, for as long as a block."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests
from pyzabbix.api import ZabbixAPI
from zabbix_utils import ItemValue, Sender
from zabbix_utils.exceptions import ProcessingError

from vcrecovery_lab.pair.process import below
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.progress import Progress, silent_progress
from vcrecovery_lab.run import LabError, run

from .agent import Agent, Psk
from .cache import DEFAULT_CACHE, Installation, installation
from .database import Database
from .process import USER, Child

#: As Zabbix's own data has them.
ADMIN = ("Admin", "zabbix")
#: Small, and quick to see what was changed through the API. One syncer judges all values in the order of its writes.
_SERVER = {
    "StartPollers": "2", "StartTrappers": "3", "StartDBSyncers": "1", "StartEscalators": "1", "StartAlerters": "1",
    "StartPreprocessors": "1", "StartLLDProcessors": "1", "StartPingers": "0", "StartDiscoverers": "0",
    "StartHTTPPollers": "0", "CacheUpdateFrequency": "1", "UnreachablePeriod": "10", "UnreachableDelay": "5",
    "UnavailableDelay": "5",
}  # fmt: skip
#: The server asks at home for updates otherwise.
_SERVER_70 = {"AllowSoftwareUpdateCheck": "0"}


class Stack:
    """What tests talk to. `folder` holds all its files; all of its programs run as `nobody`."""

    def __init__(self, made: Installation, folder: Path, server: Mapping[str, str]) -> None:
        self.version, self.folder = made.version, folder
        self.trapper_port, self.api_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.api_port}"
        self.agents: dict[str, Agent] = {}
        self.server_log, self.api_log = folder / "server.log", folder / "php.log"
        self.database = Database(made.program("postgres").parent, made.env, folder / "data", folder)
        self._made, self._server_settings = made, server
        self._server: Child | None = None
        self._php: Child | None = None

    @property
    def installation(self) -> Installation:
        return self._made

    @property
    def agent_command(self) -> str:
        """zabbix_agentd with what it needs to start, for env(1) in a shell."""
        return " ".join(
            [*(f"{key}={value}" for key, value in self._made.env.items()), str(self._made.program("zabbix_agentd"))]
        )

    def start(self) -> None:
        """Returns when the API and the trapper answer."""
        run(["cp", "--archive", "--reflink=auto", self._made.data, self.folder / "data"], timeout=300)
        self._write_server_config()
        self.database.start()
        self._start_php()
        self.start_server()

    def stop(self) -> None:
        """Returns when all its processes are gone, even if one of them made trouble. May be called at any time."""
        with ExitStack() as ends:
            ends.callback(self.database.stop)
            if self._php is not None:
                ends.callback(self._php.end)
            ends.callback(self.stop_server)
            for agent in self.agents.values():
                ends.callback(agent.stop)

    def processes(self) -> list[int]:
        """All of them now."""
        tops = [self._server, self._php, self.database.child, *(agent.child for agent in self.agents.values())]
        return [pid for top in tops if top is not None for pid in (top.pid, *below(top.pid))]

    def start_server(self) -> None:
        """Returns when the trapper answers."""
        program = self._made.program("zabbix_server")
        command: list[str | Path] = [program, "--foreground", "--config", self.folder / "server.conf"]
        self._server = Child(f"zabbix_server {self.version}", command, self.server_log, env=self._made.env)
        self._server.wait_until_ready(self._trapper_answers)

    def stop_server(self) -> None:
        """Returns when its last child is gone, too: one that lives on would hold the sockets of the next server."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def restart_server(self) -> None:
        self.stop_server()
        self.start_server()

    def stop_database(self) -> None:
        """The server and the API stay, and wait for it."""
        self.database.stop()

    def start_database(self) -> None:
        self.database.start()

    def agent(
        self,
        name: str,
        *,
        psk: bool = False,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> Agent:
        """Starts one that this server may ask; `allow` and `deny` are patterns of keys, in Zabbix's order of them.

        Its `psk` is a new key in a file of its own. `settings` are lines of its configuration.
        """
        folder = self.folder / f"agent-{name}"
        folder.mkdir()
        key = None
        port = free_port()
        lines = {
            "ListenIP": "127.0.0.1", "ListenPort": str(port), "Server": "127.0.0.1", "Hostname": name,
            "PidFile": f"{folder}/agent.pid", "LogType": "console", "StartAgents": "2", "LogRemoteCommands": "1",
        }  # fmt: skip
        if psk:
            key = Psk(name, folder / "psk")
            key.file.touch(mode=0o600)
            key.file.write_text(secrets.token_hex(32))
            shutil.chown(key.file, USER)
            lines |= {"TLSAccept": "psk", "TLSConnect": "psk", "TLSPSKIdentity": name, "TLSPSKFile": str(key.file)}
        rules = [*(f"AllowKey={pattern}" for pattern in allow), *(f"DenyKey={pattern}" for pattern in deny)]
        written = [f"{name}={value}" for name, value in (lines | dict(settings or {})).items()]
        (folder / "agent.conf").write_text("\n".join([*written, *rules, ""]))
        shutil.chown(folder, USER)
        self.agents[name] = Agent(self._made, name, port, folder, key)
        self.agents[name].start()
        return self.agents[name]

    def api(self, token: str = "") -> ZabbixAPI:
        """Logged in with a token, or else as the administrator."""
        client = ZabbixAPI(self.url, timeout=120)
        if token:
            client.login(api_token=token)
        else:
            client.login(*ADMIN)
        return client

    def send(self, *values: tuple[str, str, object], seconds: float = 30) -> None:
        """Values as (host, key, value) to trapper items, again until the server knows the items.

        It may know an item before a trigger that was made right after it: then the value is taken, and starts nothing.

        Raises LabError when it does not take all of them within `seconds`.
        """
        left = [ItemValue(host, key, str(value)) for host, key, value in values]

        def taken() -> bool:
            # One by one: the answer tells how many were refused, not which.
            left[:] = [value for value in left if Sender("127.0.0.1", self.trapper_port).send([value]).failed]
            return not left

        wait_until(taken, f"the acceptance of {[f'{value.host}: {value.key}' for value in left]}", seconds, poll=0.2)

    def _start_php(self) -> None:
        settings = (
            "memory_limit=256M", "post_max_size=16M", "max_execution_time=300", "max_input_time=300",
            "date.timezone=UTC", f"session.save_path={self.folder}", f"sys_temp_dir={self.folder}",
        )  # fmt: skip
        words = [word for setting in settings for word in ("-d", setting)]
        # One process: PHP's workers would outlive it, and keep the port.
        listen = f"127.0.0.1:{self.api_port}"
        command: list[str | Path] = [*self._made.php, *words, "-S", listen, "-t", self._made.pages]
        place = {"VCRLAB_DATABASE": str(self.folder), "VCRLAB_TRAPPER": str(self.trapper_port)}
        place["LOCPATH"] = str(self._made.locales)
        self._php = Child("the API (PHP)", command, self.api_log, env={**self._made.env, **place})
        self._php.wait_until_ready(self._api_answers)

    def _api_answers(self) -> bool:
        question: dict[str, Any] = {"jsonrpc": "2.0", "method": "apiinfo.version", "params": {}, "id": 1}
        try:
            answer = requests.post(f"{self.url}/api_jsonrpc.php", json=question, timeout=60)
            return str(answer.json()["result"]).startswith(self.version)
        except requests.ConnectionError:
            return False
        except (ValueError, KeyError, requests.RequestException) as error:
            raise LabError(
                f"the API of Zabbix {self.version} answers, but wrongly: {error}; see {self.api_log}"
            ) from None

    def _trapper_answers(self) -> bool:
        try:
            Sender("127.0.0.1", self.trapper_port).send([ItemValue("nobody", "nothing", "0")])
        except (OSError, ProcessingError):
            return False
        return True

    def _write_server_config(self) -> None:
        lines = {
            "ListenIP": "127.0.0.1", "ListenPort": str(self.trapper_port), "SourceIP": "127.0.0.1",
            "SocketDir": str(self.folder), "PidFile": f"{self.folder}/server.pid", "LogType": "console",
            "DBHost": str(self.folder), "DBName": "zabbix", "DBUser": "zabbix", "DBPort": "5432",
            **_SERVER, **(_SERVER_70 if self.version >= "7" else {}), **self._server_settings,
        }  # fmt: skip
        (self.folder / "server.conf").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


@contextmanager
def zabbix(
    version: str,
    folder: Path,
    *,
    server: Mapping[str, str] | None = None,
    progress: Progress = silent_progress,
    cache: Path = DEFAULT_CACHE,
) -> Iterator[Stack]:
    """A new Zabbix `7.0` or `6.0` without hosts, in `folder`, which `nobody` must be able to reach (not `tmp_path`).

    `server` are lines of the server's configuration. Its first use on a machine takes half a minute more. Raises
    LabError when a part does not come up; at the end no process of it is left. The files stay: they belong to the
    caller.
    """
    if len(str(folder)) > 60:
        raise LabError(f"{folder}: the names of sockets below it would be too long")
    if not all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents):
        raise LabError(f"{folder}: {USER} cannot reach it, because of the mode of a folder above it")
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        made = ends.enter_context(installation(version, progress, cache))
        shutil.chown(folder, USER)
        stack = Stack(made, folder, server or {})
        ends.callback(stack.stop)
        stack.start()
        yield stack
