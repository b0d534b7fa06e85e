"""A certificate for a server that does not exist yet: who makes it knows it before anybody else."""

from __future__ import annotations

import datetime
import os
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vcrecovery.errors import ExternalError

_DAYS = 3650


def keep_certificate(folder: Path, name: str, now: float) -> tuple[str, str]:
    """`server.crt` and `server.key` in the folder, made if they are not there; both as PEM. Raises ExternalError."""
    certificate, key = folder / "server.crt", folder / "server.key"
    try:
        if certificate.exists() and key.exists():
            return certificate.read_text(), key.read_text()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        pem, secret = _made(name, now)
        _write(key, secret)
        _write(certificate, pem)
        return pem, secret
    except OSError as error:
        raise ExternalError(
            f"{folder} cannot be used: {error.strerror}", "free some space or correct its rights"
        ) from error


def forget_key(folder: Path) -> None:
    """Once its server has it nobody else needs it."""
    with suppress(OSError):
        (folder / "server.key").unlink()


def forget_certificate(folder: Path) -> None:
    forget_key(folder)
    with suppress(OSError):
        (folder / "server.crt").unlink()
    with suppress(OSError):
        folder.rmdir()


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for nobody else to read, and on the disk."""
    scratch = path.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600, exist_ok=False)
    with scratch.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _made(name: str, now: float) -> tuple[str, str]:
    key, at = ec.generate_private_key(ec.SECP384R1()), datetime.datetime.fromtimestamp(now, datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Another LXD that copies from it asks for this name, whatever its address.
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # The other clock may be behind.
        .not_valid_before(at - datetime.timedelta(days=1))
        .not_valid_after(at + datetime.timedelta(days=_DAYS))
        .sign(key, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem).decode(), secret.decode()
