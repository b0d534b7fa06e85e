"""All parts of the relay, in one event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pysnmp.hlapi.v3arch.asyncio import UsmUserData

from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.plan.model import Plan
from vcrecovery.plan.monitoring import SnmpAgent, Zabbix
from vcrecovery.relay.counts import Counts, Reason
from vcrecovery.relay.credentials import Credentials
from vcrecovery.relay.guard import Guard, Source
from vcrecovery.relay.guests import Guests, with_figures
from vcrecovery.relay.hearing import Hearing, Said
from vcrecovery.relay.listener import NotificationListener, listen
from vcrecovery.relay.notification import Notification
from vcrecovery.relay.outbox import Value
from vcrecovery.relay.own_engine import machine_id, start_engine
from vcrecovery.relay.poller import Poller
from vcrecovery.relay.send_queue import SendQueue
from vcrecovery.relay.state_file import write_document
from vcrecovery.relay.strangers import Strangers
from vcrecovery.relay.trapper import Trapper

log = logging.getLogger("vcrecovery.relay")

#: Values that wait for Zabbix, in each lane: with 1,000 guests two minutes of measurements, 15 MB.
CAPACITY = 50_000
LISTING_EVERY = 60.0
#: After Zabbix refused values of a host its guests are listed again, but not more often than this.
LISTING_AFTER_REFUSAL = 5.0
REPORT_EVERY = 10.0
_MEMORY = "guests.json"
#: An agent has so much of the time between two polls to answer.
ANSWER_SHARE = 0.8


@dataclass
class _Hypervisor:
    """One that is watched. Times are the monotonic clock's."""

    name: str
    agent: SnmpAgent
    guests: Guests
    hearing: Hearing
    strangers: Strangers = field(default_factory=Strangers)
    #: Whom its agent has taken the last questions of.
    answers_to: str = ""
    listing: str = ""
    listed_at: float = float("-inf")
    refused: bool = False
    summary: str = ""
    summed_up_at: float = float("-inf")
    uuids: set[str] = field(default_factory=set)


def _say(sentences: Iterable[Said]) -> None:
    for level, sentence in sentences:
        log.log(level, "%s", sentence)


def _checked(plan: Plan) -> tuple[dict[str, SnmpAgent], Zabbix]:
    """The agents by hypervisor, and Zabbix. Raises UsageError when there is nothing to relay."""
    agents = {name: h.snmp for name, h in plan.hypervisors.items() if h.snmp is not None}
    if not agents:
        raise UsageError("no hypervisor of the plan has an SNMP agent", "add hypervisors.NAME.snmp")
    if plan.zabbix is None:
        raise UsageError("the plan has no Zabbix to relay to", "add zabbix.trapper")
    return agents, plan.zabbix


