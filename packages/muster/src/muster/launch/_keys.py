"""Make a private authority, and certificates for the tasks of jobs."""

import ipaddress
import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster._errors import CredentialsError
from muster.net import read_private

AUTHORITY_DAYS = 3650
# Certificates begin earlier than they are made: the clock of another machine may be behind.
_EARLIER = timedelta(days=1)
_LONGEST_COMMON_NAME = 64


def make_keys(folder: Path, hosts: Sequence[str], days: int, now: datetime) -> tuple[Path, datetime]:
    """Make a certificate for hosts, and the authority for it unless there is one.

    Nothing that is there already is changed.

    Args:
        folder: The folder of the authority: ``ca.key`` and ``ca.crt``.
        hosts: Names and IP addresses; the first one becomes the name of the folder of the certificate.
        days: How long the certificate is valid; it ends with its authority's at the latest.
        now: The time, with a time zone.

    Returns:
        The folder of ``ca.crt``, ``tls.crt`` and ``tls.key``, and until when the certificate is valid.

    Raises:
        CredentialsError: There is a certificate already, or what is in the folder is no authority.
        OSError: A file cannot be written.
    """
    target = folder / hosts[0]
    if os.path.lexists(target):
        raise CredentialsError(
            f"{target} is there already, and is not overwritten. Remove it first, or name another host first."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "ca.key").exists() or (folder / "ca.crt").exists():
        key, authority = _read_authority(folder, now)
    else:
        key, authority = _make_authority(folder, now)
    end = min(now + timedelta(days=days), authority.not_valid_after_utc)
    task_key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _unsigned(_name(hosts[0]), authority.subject, task_key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host_name(host) for host in hosts]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    unfinished = Path(tempfile.mkdtemp(dir=folder, prefix=".unfinished-"))  # with mode 0700
    try:
        _write(unfinished / "ca.crt", authority.public_bytes(Encoding.PEM))
        _write(unfinished / "tls.crt", certificate.public_bytes(Encoding.PEM))
        _write(unfinished / "tls.key", _pem(task_key))
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return target, end


def _make_authority(folder: Path, now: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Authorities need different names, or else OpenSSL takes one for another and finds a wrong signature.
    name = _name(f"muster authority {os.urandom(8).hex()}")
    certificate = (
        _unsigned(name, name, key, now, now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / "ca.key", _pem(key))
    _write(folder / "ca.crt", certificate.public_bytes(Encoding.PEM))
    return key, certificate


def _read_authority(folder: Path, now: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    content = read_private(folder / "ca.key")
    try:
        key = load_pem_private_key(content, password=None)
        certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    except (OSError, TypeError, ValueError) as exc:
        raise CredentialsError(
            f"{folder / 'ca.key'} and {folder / 'ca.crt'} are not those of an authority: {exc} "
            "Use the folder in which `muster keys` has made one, or a new one."
        ) from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CredentialsError(
            f"{folder / 'ca.key'} is not the private key of {folder / 'ca.crt'}. Use the folder in which "
            "`muster keys` has made both, or a new one."
        )
    if certificate.not_valid_after_utc <= now:
        raise CredentialsError(
            f"The authority of {folder / 'ca.crt'} expired on {certificate.not_valid_after_utc:%Y-%m-%d}. "
            "Make a new one, in a new folder."
        )
    return key, certificate


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(end)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_COMMON_NAME])])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, for this user alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
