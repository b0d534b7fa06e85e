"""The passphrases and the community of the plan, read and made into keys."""

from __future__ import annotations

from pathlib import Path

from vcrecovery.plan.model import Plan
from vcrecovery.plan.monitoring import SnmpUser
from vcrecovery.relay.poller import AUTHENTICATION, PRIVACY
from vcrecovery.relay.usm import Master
from vcrecovery.snmp.credentials import read_passphrase, read_secret

#: While passphrases are replaced, the next ones lie beside the others, and agents have another user with them.
_NEXT_FILE, _NEXT_USER = ".next", "next"


def _next(file: Path) -> Path:
    return file.with_name(file.name + _NEXT_FILE)


class Credentials:
    """What the plan's users and files say, and files beside those with the next passphrases.

    Raises UsageError when a file cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        self.masters: dict[str, Master] = {}
        self.keys: dict[str, dict[str, object]] = {}
        #: By the plan's name of a user: whom agents may take for it, the first to be tried first.
        self.names: dict[str, tuple[str, ...]] = {}
        used = {h.snmp.user for h in plan.hypervisors.values() if h.snmp is not None}
        for name in sorted(used):
            user = plan.snmp.users[name]
            self._add(name, user)
            following = SnmpUser(
                auth=user.auth,
                auth_file=_next(user.auth_file),
                privacy=user.privacy,
                privacy_file=_next(user.privacy_file),
            )
            if not (following.auth_file.exists() and following.privacy_file.exists()):
                self.names[name] = (name,)
                continue
            self._add(name + _NEXT_USER, following)
            # Once they are the user's own, too, the other one is about to go.
            settled = self.keys[name] == self.keys[name + _NEXT_USER]
            self.names[name] = (name, name + _NEXT_USER) if settled else (name + _NEXT_USER, name)
        file = plan.snmp.traps.community_file
        self.community = None if file is None else read_secret(file, "the community of SNMPv2c traps")

    def _add(self, name: str, user: SnmpUser) -> None:
        auth = read_passphrase(user.auth_file, f"the authentication passphrase of SNMP user {name}")
        privacy = read_passphrase(user.privacy_file, f"the privacy passphrase of SNMP user {name}")
        self.masters[name] = Master.from_passphrase(user.auth, auth)
        self.keys[name] = {
            "authProtocol": AUTHENTICATION[user.auth],
            "authKey": auth,
            "privProtocol": PRIVACY[user.privacy],
            "privKey": privacy,
        }
