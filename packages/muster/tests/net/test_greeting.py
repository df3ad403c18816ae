"""Greetings, without sockets: who knows the secret comes in, and nobody else."""

import contextlib
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster._errors import AuthenticationError
from muster.net import Hello, ProtocolError, encode_frame
from muster.net._greeting import MAGIC, MAX_MESSAGE, CallerGreeting, ListenerGreeting

SECRET = b"a secret of the job"
HELLO = Hello(purpose="roster", name="worker 1", job="job", run="one", to="zero")


def talk(caller, listener):
    """Let two greetings talk until one is done or raises; return all that was said."""
    said = [caller.start()]
    for side in itertools.cycle([listener, caller]):
        if answer := side.feed(said[-1]):
            said.append(answer)
        else:
            return said


@pytest.mark.parametrize("secret", [None, SECRET])
def test_those_who_know_the_secret_come_in(secret):
    caller, listener = CallerGreeting(secret, HELLO), ListenerGreeting(secret, ["roster"])
    talk(caller, listener)
    assert caller.done
    assert listener.done
    assert (listener.hello.purpose, listener.hello.name, listener.hello.run) == ("roster", "worker 1", "one")


@given(st.lists(st.integers(0, 200), max_size=6))
def test_it_does_not_matter_how_bytes_are_cut(cuts):
    caller, listener = CallerGreeting(SECRET, HELLO), ListenerGreeting(SECRET, ["roster"])
    data = caller.start()
    for side in itertools.cycle([listener, caller]):
        ends = sorted(min(cut, len(data)) for cut in cuts)
        data = b"".join(side.feed(data[a:b]) for a, b in itertools.pairwise([0, *ends, len(data)]))
        if not data:
            break
    assert caller.done
    assert listener.done


def test_the_secret_is_never_said():
    assert SECRET not in b"".join(talk(CallerGreeting(SECRET, HELLO), ListenerGreeting(SECRET, ["roster"])))


@pytest.mark.parametrize(
    ("callers", "listeners", "says"),
    [
        (None, SECRET, "the caller has no secret, and this task has one"),
        (SECRET, None, "the caller has a secret, and this task has none"),
        (b"another secret", SECRET, "the caller has another secret than this task"),
    ],
)
def test_others_are_refused_and_told_why(callers, listeners, says):
    caller, listener = CallerGreeting(callers, HELLO), ListenerGreeting(listeners, ["roster"])
    with pytest.raises(AuthenticationError, match=says) as raised:
        talk(caller, listener)
    assert "MUSTER_SECRET" in str(raised.value)
    assert not listener.done
    with pytest.raises(AuthenticationError, match=f"the connection is refused: {says}"):
        caller.feed(listener.refuse(f"the connection is refused: {raised.value}"))


def test_a_listener_must_know_the_secret_too():
    class Impostor(ListenerGreeting):
        def _mac(self, label, hello, nonce):
            return super()._mac(b"caller", hello, nonce)  # what it was sent itself

    caller = CallerGreeting(SECRET, HELLO)
    with pytest.raises(AuthenticationError, match="it does not know this job's secret"):
        talk(caller, Impostor(SECRET, ["roster"]))
    assert not caller.done


def test_a_recording_opens_nothing():
    said = talk(CallerGreeting(SECRET, HELLO), ListenerGreeting(SECRET, ["roster"]))
    listener = ListenerGreeting(SECRET, ["roster"])
    listener.feed(said[0])
    with pytest.raises(AuthenticationError, match="another secret"):
        listener.feed(said[2])
    assert not listener.done


def test_a_call_that_is_passed_on_to_another_task_is_refused():
    hello = msgspec.structs.replace(HELLO, callee="worker 2")
    talk(CallerGreeting(SECRET, hello), ListenerGreeting(SECRET, ["roster"], "worker 2"))
    with pytest.raises(AuthenticationError, match="the caller means 'worker 2', and this is 'worker 0'"):
        talk(CallerGreeting(SECRET, hello), ListenerGreeting(SECRET, ["roster"], "worker 0"))
    with pytest.raises(AuthenticationError, match="another secret"):  # what it means is told to nobody else
        talk(CallerGreeting(b"a stranger's guess", hello), ListenerGreeting(SECRET, ["roster"], "worker 0"))


def test_what_a_caller_says_of_itself_is_part_of_the_proof():
    caller, listener = CallerGreeting(SECRET, HELLO), ListenerGreeting(SECRET, ["roster"])
    changed = caller.start().replace(b"worker 1", b"worker 0")
    with pytest.raises(AuthenticationError, match="another secret"):
        listener.feed(caller.feed(listener.feed(changed)))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "it sends b'G"),
        (b"\x16\x03\x01\x02\x00", "it speaks TLS"),
        (b'{"muster":1}', "an older version"),
        (MAGIC[:6] + b"\x09\n", "version 9 of muster's protocol, and this task version"),
        (MAGIC + b"\xff\xff\xff\xff", f"and {MAX_MESSAGE} are allowed"),
        (MAGIC + b"\0\0\0\1\xc1", "it sends b"),
        (MAGIC + encode_frame({"type": "proof", "mac": b""}), "it sends b"),
        (MAGIC + encode_frame(Hello(purpose="x", nonce=b"short", proves=True)), "nonce is too short"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_other_bytes_are_named(data, says, size):
    listener = ListenerGreeting(SECRET, ["roster"])

    def feed():
        for start in range(0, len(data), size):
            listener.feed(data[start : start + size])

    with pytest.raises((ProtocolError, AuthenticationError)) as raised:
        feed()
    assert says in str(raised.value)


def test_a_purpose_that_is_not_served_is_told_to_those_who_know_the_secret():
    hello = msgspec.structs.replace(HELLO, purpose="other")
    for secret, error in ((SECRET, ProtocolError), (b"a guess of a stranger", AuthenticationError)):
        with pytest.raises(error, match="'other', which this task does not serve|another secret"):
            talk(CallerGreeting(secret, hello), ListenerGreeting(SECRET, ["roster"]))


def test_a_caller_asks_for_no_more_than_the_greeting():
    caller, listener = CallerGreeting(SECRET, HELLO), ListenerGreeting(SECRET, ["roster"])
    stream = listener.feed(caller.start())
    proof = b""
    while not caller.done:
        wanted = caller.wanted
        assert wanted > 0
        proof += caller.feed(stream[:wanted])
        stream = stream[wanted:]
        if proof and not stream:
            stream, proof = listener.feed(proof) + b"what follows", b""
    assert stream == b"what follows"


def test_nothing_comes_behind_a_greeting_before_it_is_answered():
    caller, listener = CallerGreeting(None, HELLO), ListenerGreeting(None, ["roster"])
    proof = caller.feed(listener.feed(caller.start()))
    with pytest.raises(ProtocolError, match="more than a greeting"):
        listener.feed(proof + b"x")


@given(st.lists(st.binary(max_size=40), max_size=5), st.booleans())
def test_no_bytes_open_a_door_that_is_locked(pieces, magic):
    listener = ListenerGreeting(SECRET, ["roster"])
    with contextlib.suppress(ProtocolError, AuthenticationError):
        for piece in [MAGIC if magic else b"", *pieces]:
            listener.feed(piece)
    assert not listener.done


def test_a_refusal_is_one_line():
    with pytest.raises(AuthenticationError, match=r"no\\nCRITICAL: all is lost"):
        CallerGreeting(None, HELLO).feed(ListenerGreeting(None, []).refuse("no\nCRITICAL: all is lost"))
