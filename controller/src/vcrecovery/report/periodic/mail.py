"""A report as a mail: the page, and for readers without HTML its Markdown."""

from __future__ import annotations

from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from vcrecovery.drivers.mail import Server, by_sendmail, by_smtp
from vcrecovery.plan.reports import Mail
from vcrecovery.report.periodic.document import Document
from vcrecovery.report.periodic.words import local


def compose(mail: Mail, document: Document, text: str, html: str, made_at: float) -> EmailMessage:
    message = EmailMessage()
    message["From"] = mail.sender
    message["To"] = ", ".join(mail.to)
    message["Subject"] = f"{document.title}: {document.summary[0]}"
    message["Date"] = format_datetime(local(made_at))
    message["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2])
    # Nobody is to be answered that they are away.
    message["Auto-Submitted"] = "auto-generated"
    # Whatever is on the way takes such lines, of any length and with any letters.
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message


def send(mail: Mail, message: EmailMessage) -> None:
    """Raises ExternalError, with the server's word for it."""
    smtp = mail.smtp
    if smtp is None:
        by_sendmail(message, mail.sender, mail.to)
        return
    by_smtp(
        Server(str(smtp.host), smtp.port_of, smtp.tls == "starttls", smtp.user, smtp.password_file, smtp.ca_file),
        message,
        mail.sender,
        mail.to,
    )
