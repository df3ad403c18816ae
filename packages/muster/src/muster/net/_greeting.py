"""The handshake of a connection, without sockets: names the caller and purpose, and proves the secret.

```text
caller                                      listener
MAGIC, Hello(purpose, name, callee, job, nonce) ->
                                         <- MAGIC, Challenge(nonce)
Proof(HMAC of both nonces and the Hello) ->
                                         <- Welcome(HMAC of the same, under another label)
```

The caller proves first, so that a stranger learns nothing from a listener. Without a secret the proofs are
empty. Where one side has a secret and the other has none, both end with an error that says so.
"""

import hmac
import secrets
from collections.abc import Container
from typing import Any

import msgspec

from muster._errors import AuthenticationError
from muster._text import printable_line
from muster.net._frames import FrameBuffer, ProtocolError, decode_message, encode_frame

VERSION = 5
# What either side sends first: a name, the protocol's version, and a line end, so that servers of text
# protocols answer at once, and are found out.
_NAME = b"muster"
MAGIC = _NAME + bytes([VERSION]) + b"\n"
# The longest message of a greeting, in bytes: a stranger makes a task keep no more.
MAX_MESSAGE = 1 << 12
_NONCE = 32
_SHOWN = 60
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")

ADVICE = (
    "Give all tasks of a job the same MUSTER_SECRET or MUSTER_SECRET_FILE, as `muster run` and "
    "`muster manifest` do"
)


class Hello(msgspec.Struct, tag="hello", frozen=True, kw_only=True):
    """The first message of a caller.

    Args:
        purpose: What the connection is for, such as ``"roster"``.
        name: The task that calls; empty for one who is no task.
        callee: The task that it means to call; empty for any.
        job: The id of its job.
        run: The random id of its process.
        to: That of the process of the callee; empty for any.
        nonce: Random bytes.
        proves: Whether the caller has a secret.
    """

    purpose: str
    name: str = ""
    callee: str = ""
    job: str = ""
    run: str = ""
    to: str = ""
    nonce: bytes = b""
    proves: bool = False


class _Challenge(msgspec.Struct, tag="challenge", frozen=True):
    nonce: bytes
    proves: bool


class _Proof(msgspec.Struct, tag="proof", frozen=True):
    mac: bytes


class _Welcome(msgspec.Struct, tag="welcome", frozen=True):
    mac: bytes


class _Refusal(msgspec.Struct, tag="refusal", frozen=True):
    text: str


_ANSWERS: Any = _Challenge | _Welcome | _Refusal


class _Greeting:
    """Reads the magic bytes and then the messages of the other side; base of both sides' machines."""

    def __init__(self, secret: bytes | None) -> None:
        self._secret = secret
        self._nonce = secrets.token_bytes(_NONCE)
        self._start = b""
        self._frames = FrameBuffer(MAX_MESSAGE)
        self.done = False

    def _messages(self, data: bytes) -> list[bytes]:
        if self._start != MAGIC:
            data = self._start + data
            _check_magic(data)
            self._start, data = data[: len(MAGIC)], data[len(MAGIC) :]
        return self._frames.feed(data)

    def _mac(self, label: bytes, hello: bytes, nonce: bytes) -> bytes:
        """Return the proof of one side, for a packed hello; empty without a secret."""
        if self._secret is None:
            return b""
        return hmac.digest(self._secret, label + nonce + hello, "sha256")


