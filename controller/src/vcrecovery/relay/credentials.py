"""The passphrases and the community of the plan, read and made into keys."""

from __future__ import annotations

from vcrecovery.plan.model import Plan
from vcrecovery.relay.poller import AUTHENTICATION, PRIVACY
from vcrecovery.relay.usm import Master
from vcrecovery.snmp.credentials import read_passphrase, read_secret


class Credentials:
    """What the plan's users and files say.

    Raises UsageError when a file cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        self.masters: dict[str, Master] = {}
        self.keys: dict[str, dict[str, object]] = {}
        used = {h.snmp.user for h in plan.hypervisors.values() if h.snmp is not None}
        for name in sorted(used):
            user = plan.snmp.users[name]
            auth = read_passphrase(user.auth_file, f"the authentication passphrase of SNMP user {name}")
            privacy = read_passphrase(user.privacy_file, f"the privacy passphrase of SNMP user {name}")
            self.masters[name] = Master.from_passphrase(user.auth, auth)
            self.keys[name] = {
                "authProtocol": AUTHENTICATION[user.auth],
                "authKey": auth,
                "privProtocol": PRIVACY[user.privacy],
                "privKey": privacy,
            }
        file = plan.snmp.traps.community_file
        self.community = None if file is None else read_secret(file, "the community of SNMPv2c traps")
