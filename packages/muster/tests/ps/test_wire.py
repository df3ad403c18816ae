"""Messages and their buffers are received whole, in whatever pieces they come."""

import contextlib
import socket

import numpy as np
import pytest

from muster.net import Connection, ProtocolError
from muster.ps import _messages as messages
from muster.ps._flat_layout import allocate
from muster.ps._wire import MAX_HEADER, Incoming, encode

SMALL = [np.arange(5, dtype=np.float32), np.zeros(0, np.int64), np.arange(3, dtype=np.int64)]
LARGE = [np.arange(100_000, dtype=np.float32), np.arange(7, dtype=np.uint8)]


@contextlib.contextmanager
def incoming(shows=messages.shows_texts):
    """What receives, and a socket that sends to it."""
    here, there = socket.socketpair()
    with Connection(here) as connection, there:
        places = lambda message, sizes: [allocate(size, np.dtype(name)) for name, size in sizes]  # noqa: E731
        yield Incoming(connection, messages.Header, places, shows), there


def sent(message, arrays):
    return b"".join(encode(message, arrays))


def require(received, message, arrays):
    assert received[0] == message
    assert [each.dtype for each in received[1]] == [each.dtype for each in arrays]
    for one, other in zip(received[1], arrays, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("piece", [1, 3, 40, 1 << 20])
def test_pieces_of_any_size(piece):
    push = messages.Push(number=3, counts=(1,))
    data = sent(push, SMALL)
    with incoming() as (receiver, sender):
        for start in range(0, len(data), piece):
            with pytest.raises(BlockingIOError):
                receiver.receive()
            sender.sendall(data[start : start + piece])
        require(receiver.receive(), push, SMALL)
        assert not receiver.has_more


def test_several_messages_at_once():
    first, second = messages.Push(number=3), messages.GiveBack()
    with incoming() as (receiver, sender):
        sender.sendall(sent(first, SMALL) + sent(second, []) + sent(first, [])[:10])
        require(receiver.receive(), first, SMALL)
        assert receiver.has_more
        require(receiver.receive(), second, [])
        with pytest.raises(BlockingIOError):
            receiver.receive()
        sender.sendall(sent(first, [])[10:])
        require(receiver.receive(), first, [])


def test_more_than_one_piece_holds():
    push = messages.Push(number=3)
    data = sent(push, LARGE) + sent(push, SMALL)
    with incoming() as (receiver, sender):
        sender.setblocking(False)
        received = []
        while len(received) < 2:
            with contextlib.suppress(BlockingIOError):
                data = data[sender.send(data) :] if data else data
            with contextlib.suppress(BlockingIOError):
                received.append(receiver.receive())
        require(received[0], push, LARGE)
        require(received[1], push, SMALL)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ((MAX_HEADER + 1).to_bytes(4, "big"), f"a message of {MAX_HEADER + 1} bytes"),
        (b"\0\0\0\x02\xff\xff", "it sends b'"),
        (sent({"type": "nonsense"}, []), "it sends b'"),
    ],
)
def test_something_else(data, text):
    with incoming() as (receiver, sender):
        sender.sendall(data)
        with pytest.raises(ProtocolError, match=text):
            receiver.receive()


def test_texts_that_may_be_shown_are_safe():
    evil = messages.Refused(text="\x1b[2Jgone")
    with incoming() as (receiver, sender):
        receiver = Incoming(receiver._connection, messages.AnswerHeader, lambda *_: [], messages.shows_texts)
        sender.sendall(sent(evil, []))
        assert receiver.receive()[0].text == "\\x1b[2Jgone"
    members = messages.Round(1, ("worker \x1b[2J0",))
    with incoming() as (receiver, sender):
        sender.sendall(sent(messages.Push(number=1, round=members), []))
        assert receiver.receive()[0].round.members == ("worker \\x1b[2J0",)


def test_the_end_of_a_connection():
    with incoming() as (receiver, sender):
        sender.sendall(sent(messages.Push(number=1), SMALL)[:-1])
        sender.close()
        with pytest.raises(ConnectionResetError):
            receiver.receive()
