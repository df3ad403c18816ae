import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Tls:
    server_context: ssl.SSLContext
    client_context: ssl.SSLContext

    @classmethod
    def from_folder(cls, folder):
        cs = []
        for p in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            c = ssl.SSLContext(p)
            c.minimum_version = ssl.TLSVersion.TLSv1_3
            c.load_cert_chain(folder / "tls.crt", folder / "tls.key")
            c.load_verify_locations(folder / "ca.crt")
            c.verify_mode = ssl.CERT_REQUIRED
            cs.append(c)
        return cls(*cs)


@dataclass(frozen=True, kw_only=True)
class Credentials:
    secret: bytes | None = field(default=None, repr=False)
    tls: Tls | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        secret = environ.get("MUSTER_SECRET")
        return cls(secret=None if secret is None else secret.encode())


# Those of a job in which nobody proves anything.
NO_CREDENTIALS = Credentials()


def explain_tls_error(exc: ssl.SSLError, peer: str) -> str:
    return f"{peer}: {exc}"
