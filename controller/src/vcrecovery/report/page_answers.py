"""What the watcher answers to browsers and to Prometheus."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import ssl
from collections.abc import Callable
from pathlib import Path

from vcrecovery.drivers.secret import read_secret
from vcrecovery.errors import ExternalError
from vcrecovery.plan.metrics import Metrics
from vcrecovery.plan.status_page import PageTls, StatusPage
from vcrecovery.report.exposition import CONTENT_TYPE
from vcrecovery.report.page import Page
from vcrecovery.report.page_server import Answer, Answers, Asked, Place
from vcrecovery.report.recent_look import RecentLook
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.report.status import as_data, others_as_data
from vcrecovery.report.status_html import html_page

_METRICS_HINT = "metrics for Prometheus: /metrics\n"
_STATUS_HINT = "the status: / to read, /status.json for machines\n"
#: Nothing is fetched, run or sent from the page.
_CONFINED = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_ASKS = {"WWW-Authenticate": 'Basic realm="VCRecovery: any name, the token as password", charset="UTF-8"'}


def place_of_metrics(metrics: Metrics) -> Place:
    return Place("metrics", "metrics", str(metrics.listen), metrics.port, "/metrics")


def place_of_status(page: StatusPage) -> Place:
    tls = page.tls
    return Place(
        "status page", "status_page", str(page.listen), page.port, tls=None if tls is None else lambda: _context(tls)
    )


def metrics_answers(recent: RecentLook) -> Answers:
    page = Page(recent)

    def answer(asked: Asked) -> Answer:
        if asked.path == "/metrics":
            return Answer(page.text(), CONTENT_TYPE)
        return Answer(_METRICS_HINT, status=200 if asked.path == "/" else 404)

    return answer


def status_answers(recent: RecentLook, page: StatusPage, now: Callable[[], float]) -> Answers:
    """Whoever does not know the token gets nothing."""

    def answer(asked: Asked) -> Answer:
        if page.token_file is not None and not _knows(asked.authorization, _token(page.token_file)):
            return Answer("the token of status_page.token_file is wanted as the password\n", status=401, headers=_ASKS)
        if asked.path == "/status.json":
            views = recent.look().views
            more = others_as_data(views, of_secondaries(recent.env))
            data = {"services": [as_data(view) for view in views], "findings": more}
            return Answer(json.dumps(data, indent=2) + "\n", "application/json", headers=_CONFINED)
        if asked.path == "/":
            refreshes = "stay" not in asked.query.split("&")
            text = html_page(recent.look().views, now(), of_secondaries(recent.env), refreshes=refreshes)
            return Answer(text, "text/html; charset=utf-8", headers=_CONFINED)
        return Answer(_STATUS_HINT, status=404)

    return answer


def _knows(authorization: str, token: str) -> bool:
    """As a browser says it, whatever name was typed, or a program (`Bearer`)."""
    scheme, _, said = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            said = base64.b64decode(said.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(said.strip().encode(), token.encode())


def _token(path: Path) -> str:
    """Read each time: one that was changed counts at once. Raises ExternalError."""
    token = read_secret(path, "the status page's token", "it")
    if not token:
        raise ExternalError(f"the status page's token is empty: {path}", "`openssl rand -hex 24` makes one")
    return token


def _context(tls: PageTls) -> ssl.SSLContext:
    """Raises ExternalError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # those of TLS are, too
        raise ExternalError(
            f"the status page's certificate {tls.certificate} and key {tls.key} cannot be used: "
            f"{error.strerror or error}",
            "correct status_page.tls",
        ) from error
    return context
