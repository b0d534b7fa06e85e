"""Where this machine gets its Debian packages from: the lab's VM gets them from the same place."""

from __future__ import annotations

from .run import LabError, run


def debian_mirror() -> str:
    """The address of the first Debian archive with a component "main" in this machine's apt configuration."""
    fields = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"
    targets = run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], timeout=30).stdout
    for line in targets.splitlines():
        origin, label, component, address = line.split("|", 3)
        # Security updates have the label "Debian-Security": that archive alone holds no whole system.
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return address.rstrip("/")
    raise LabError("apt: no Debian archive in the lists of this machine (run `apt-get update`)")


def proxy_environment() -> dict[str, str]:
    """The proxies of this machine's apt configuration, as the environment variables that wget and apt read."""
    names = {"http_proxy": "Acquire::http::Proxy", "https_proxy": "Acquire::https::Proxy"}
    found = {name: run(["apt-config", "dump", "--format", "%v", key], timeout=30).stdout for name, key in names.items()}
    return {name: value.strip() for name, value in found.items() if value.strip()}
