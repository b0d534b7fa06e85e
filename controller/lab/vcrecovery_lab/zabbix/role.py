"""A user of Zabbix with the least rights that `vcrecovery watch` needs, measured on 6.0 and 7.0.

- A role of type User whose API is an allow-list of three methods; no pages, modules and services; of the actions only
  to acknowledge problems and to comment them. It needs both: without one of them Zabbix refuses the call.
- A user group that may read the host group, and may not log in to the pages (`gui_access` 3). Zabbix then wants no
  password of the user. Reading is enough to acknowledge; problems of other host groups are not there for it.
- A token of that user. An administrator has to make it: `token.create` is none of the three methods.
"""

from __future__ import annotations

from typing import Any

from pyzabbix.api import ZabbixAPI

from vcrecovery.drivers.zabbix import METHODS

NAME = "VCRecovery controller"
_ONLY_API = {
    "ui.default_access": 0,
    "modules.default_access": 0,
    "services.read.mode": 0,
    "services.write.mode": 0,
    "api.access": 1,
    "api.mode": 1,
    "api": list(METHODS),
    "actions.default_access": 0,
    "actions": [{"name": "acknowledge_problems", "status": 1}, {"name": "add_problem_comments", "status": 1}],
}
_READ, _NO_PAGES, _TYPE_USER = 2, 3, 1


def controller_token(api: ZabbixAPI, host_group: str = "VCRecovery") -> str:
    """A new token for the controller; the host group and the user are made where they are not there yet."""
    group = _id(api, "hostgroup", "groupid", {"name": host_group}, {})
    role = _id(api, "role", "roleid", {"name": NAME}, {"type": _TYPE_USER, "rules": _ONLY_API})
    # Since 6.2 there are rights to groups of templates, too.
    rights = "rights" if str(api.version) < "6.2" else "hostgroup_rights"
    group_settings = {"gui_access": _NO_PAGES, rights: [{"id": group, "permission": _READ}]}
    users = _id(api, "usergroup", "usrgrpid", {"name": NAME}, group_settings)
    user_settings = {"roleid": role, "usrgrps": [{"usrgrpid": users}]}
    user = _id(api, "user", "userid", {"username": "vcrecovery"}, user_settings)
    token = _id(api, "token", "tokenid", {"name": "vcrecovery", "userid": user}, {})
    return str(api.do_request("token.generate", [token])["result"][0]["token"])


def _id(api: ZabbixAPI, kind: str, key: str, name: dict[str, Any], settings: dict[str, Any]) -> str:
    found = api.do_request(f"{kind}.get", {"filter": name, "output": [key]})["result"]
    if found:
        return str(found[0][key])
    return str(api.do_request(f"{kind}.create", {**name, **settings})["result"][f"{key}s"][0])
