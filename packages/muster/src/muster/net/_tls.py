"""TLS between tasks: the contexts for both sides, and what their errors mean."""

import enum
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

from muster._errors import CredentialsError
from muster.net._private_files import read_private

# The names that cert-manager gives the files of its Secrets.
_AUTHORITY = "ca.crt"
_CERTIFICATE = "tls.crt"
_KEY = "tls.key"


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The certificates of a task, ready for connections: TLS 1.3, with certificates on both sides.

    Args:
        folder: Where they were read.
        server_context: For connections that others make to this task; demands a certificate of them.
        client_context: For connections that this task makes; checks that the certificate of the other side
            names the host that was asked for.
    """

    folder: Path
    server_context: ssl.SSLContext = field(repr=False)
    client_context: ssl.SSLContext = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the certificates of a folder, and check that they can be used.

        The folder has ``ca.crt``, the certificates of the authorities that are trusted, and no others are;
        ``tls.crt``, the certificate of this task, followed by those between it and the authority;
        and ``tls.key``, its private key, which others may not read: see `read_private`.

        Raises:
            CredentialsError: A file is missing or wrong, they do not fit each other, or have expired.
        """
        names = (_AUTHORITY, _CERTIFICATE, _KEY)
        missing = [name for name in names if not os.path.exists(folder / name)]
        if missing:
            raise CredentialsError(
                f"The folder of certificates {folder} must have {', '.join(names)}, and the user "
                f"{os.geteuid()} finds no {', no '.join(missing)} there. `muster keys` makes all three."
            )
        read_private(folder / _KEY)
        # Only to see that there are some: below, OpenSSL does not say which file is wrong.
        _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), folder / _CERTIFICATE)
        server, client = (
            _context(folder, side) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
        server.verify_mode = ssl.CERT_REQUIRED
        server.num_tickets = 0  # no session is ever resumed
        # The names in the certificate are for others to check: they know by which one they reach this task.
        client.check_hostname = False
        try:
            _shake_hands(server, client)
        except ssl.SSLCertVerificationError as exc:
            raise CredentialsError(_own_fault(folder, exc)) from exc
        except ssl.SSLError as exc:
            raise CredentialsError(_unusable(folder, exc)) from exc
        client.check_hostname = True
        return cls(folder=folder, server_context=server, client_context=client)


def explain_tls_error(exc: ssl.SSLError, peer: str) -> str:
    """Return in a sentence why a connection to another task failed in TLS, and what to do.

    Args:
        exc: What the handshake raised, or the first read after it: in TLS 1.3 a client only then learns that
            its certificate was not accepted.
        peer: The other side, as the sentence's first words.
    """
    if isinstance(exc, ssl.SSLCertVerificationError):
        unknown = f"that cannot be verified: {exc.verify_message} (OpenSSL's code {exc.verify_code})"
        return f"{peer} shows a certificate {_FAULTS.get(exc.verify_code, unknown)}."
    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return (
            f"{peer} has closed the connection in TLS's handshake: its log says why. Perhaps MUSTER_TLS is "
            "not set there."
        )
    if exc.reason in _ALERTS:
        return f"{peer} does not accept the certificate of this task: {_ALERTS[exc.reason]}."
    if exc.reason in _REASONS:
        return f"{peer} {_REASONS[exc.reason]}."
    return f"{peer} and this task could not agree on TLS: {exc.reason or exc}."


def is_plain(exc: ssl.SSLError) -> bool:
    """Return whether a handshake failed because the other side does not speak TLS."""
    return _REASONS.get(exc.reason) == _NO_TLS


class _Code(enum.IntEnum):
    """OpenSSL's codes of what is wrong with a certificate: X509_V_ERR_… in its x509_vfy.h."""

    UNABLE_TO_GET_ISSUER_CERT = 2
    CERT_SIGNATURE_FAILURE = 7
    CERT_NOT_YET_VALID = 9
    CERT_HAS_EXPIRED = 10
    DEPTH_ZERO_SELF_SIGNED_CERT = 18
    SELF_SIGNED_CERT_IN_CHAIN = 19
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY = 20
    UNABLE_TO_VERIFY_LEAF_SIGNATURE = 21
    INVALID_PURPOSE = 26
    HOSTNAME_MISMATCH = 62
    IP_ADDRESS_MISMATCH = 64


_OTHER_AUTHORITY = {
    _Code.UNABLE_TO_GET_ISSUER_CERT,
    _Code.CERT_SIGNATURE_FAILURE,
    _Code.DEPTH_ZERO_SELF_SIGNED_CERT,
    _Code.SELF_SIGNED_CERT_IN_CHAIN,
    _Code.UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
    _Code.UNABLE_TO_VERIFY_LEAF_SIGNATURE,
}

_RENEW = "make a new one, with `muster keys` or the authority that made it"
_NAME_HOSTS = "make one that names the host as it stands in TF_CONFIG: `muster keys FOLDER --hosts HOST`"
_ONE_AUTHORITY = "all tasks of a job need certificates of one authority, and its ca.crt"
_USAGES = "its extended key usage must be both server and client authentication"

# What is wrong with the certificate of a peer, and what to do.
_FAULTS: dict[int, str] = {
    **dict.fromkeys(_OTHER_AUTHORITY, f"of an authority that is not in this task's ca.crt: {_ONE_AUTHORITY}"),
    _Code.CERT_HAS_EXPIRED: f"that has expired, or whose authority's has: {_RENEW}",
    _Code.CERT_NOT_YET_VALID: "that is not valid yet: compare the clocks of both machines",
    _Code.HOSTNAME_MISMATCH: f"for other hosts: {_NAME_HOSTS}",
    _Code.IP_ADDRESS_MISMATCH: f"for other hosts: {_NAME_HOSTS}",
    _Code.INVALID_PURPOSE: f"for another purpose: {_USAGES}",
}

# What a peer says of the certificate of this task.
_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": f"its authority is not in the ca.crt there; {_ONE_AUTHORITY}",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"it has expired, or its authority's has; {_RENEW}",
    "SSLV3_ALERT_BAD_CERTIFICATE": f"it is for other hosts, or not valid yet there; {_NAME_HOSTS}",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"it is for another purpose; {_USAGES}",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "none was shown",
}

