"""A service that writes a row to the disk for each request, and a client that never ceases to ask for one."""

from __future__ import annotations

import threading
import time
from http.client import HTTPConnection, HTTPException

from .layout import Layout
from .run import run

PORT = 8088
#: Answers once a row is on the disk, with the name of the machine that has it.
WRITER = f"""\
import os, socket
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        folder = "/srv/rows"
        file = os.open(folder + self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(file, b"row")
        os.fsync(file)
        os.close(file)
        top = os.open(folder, os.O_RDONLY)
        os.fsync(top)
        os.close(top)
        answer = socket.gethostname().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass

os.makedirs("/srv/rows", exist_ok=True)
HTTPServer(("", {PORT}), Handler).serve_forever()
"""
UNIT = """\
[Service]
ExecStart=/usr/bin/python3 /usr/local/bin/rows.py
[Install]
WantedBy=multi-user.target
"""
#: Has the service run, and come up at each boot; and removes it.
INSTALL = (
    f"cat > /usr/local/bin/rows.py <<'EOF'\n{WRITER}EOF\n"
    f"cat > /etc/systemd/system/rows.service <<'EOF'\n{UNIT}EOF\n"
    "systemctl daemon-reload; systemctl enable --now rows"
)
REMOVE = "systemctl disable --now rows; rm -r /etc/systemd/system/rows.service /usr/local/bin/rows.py /srv/rows"


class Client:
    """Writes row after row to whoever has the service's name; `acknowledged`: row -> by whom."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client")
        self.acknowledged: dict[int, str] = {}
        #: When the first answer of each machine came, and the last one.
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def _run(self) -> None:
        row = 0
        while not self._stop.wait(0.02):
            row += 1
            for address in self._addresses():
                connection = HTTPConnection(address, PORT, timeout=3)
                try:
                    connection.request("POST", f"/{row}")
                    answer = connection.getresponse()
                    by = answer.read().decode()
                except (OSError, HTTPException):
                    continue
                finally:
                    connection.close()
                self.acknowledged[row] = by
                self.last[by] = time.time()
                self.first.setdefault(by, self.last[by])

    def _addresses(self) -> list[str]:
        layout = self._layout
        words = ["dig", f"@{layout.name_server}", "+short", "+tcp", "+time=10", "+tries=3", layout.name, "A"]
        return run(words, timeout=60).stdout.split()

    def by(self, machine: str) -> list[int]:
        return [row for row, by in list(self.acknowledged.items()) if by == machine]

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(30)
