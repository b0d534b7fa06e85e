"""Sends notices through Apprise, in a program of its own: what hangs is killed, and what it knows ends with it.

Apprise's URLs hold secrets. They are read by that program alone, from a file that only its owner may read; what it says
of a failure are words of ours, and neither Apprise's log nor an exception's text leaves it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

#: Seconds for one message to one URL, and for the program around it.
TIMEOUT = 30.0
_AROUND = 10.0
#: URLs in one file, and its bytes.
MOST_URLS = 20
_LONGEST = 65536
HINT = "pip install 'vcrecovery[notify]' into the program's virtual environment; the role `controller` does it"


def missing() -> str:
    """Why nothing can be sent; empty when Apprise is installed."""
    return "" if find_spec("apprise") else f"Apprise is not installed, so nobody is told anything; {HINT}"


def count(url_file: Path) -> int:
    """How many URLs the file has. Raises ExternalError when it cannot be used."""
    return len(_urls(url_file))


def send(url_file: Path, url: int, title: str, body: str, timeout: float = TIMEOUT) -> None:
    """Sends one message to the file's URL of that number. Raises ExternalError, which tells no secret."""
    if why := missing():
        raise ExternalError(why)
    order = {"file": str(url_file), "url": url, "title": title, "body": body, "timeout": timeout}
    # Nothing of the folder that the watcher was started in is imported.
    argv = [sys.executable, "-P", "-m", "vcrecovery.drivers.notify"]
    try:
        said = json.loads(run(argv, timeout=timeout + _AROUND, stdin=json.dumps(order).encode()))
    except (ExternalError, ValueError):
        # What it printed may be anything.
        raise ExternalError("the program that sends was killed, or cannot be run") from None
    if said.get("reason"):
        raise ExternalError(str(said["reason"]), str(said.get("hint", "")))


def _urls(url_file: Path) -> list[str]:
    """Raises ExternalError."""
    try:
        with url_file.open("rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise ExternalError(f"{url_file} may be read by others", f"chmod 600 {url_file}")
            text = file.read(_LONGEST + 1).decode()
    except OSError as error:
        raise ExternalError(f"{url_file} cannot be read: {error.strerror}", "write Apprise's URLs into it") from None
    except UnicodeDecodeError:
        raise ExternalError(f"{url_file} is not UTF-8 text", "one URL per line") from None
    urls = [line.strip() for line in text.splitlines()]
    urls = [line for line in urls if line and not line.startswith("#")]
    if not urls:
        raise ExternalError(f"{url_file} has no URL", "write Apprise's URLs into it, one per line")
    if len(urls) > MOST_URLS or len(text) > _LONGEST:
        raise ExternalError(f"{url_file} has more than {MOST_URLS} URLs", "use several files")
    return urls


# -- the program that sends ------------------------------------------------------------------------------------

#: What may be said of a failure, by words that stand in a library's own.
_KNOWN = (
    ("Connection refused", "connection refused"),
    ("timed out", "no answer in time"),
    ("Name or service not known", "its host name is not known"),
    ("No address associated", "its host name is not known"),
    ("name resolution", "its host name cannot be looked up now"),
    ("Failed to resolve", "its host name cannot be looked up now"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted"),
    ("Network is unreachable", "its network cannot be reached"),
    ("No route to host", "there is no route to its host"),
    ("Connection reset", "it ended the connection"),
    ("Connection aborted", "it ended the connection"),
    ("Connection unexpectedly closed", "it ended the connection"),
    ("AUTH extension not supported", "its mail server takes no login"),
    ("STARTTLS extension not supported", "its mail server has no STARTTLS"),
)
_HTTP, _SMTP = re.compile(r"\berror=([1-5]\d\d)\b"), re.compile(r"\(([45]\d\d), b['\"]")


def reason_of(log: list[str]) -> str:
    """Why a message was not sent, from what Apprise has logged: a number, or words of ours, and nothing else."""
    for text in reversed(log):
        if found := _SMTP.search(text):
            return f"its mail server answered {found[1]}"
        if (found := _HTTP.search(text)) and found[1][0] in "345":
            return f"it answered with status {found[1]}"
        for theirs, ours in _KNOWN:
            if theirs in text:
                return ours
    return "not sent; Apprise's own program, `apprise`, shows more"


def _send(order: Mapping[str, Any]) -> dict[str, str]:
    import logging

    import apprise

    log: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if len(log) < 1000:
                log.append(record.getMessage()[:2000])

    theirs = logging.getLogger("apprise")
    theirs.handlers, theirs.propagate = [Kept()], False
    theirs.setLevel(logging.DEBUG)
    urls = _urls(Path(order["file"]))
    if not 0 < order["url"] <= len(urls):
        return {"reason": f"{order['file']} has no URL {order['url']} any more"}
    # Nothing on the disk, and nothing beside this one message.
    asset = apprise.AppriseAsset(
        app_id="VCRecovery",
        app_desc="VCRecovery",
        app_url="",
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        secure_logging=True,
    )
    way = apprise.Apprise.instantiate(urls[order["url"] - 1], asset=asset)
    if way is None:
        return {
            "reason": f"URL {order['url']} of {order['file']} is none that Apprise knows",
            "hint": "`apprise --details` lists them",
        }
    # Apprise's own bounds are for a read each: what sends a byte now and then would hold it for ever.
    sent = way.notify(
        body=order["body"], title=order["title"], notify_type="info", body_format=apprise.NotifyFormat.TEXT
    )
    return {} if sent else {"reason": reason_of(log)}


def _answer(order: Mapping[str, Any]) -> dict[str, str]:
    try:
        return _send(order)
    except ExternalError as error:
        return {"reason": error.message, "hint": error.hint}
    except BaseException as error:  # noqa: BLE001  its text may hold a URL
        return {"reason": f"Apprise failed with a {type(error).__name__}"}


def main() -> None:
    """Reads an order, and answers with one line of JSON. Ends in time, whatever hangs."""
    import threading

    # Apprise, and what it loads, may print anything.
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    order = json.load(sys.stdin)
    found = {"reason": f"no answer within {order['timeout']:g} s"}

    def work() -> None:
        nonlocal found
        found = _answer(order)

    task = threading.Thread(target=work, daemon=True)
    task.start()
    task.join(order["timeout"])
    os.write(answers, json.dumps(found).encode())
    # A library's threads are not waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
