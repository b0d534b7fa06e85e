"""Hands a mail over: to the system's sendmail, or to a server over TLS."""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

from vcrecovery.drivers.process import run
from vcrecovery.drivers.secret import read_secret
from vcrecovery.errors import ExternalError

#: The one path that every mail system for Linux provides.
SENDMAIL = "/usr/sbin/sendmail"
#: Seconds for each of the server's answers, and for sendmail altogether.
ANSWER_WITHIN = 30.0
SENDMAIL_WITHIN = 60.0
_HINT = "the report itself is written; correct `report.mail` in the plan, or wait for the next one"


@dataclass(frozen=True)
class Server:
    """A mail server. `starttls`: TLS begins after its first words, otherwise before them. Never without."""

    host: str
    port: int
    starttls: bool
    user: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def by_sendmail(message: EmailMessage, sender: str, to: Sequence[str], program: str = SENDMAIL) -> None:
    """Raises ExternalError."""
    try:
        run([program, "-i", "-f", sender, *to], timeout=SENDMAIL_WITHIN, stdin=message.as_bytes())
    except ExternalError as error:
        raise ExternalError(f"no mail to {', '.join(to)}: {error.message}", _HINT) from error


def by_smtp(
    server: Server, message: EmailMessage, sender: str, to: Sequence[str], answer_within: float = ANSWER_WITHIN
) -> None:
    """Raises ExternalError: also when its certificate is not the server's, or one of the recipients is refused."""
    password = _password(server)
    try:
        context = ssl.create_default_context(cafile=server.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        smtp = _connected(server, context, answer_within)
        try:
            if server.user is not None:
                smtp.login(server.user, password)
            refused = smtp.send_message(message, sender, list(to))
            # The mail is taken by now, whatever comes of the farewell.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                smtp.quit()
        finally:
            smtp.close()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise ExternalError(
            f"no mail to {', '.join(to)}: {server}: {_in_words(error, answer_within)}", _HINT
        ) from error
    if refused:
        raise ExternalError(f"{server} took no mail for {', '.join(refused)}", _HINT)


def _connected(server: Server, context: ssl.SSLContext, within: float) -> smtplib.SMTP:
    if not server.starttls:
        return smtplib.SMTP_SSL(server.host, server.port, timeout=within, context=context)
    smtp = smtplib.SMTP(server.host, server.port, timeout=within)
    try:
        # A server that cannot, or somebody in between who says so, gets nothing.
        smtp.starttls(context=context)
        smtp.ehlo()
    except BaseException:
        smtp.close()
        raise
    return smtp


def _password(server: Server) -> str:
    path = server.password_file
    return read_secret(path, f"the password for {server}", "the password") if path is not None else ""


def _in_words(error: Exception, within: float) -> str:
    """What the server said is shown; what was said to it is not, since a password may be among that."""
    if isinstance(error.__context__, TimeoutError):
        error = error.__context__
    match error:
        case smtplib.SMTPResponseException():
            said = (
                error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
            )
            return f"{error.smtp_code} {said}"
        case smtplib.SMTPRecipientsRefused():
            return f"refused {', '.join(error.recipients)}"
        case TimeoutError():
            return f"no answer within {within:g} s"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not to be trusted: {error.verify_message}"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error) or type(error).__name__