class ListenerGreeting(_Greeting):
    """Greets one caller: takes received bytes, and returns the bytes to send.

    Args:
        secret: The job's secret; None takes any caller that has none either.
        purposes: What this task serves.
        name: The name of this task; empty takes callers of any.

    Attributes:
        hello: What the caller said; use it only if `done`.
        done: Whether the caller has proved itself.
    """

    def __init__(self, secret: bytes | None, purposes: Container[str], name: str = "") -> None:
        super().__init__(secret)
        self._purposes = purposes
        self._name = name
        self._packed = b""
        self.hello: Hello | None = None
        self._answered = False

    def refuse(self, text: str) -> bytes:
        """Return the last words to a caller that is not taken, before or after it has proved itself."""
        return (b"" if self._answered else MAGIC) + encode_frame(_Refusal(text))

    def feed(self, data: bytes) -> bytes:
        """Take received bytes, and return the answer.

        Raises:
            ProtocolError: It is no caller of this protocol.
            AuthenticationError: The caller does not prove that it knows the secret, or has another version.
        """
        answer = b""
        for packed in self._messages(data):
            if self.done:
                raise ProtocolError("it sends more than a greeting")
            answer += self._answer(packed)
        if self.done and not self._frames.empty:
            raise ProtocolError("it sends more than a greeting")
        return answer

    def _answer(self, packed: bytes) -> bytes:
        if self.hello is None:
            self.hello, self._packed = decode_message(packed, Hello), packed
            if self.hello.proves != (self._secret is not None):
                if self._secret is None:
                    raise AuthenticationError(f"the caller has a secret, and this task has none. {ADVICE}")
                raise AuthenticationError(f"the caller has no secret, and this task has one. {ADVICE}")
            if len(self.hello.nonce) != _NONCE:
                raise ProtocolError("its nonce is too short")
            self._answered = True
            return MAGIC + encode_frame(_Challenge(self._nonce, self._secret is not None))
        proof = decode_message(packed, _Proof)
        if not hmac.compare_digest(proof.mac, self._mac(b"caller", self._packed, self._nonce)):
            raise AuthenticationError(f"the caller has another secret than this task. {ADVICE}")
        if self._secret is not None and self._name and self.hello.callee not in ("", self._name):
            # Or whoever waits at the address of a task could pass its calls on, and be taken for both ends.
            raise AuthenticationError(f"the caller means {self.hello.callee!r}, and this is {self._name!r}")
        if self.hello.purpose not in self._purposes:
            raise ProtocolError(f"the caller wants {self.hello.purpose!r}, which this task does not serve")
        self.done = True
        return encode_frame(_Welcome(self._mac(b"listener", self._packed, self._nonce)))


class CallerGreeting(_Greeting):
    """Greets a listener: takes received bytes, and returns the bytes to send.

    Args:
        secret: The job's secret; None if it has none.
        hello: What the connection is for, and who calls.

    Attributes:
        done: Whether the listener has proved itself, and takes this caller.
    """

    def __init__(self, secret: bytes | None, hello: Hello) -> None:
        super().__init__(secret)
        hello = msgspec.structs.replace(hello, nonce=self._nonce, proves=secret is not None)
        self._packed = msgspec.msgpack.encode(hello)
        self._challenge: _Challenge | None = None

    @property
    def wanted(self) -> int:
        """The number of bytes to receive next, none of them after the greeting.

        Nothing follows a challenge before it is answered; and the more is read before, the more can be shown
        of what is no greeting.
        """
        return MAX_MESSAGE if self._challenge is None else self._frames.wanted

    def start(self) -> bytes:
        """Return the bytes to send first."""
        return MAGIC + encode_frame(msgspec.Raw(self._packed))

    def feed(self, data: bytes) -> bytes:
        """Take received bytes, and return the answer.

        Raises:
            ProtocolError: What answers does not speak this protocol.
            AuthenticationError: It refuses this caller, does not prove that it knows the secret, or has
                another version.
        """
        answer = b""
        for packed in self._messages(data):
            answer += self._answer(packed)
        return answer

    def _answer(self, packed: bytes) -> bytes:
        match message := decode_message(packed, _ANSWERS):
            case _Refusal(text):
                raise AuthenticationError(f"it says: {printable_line(text)}")
            case _Challenge(nonce, proves) if self._challenge is None:
                if proves != (self._secret is not None):
                    raise AuthenticationError(f"one of the two has a secret. {ADVICE}")
                self._challenge = message
                return encode_frame(_Proof(self._mac(b"caller", self._packed, nonce)))
            case _Welcome(mac) if self._challenge is not None and not self.done:
                expected = self._mac(b"listener", self._packed, self._challenge.nonce)
                if not hmac.compare_digest(mac, expected):
                    raise AuthenticationError(f"it does not know this job's secret. {ADVICE}")
                self.done = True
                return b""
        raise ProtocolError(f"it sends {packed[:_SHOWN]!r}")


def _check_magic(data: bytes) -> None:
    """Check the first bytes of a peer, as far as they have come."""
    start = data[: len(MAGIC)]
    if MAGIC.startswith(start):
        return
    if start[:2] in _TLS_RECORDS or start in (b"\x15", b"\x16"):
        raise ProtocolError("it speaks TLS, and this task does not: set MUSTER_TLS in all tasks, or in none")
    if b'{"muster"'.startswith(start):
        raise AuthenticationError(
            f"it speaks an older version of muster's protocol, and this task version {VERSION}: install the "
            "same muster everywhere"
        )
    if start.startswith(_NAME) and start[len(_NAME) + 1 :] in (b"", b"\n"):
        raise AuthenticationError(
            f"it speaks version {start[len(_NAME)]} of muster's protocol, and this task version {VERSION}: "
            "install the same muster everywhere"
        )
    raise ProtocolError(f"it sends {data[:_SHOWN]!r}")
