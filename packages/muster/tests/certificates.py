"""Certificates as authorities make them, good and bad, for tests."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
BOTH_SIDES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class Authority:
    """Makes certificates.

    Args:
        signed_by: the authority above this one; None: it is its own.
        start, end: from when to when it is valid.
        key: its private key; None makes one.
    """

    def __init__(self, signed_by=None, start=NOW - DAY, end=NOW + DAY, key=None):
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {id(self)}")])
        above = signed_by or self
        self.certificate = (
            _unsigned(self.name, above.name, self.key, start, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(above.key, hashes.SHA256())
        )

    def make(
        self, folder: Path, *hosts: str, start=NOW - DAY, end=NOW + DAY, usages=BOTH_SIDES, key=None
    ) -> Path:
        """Write a folder for MUSTER_TLS, with a certificate for hosts."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a task")])
        certificate = (
            _unsigned(subject, self.name, key, start, end)
            .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        folder.mkdir()
        (folder / "ca.crt").write_bytes(pem(self.certificate))
        (folder / "tls.crt").write_bytes(pem(certificate))
        (folder / "tls.key").write_bytes(pem_key(key))
        (folder / "tls.key").chmod(0o600)
        return folder


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key, encryption=None):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )


def _unsigned(subject, issuer, key, start, end):
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _name(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
