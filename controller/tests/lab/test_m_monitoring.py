"""The role `monitoring` against the real Zabbix: what it makes, which problems values make, what Zabbix then starts."""

from __future__ import annotations

import json
import re
import socketserver
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
import yaml
from pyzabbix.api import ZabbixAPI, ZabbixAPIException
from zabbix_utils import ItemValue, Sender
from zabbix_utils.exceptions import ProcessingError

from vcrecovery.core.health import Health
from vcrecovery.detect.zabbix_health import NUMBERS
from vcrecovery.plan.monitoring import COPY_POLL, Zabbix
from vcrecovery_lab.detection.chain import HOST, PROGRAM, plan_without_standby
from vcrecovery_lab.pair.process import start
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import run
from vcrecovery_lab.zabbix import Stack
from vcrecovery_lab.zabbix.laid_out import AGENT, PATIENCE, LaidOut

from .meanwhile import all_along
from .waiting import wait_for
from .zabbix_stack import VERSIONS, throwaway_zabbix

#: The first test of a version lays it out, while the others are laid out beside it.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]

#: Seconds without a heartbeat after which a hypervisor is silent here.
SILENT = 10
#: The host of all services.
SERVICES = Zabbix().services_host
#: Each test has sites and hypervisors of its own, so that they run in any order.
HYPERVISORS = {
    "hv-states": "states",
    "hv-busy": "busy",
    "hv-copies": "copies",
    "hv-idle": "idle",
    "hv-command": "command",
    "hv-one": "pair",
    "hv-other": "pair",
    "hv-dark-1": "dark",
    "hv-dark-2": "dark",
    "hv-steady-1": "steady",
    "hv-steady-2": "steady",
    "hv-never": "steady",
}

#: What is polled at another pace than the plan's.
AGENTS: dict[str, dict[str, Any]] = {"hv-copies": {"snmp": {"address": "192.0.2.31", "agent": "libvirt-snmp"}}}


def uuid(vm: str) -> str:
    return str(uuid5(NAMESPACE_DNS, vm))


