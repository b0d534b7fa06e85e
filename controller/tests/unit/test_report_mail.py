"""Reports by mail: over TLS or not at all, and a server that hangs takes nothing from the files."""

from __future__ import annotations

import email
import email.policy
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from mail_server import MailServer, certificate
from report_cases import CHANGED, report

from vcrecovery.cli import reports
from vcrecovery.drivers import mail as driver
from vcrecovery.drivers.mail import Server, by_sendmail, by_smtp
from vcrecovery.errors import ExitCode, ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.reports import Mail
from vcrecovery.report.periodic import files
from vcrecovery.report.periodic.contents import document
from vcrecovery.report.periodic.gather import begin_of
from vcrecovery.report.periodic.mail import compose
from vcrecovery.report.periodic.words import day_of

PASSWORD = "hunter2-of-the-mail"
TO = ["ops@example.net", "more@example.net"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("mail"))


@pytest.fixture
def mail_server(keys: tuple[Path, Path]) -> MailServer:
    return MailServer(*keys)


def message() -> EmailMessage:
    found = document(report(), CHANGED, "report-2026-10-22")
    mail = Mail.model_validate({"to": TO, "from": "vcr@example.net"})
    return compose(mail, found, "# text\n", "<p>page ü</p>", 1_795_317_124.0)


def password_file(folder: Path) -> Path:
    file = folder / "password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    return file


def server(port: int, keys: tuple[Path, Path], **changes: Any) -> Server:
    return replace(Server("localhost", port, starttls=True, ca_file=keys[0]), **changes)


@pytest.mark.parametrize("implicit", [False, True], ids=["starttls", "tls"])
def test_a_mail_over_tls(mail_server: MailServer, keys: tuple[Path, Path], tmp_path: Path, implicit: bool) -> None:
    mail_server.implicit_tls = implicit
    with mail_server.running() as port:
        wanted = server(port, keys, starttls=not implicit, user="vcr", password_file=password_file(tmp_path))
        by_smtp(wanted, message(), "vcr@example.net", TO, 10.0)
    assert mail_server.login() == b"\0vcr\0" + PASSWORD.encode()
    assert [line.split()[0].upper() for line in mail_server.in_the_clear] == ([] if implicit else ["EHLO", "STARTTLS"])
    # Python 3.13 spells it in lower case.
    heard = [line.lower() for line in mail_server.heard]
    assert [line for line in heard if line.startswith("rcpt")] == [f"rcpt to:<{to}>".lower() for to in TO]
    found = email.message_from_bytes(mail_server.mail, policy=email.policy.default)
    assert found["Subject"] == "VCRecovery report 2026-11-22: 1 to be looked at now, 1 that can wait"
    assert found["Auto-Submitted"] == "auto-generated"
    body = found.get_body(("html",))
    text = found.get_body(("plain",))
    assert body is not None
    assert "page ü" in body.get_content()
    assert text is not None
    assert text.get_content().splitlines() == ["# text"]
    assert mail_server.mail.isascii()


def trouble(act: Callable[[], None]) -> str:
    with pytest.raises(ExternalError) as caught:
        act()
    assert caught.value.exit_code is ExitCode.EXTERNAL
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_nothing_is_said_without_tls(mail_server: MailServer, keys: tuple[Path, Path], tmp_path: Path) -> None:
    mail_server.without_starttls = True
    with mail_server.running() as port:
        wanted = server(port, keys, user="vcr", password_file=password_file(tmp_path))
        said = trouble(lambda: by_smtp(wanted, message(), "vcr@example.net", TO, 10.0))
    assert "STARTTLS extension not supported" in said
    assert [line.split()[0].upper() for line in mail_server.in_the_clear] == ["EHLO"]


@pytest.mark.parametrize("implicit", [False, True], ids=["starttls", "tls"])
def test_a_certificate_of_somebody_else(mail_server: MailServer, keys: tuple[Path, Path], implicit: bool) -> None:
    mail_server.implicit_tls = implicit
    with mail_server.running() as port:
        wanted = server(port, keys, starttls=not implicit, ca_file=None)
        said = trouble(lambda: by_smtp(wanted, message(), "vcr@example.net", TO, 10.0))
    assert "its certificate is not to be trusted" in said
    assert not mail_server.heard


@pytest.mark.parametrize("hangs", ["EHLO", "STARTTLS", "MAIL"])
def test_a_server_that_hangs(mail_server: MailServer, keys: tuple[Path, Path], hangs: str) -> None:
    mail_server.hangs = hangs
    with mail_server.running() as port:
        said = trouble(lambda: by_smtp(server(port, keys), message(), "vcr@example.net", TO, 0.5))
    assert "no answer within 0.5 s" in said or "handshake" in said


@pytest.mark.parametrize(
    ("refuses", "said"),
    [
        (("ops@example.net", "more@example.net"), "refused ops@example.net, more@example.net"),
        (("more@example.net",), "took no mail for more@example.net"),
        (("AUTH",), "550 not here"),
        (("MAIL",), "550 not here"),
    ],
)
def test_a_server_that_refuses(
    mail_server: MailServer, keys: tuple[Path, Path], tmp_path: Path, refuses: tuple[str, ...], said: str
) -> None:
    mail_server.refuses = refuses
    with mail_server.running() as port:
        wanted = server(port, keys, user="vcr", password_file=password_file(tmp_path))
        assert said in trouble(lambda: by_smtp(wanted, message(), "vcr@example.net", TO, 10.0))


