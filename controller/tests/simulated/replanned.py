"""The plan of a simulated site is changed; the watcher is restarted for it, as by the role."""

from __future__ import annotations

from typing import Any

from simulated.site import Site
from vcrecovery.plan.model import Spare, Standby


def change_place(site: Site, **values: Any) -> None:
    """Of the standby of web."""
    service = site.plan.services["web"]
    fields = {name: getattr(service.standby, name) for name in Standby.model_fields}
    standby = Standby.model_construct(**{**fields, **values})
    site.plan.services["web"] = service.model_copy(update={"standby": standby})
    site.kill_watcher()


def swap_places(site: Site) -> None:
    """What was the spare of web is named as its secondary, and the other way round."""
    home, spare = site.plan.services["web"].standby, site.plan.services["web"].standby.spare
    assert spare is not None
    other = Spare.model_construct(
        secondary=home.secondary, address=home.address, address6=None, every=spare.every, pause=spare.pause
    )
    change_place(site, secondary=spare.secondary, address=spare.address, spare=other)