class Monitoring(LaidOut):
    """A Zabbix with the role's objects, and the stand-in for `vcrecovery` that its agent starts."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.api: ZabbixAPI = stack.api()
        self.token_file = folder / "etc/secrets/token"
        self.spool = folder / "state/events"
        self.first = self.second = ""
        self.alive = frozenset({"hv-one", "hv-other", "hv-dark-1", "hv-dark-2", "hv-steady-1", "hv-steady-2"})
        #: Held while heartbeats are sent.
        self.pulse = threading.Lock()
        #: By host, the guest by which a test sees that Zabbix has judged what was sent before; of each discovery one of
        #: its own: its trigger is as new as the others'.
        self._canary: dict[str, str] = {}
        self._canaries: set[str] = set()
        #: Hosts whose canary has fallen, or is to fall.
        self._falling: set[str] = set()
        #: By host and key of a guest's item, the second of its youngest value that was sent.
        self._youngest: dict[tuple[str, str], int] = {}
        plan = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {name: {"site": site} | AGENTS.get(name, {}) for name, site in HYPERVISORS.items()},
            "zabbix": {"api": {"url": stack.url, "token_file": str(self.token_file)}},
            "detection": {"host_silent_for": f"{SILENT}s", "cpu_high": 90, "cpu_high_for": "1m"},
        }
        more = {
            "vcrecovery_config_dir": str(folder / "etc"),
            "controller_has_the_program": True,
            "controller_venv": str(folder / "venv"),
            "monitoring_relay": True,
            # Without systemd: these are processes of the test.
            "monitoring_supervisor": "process",
            # There is no sudo here.
            "monitoring_rebalances": True,
            "monitoring_sudo": [],
            "monitoring_sudo_packages": [],
        }
        super().__init__(stack, folder, plan, folder / "venv/bin/vcrecovery", more)
        self.program.parent.mkdir(parents=True)
        # As relay it runs; as the command of the action it writes down what it was told, into the spool itself, which
        # shows that the agent may.
        relay, event = "relay) exec sleep 100000;;", f'event) echo "$@" >> {self.spool}/ran;;'
        rebalance = f'rebalance) echo "$@" >> {self.spool}/rebalanced;;'
        self.program.write_text(f"#!/bin/sh\ncase $1 in {relay} {event} {rebalance} esac\n")
        self.program.chmod(0o755)
        (folder / "venv/.installed").write_text("a stand-in\n")

    def start_agent(self) -> None:
        assert "changed=1 " in self.play("--limit", "ctl")

    def send(self, host: str, *values: tuple[str, object] | tuple[str, object, float]) -> None:
        """(key, value) of now or (key, value, time), all in one packet, until Zabbix takes them."""
        now = time.time()
        items = []
        for key, value, *at in values:
            when = at[0] if at else now
            items.append(ItemValue(host, key, str(value), int(when), int(when % 1 * 1e9)))
            if key.startswith(("vcr.cpu[", "vcr.state[")):
                self._youngest[host, key] = max(int(when), self._youngest.get((host, key), 0))
        wait_for(
            lambda: not Sender("127.0.0.1", self.stack.trapper_port).send(items).failed,
            f"the acceptance of {[item.key for item in items]}",
            PATIENCE,
        )

    def discover(self, host: str, *vms: str, service: str = "web") -> None:
        """Zabbix knows these guests, running for a good while, and one that is called canary."""
        guests = [{"{#UUID}": uuid(vm), "{#VM}": vm, "{#SERVICE}": service} for vm in vms]
        self._canary[host] = uuid(f"canary {len(self._canaries)}")
        self._canaries.add(self._canary[host])
        canary = {"{#UUID}": self._canary[host], "{#VM}": "canary", "{#SERVICE}": "canary"}
        self.send(host, ("vcr.guests", json.dumps([*guests, canary])))
        since = time.time() - 2000
        self.send(host, *((f"vcr.state[{guest['{#UUID}']}]", "running", since) for guest in (*guests, canary)))
        # Zabbix takes values of new items before it judges them.
        self._falling.add(host)

        def judged() -> bool:
            self._sing(host)
            return self._canary_fell(host)

        wait_for(judged, "Zabbix's knowledge of the triggers", PATIENCE)

    def settle(self, host: str) -> None:
        """Returns when Zabbix has judged all that was sent of the host.

        It takes one value of each item at a time: once the youngest ones are stored, and a value of the canary that
        is sent then is judged, so are they (by one history syncer, the lab's).
        """
        wait_for(lambda: self._all_stored(host), f"all values of {host} in Zabbix's history", PATIENCE)
        self._falling ^= {host}
        self._sing(host)
        wait_for(lambda: self._canary_fell(host) == (host in self._falling), "the canary's turn", PATIENCE)

    def _all_stored(self, host: str) -> bool:
        found = self.api.item.get(host=host, search={"key_": "vcr."}, output=["key_", "lastclock"])
        stored = {item["key_"]: int(item["lastclock"]) for item in found}
        return all(stored[key] >= when for (of, key), when in self._youngest.items() if of == host)

    def _sing(self, host: str) -> None:
        state = "crashed" if host in self._falling else "running"
        self.send(host, (f"vcr.state[{self._canary[host]}]", state))

    def _canary_fell(self, host: str) -> bool:
        return any(tags.get("vcr-uuid") == self._canary[host] for tags in self._problems(host))

    def problems(self, *hosts: str) -> list[dict[str, str]]:
        """The tags of each open problem of these hosts."""
        return [tags for tags in self._problems(*hosts) if tags.get("vcr-uuid") not in self._canaries]

    def _problems(self, *hosts: str) -> list[dict[str, str]]:
        ids = [host["hostid"] for host in self.api.host.get(filter={"host": list(hosts)}, output=["hostid"])]
        found = self.api.problem.get(hostids=ids, selectTags=["tag", "value"], output=["eventid"], sortfield="eventid")
        return [{"event": one["eventid"], **{tag["tag"]: tag["value"] for tag in one["tags"]}} for one in found]

    def kinds(self, host: str, vm: str) -> list[str]:
        return [tags["vcr-kind"] for tags in self.problems(host) if tags.get("vcr-uuid") == uuid(vm)]

    def ran(self) -> list[str]:
        """What the stand-in was told, call by call."""
        file = self.spool / "ran"
        return file.read_text().splitlines() if file.exists() else []

    def rebalanced(self) -> list[str]:
        """The same, of its rebalances."""
        file = self.spool / "rebalanced"
        return file.read_text().splitlines() if file.exists() else []

    def events(self, *hosts: str, vms: Iterable[str] = ()) -> list[str]:
        """Every kind of problem that these hosts ever had, or that only these VMs had on them."""
        ids = [host["hostid"] for host in self.api.host.get(filter={"host": list(hosts)}, output=["hostid"])]
        found = self.api.event.get(hostids=ids, value=1, selectTags=["tag", "value"], output=["eventid"])
        tags = [{tag["tag"]: tag["value"] for tag in one["tags"]} for one in found]
        wanted = {uuid(vm) for vm in vms}
        return sorted(
            one["vcr-kind"]
            for one in tags
            if one.get("vcr-uuid") not in self._canaries and (not wanted or one.get("vcr-uuid") in wanted)
        )

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Heartbeats of the hosts in `alive`, twice a second, in the background; a relay asks all of them."""
        sender = Sender("127.0.0.1", self.stack.trapper_port)

        def beat() -> None:
            with self.pulse:
                values = [ItemValue(name, "vcr.asked", "1") for name in HYPERVISORS]
                values += [ItemValue(name, "vcr.heartbeat", "1") for name in sorted(self.alive)]
                # One that is lost matters to nobody: the next is on its way.
                with suppress(OSError, ProcessingError):
                    sender.send(values)

        with all_along(beat, 0.5):
            yield

    def heartbeats(self, host: str, key: str = "vcr.heartbeats") -> float:
        (item,) = self.api.item.get(host=host, filter={"key_": key}, output=["lastvalue", "lastclock"])
        return float(item["lastvalue"]) if item["lastclock"] != "0" else -2.0


@contextmanager
def unlaid(version: str) -> Iterator[Monitoring]:
    """An empty Zabbix, and what the role needs for it."""
    with throwaway_zabbix(version) as stack:
        folder = stack.folder / "m"
        folder.mkdir()
        folder.chmod(0o755)
        made = Monitoring(stack, folder)
        try:
            yield made
        finally:
            made.stop("zabbix-agent")
            made.stop("vcrecovery-relay")


@contextmanager
def laid_out(version: str) -> Iterator[Monitoring]:
    """With heartbeats from the beginning."""
    with unlaid(version) as made:
        made.first = made.play()
        if version != "7.0":
            made.second = made.play("--diff")
        with made.beating():
            yield made


def rehearse() -> str:
    """What a rehearsal on an empty Zabbix says."""
    with unlaid("7.0") as empty:
        said = empty.play("--check")
        assert empty.api.hostgroup.get(filter={"name": "VCRecovery"}) == []
        return said


@pytest.fixture(scope="module")
def side_by_side() -> Iterator[ThreadPoolExecutor]:
    """For what the role does, which takes half a minute of one processor each time."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(scope="module")
def rehearsal(side_by_side: ThreadPoolExecutor) -> Future[str]:
    return side_by_side.submit(rehearse)


@pytest.fixture(scope="module")
def each(side_by_side: ThreadPoolExecutor, rehearsal: Future[str]) -> Iterator[dict[str, Future[Monitoring]]]:
    """By its version. The rehearsal goes on meanwhile."""
    with ExitStack() as ends:
        made = {version: side_by_side.submit(ends.enter_context, laid_out(version)) for version in VERSIONS}
        yield made
        wait(made.values())
        wait([rehearsal])


@pytest.fixture(scope="module", params=VERSIONS)
def monitoring(each: dict[str, Future[Monitoring]], request: pytest.FixtureRequest) -> Monitoring:
    return each[request.param].result()


@pytest.fixture(scope="module", autouse=True)
def lost_command(monitoring: Monitoring) -> str:
    """An event whose command did not reach the agent. The agent is back again.

    Before all other tests, since it takes a minute until Zabbix repeats it; only with 7.0.
    """
    if monitoring.stack.version != "7.0":
        return ""
    monitoring.discover("hv-command", "lost")
    monitoring.stop("zabbix-agent")
    monitoring.send("hv-command", (f"vcr.state[{uuid('lost')}]", "shutoff (crashed)"))
    wait_for(lambda: monitoring.kinds("hv-command", "lost") == ["vm"], "the problem", PATIENCE)
    (event,) = [tags["event"] for tags in monitoring.problems("hv-command") if tags.get("vcr-uuid") == uuid("lost")]
    wait_for(lambda: failed_commands(monitoring, event), "the failure of the command", PATIENCE)
    assert not any(line.startswith(f"event {event} ") for line in monitoring.ran())
    monitoring.start_agent()
    return event


@pytest.fixture(scope="module", autouse=True)
def second(monitoring: Monitoring, lost_command: str, side_by_side: ThreadPoolExecutor) -> Iterator[Future[str]]:
    """What a second run of the role says. It goes on while the other tests run, with the agent that runs again."""
    said = side_by_side.submit(lambda: monitoring.second or monitoring.play("--diff"))
    yield said
    wait([said])


@pytest.fixture(scope="module", autouse=True)
def silent(monitoring: Monitoring, second: Future[str]) -> None:
    """From here on a hypervisor and a whole site are silent. Early, since it takes a while until that is a problem."""
    monitoring.discover("hv-one", "on a silent one")
    heard(monitoring, "hv-one", "hv-other", "hv-dark-1", "hv-dark-2")
    assert monitoring.problems("hv-one", "hv-other", "site-pair", "hv-dark-1", "hv-dark-2", "site-dark") == []
    monitoring.alive -= {"hv-one", "hv-dark-1", "hv-dark-2"}


def failed_commands(monitoring: Monitoring, event: str) -> list[Any]:
    found = monitoring.api.alert.get(eventids=[event], output=["status", "error"])
    return [alert for alert in found if alert["error"]]


def command_line(pid: int) -> list[str]:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except FileNotFoundError:
        return []


def counts(output: str, word: str = "changed") -> list[int]:
    return [int(number) for number in re.findall(rf"{word}=(\d+)", output)]


def test_no_secret_is_printed_or_readable(monitoring: Monitoring) -> None:
    token, key = monitoring.token_file.read_text().strip(), (monitoring.folder / "agent/psk").read_text().strip()
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    assert monitoring.token_file.stat().st_mode & 0o777 == 0o600
    assert (monitoring.folder / "agent/psk").stat().st_mode & 0o777 == 0o640
    assert monitoring.spool.stat().st_mode & 0o777 == 0o730
    for secret in (token, key):
        assert secret not in monitoring.first


def test_the_token_may_do_what_the_controller_does_and_no_more(monitoring: Monitoring) -> None:
    monitoring.discover("hv-command", "seen")
    monitoring.send("hv-command", (f"vcr.state[{uuid('seen')}]", "crashed"))
    wait_for(lambda: monitoring.kinds("hv-command", "seen") == ["vm"], "the problem", PATIENCE)
    (event,) = [tags["event"] for tags in monitoring.problems("hv-command") if tags.get("vcr-uuid") == uuid("seen")]
    controller = monitoring.stack.api(monitoring.token_file.read_text().strip())
    (found,) = controller.event.get(eventids=[event], selectTags="extend", selectHosts=["host"], output="extend")
    assert {"tag": "vcr-uuid", "value": uuid("seen")} in found["tags"]
    assert [host["host"] for host in found["hosts"]] == ["hv-command"]
    controller.event.acknowledge(eventids=[event], action=6, message="failed over in 2.1 s")
    (problem,) = controller.problem.get(eventids=[event], selectAcknowledges=["message"], output=["acknowledged"])
    assert problem["acknowledged"] == "1"
    assert [entry["message"] for entry in problem["acknowledges"]] == ["failed over in 2.1 s"]
    host = found["hosts"][0]["hostid"]
    for method, parameters in (
        ("host.get", {}),
        ("user.get", {}),
        ("script.get", {}),
        ("token.get", {}),
        ("host.update", {"hostid": host, "status": 1}),
        # Closes the problem.
        ("event.acknowledge", {"eventids": [event], "action": 1}),
    ):
        with pytest.raises(ZabbixAPIException):
            controller.do_request(method, parameters)


def all_hosts() -> set[str]:
    return {*HYPERVISORS, *(f"site-{site}" for site in HYPERVISORS.values()), AGENT, SERVICES}


def _group(api: ZabbixAPI, name: str) -> str:
    return str(api.hostgroup.get(filter={"name": name}, output=["groupid"])[0]["groupid"])


CRASHED = ("crashed", "shutoff", "shutoff (crashed)", "shutoff (failed)", "shutoff (daemon)", "absent (crashed)")
WELL = (
    "running", "paused", "shutoff (shutdown)", "shutoff (destroyed)", "shutoff (not seen running)", "absent",
    "shutoff (migrated)", "absent (destroyed)", "shutoff (saved)",
)  # fmt: skip


def test_a_vm_that_went_off_unasked_is_a_problem_and_no_other(monitoring: Monitoring) -> None:
    names = {f"vm {state}": state for state in (*CRASHED, *WELL)}
    monitoring.discover("hv-states", *names)
    monitoring.send("hv-states", *((f"vcr.state[{uuid(vm)}]", state) for vm, state in names.items()))
    expected = [
        {"vcr": "recover", "vcr-kind": "vm", "vcr-uuid": one} for one in sorted(uuid(f"vm {s}") for s in CRASHED)
    ]

    def found() -> list[dict[str, str]]:
        return sorted(what_is_told(monitoring.problems("hv-states")), key=lambda one: one["vcr-uuid"])

    wait_for(lambda: len(found()) >= len(expected), "the problems", PATIENCE)
    monitoring.settle("hv-states")
    assert found() == expected
    monitoring.send("hv-states", *((f"vcr.state[{uuid(f'vm {state}')}]", "running") for state in CRASHED))
    wait_for(lambda: found() == [], "the end of the problems", PATIENCE)


def test_a_guest_that_is_nobodys_primary_is_watched_only(monitoring: Monitoring) -> None:
    monitoring.discover("hv-states", "unprotected", service="")
    monitoring.send("hv-states", (f"vcr.state[{uuid('unprotected')}]", "crashed"))
    monitoring.settle("hv-states")
    assert monitoring.kinds("hv-states", "unprotected") == []


class Samples:
    """A guest's utilisation, each sample one poll after the one before, all of them in the past."""

    def __init__(self, monitoring: Monitoring, host: str, vm: str, poll: float = 5) -> None:
        self._monitoring, self._host, self._vm, self._poll = monitoring, host, vm, poll
        self.at = time.time() - 1500

    def send(self, *values: float) -> list[str]:
        """The kinds of the guest's problems when Zabbix has judged the last of these."""
        key, samples = f"vcr.cpu[{uuid(self._vm)}]", []
        for value in values:
            self.at += self._poll
            samples.append((key, value, self.at))
        self._monitoring.send(self._host, *samples)
        self._monitoring.settle(self._host)
        return self._monitoring.kinds(self._host, self._vm)


def test_a_cpu_that_is_busy_for_too_long_is_a_problem_until_it_is_well_again(monitoring: Monitoring) -> None:
    monitoring.discover("hv-busy", "busy")
    samples = Samples(monitoring, "hv-busy", "busy")
    assert samples.send(99) == [], "one sample"
    samples.at += 300
    assert samples.send(*[99] * 6) == [], "half a minute"
    assert samples.send(89, *[99] * 10) == [], "not all of the minute"
    assert samples.send(99, 99) == ["cpu-high"]
    assert samples.send(*[85] * 20) == ["cpu-high"], "not much better"
    assert samples.send(70, 70) == ["cpu-high"], "better for ten seconds"
    assert samples.send(*[70] * 5) == []
    assert monitoring.events("hv-busy", vms=["busy"]) == ["cpu-high"]


def test_a_busy_cpu_is_a_problem_also_where_libvirt_snmp_is_polled_less_often(monitoring: Monitoring) -> None:
    monitoring.discover("hv-copies", "busy")
    samples = Samples(monitoring, "hv-copies", "busy", COPY_POLL)
    assert samples.send(*[99] * 8) == [], "not all of the minute"
    assert samples.send(*[99] * 3) == ["cpu-high"]
    assert samples.send(*[70] * 7) == []


def test_a_guest_that_boots_may_use_all_of_its_cpu(monitoring: Monitoring) -> None:
    monitoring.discover("hv-busy", "young")
    samples = Samples(monitoring, "hv-busy", "young")
    state = f"vcr.state[{uuid('young')}]"
    monitoring.send("hv-busy", (state, "shutoff (destroyed)", samples.at - 60), (state, "running", samples.at))
    assert samples.send(*[99] * 40) == [], "200 seconds"
    assert samples.send(*[99] * 20) == ["cpu-high"], "300 seconds"


def test_the_problem_of_a_busy_cpu_ends_with_the_vm(monitoring: Monitoring) -> None:
    monitoring.discover("hv-busy", "ended")
    samples = Samples(monitoring, "hv-busy", "ended")
    assert samples.send(*[99] * 12) == ["cpu-high"]
    monitoring.send("hv-busy", (f"vcr.state[{uuid('ended')}]", "shutoff (destroyed)"))
    monitoring.settle("hv-busy")
    assert monitoring.kinds("hv-busy", "ended") == []


def test_a_vm_without_cpu_time_is_suspected_while_it_runs(monitoring: Monitoring) -> None:
    monitoring.discover("hv-idle", "hung", "paused", "idle")
    hung, paused, idle = (Samples(monitoring, "hv-idle", vm) for vm in ("hung", "paused", "idle"))
    assert hung.send(0) == [], "one sample"
    assert hung.send(*[0] * 8) == [], "not long enough"
    assert hung.send(*[0] * 4) == ["cpu-zero"]
    assert hung.send(0.02) == ["cpu-zero"], "one sample"
    assert hung.send(0.02) == []
    assert idle.send(*[0, 0, 0.02] * 10) == []
    # Paused for a while, then resumed: the zeros from before count for nothing.
    paused.send(*[3] * 3)
    key = f"vcr.state[{uuid('paused')}]"
    monitoring.send("hv-idle", (key, "paused", paused.at + 1))
    assert paused.send(*[0] * 20) == []
    monitoring.send("hv-idle", (key, "running", paused.at + 1))
    assert paused.send(0, 0) == []
    assert paused.send(*[0] * 12) == ["cpu-zero"]
    assert monitoring.events("hv-idle", vms=["hung", "idle", "paused"]) == ["cpu-zero"] * 2


def what_is_told(problems: list[dict[str, str]]) -> list[dict[str, str]]:
    """What the controller reads of each."""
    return [{tag: value for tag, value in one.items() if tag == "vcr" or tag.startswith("vcr-")} for one in problems]


def heard(monitoring: Monitoring, *hosts: str) -> None:
    """Returns when all of these have been heard for a good while."""
    for host in hosts:
        wait_for(lambda host=host: monitoring.heartbeats(host) > SILENT, f"heartbeats of {host}", PATIENCE)  # type: ignore[misc]


def test_a_silent_hypervisor_is_one_problem_and_none_of_its_vms(monitoring: Monitoring) -> None:
    wait_for(lambda: monitoring.problems("hv-one"), "the hypervisor's problem", PATIENCE)
    # What is heard of its VMs now is no news: the host's problem says it.
    monitoring.send("hv-one", (f"vcr.state[{uuid('on a silent one')}]", "absent (crashed)"))
    monitoring.discover("hv-other", "neighbour")
    monitoring.settle("hv-other")
    (problem,) = what_is_told(monitoring.problems("hv-one", "hv-other", "site-pair"))
    assert problem == {"vcr": "recover", "vcr-kind": "host", "vcr-host": "hv-one"}
    monitoring.alive |= {"hv-one"}
    wait_for(lambda: "hv-one" not in str(monitoring.problems("hv-one")), "the end of the problem", PATIENCE)
    assert monitoring.events("site-pair", "hv-other") == []


def test_a_silent_site_is_one_problem(monitoring: Monitoring) -> None:
    wait_for(lambda: monitoring.problems("site-dark"), "the site's problem", PATIENCE)
    (problem,) = what_is_told(monitoring.problems("site-dark", "hv-dark-1", "hv-dark-2"))
    assert problem == {"vcr": "recover", "vcr-kind": "site", "vcr-site": "dark"}
    monitoring.alive |= {"hv-dark-1", "hv-dark-2"}
    wait_for(lambda: not monitoring.problems("site-dark"), "the end of the problem", PATIENCE)
    heard(monitoring, "hv-dark-1", "hv-dark-2")
    assert monitoring.events("site-dark", "hv-dark-1", "hv-dark-2") == ["site"]


class _Service(socketserver.ThreadingTCPServer):
    """Answers who connects, and says nothing."""

    allow_reuse_address = daemon_threads = True


@contextmanager
def answering(port: int) -> Iterator[None]:
    with _Service(("127.0.0.1", port), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class Controller:
    """The real watcher of a service whose port the test opens and closes; neither its VM nor its standby is there."""

    def __init__(self, monitoring: Monitoring) -> None:
        self.monitoring, self.port = monitoring, free_port()
        self._folder = monitoring.folder / "watcher"
        self._folder.mkdir()
        sections = {
            "version": 1,
            "state_dir": str(self._folder / "state"),
            "hypervisors": {HOST: {"uri": f"qemu:///system?socket={self._folder}/no-libvirt"}},
            "zabbix": {"trapper": {"address": "127.0.0.1", "port": monitoring.stack.trapper_port}},
        }
        plan = sections | plan_without_standby(uuid("web"), self.port, embedded=False, probe_every="1s")
        (self._folder / "plan.yml").write_text(yaml.safe_dump(plan))

    @contextmanager
    def watching(self) -> Iterator[None]:
        process = start([PROGRAM, "watch", "--plan", self._folder / "plan.yml"], self._folder / "log")
        try:
            yield
            assert process.poll() is None, (self._folder / "log").read_text()[-2000:]
        finally:
            process.terminate()
            process.wait(60)

    def newest(self, what: str) -> str:
        """The newest value that Zabbix has of the service."""
        found = self.monitoring.api.item.get(
            host=SERVICES, filter={"key_": f"vcr.{what}[web]"}, output=["lastvalue", "lastclock"]
        )
        return str(found[0]["lastvalue"]) if found and found[0]["lastclock"] != "0" else ""

    def shows(self, health: Health) -> None:
        wait_for(lambda: self.newest("health") == str(NUMBERS[health]), f"{health} in Zabbix", PATIENCE)

    def problems(self) -> list[str]:
        """The names of the open ones, but for those of the VM and the standby: neither is there."""
        (host,) = self.monitoring.api.host.get(filter={"host": SERVICES}, output=["hostid"])
        kinds = [{"tag": "vcr-kind", "value": kind, "operator": 1} for kind in ("service-down", "overload", "watch")]
        found = self.monitoring.api.problem.get(hostids=host["hostid"], output=["name"], tags=kinds)
        return sorted(one["name"] for one in found)

    @contextmanager
    def silent_at_once(self) -> Iterator[None]:
        """No sign of life is waited for any more."""
        (host,) = self.monitoring.api.host.get(filter={"host": SERVICES}, output=["hostid"])
        made = self.monitoring.api.usermacro.create(hostid=host["hostid"], macro="{$VCR.WATCH.SILENT}", value="1s")
        try:
            yield
        finally:
            self.monitoring.api.usermacro.delete(made["hostmacroids"][0])


def test_the_health_of_a_service_is_shown_and_a_controller_that_is_gone_is_noticed(monitoring: Monitoring) -> None:
    controller = Controller(monitoring)
    silent = "Nothing watches the primaries: the controller has told nothing for 1s"
    with controller.watching():
        with answering(controller.port):
            controller.shows(Health.ANSWERS)
            wait_for(lambda: controller.problems() == [], "an end of all problems", PATIENCE)
            assert 0 < float(controller.newest("seconds")) < 60
            assert controller.newest("why") == ""
        why = f"127.0.0.1:{controller.port}: connection refused"
        controller.shows(Health.DOWN)
        down = f"Service web is down: {why}"
        wait_for(lambda: controller.problems() == [down], "the problem", PATIENCE)
        assert controller.newest("why") == why
        with answering(controller.port):
            controller.shows(Health.ANSWERS)
            wait_for(lambda: controller.problems() == [], "the end of the problem", PATIENCE)
            # Of a secondary that the watcher has told Zabbix of. Its LXD is not there, so its load is told here.
            why = "97 % of its cores; web to sec2: takes 0.7 cores off sec1"
            monitoring.send(SERVICES, ("vcr.relief[sec1]", why), ("vcr.overloaded[sec1]", 1))
            overloaded = f"Secondary sec1 is overloaded: {why}"
            wait_for(lambda: controller.problems() == [overloaded], "the problem of the secondary", PATIENCE)
            rebalance = f"rebalance --plan {monitoring.folder}/etc/plan.yml"
            wait_for(lambda: monitoring.rebalanced() == [rebalance], "the rebalance, of this problem alone", PATIENCE)
            monitoring.send(SERVICES, ("vcr.relief[sec1]", ""), ("vcr.overloaded[sec1]", 0))
            wait_for(lambda: controller.problems() == [], "the end of the overload", PATIENCE)
    with controller.silent_at_once():
        wait_for(lambda: controller.problems() == [silent], "the controller's problem", PATIENCE)
    # An outage that began meanwhile, too, is one of the service.
    with controller.watching():
        wait_for(lambda: controller.problems() == [down], "the problem of the service alone", PATIENCE)
    assert controller.problems() == [down]


def test_zabbix_starts_the_program_with_the_number_of_the_event_and_nothing_else(monitoring: Monitoring) -> None:
    vm = 'nasty"; id; $(id) `id`'
    monitoring.discover("hv-command", vm)
    monitoring.send("hv-command", (f"vcr.state[{uuid(vm)}]", "crashed"))
    wait_for(lambda: monitoring.kinds("hv-command", vm) == ["vm"], "the problem", PATIENCE)
    (event,) = [tags["event"] for tags in monitoring.problems("hv-command") if tags.get("vcr-uuid") == uuid(vm)]
    call = f"event {event} --spool {monitoring.spool}"
    wait_for(lambda: call in monitoring.ran(), "the command", PATIENCE)
    assert all(re.fullmatch(rf"event \d+ --spool {monitoring.spool}", line) for line in monitoring.ran())


def test_the_agent_runs_no_other_command(monitoring: Monitoring) -> None:
    assert monitoring.ask_agent("agent.ping") == "1"
    program = f"{monitoring.folder}/venv/bin/vcrecovery"
    rebalance = f"{program} rebalance --plan {monitoring.folder}/etc/plan.yml"
    for command in (f"{program} rebalance", f"{rebalance} --json", f"{program} move web --to sec2"):
        assert "NOTSUPPORTED" in monitoring.ask_agent(f"system.run[{command},nowait]")
    for command in ("id", f"{program} failover web", f"{program} event 1", rebalance):
        refused = monitoring.ask_agent(f"system.run[{command}]")
        assert "NOTSUPPORTED" in refused, refused
    assert "NOTSUPPORTED" in monitoring.ask_agent("system.run[id,nowait]")
    api = monitoring.api
    group = _group(api, "VCRecovery")
    wanted = {"name": "another", "type": 0, "scope": 2, "execute_on": 0, "groupid": group, "command": "id"}
    (script,) = api.script.create(**wanted)["scriptids"]
    try:
        (host,) = api.host.get(filter={"host": AGENT}, output=["hostid"])
        with pytest.raises(ZabbixAPIException):
            api.script.execute(scriptid=script, hostid=host["hostid"])
    finally:
        api.script.delete(script)


def test_nobody_without_the_key_reaches_the_agent(monitoring: Monitoring) -> None:
    made = monitoring.stack.installation
    command = [str(made.program("zabbix_get")), "-s", "127.0.0.1", "-p", str(monitoring.agent_port), "-k", "agent.ping"]
    answer = run(command, timeout=60, env=made.env, check=False)
    assert "access" in answer.stdout + answer.stderr


def test_a_rehearsal_on_an_empty_zabbix_tells_what_would_change(rehearsal: Future[str]) -> None:
    assert min(counts(rehearsal.result())) > 0


def test_the_role_makes_everything_once(monitoring: Monitoring, second: Future[str]) -> None:
    api = monitoring.api
    assert min(counts(monitoring.first)) > 0
    assert counts(second.result()) == [0, 0], second.result()
    relay = monitoring.daemon("vcrecovery-relay")
    assert relay is not None
    assert command_line(relay)
    assert (monitoring.folder / "etc-relay/plan.yml").is_file()
    hosts = {host["host"] for host in api.host.get(output=["host"], groupids=_group(api, "VCRecovery"))}
    assert hosts == all_hosts()
    (action,) = api.action.get(filter={"name": "VCRecovery"}, output=["actionid"])
    scripts = api.script.get(filter={"name": "VCRecovery"}, output=["command"])
    assert [script["command"] for script in scripts] == [
        f"{monitoring.folder}/venv/bin/vcrecovery event {{EVENT.ID}} --spool {monitoring.spool}"
    ]
    assert action


def test_neither_a_restart_of_zabbix_nor_a_host_never_heard_is_a_failure(
    monitoring: Monitoring, second: Future[str]
) -> None:
    second.result()  # it talks to this Zabbix
    heard(monitoring, "hv-steady-1", "hv-steady-2")
    assert monitoring.heartbeats("hv-never") == -1
    if monitoring.stack.version == "7.0":
        # What is sent meanwhile is lost.
        with monitoring.pulse:
            monitoring.stack.stop_server()
            gone = time.monotonic()
            wait_for(lambda: time.monotonic() - gone > SILENT + 1, "a good while without Zabbix", PATIENCE)
            monitoring.stack.start_server()
        heard(monitoring, "hv-steady-1", "hv-steady-2")
    assert monitoring.events("hv-steady-1", "hv-steady-2", "hv-never", "site-steady") == []


def test_a_command_that_did_not_reach_the_agent_comes_again(monitoring: Monitoring, lost_command: str) -> None:
    if monitoring.stack.version != "7.0":
        return
    call = f"event {lost_command} --spool {monitoring.spool}"
    wait_for(lambda: call in monitoring.ran(), "the repetition of the command, after a minute", PATIENCE + 60)
