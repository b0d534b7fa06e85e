"""What `status` makes of a simulated site."""

from __future__ import annotations

from simulated.site import Site
from vcrecovery.report.look import look
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.report.view import ServiceView


def seen(site: Site) -> ServiceView:
    """Of web, by a program of its own."""
    process, env = site.process("status")
    found: list[ServiceView] = []
    pool = QueryPool(runtime=env.runtime, steady=env.clock.steady)
    site.scheduler.spawn(process, lambda: found.extend(look(env, ["web"], pool)), "status")
    site.do(process)
    (view,) = found
    return view
