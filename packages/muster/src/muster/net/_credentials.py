"""The credentials of a job: a secret that its tasks share, and certificates for TLS."""

import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from muster._errors import CredentialsError
from muster.net._private_files import read_private
from muster.net._tls import Tls

# The variables that name them in a task's environment.
SECRET = "MUSTER_SECRET"
SECRET_FILE = "MUSTER_SECRET_FILE"
TLS = "MUSTER_TLS"

_SHORTEST_SECRET = 16  # characters


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Hold the secret and the certificates by which the tasks of a job know each other.

    Args:
        secret: What all tasks of the job know, and nobody else does; None: nothing is proved.
        tls: The certificates of this task; None: connections are in plain text.

    Raises:
        CredentialsError: The secret is too short.
    """

    secret: bytes | None = field(default=None, repr=False)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.secret is not None:
            length = len(self.secret.decode(errors="replace"))
            if length < _SHORTEST_SECRET:
                raise CredentialsError(
                    f"The secret of a job must have at least {_SHORTEST_SECRET} characters, or it could be "
                    f"guessed. Given: {length} characters. A good one is made by: "
                    "python -c 'import secrets; print(secrets.token_hex(32))'"
                )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Return the credentials that an environment names.

        ``MUSTER_SECRET`` is the secret, or ``MUSTER_SECRET_FILE`` a file of it that others may not read (see
        `read_private`); line ends after it do not count. ``MUSTER_TLS`` is a folder of certificates: see
        `Tls.load`. Without these variables there are no credentials.

        Args:
            environ: The environment of this process.

        Raises:
            CredentialsError: They contradict each other, or what they name cannot be used.
        """
        for name in (SECRET, SECRET_FILE, TLS):
            if environ.get(name) == "":
                raise CredentialsError(f"{name} is set, but empty. Give it a value, or unset it.")
        if SECRET in environ and SECRET_FILE in environ:
            raise CredentialsError(f"{SECRET} and {SECRET_FILE} are both set. Unset one of them.")
        secret = None
        if SECRET in environ:
            secret = environ[SECRET].encode(errors="surrogateescape")
        elif SECRET_FILE in environ:
            secret = read_private(Path(environ[SECRET_FILE]))
        return cls(
            secret=None if secret is None else secret.rstrip(b"\r\n"),
            tls=Tls.load(Path(environ[TLS])) if TLS in environ else None,
        )

    def warning(self, addresses: Iterable[str]) -> str | None:
        """Return what to warn of: that other machines reach the tasks, and nothing protects them.

        Args:
            addresses: Those that the tasks listen at, ``host:port`` each.

        Returns:
            A sentence that names the remedy; None if there are credentials, or all addresses are of loopback.
        """
        if self.secret is not None or self.tls is not None:
            return None
        exposed = next((address for address in addresses if not _is_loopback(address)), None)
        if exposed is None:
            return None
        return (
            f"Whoever reaches the tasks of this job, such as the one at {exposed}, may take part in it, for "
            f"it has no secret: give all its tasks the same {SECRET_FILE}, or start it with `muster run` or "
            "`muster manifest`, which make a secret for each job."
        )


# Those of a job in which nobody proves anything.
NO_CREDENTIALS = Credentials()


def make_secret() -> str:
    """Return a new secret for a job: 256 random bits, in hexadecimal digits."""
    return secrets.token_hex(32)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]").removesuffix(".").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
