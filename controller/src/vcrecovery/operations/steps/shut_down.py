"""Shut down: the primary ends by itself, in the order that its system gives, and is read back to be off."""

from __future__ import annotations

from vcrecovery.core.evidence import ShutDown
from vcrecovery.core.power import OFF, may_run_elsewhere
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.subject import Subject

LOOK_EVERY = 0.1
#: Seconds after which it is asked once more: a system that has just booted, or is busy, overlooks its power button.
ASK_AGAIN_AFTER = 15.0


def shut_down(subject: Subject) -> ShutDown:
    """Raises ExternalError when it is not off after `timeouts.shutdown`."""
    clock, uuid, limit = subject.env.clock, subject.uuid, subject.service.timeouts.shutdown
    subject.find_primary()
    host, deadline = subject.host, clock.steady() + limit
    starts_with_host = host.shut_down(uuid)
    asked_at, silent = clock.steady(), ""
    while True:
        try:
            reading, silent = host.read(uuid), ""
            if reading.power not in OFF and clock.steady() - asked_at >= ASK_AGAIN_AFTER:
                asked_at = clock.steady()
                host.shut_down(uuid)
        except ExternalError as error:
            # libvirtd may restart meanwhile.
            silent = error.message
        else:
            if may_run_elsewhere(reading.power, reading.reason):
                raise ExternalError(f"VM {uuid} has left {host.name} while it was shut down")
            if reading.power in OFF:
                return ShutDown(f"{host.name}: {reading}", reading.power, reading.reason, starts_with_host)
        if clock.steady() > deadline:
            raise ExternalError(silent or f"VM {uuid} has not shut down within {limit:.0f} s", "see its console")
        clock.sleep(LOOK_EVERY)
