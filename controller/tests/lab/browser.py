"""A real browser without a screen, spoken to by its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from .waiting import wait_for

PROGRAM = "chromium"
#: Seconds for its start, and for each of its answers.
_STARTS, _ANSWERS = 30.0, 30.0


class Page:
    """One page of it."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._number, self._session = connection, 0, ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        said = {"id": self._number, "method": method, "params": params}
        self._connection.send(json.dumps({**said, "sessionId": self._session} if self._session else said))
        while True:
            heard = json.loads(self._connection.recv(timeout=_ANSWERS))
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                return heard["result"]

    def _is_wide(self, width: int, height: int = 800) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def go(self, url: str, width: int = 1400, height: int = 1200) -> None:
        """To a page of a server; it may load more by itself afterwards."""
        self._is_wide(width, height)
        # A server may send it elsewhere.
        self._load(url, "location.href != 'about:blank'")

    def text(self) -> str:
        """What stands there to read, also in drawings."""
        drawn = "[...document.querySelectorAll('svg')].map(one => one.textContent).join(' ')"
        return str(self.asked(f"document.body.innerText + ' ' + {drawn}"))

    def show(self, file: Path, width: int, *, media: str = "screen", dark: bool = False) -> None:
        self._is_wide(width)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", media=media, features=scheme)
        self._load(file.as_uri(), f"location.href == {json.dumps(file.as_uri())}")

    def _load(self, url: str, is_there: str) -> None:
        self._call("Page.navigate", url=url)
        loaded = f"document.readyState == 'complete' && {is_there}"
        wait_for(lambda: self.asked(loaded), url, _ANSWERS, 0.02)

    def asked(self, script: str) -> Any:
        """The value of an expression."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, file: Path) -> None:
        taken = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def print(self, file: Path) -> None:
        """On A4, with the page's own margins."""
        printed = self._call("Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69)
        file.write_bytes(base64.b64decode(printed["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    # Nothing of it is found, or left, in anybody's profile.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words += ["--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"]
        process = subprocess.Popen(
            [PROGRAM, *words, f"--user-data-dir={profile}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port, path = _endpoint(Path(profile) / "DevToolsActivePort", process)
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None) as connection:
                yield Page(connection)
        finally:
            process.terminate()
            process.wait(20)


def _endpoint(file: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    def is_whole() -> bool:
        assert process.poll() is None, f"{PROGRAM} did not start: {process.returncode}"
        return file.exists() and len(file.read_text().split()) == 2

    wait_for(is_whole, f"{PROGRAM}'s start", _STARTS)
    port, path = file.read_text().split()
    return port, path
