"""Whether a hypervisor is heard, which is more than that its agent answers. Pure.

libvirt-snmp that has lost its libvirtd answers for ever, with an empty table; this project's agent says that libvirt
does not answer it. Neither knows anything of the guests any more, so nobody would learn that one of them fails: that is
as silent as an agent that is off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from vcrecovery.plan.monitoring import COPY_POLL, SnmpAgent
from vcrecovery.relay.guests import MISSING_TABLES, Table

#: A level of logging and a sentence.
Said = tuple[int, str]

_HINTS = {
    "libvirt-snmp": "restart it there: systemctl restart vcrecovery-libvirt-snmp",
    "vcrecovery": "look there at libvirtd and snmpd: systemctl status libvirtd snmpd",
}


class Hearing:
    """One hypervisor. `primaries` has the plan's services there, by their primaries' UUIDs."""

    def __init__(self, name: str, agent: SnmpAgent, poll: float, primaries: Mapping[str, str]) -> None:
        self.name = name
        #: Seconds between two polls.
        self.pace = agent.pace(poll)
        #: Whether it is; None before its first answer.
        self.silent: bool | None = None
        #: How many answers knew nothing of the guests, and how many of these came last.
        self.empty = 0
        self._empty_in_a_row = 0
        self._agent = agent
        self._primaries = primaries
        self._said = ""
        self._unseen: dict[str, int] = {}
        self._unseen_said: list[str] = []
        self._copies_said = False

    def failed(self, reason: str) -> list[Said]:
        """The agent did not answer. Returns what to say: each reason once."""
        self.silent = True
        self._empty_in_a_row = 0
        return self._once(reason)

    def answered(
        self, table: Table, guests_on: bool, elsewhere: Callable[[str], bool] = lambda _uuid: False
    ) -> list[Said]:
        """`guests_on` is whether some guest was on when it was seen last. Returns what to say.

        `elsewhere` is whether another hypervisor shows a guest: one that was migrated is not missed here.
        """
        missed = {uuid: name for uuid, name in self._primaries.items() if not elsewhere(uuid)}
        if not self._knows(table, guests_on, missed):
            self.empty += 1
            self._empty_in_a_row += 1
            if self._empty_in_a_row < MISSING_TABLES:
                return []  # it may be from the middle of a libvirtd's start
            self.silent = True
            what = "has lost libvirt: its table is empty" if table.libvirt is None else "libvirt does not answer it"
            return self._once(
                f"the SNMP agent of hypervisor {self.name} answers, but {what}; {_HINTS[self._agent.agent]}"
            )
        self._empty_in_a_row = 0
        said = []
        if self.silent is not False:
            self.silent, self._said = False, ""
            said.append((logging.INFO, f"hypervisor {self.name}: its agent answers, {len(table.rows)} guest(s)"))
        return said + self._copies(table) + self._missing(table, missed)

    def _knows(self, table: Table, guests_on: bool, missed: Mapping[str, str]) -> bool:
        if table.libvirt is not None:
            return table.libvirt
        return bool(table.rows) or not (guests_on or missed)

    def _once(self, reason: str) -> list[Said]:
        said, self._said = self._said, reason
        return [(logging.WARNING, reason)] if reason != said else []

    def _copies(self, table: Table) -> list[Said]:
        """An agent whose answers are copies is asked at their pace, whatever the plan calls it."""
        if table.libvirt is not None or not table.rows or self._agent.agent == "libvirt-snmp" or self._copies_said:
            return []
        self._copies_said, self.pace = True, max(self.pace, COPY_POLL)
        what = f"is asked every {self.pace:g} s, as libvirt-snmp: it never says whether libvirt answers it"
        key = f"hypervisors.{self.name}.snmp.agent: libvirt-snmp"
        hint = f"say {key} in the plan, and run the playbook, so that Zabbix knows"
        return [(logging.WARNING, f"hypervisor {self.name}: its agent {what}; {hint}")]

    def _missing(self, table: Table, missed: Mapping[str, str]) -> list[Said]:
        """Primaries without a row: nobody would see one of them fail. libvirt-snmp sometimes gives half a table."""
        present = {row.uuid for row in table.rows}
        self._unseen = {u: self._unseen.get(u, 0) + 1 for u in missed if u not in present}
        names = sorted(missed[uuid] for uuid, count in self._unseen.items() if count >= MISSING_TABLES)
        said, self._unseen_said = self._unseen_said, names
        if names == said or not names:
            return []
        what = f"does not show the primary of {', '.join(names)}, so its failure would go unnoticed"
        hint = "define it there, or correct services.NAME.primary in the plan"
        return [(logging.WARNING, f"hypervisor {self.name}: its agent {what}; {hint}")]