def test_nobody_is_there(keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert "Connection refused" in trouble(lambda: by_smtp(server(1, keys), message(), "v@example.net", TO, 5.0))
    gone = server(1, keys, user="vcr", password_file=tmp_path / "none")
    assert "No such file" in trouble(lambda: by_smtp(gone, message(), "v@example.net", TO, 5.0))


def test_a_password_that_others_may_read_is_not_used(keys: tuple[Path, Path], tmp_path: Path) -> None:
    file = password_file(tmp_path)
    file.chmod(0o640)
    open_to_others = server(1, keys, user="vcr", password_file=file)
    said = trouble(lambda: by_smtp(open_to_others, message(), "v@example.net", TO, 5.0))
    assert "can be read by others" in said
    assert PASSWORD not in said


def test_sendmail(tmp_path: Path) -> None:
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\ncat >{tmp_path}/mail\n')
    program.chmod(0o755)
    by_sendmail(message(), "vcr@example.net", TO, str(program))
    assert (tmp_path / "words").read_text().split() == ["-i", "-f", "vcr@example.net", *TO]
    assert b"Subject: VCRecovery report" in (tmp_path / "mail").read_bytes()
    program.write_text("#!/bin/sh\necho 'queue is full' >&2; exit 75\n")
    assert "failed with status 75: queue is full" in trouble(
        lambda: by_sendmail(message(), "v@x.net", TO, str(program))
    )
    assert "is not installed" in trouble(lambda: by_sendmail(message(), "v@x.net", TO, str(tmp_path / "none")))


# -- what the timer calls ------------------------------------------------------------------------------------------


def scheduled(local_plan: Path, mail: str) -> Path:
    local_plan.write_text(f"{local_plan.read_text()}report: {{every: 1w, mail: {mail}}}\n")
    return local_plan


def test_when_the_server_hangs_the_files_are_there(
    local_plan: Path,
    mail_server: MailServer,
    keys: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mail_server.hangs = "MAIL"
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(driver.by_smtp, "__defaults__", (0.5,))
    with mail_server.running() as port:
        login = f"user: vcr, password_file: {password_file(tmp_path)}"
        smtp = f"{{host: localhost, port: {port}, ca_file: {keys[0]}, {login}}}"
        plan = scheduled(local_plan, f"{{to: [ops@example.net], from: vcr@example.net, smtp: {smtp}}}")
        said = trouble(lambda: reports.on_schedule(plan, 0.2))
    assert "no answer within 0.5 s; the report itself is written" in said
    kept = sorted(path.suffix for path in (load_plan(plan).state_dir / "reports").iterdir())
    assert kept == [".html", ".json", ".md"]
    assert PASSWORD not in caplog.text + "".join(capfd.readouterr())


def test_the_next_one_compares_with_the_one_before(local_plan: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = scheduled(local_plan, "null")
    kept = load_plan(plan).state_dir / "reports"
    kept.mkdir(parents=True)
    (kept / "report-2026-01-02.json").write_text('{"services": {"old": {}}}')
    reports.on_schedule(plan, 0.2)
    text = next(kept.glob("*.md")).read_text()
    assert "Since report-2026-01-02:" in text
    assert "New in the plan: web." in text
    assert str(next(kept.glob("*.html"))) in capfd.readouterr().out


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{every: 2w}", "report.every"),
        ("{directory: reports}", "is no absolute path"),
        ("{mail: {from: a@example.net, to: []}}", "report.mail.to"),
        ("{mail: {from: a@example.net, to: ['-oQ/tmp@x']}}", "report.mail.to"),
        ('{mail: {from: a@example.net, to: ["a@example.net\\nBcc: b@example.net"]}}', "report.mail.to"),
        ("{mail: {from: a@example.net, to: [b@example.net], smtp: {host: x.net, tls: none}}}", "report.mail.smtp.tls"),
        ("{mail: {from: a@example.net, to: [b@example.net], smtp: {host: x.net, user: v}}}", "go together"),
    ],
)
def test_a_plan_that_is_wrong(local_plan: Path, said: str, problem: str) -> None:
    local_plan.write_text(f"{local_plan.read_text()}report: {said}\n")
    with pytest.raises(Exception, match=problem):
        load_plan(local_plan)


def test_a_scheduled_one_begins_where_the_last_scheduled_one_ended(local_plan: Path) -> None:
    plan = scheduled(local_plan, "null")
    kept = load_plan(plan).state_dir / "reports"
    now, day = time.time(), 86400.0

    def begin() -> float:
        reports.on_schedule(plan, 0.2)
        data = json.loads((kept / f"report-{day_of(time.time())}.json").read_text())
        assert data["scheduled"] is True
        return float(data["begin"])

    def earlier(made_at: float, **more: object) -> None:
        files.write(kept, day_of(made_at), {"json": json.dumps({"made_at": made_at, **more})})

    assert begin() == pytest.approx(begin_of("1w", now), abs=60)
    # One that somebody has made by hand, and one of an earlier version.
    earlier(now - 12 * day, scheduled=False)
    earlier(now - 13 * day)
    assert begin() == pytest.approx(begin_of("1w", now), abs=60)
    # The timer's run of a week before has failed.
    earlier(now - 14 * day, scheduled=True)
    assert begin() == now - 14 * day
    # One that was late leaves its week whole to the next.
    earlier(now - 3 * day, scheduled=True)
    assert begin() == pytest.approx(begin_of("1w", now), abs=60)