class Relay:
    """`run` does the work until `stop` is set.

    Raises UsageError when the plan or a credential cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        agents, zabbix = _checked(plan)
        self._plan = plan
        self._credentials = Credentials(plan)
        services = {str(service.primary.uuid): name for name, service in plan.services.items()}
        self._hypervisors = {}
        for name, agent in sorted(agents.items()):
            here = {u: s for u, s in services.items() if plan.services[s].primary.hypervisor == name}
            hearing = Hearing(name, agent, plan.snmp.poll, here)
            self._hypervisors[name] = _Hypervisor(name, agent, Guests(services), hearing)
        self._by_address = {str(h.agent.address): h for h in self._hypervisors.values()}
        trapper = Trapper(str(zabbix.trapper.address), zabbix.trapper.port)
        self._states = SendQueue("states", trapper, CAPACITY, self._refused)
        self._measurements = SendQueue("measurements", trapper, CAPACITY, self._refused)
        self._counts = Counts()
        self._folder = plan.state_dir / "relay"
        masters, names = self._credentials.masters, self._credentials.names
        self._sources = {
            address: Source(h.name, {user: masters[user] for user in names[h.agent.user]}, plan.snmp.traps.rate)
            for address, h in self._by_address.items()
        }
        self._receiver: NotificationListener | None = None
        self._remembered: object = None

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Raises ExternalError when it cannot listen or write its state."""
        traps = self._plan.snmp.traps
        own = start_engine(self._folder / "engine.json", machine_id(), f"{traps.listen}:{traps.port}", time.time())
        self._recall()
        sock = listen(str(traps.listen), traps.port)
        started = asyncio.get_running_loop().time()
        guard = Guard(self._sources, own, self._credentials.community, started)
        self._receiver = receiver = NotificationListener(sock, guard, self._counts, own, self._notified)
        users = {}
        for user, keys in self._credentials.keys.items():
            receiver.add_user(user, keys)
            users[user] = UsmUserData(user, **keys)  # noqa: S509  the keys are of both kinds
        if self._credentials.community is not None:
            receiver.add_community(self._credentials.community)
        poller = Poller(users, self._answered)
        log.info("listening on %s:%d, asking %d agent(s)", traps.listen, traps.port, len(self._hypervisors))
        tasks = [
            asyncio.create_task(self._states.run()),
            asyncio.create_task(self._measurements.run()),
            asyncio.create_task(self._keep_reporting()),
            *(
                asyncio.create_task(self._keep_polling(poller, hypervisor, number))
                for number, hypervisor in enumerate(self._hypervisors.values())
            ),
        ]
        ready()
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a task that ended by itself has failed: its error ends the relay
        finally:
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            for hypervisor in self._hypervisors.values():
                self._settle_strangers(hypervisor, math.inf)
            self._report()
            poller.close()
            receiver.close()

    # -- what comes in -----------------------------------------------------------------------------------------

    def _answered(self, address: str, engine_id: bytes, boots: int, engine_time: int) -> None:
        """An agent's authenticated answer: from now on its traps can be checked."""
        source = self._sources.get(address)
        if source is not None and source.answered(engine_id, boots, engine_time) and self._receiver is not None:
            for user in self._credentials.names[self._by_address[address].agent.user]:
                self._receiver.add_user(user, self._credentials.keys[user], engine_id)

    def _notified(self, notification: Notification, address: str) -> None:
        hypervisor = self._by_address[address]
        now = time.monotonic()
        if not hypervisor.guests.known(notification.uuid):
            # That of a new guest comes before the first table that has it.
            if not hypervisor.strangers.add(notification.uuid, now):
                self._counts.reject(Reason.GUEST, address)
            return
        values = hypervisor.guests.notified(notification, now)
        if values is Reason.REPEATED:
            self._counts.again += 1
        elif isinstance(values, Reason):
            self._counts.reject(values, address)
        else:
            self._counts.taken += 1
            log.info("hypervisor %s: notification: %s", hypervisor.name, notification)
            self._put(hypervisor, values)

    def _settle_strangers(self, hypervisor: _Hypervisor, now: float) -> None:
        """What was told of guests that the table has meanwhile was genuine; of others, nobody knows them."""
        come, unknown = hypervisor.strangers.settle(hypervisor.guests.known, now)
        self._counts.taken += come
        if unknown:
            self._counts.reject(Reason.GUEST, str(hypervisor.agent.address), unknown)

    async def _keep_polling(self, poller: Poller, hypervisor: _Hypervisor, number: int) -> None:
        """The first time at once. Then agents take turns, so that no notification waits for many answers."""
        await self._poll(poller, hypervisor)
        next_at = time.monotonic() + hypervisor.hearing.pace * (number + 1) / len(self._hypervisors)
        while True:
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
            await self._poll(poller, hypervisor)
            next_at = max(next_at + hypervisor.hearing.pace, time.monotonic())

    async def _poll(self, poller: Poller, hypervisor: _Hypervisor) -> None:
        agent, hearing, guests = hypervisor.agent, hypervisor.hearing, hypervisor.guests
        asked_at = time.monotonic()
        timeout = hearing.pace * ANSWER_SHARE
        # By this Zabbix tells a hypervisor that is silent from a relay that is.
        self._put(hypervisor, {"vcr.asked": "1"})
        try:
            users = self._credentials.names[agent.user]
            table, user = await poller.read(hypervisor.name, str(agent.address), agent.port, users, timeout)
        except ExternalError as error:
            guests.unanswered(time.monotonic())
            _say(hearing.failed(str(error)))
            return
        if user != hypervisor.answers_to:
            hypervisor.answers_to = user
            # Whoever replaces passphrases waits for this.
            self._report()
        others = [other.guests for other in self._hypervisors.values() if other is not hypervisor]
        _say(hearing.answered(table, guests.any_on(), lambda uuid: any(other.has(uuid) for other in others)))
        now = time.monotonic()
        heartbeat = {} if hearing.silent else {"vcr.heartbeat": "1"}
        self._put(hypervisor, heartbeat | guests.polled(table, asked_at, now))
        self._settle_strangers(hypervisor, now)
        self._list(hypervisor, now)

    # -- what goes out -----------------------------------------------------------------------------------------

    def _put(self, hypervisor: _Hypervisor, values: dict[str, str]) -> None:
        at = time.time()
        now = time.monotonic()
        is_due = now - hypervisor.summed_up_at >= LISTING_EVERY
        if is_due or any(key.startswith("vcr.state") for key in values):
            summary = hypervisor.guests.summary()
            if is_due or summary != hypervisor.summary:
                hypervisor.summary, hypervisor.summed_up_at = summary, now
                values = {**values, "vcr.summary": summary}
        for key, text in with_figures(values).items():
            lane = self._states if key.startswith("vcr.state") else self._measurements
            lane.put(Value(hypervisor.name, key, text, at))

    def _list(self, hypervisor: _Hypervisor, now: float) -> None:
        """Tells Zabbix which guests there are, if it is time."""
        listing = hypervisor.guests.listing()
        age = now - hypervisor.listed_at
        asked = hypervisor.refused and age >= LISTING_AFTER_REFUSAL
        if listing == hypervisor.listing and age < LISTING_EVERY and not asked:
            return
        hypervisor.listing, hypervisor.listed_at, hypervisor.refused = listing, now, False
        self._put(hypervisor, {"vcr.guests": listing})
        uuids = {entry["{#UUID}"] for entry in json.loads(listing)}
        for uuid in hypervisor.uuids - uuids:
            self._states.outbox.forget(hypervisor.name, [f"vcr.state[{uuid}]"])
            self._measurements.outbox.forget(hypervisor.name, [f"vcr.cpu[{uuid}]"])
        hypervisor.uuids = uuids

    def _refused(self, host: str) -> None:
        self._hypervisors[host].refused = True

    def _recall(self) -> None:
        """What an earlier relay knew of the guests; nothing if it left nothing that can be read."""
        try:
            document = json.loads((self._folder / _MEMORY).read_text())
            for name, memory in document.items():
                if name in self._hypervisors:
                    self._hypervisors[name].guests.recall(memory)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.info("nothing is remembered of the guests: %s", error)
            return
        self._remembered = document

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY)
            self._report()

    def _report(self) -> None:
        if self._receiver is not None:
            self._receiver.count_dropped()
        if news := self._counts.news():
            log.warning("%s", news)
        document = {
            "notifications": self._counts.as_document(),
            "values_sent": self._states.sent + self._measurements.sent,
            "values_waiting": len(self._states.outbox) + len(self._measurements.outbox),
            "values_lost": self._states.outbox.dropped + self._measurements.outbox.dropped,
            "silent": sorted(h.name for h in self._hypervisors.values() if h.hearing.silent),
            "answers_to": {h.name: h.answers_to for h in self._hypervisors.values() if h.answers_to},
            "answers_without_guests": {h.name: h.hearing.empty for h in self._hypervisors.values() if h.hearing.empty},
        }
        memory = {h.name: h.guests.memory() for h in self._hypervisors.values()}
        try:
            write_document(self._folder / "counters.json", document)
            if memory != self._remembered:
                write_document(self._folder / _MEMORY, memory)
                self._remembered = memory
        except OSError as error:
            log.error("%s cannot be written: %s", self._folder, error.strerror)
