"""Listening at a task's address, and querying the status of the task at an address."""

import errno
import socket
import time

from muster._errors import AddressInUseError, AuthenticationError, RosterError, StrayPeerError
from muster.cluster._cluster_spec import Task
from muster.cluster.roster import _roster_messages as messages
from muster.net import NO_CREDENTIALS, Credentials, FrameBuffer, Hello, ProtocolError, dial, listen

_CHUNK = 1 << 16
# How long an occupied address may take to say who occupies it, in seconds.
_OCCUPANT_SECS = 2.0


def listen_as(task: Task, address: str, credentials: Credentials) -> list[socket.socket]:
    """Listen at a task's address, exclusively.

    Args:
        task: The task, for messages.
        address: ``"host:port"``.
        credentials: Those of the job, to ask who listens there already.

    Raises:
        AddressInUseError: Another process listens there; names it.
        RosterError: This process may not listen there.
    """
    try:
        return listen(address)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise AddressInUseError(
                f"{task} cannot listen at its address {address}: {_occupant(task, address, credentials)}. "
                "End that process, or give this job other ports in TF_CONFIG."
            ) from exc
        raise RosterError(f"{task} cannot listen at its address {address}: {exc}.") from exc


def query_status(
    address: str,
    timeout_secs: float,
    credentials: Credentials = NO_CREDENTIALS,
    *,
    task: Task | None = None,
    stacks: bool = False,
) -> messages.Status:
    """Query the status of the task at an address.

    Args:
        address: ``"host:port"``.
        timeout_secs: How long to wait for an answer, in seconds.
        credentials: Those of the job.
        task: The task that should be there, if there is a secret; None for any.
        stacks: Whether to ask for the stacks of its threads.

    Raises:
        AuthenticationError: The task belongs to another job, or this process cannot prove that it belongs to
            that one.
        StrayPeerError: What answers is not a task of muster.
        TimeoutError: No answer came in time.
        OSError: Nothing listens there, the host is unknown, or the connection broke off.
    """
    deadline = time.monotonic() + timeout_secs
    frames = FrameBuffer(messages.MAX_NEWS)
    try:
        hello = Hello(purpose=messages.PURPOSE, callee="" if task is None else str(task))
        with dial(address, hello, credentials, timeout_secs) as connection:
            question = messages.RosterHello(watch=False, stacks=stacks)
            connection.send_all([messages.encode_hello(question)], deadline)
            while data := connection.wait_for_data(_CHUNK, deadline):
                for message in frames.feed(data):
                    status = messages.decode_news(message)
                    if isinstance(status, messages.Status):
                        return status
                    raise ProtocolError("it does not say who it is")
            raise ConnectionResetError("end of the connection")
    except AuthenticationError as exc:
        raise AuthenticationError(f"The task at {address} gives this process no answer: {exc}.") from exc
    except (ProtocolError, StrayPeerError) as exc:
        raise StrayPeerError(f"What answers at {address} is not a task of muster: {exc}.") from exc
    except (ConnectionResetError, BrokenPipeError) as exc:
        # Which of them it is depends on whether it has read the question.
        raise ConnectionResetError(errno.ECONNRESET, "it breaks off the connection") from exc
    except TimeoutError as exc:
        raise TimeoutError(f"What listens at {address} did not answer within {timeout_secs:g} s.") from exc


def _occupant(task: Task, address: str, credentials: Credentials) -> str:
    try:
        status = query_status(address, _OCCUPANT_SECS, credentials, task=task)
    except AuthenticationError as exc:
        return f"it is in use, and a call there fails: {exc.__cause__}"
    except StrayPeerError:
        return "it is in use, by something that is not muster"
    except TimeoutError:
        return "it is in use, by something that does not answer"
    except OSError as exc:
        return f"it is in use, and nothing answers there ({exc.strerror or exc})"
    return f"there is {status} already, which is {status.state}"
