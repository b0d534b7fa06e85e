"""The watcher itself, as systemd runs it, with a webhook and a mail server: what it sends, and what it never says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_watch_cli import Watcher
from told_servers import MailServer, Webhook, a_mail_server, a_webhook
from view_program import PATIENCE, vcrecovery

from lab.waiting import wait_for
from vcrecovery.core.episode import Outcome, Request
from vcrecovery.store.journal import Journal

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
def told(local_plan: Path, webhook: Webhook, mail_server: MailServer) -> Path:
    """The plan, with a webhook, and mail to a server that hangs, both with a secret."""
    mail_server.hangs = True
    folder = local_plan.parent
    ways = {
        "chat": f"json://user:{SECRET}@127.0.0.1:{webhook.port}/{SECRET}",
        "ops": f"mailto://u:{SECRET}@127.0.0.1:{mail_server.port}?from=a@b.test&to=b@b.test&mode=insecure",
    }
    for name, url in ways.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(f"{url}\n")
    local_plan.write_text(
        local_plan.read_text() + f"notify: [{{url_file: {folder / 'ops'}}}, {{url_file: {folder / 'chat'}}}]\n"
    )
    return local_plan


def refuse(plan: Path) -> None:
    journal = Journal(plan.parent / "state/journal.db")
    episode = journal.open("web", "libvirt: shutoff (crashed)", Request(automatic=True), time.time())
    journal.close(episode, Outcome.REFUSED, "its standby is too old", time.time())


def test_once_although_another_hangs_and_it_is_restarted(told: Path, webhook: Webhook) -> None:
    said = ""
    for turn in range(2):
        watcher = Watcher(told, "--verbose")
        try:
            said += watcher.says("watching 1 service(s)")
            if turn == 0:
                time.sleep(1.5)
                refuse(told)
                said += watcher.says("told: web: failover refused")
            wait_for(lambda: "web: failover refused" in webhook.titles, "the message", PATIENCE)
            time.sleep(2.5)
        finally:
            watcher.end()
    assert webhook.titles.count("web: failover refused") == 1
    assert "told: web: failover refused" in said
    asked = [("status", "--json"), ("status",), ("plan", "check"), ("notify", "test", str(told.parent / "none"))]
    for words in asked:
        done = vcrecovery(*words, "--plan", told)
        said += done.stdout + done.stderr
    journal = b"".join(file.read_bytes() for file in (told.parent / "state").glob("journal.db*"))
    assert b"failover refused" in journal
    assert SECRET not in said
    assert SECRET.encode() not in journal
    assert SECRET not in told.read_text()


def test_a_test_message(told: Path, webhook: Webhook, mail_server: MailServer) -> None:
    mail_server.hangs = False
    done = vcrecovery("notify", "test", "--plan", told)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"{told.parent / 'chat'} (URL 1): sent" in done.stdout
    assert webhook.titles == ["VCRecovery: a test message"]
    assert len(mail_server.taken) == 1
    webhook.answers = 500
    (told.parent / "ops").chmod(0o644)
    done = vcrecovery("notify", "test", "--plan", told, "--json")
    assert done.returncode == 4
    assert "it answered with status 500" in done.stdout
    assert "ops may be read by others; chmod 600" in done.stdout
    assert "2 of 2 test messages were not sent" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_without_a_file_or_a_plan_for_it(told: Path, local_plan: Path) -> None:
    (told.parent / "ops").unlink()
    done = vcrecovery("plan", "check", told)
    assert done.returncode == 0
    assert f"warning: notify[0].url_file: {told.parent / 'ops'} cannot be read: No such file" in done.stdout
    nobody = vcrecovery("notify", "test", told.parent / "x", "--plan", told)
    assert (nobody.returncode, nobody.stdout) == (2, "")


def test_what_is_not_installed_is_said(told: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['apprise'] = None\n")
    done = vcrecovery("plan", "check", told, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert "warning: notify: Apprise is not installed" in done.stdout
