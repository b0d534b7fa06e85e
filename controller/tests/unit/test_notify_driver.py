"""What sends notices, against real servers on the loopback: what hangs, refuses, or has a secret in its URL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from told_servers import MailServer, Webhook, a_mail_server, a_webhook

from vcrecovery.drivers import notify
from vcrecovery.errors import ExternalError

#: Seconds that a server which hangs is given here.
SHORT = 1.5
SECRET = "Sup3rS3cretT0ken"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with a_webhook() as found:
        yield found


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as found:
        yield found


@pytest.fixture
def urls(tmp_path: Path) -> Path:
    file = tmp_path / "ops"
    file.touch(mode=0o600)
    return file


def mail_to(server: MailServer) -> str:
    return f"mailto://127.0.0.1:{server.port}?from=vcr@example.test&to=ops@example.test&mode=insecure"


def test_a_webhook_and_a_mail(urls: Path, webhook: Webhook, mail_server: MailServer) -> None:
    urls.write_text(f"# ours\n\njson://127.0.0.1:{webhook.port}/x\n{mail_to(mail_server)}\n")
    assert notify.count(urls) == 2
    for url in (1, 2):
        notify.send(urls, url, "web: failed over in 4.6 s", "Unprotected.\nNext: `vcrecovery failback web`.")
    (said,) = webhook.taken
    assert said["title"] == "web: failed over in 4.6 s"
    assert said["message"] == "Unprotected.\nNext: `vcrecovery failback web`."
    (mail,) = mail_server.taken
    assert "Subject: web: failed over in 4.6 s" in mail
    assert "Next: `vcrecovery failback web`." in mail


def test_a_mail_server_that_refuses(urls: Path, mail_server: MailServer) -> None:
    mail_server.refuses = True
    urls.write_text(mail_to(mail_server))
    with pytest.raises(ExternalError, match="550"):
        notify.send(urls, 1, "title", "body")


@pytest.mark.parametrize("how", ["hangs", "drips"])
def test_a_mail_server_that_hangs(how: str, urls: Path, mail_server: MailServer) -> None:
    setattr(mail_server, how, True)
    urls.write_text(mail_to(mail_server))
    begun = time.monotonic()
    with pytest.raises(ExternalError, match=r"no answer within 1\.5 s"):
        notify.send(urls, 1, "title", "body", SHORT)
    assert time.monotonic() - begun < 60  # they would for ever
    children = ["ps", "--ppid", str(os.getpid()), "-o", "args"]
    left = subprocess.run(children, capture_output=True, text=True, check=False).stdout
    assert "vcrecovery.drivers.notify" not in left


def test_one_that_answers_late(urls: Path, mail_server: MailServer) -> None:
    mail_server.late = 1.0
    urls.write_text(mail_to(mail_server))
    notify.send(urls, 1, "title", "body")
    assert len(mail_server.taken) == 1


def test_a_program_that_cannot_be_run(urls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls.write_text("json://127.0.0.1:9/")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ExternalError, match="was killed, or cannot be run"):
        notify.send(urls, 1, "title", "body", 0.5)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("json://user:{secret}@127.0.0.1:9/{secret}", "connection refused"),
        ("mailto://u:{secret}@127.0.0.1:9?from=a@b.test&to=b@b.test&mode=insecure", "connection refused"),
        ("json://user:{secret}@127.0.0.1:{port}/{secret}?-key={secret}", "it answered with status 403"),
        ("{secret}://{secret}", "is none that Apprise knows"),
        ("slack://{secret}", "is none that Apprise knows"),
        ("json://{secret}.invalid/", "host name"),
    ],
)  # fmt: skip
def test_no_secret_is_told(url: str, reason: str, urls: Path, webhook: Webhook, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    webhook.answers = 403
    urls.write_text(url.format(secret=SECRET, port=webhook.port))
    caplog.set_level(0)
    with pytest.raises(ExternalError, match=reason) as caught:
        notify.send(urls, 1, "title", "body", 20)
    told = [
        str(caught.value),
        repr(caught.value.__cause__),
        repr(caught.value.__context__),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert SECRET.lower() not in "\n".join(told).lower()


def test_what_apprise_raises_is_not_told(urls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another library in its place, which prints the URL, logs it, and raises it."""
    (tmp_path / "apprise.py").write_text(
        "import logging, sys\n"
        "class AppriseAsset:\n    def __init__(self, **_how): pass\n"
        "class PersistentStoreMode: MEMORY = 1\n"
        "class Apprise:\n    @staticmethod\n    def instantiate(url, asset):\n"
        "        print(url); print(url, file=sys.stderr); logging.getLogger().error(url); raise ValueError(url)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    urls.write_text(f"json://{SECRET}/")
    with pytest.raises(ExternalError, match=r"^Apprise failed with a ValueError$"):
        notify.send(urls, 1, "title", "body")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_read(mode: int, urls: Path) -> None:
    urls.write_text("json://127.0.0.1/")
    urls.chmod(mode)
    with pytest.raises(ExternalError, match="may be read by others; chmod 600"):
        notify.count(urls)
    with pytest.raises(ExternalError, match="may be read by others; chmod 600"):
        notify.send(urls, 1, "title", "body")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "has no URL"),
        (b"# none\n \n", "has no URL"),
        (b"json://\xff", "is not UTF-8"),
        (b"json://a/\n" * 21, "more than 20"),
        (b"x" * 70000, "more than 20"),
    ],
)
def test_a_file_that_is_none(text: bytes, said: str, urls: Path) -> None:
    urls.write_bytes(text)
    with pytest.raises(ExternalError, match=said):
        notify.count(urls)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="cannot be read: No such file"):
        notify.count(tmp_path / "none")


def test_a_url_that_was_removed_meanwhile(urls: Path) -> None:
    urls.write_text("json://127.0.0.1/")
    with pytest.raises(ExternalError, match="has no URL 2 any more"):
        notify.send(urls, 2, "title", "body")


def test_reasons_are_numbers_or_words_of_ours() -> None:
    assert notify.reason_of(["Socket Exception: (535, b'5.7.8 pass word')"]) == "its mail server answered 535"
    assert notify.reason_of(["Failed to send JSON: Forbidden, error=403."]) == "it answered with status 403"
    assert SECRET not in notify.reason_of([f"nobody knows {SECRET} error={SECRET}"])


def test_the_documented_urls_are_known() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/notifications.md").read_text()
    urls = re.findall(r"^\| [^|]+ \| `(\w+://[^`]+)` \|$", page, re.MULTILINE)
    assert len(urls) >= 6
    code = "import sys, apprise; print(*[url for url in sys.argv[1:] if apprise.Apprise.instantiate(url) is None])"
    unknown = subprocess.run([sys.executable, "-c", code, *urls], capture_output=True, text=True, check=True).stdout
    assert unknown.strip() == ""