_NO_TLS = "does not speak TLS: set MUSTER_TLS for all tasks of the job, or for none"
_NO_TLS_1_3 = "does not speak TLS 1.3, as tasks of muster do: another program is at that address"
_REASONS = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "shows no certificate, and so is not a task of this job: set MUSTER_TLS for all tasks of the job"
    ),
    "UNSUPPORTED_PROTOCOL": _NO_TLS_1_3,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_TLS_1_3,
}

# What OpenSSL says of certificates that are well formed, and weaker than it allows.
_WEAK = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")


def _unusable(folder: Path, exc: ssl.SSLError) -> str:
    """Return that OpenSSL does not take the certificate of this task, or its authority's, and why."""
    return (
        f"OpenSSL does not take {folder / _CERTIFICATE}, or {folder / _AUTHORITY}: {exc.reason or exc}. Make "
        "a new one, with `muster keys` or the authority that made it."
    )


def _own_fault(folder: Path, exc: ssl.SSLCertVerificationError) -> str:
    """Return what is wrong with the certificate of this task."""
    certificate, authority = folder / _CERTIFICATE, folder / _AUTHORITY
    see = f"`openssl x509 -noout -dates -in {certificate}` shows from when to when it is valid"
    match exc.verify_code:
        case _Code.CERT_HAS_EXPIRED:
            return f"{certificate} has expired, or {authority} has. {see}; {_RENEW}."
        case _Code.CERT_NOT_YET_VALID:
            return f"{certificate} is not valid yet, or {authority} is not. {see}; set this machine's clock."
        case _Code.INVALID_PURPOSE:
            return f"{certificate} is for another purpose: {_USAGES}."
        case code if code in _OTHER_AUTHORITY:
            return (
                f"{certificate} was not made by the authority of {authority}. Take all files from one folder "
                "that `muster keys` has made, or from one Secret."
            )
    return f"{certificate} cannot be verified by {authority}: {exc.verify_message} (code {exc.verify_code})."


def _context(folder: Path, side: int) -> ssl.SSLContext:
    """Return a context for one side, with the authority and the certificate of a folder."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The authority may have a certificate of another one, which need not be there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load_authorities(context, folder / _AUTHORITY)
    key = folder / _KEY

    def ask_for_password() -> NoReturn:  # OpenSSL would ask at the terminal
        raise CredentialsError(
            f"{key} is encrypted, and nobody is there to type its password. Decrypt it, with `openssl pkey "
            f"-in {key}`, into a file that only you may read."
        )

    try:
        context.load_cert_chain(folder / _CERTIFICATE, key, password=ask_for_password)
    except ssl.SSLError as exc:
        # The second is for a key of another kind: the certificate is not taken, and the key has none.
        if exc.reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            raise CredentialsError(
                f"{key} is not the private key of {folder / _CERTIFICATE}. Take both from one place."
            ) from exc
        if exc.reason in _WEAK:
            raise CredentialsError(_unusable(folder, exc)) from exc
        raise CredentialsError(f"{key} holds no private key in PEM form. Put there that of tls.crt.") from exc
    return context


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as exc:
        raise CredentialsError(
            f"{path} holds no certificate in PEM form, or one that is damaged. Copy it anew."
        ) from exc
    except OSError as exc:
        raise CredentialsError(f"{path} cannot be read: {exc.strerror}. Let this user read it.") from exc


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Let both sides of a connection meet in memory, and raise what either finds wrong with the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
