"""A server and its workers over real sockets."""

import contextlib
import http.server
import logging
import socket
import struct
import threading
import time

import numpy as np
import pytest
from ps_job import SECS, Served, accepting, kept, served, worker
from ps_rows import AddingDevice, AddingFunction, added, as_buffer, filled

from certificates import Authority
from muster.__main__ import main
from muster._errors import (
    AuthenticationError,
    JobEndedError,
    MissingPeerError,
    ParameterServerError,
    StrayPeerError,
)
from muster.net import Connection, Credentials, Hello, Tls
from muster.net._greeting import CallerGreeting
from muster.ps import _messages as messages
from muster.ps._client import FirstValues
from muster.ps._flat_layout import FlatLayout
from muster.ps._messages import PURPOSE
from muster.ps._plan import Plan
from muster.ps._servers import Pushed, Servers
from muster.ps._wire import encode

PLAN = added(1000)


def flat(specs, value):
    return dict(zip(FlatLayout(specs).sizes, filled(specs, value), strict=True))


def initial(value, plan=PLAN):
    return [FirstValues(flat(plan.pulled, value), flat(plan.kept, 0.0))]


def pushed(value, plan=PLAN):
    return [Pushed(flat(plan.pushed, value))]


def first(pulled):
    return float(pulled[0].pulled["float32"][0])


def wait_for(condition):
    deadline = time.monotonic() + SECS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


class Fragile(Connection):
    """A connection that breaks before its next answer is received, once told to."""

    breaks = False

    def receive_into(self, buffers):
        if self.breaks:
            raise ConnectionResetError("cut by the test")
        return super().receive_into(buffers)


def fragile(server, task, made):
    """Dial so that the connections are in a list and can be broken."""
    call = server.dial(task)

    def dial(secs):
        connection = call(secs)
        made.append(Fragile(connection._sock))
        return made[-1]

    return dial


def test_a_job_of_a_chief_and_a_worker():
    with served() as server, worker(server, PLAN, "chief 0") as chief, worker(server, PLAN) as other:
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(first(other.pull_plans())))
        thread.start()
        chief.initialize(initial(1.0), step=10)
        thread.join()
        assert waiting == [1.0]
        ticket = other.take_ticket(13).number
        answer = other.push_and_pull(pushed(2.0), ticket=ticket, wants=True, max_steps=13)
        said = answer[0].answer
        assert (said.version, said.step, said.ticket) == (2, 11, 11)
        assert first(answer) == 3.0
        other.give_back_ticket()
        assert chief.take_ticket(13).number == 11
        _, everything = chief.read_all()[0]
        assert (everything.pulled["float32"][0], everything.kept["float32"][0]) == (3.0, 1.0)
        (counts,) = other.statistics()
        assert (counts.pushes, counts.version, sorted(counts.workers)) == (1, 2, ["chief 0", "worker 0"])
        chief.end()
        with pytest.raises(JobEndedError, match=r"ps 0 \(localhost:.* says that the chief has ended the job"):
            other.pull_plans()
        chief.close()
        other.close()
        server.service.join()


def ended(server):
    return server.service.between(lambda: server.machine.ended)


def test_a_chief_that_died_while_it_ended_the_job_ends_the_other_servers():
    with served() as told, served() as untold:
        with worker(told, PLAN, "chief 0") as chief:
            chief.end()
        with contextlib.closing(Servers([each.client(Plan(), "chief 0") for each in (told, untold)])) as all_:
            all_.end()
        assert ended(untold)


def test_servers_that_can_be_reached_are_told_of_the_end_before_one_that_cannot():
    def dial(secs):
        wait_for(lambda: ended(server))
        raise ConnectionRefusedError("nobody listens")

    with served() as server:
        clients = [server.client(Plan(), "chief 0", dialed=dial, secs=0.1), server.client(Plan(), "chief 0")]
        with (
            contextlib.closing(Servers(clients)) as both,
            pytest.raises(MissingPeerError, match="nobody listens"),
        ):
            both.end()


def test_who_has_heard_of_the_end_asks_no_other_server_which_may_be_gone():
    def dial(secs):
        raise ConnectionRefusedError("it is gone")

    with served() as told:
        with worker(told, PLAN, "chief 0") as chief:
            chief.end()
        clients = [told.client(PLAN, "worker 0"), told.client(PLAN, "worker 0", dialed=dial, secs=0.1)]
        with contextlib.closing(Servers(clients)) as both:
            for ask in (lambda: both.take_ticket(None), both.pull_plans, both.statistics):
                with pytest.raises(JobEndedError):
                    ask()


def test_over_tls(tmp_path):
    tls = Tls.load(Authority().make(tmp_path / "both", "localhost"))
    credentials = Credentials(secret=b"a secret of this job", tls=tls)
    plan = added(200_000)
    with served(credentials=credentials) as server:
        with worker(server, plan, dialed=server.dial("chief 0", credentials=credentials)) as one:
            assert "not the chief" in str(pytest.raises(ParameterServerError, one.end).value)
        dial = server.dial("chief 0", credentials=credentials)
        with worker(server, plan, "chief 0", dialed=dial) as chief:
            chief.initialize(initial(1.0, plan), step=0)
            answer = chief.push_and_pull(pushed(1.0, plan))
            np.testing.assert_array_equal(answer[0].pulled["float32"], 2.0)


def test_the_next_values_do_not_overwrite_those_in_use():
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        before = chief.pull_plans()
        after = chief.push_and_pull(pushed(1.0))
        assert (first(before), first(after)) == (1.0, 2.0)
        third = chief.pull_plans()
        assert third[0].pulled["float32"].ctypes.data == before[0].pulled["float32"].ctypes.data


def test_several_servers_are_asked_at_the_same_time():
    with served() as one, served() as two:
        servers = Servers([each.client(PLAN, "chief 0") for each in (one, two)])
        with contextlib.closing(servers):
            servers.join()
            servers.initialize(initial(1.0) + initial(2.0), step=0)
            ticket = servers.take_ticket(None).number
            answers = servers.push_and_pull(pushed(1.0) + pushed(1.0), ticket=ticket, wants=True)
            assert [float(each.pulled["float32"][-1]) for each in answers] == [2.0, 3.0]
            assert [each.answer.ticket for each in answers] == [1, None]


def test_values_are_never_torn():
    plan = added(100_000)
    torn, pulls = [], []
    with served() as server, worker(server, plan, "chief 0") as chief:
        chief.initialize(initial(0.0, plan), step=0)

        def train(index):
            with worker(server, plan, f"worker {index}") as one:
                for _ in range(15):
                    values = one.push_and_pull(pushed(1.0, plan))[0].pulled["float32"]
                    pulls.append(values[0])
                    torn.extend(values[values != values[0]][:1])

        threads = [threading.Thread(target=train, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not torn
        assert len(pulls) == 60
        assert first(chief.pull_plans()) == 60.0


def test_a_push_whose_answer_is_lost_is_applied_once(caplog):
    made = []
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(0.0), step=0)
        with worker(server, PLAN, dialed=fragile(server, "worker 0", made)) as one:
            one.push_and_pull(pushed(1.0))
            made[-1].breaks = True
            assert first(one.push_and_pull(pushed(1.0))) == 2.0
            made[-1].breaks = True
            assert first(one.pull_plans()) == 2.0
            assert first(one.push_and_pull(pushed(1.0))) == 3.0
        (counts,) = chief.statistics()
        assert (counts.pushes, len(made)) == (3, 3)
        assert counts.duplicates <= 1
    assert "connection to ps 0 (localhost:" in caplog.text


def test_a_connection_that_breaks_again_and_again(caplog):
    made = []
    with served() as server:
        call = fragile(server, "worker 0", made)

        def dial(secs):
            connection = call(secs)
            send = connection.send
            left = iter(range(1 if made[1:] else 2))  # what joining takes

            def send_some(buffers):
                if next(left, None) is None:
                    raise BrokenPipeError("cut by the test")
                return send(buffers)

            connection.send = send_some
            return connection

        with worker(server, PLAN, dialed=dial, secs=1.0) as one:
            with pytest.raises(MissingPeerError, match="has not answered within 1 s: "):
                one.pull_plans()
    assert 3 <= len(made) <= 12
    assert caplog.text.count("is broken") == 1


def test_a_push_that_is_cut_off_is_applied_once():
    plan = added(500_000)
    made = []
    with served() as server, worker(server, plan, "chief 0") as chief:
        chief.initialize(initial(0.0, plan), step=0)
        with worker(server, plan, dialed=fragile(server, "worker 0", made)) as one:
            send = made[0].send

            def cut(buffers):
                made[0].send = lambda buffers: (_ for _ in ()).throw(BrokenPipeError("cut by the test"))
                return send([buffers[0], buffers[1][:1000]])

            made[0].send = cut
            assert first(one.push_and_pull(pushed(1.0, plan))) == 1.0
        (counts,) = chief.statistics()
        assert (counts.pushes, counts.duplicates) == (1, 0)


def test_a_worker_that_is_gone_gives_its_ticket_back():
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(0.0), step=0)
        with worker(server, PLAN) as one:
            assert one.take_ticket(1).number == 0
        assert chief.take_ticket(1).number == 0


def test_a_request_that_is_refused_leaves_the_others_alone():
    with served() as server, worker(server, PLAN, "chief 0") as chief, worker(server, PLAN) as one:
        chief.initialize(initial(1.0), step=0)
        with pytest.raises(ParameterServerError, match="refuses this task: it is not the chief"):
            one.initialize(initial(9.0), step=0)
        other = added(999)
        with pytest.raises(ParameterServerError, match="its plan differs .* pulled array a "):
            server.client(other, "worker 1").join()
        assert first(one.push_and_pull(pushed(1.0))) == 2.0
        assert first(chief.push_and_pull(pushed(1.0))) == 3.0


def test_a_push_of_another_size_is_refused_while_it_is_sent():
    big = added(2_000_000)
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        with worker(server, PLAN) as one:
            client = one._clients[0]
            client.send(messages.Push(number=1), filled(big.pushed, 1.0))
            with pytest.raises(
                ParameterServerError, match="4000 of float32|8000000 of float32; the plan has"
            ):
                client.receive()
            assert first(one.push_and_pull(pushed(1.0))) == 2.0  # over another connection


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 100,
        struct.pack("!I", 1 << 31),
        struct.pack("!I", 5) + b"\xc1\xc1\xc1\xc1\xc1",
        struct.pack("!I", 2) + b"\x93\x01",
        bytes(encode(messages.Pull(), ())[0]),
        bytes(encode(messages.Push(number=1), [np.zeros(1 << 20, np.int8)])[0]),
        bytes(encode(messages.Joined(known=True, initialized=True, sequence=1, version=1), ())[0]),
    ],
)
def test_malformed_and_oversized_frames_end_their_connection(sent, caplog):
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        with server.dial("worker 9")(SECS) as connection:
            connection.send_all([sent], time.monotonic() + SECS)
            said = b""
            while not said.endswith(b"\xa7buffers\x90") and b"refused" not in said:
                said += connection.wait_for_data(1 << 16, time.monotonic() + SECS)
            assert b"refused" in said
        assert first(chief.push_and_pull(pushed(1.0))) == 2.0
    assert "ps 0 refuses worker 9 at 127.0.0.1: " in caplog.text


def test_random_bytes_leave_the_server_up():
    rng = np.random.default_rng(7)
    good = b"".join(map(bytes, encode(messages.Push(number=1), filled(PLAN.pushed, 1.0))))
    with served() as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        for turn in range(60):
            data = bytearray(good[:200] if turn % 2 else rng.bytes(200))
            for place in rng.integers(0, len(data), 5):
                data[place] = rng.integers(256)
            with server.dial(f"worker {turn}")(SECS) as connection, contextlib.suppress(OSError):
                connection.send_all([data], time.monotonic() + SECS)
        wait_for(lambda: len(server.service._peers) == 1)
        assert first(chief.push_and_pull(pushed(1.0))) == 2.0


def test_who_does_not_read_holds_nobody_up():
    plan = added(1_000_000)
    with served() as server, worker(server, plan, "chief 0") as chief:
        chief.initialize(initial(0.0, plan), step=0)
        slow = server.client(plan, "worker 0")
        slow.join()
        slow.send(messages.Pull())
        for turn in range(3):
            assert first(chief.push_and_pull(pushed(1.0, plan))) == turn + 1.0
        late = slow.pulled().pulled["float32"]
        assert set(np.unique(late)) == {0.0}  # what it was when it was asked for, whole
        slow.close()


def test_a_worker_that_starts_before_its_server(caplog):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    found = []
    client = Served(None, None, f"localhost:{port}").client(PLAN, "worker 0")
    thread = threading.Thread(target=lambda: found.append(client.join()))
    with caplog.at_level(logging.INFO, "muster.ps"):
        thread.start()
        wait_for(lambda: "cannot be reached" in caplog.text)
        with served(port=port):
            thread.join(SECS)
    client.close()
    assert found[0].known
    assert caplog.text.count(f"ps 0 (localhost:{port}) cannot be reached") == 1
    assert "was reached after" in caplog.text


def test_something_else_at_the_address_of_a_server():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        client = Served(None, None, f"localhost:{stranger.getsockname()[1]}").client(PLAN, "worker 0")

        def greet():
            sock, _ = stranger.accept()
            sock.sendall(b"220 mail.example.org ready\r\n")
            sock.close()

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(StrayPeerError, match="cannot work with ps 0 .*: it is something else"):
            client.join()
        thread.join()


def test_a_web_server_at_the_address_of_a_server():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as stranger:
        client = Served(None, None, f"localhost:{stranger.server_port}").client(PLAN, "worker 0")
        thread = threading.Thread(target=stranger.serve_forever, args=(0.05,))
        thread.start()
        with pytest.raises(StrayPeerError, match=r"cannot work with ps 0 .*: it is something else: .*HTML"):
            client.join()
        stranger.shutdown()
        thread.join()


@pytest.mark.parametrize("secret", [None, b"the secret of another job"])
def test_a_worker_without_the_secret_is_told_so_and_brings_no_plan(secret):
    plans = []
    with served(plans.append, credentials=Credentials(secret=b"the secret of this job")) as server:
        dial = server.dial("chief 0", credentials=Credentials(secret=secret))
        with pytest.raises(AuthenticationError, match="cannot work with ps 0 .* the same MUSTER_SECRET"):
            server.client(PLAN, "chief 0", dialed=dial).join()
        # Nor if it goes on as though it had been let in.
        host, port = server.address.split(":")
        with socket.create_connection((host, int(port)), SECS) as sock, contextlib.suppress(ConnectionError):
            greeting = CallerGreeting(secret, Hello(purpose=PURPOSE, name="chief 0"))
            sock.sendall(greeting.start())
            join = messages.Join(plan="none", starts=True)
            sock.sendall(
                b"".join(map(bytes, (*encode(join, ()), *encode(messages.Offer(), as_buffer(PLAN)))))
            )
            while sock.recv(1 << 16):
                pass
        assert not server.service._peers
    assert not plans


def test_a_task_of_another_job_is_refused():
    with served(job="this job") as server:
        with pytest.raises(ParameterServerError, match="of job another, and this server of job this job"):
            server.client(PLAN, "chief 0", dialed=server.dial("chief 0", job="another")).join()
        with worker(server, PLAN, dialed=server.dial("worker 0", job="this job")) as one:
            assert one.statistics()[0].refused == 0


def test_a_server_that_does_not_answer_in_time_is_named():
    taken = []
    with accepting(lambda connection, hello: taken.append(connection)) as address, served() as server:
        server.address = address
        client = server.client(PLAN, "worker 0", secs=0.3)
        with pytest.raises(MissingPeerError, match=r"ps 0 \(localhost:\d+\) has not answered within 0.3 s"):
            client.join()
        for connection in taken:
            connection.close()


def test_a_server_that_comes_back_without_values_is_named():
    made = []
    with (
        served() as server,
        worker(server, PLAN, "chief 0", dialed=fragile(server, "chief 0", made)) as chief,
    ):
        chief.initialize(initial(1.0), step=0)
        chief.pull_plans()
        with served() as again:
            server.address = again.address
            made[-1].breaks = True
            with pytest.raises(
                ParameterServerError, match="ps 0 .* has no snapshot of the values that it had"
            ):
                chief.push_and_pull(pushed(1.0))


def test_a_worker_goes_on_where_training_has_begun_again(caplog):
    made = []
    with served() as server, served() as again, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        with worker(again, PLAN, "chief 0") as restarted:
            restarted.initialize(initial(1.0), step=0)
        with worker(server, PLAN, dialed=fragile(server, "worker 0", made)) as one:
            one.push_and_pull(pushed(1.0))
            server.address = again.address
            made[-1].breaks = True
            assert first(one.pull_plans()) == 1.0
            assert first(one.push_and_pull(pushed(1.0))) == 2.0
    assert "has other initial values now: training has begun again" in caplog.text


def test_an_update_that_fails_ends_the_server_with_its_error_and_leaves_what_led_to_it(
    caplog, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("MUSTER_TERMINATION_LOG", str(tmp_path / "ps-0.end"))

    class Failing(AddingFunction):
        def apply(self, values, pushed, rows, whole):
            raise MemoryError("no room")

    class FailingDevice(AddingDevice):
        def compile(self, function, held, tables):
            return Failing(function, held)

    with served(FailingDevice()) as server, worker(server, PLAN, "chief 0", secs=0.5) as chief:
        chief.initialize(initial(1.0), step=0)
        with pytest.raises(MissingPeerError):
            chief.push_and_pull(pushed(1.0))
        with pytest.raises(MemoryError, match="no room"):
            server.service.join()
    assert "ps 0 cannot go on" in caplog.text
    assert main(["replay", str(tmp_path / "ps-0.machine.events")]) == 0
    made, *shown = capsys.readouterr().out.splitlines()
    assert made.endswith(", line 1: the beginning")
    assert shown[0] == "    Machine('ps 0')"
    assert any(line.startswith("    Asked(Caller(task='chief 0'") and "Push(" in line for line in shown)
    assert shown[-2] == "  and then there was an error"
    assert shown[-1].endswith("it depends on arrays, which this log lacks.")


def test_workers_go_on_with_a_server_that_was_killed(tmp_path, caplog):
    made = []
    with (
        served(keeper=kept(tmp_path, 3)) as server,
        worker(server, PLAN, "chief 0", dialed=fragile(server, "chief 0", made)) as chief,
        worker(server, PLAN, dialed=fragile(server, "worker 0", made)) as one,
    ):
        chief.initialize(initial(1.0), step=5)
        origin = one.pull_plans()[0].answer.origin
        assert one.take_ticket(None).number == 5
        for turn in range(5):
            (answer,) = one.push_and_pull(pushed(1.0), ticket=5 + turn, wants=True)
            assert first([answer]) == 2.0 + turn
            if turn == 2:
                wait_for(lambda: (found := kept(tmp_path).find(origin)) and found.saved.version == 4)
        server.service.close()
        with served(keeper=kept(tmp_path, 3)) as again:
            server.address = again.address
            (answer,) = one.push_and_pull(pushed(1.0), ticket=10, wants=True)
            assert first([answer]) == 5.0
            assert answer.answer.step == 9
            assert one.statistics()[0].lost_updates == 2
            assert "ps 0 lost 2 updates" in caplog.text
            assert first(chief.pull_plans()) == 5.0
            chief.end()
            wait_for(lambda: not tmp_path.exists())


def test_a_disk_that_is_full_while_a_snapshot_is_written(tmp_path, caplog):
    folder = tmp_path / "folder"
    folder.write_text("")  # it cannot be made there
    with (
        caplog.at_level(logging.INFO),
        served(keeper=kept(folder, 1)) as server,
        worker(server, PLAN, "chief 0") as chief,
    ):
        chief.initialize(initial(1.0), step=0)
        assert "A change of this server's variables cannot be written" in caplog.text
        chief.push_and_pull(pushed(1.0))
        wait_for(lambda: "A snapshot of this server cannot be written" in caplog.text)
        folder.unlink()
        chief.push_and_pull(pushed(1.0))
        wait_for(lambda: "can be written again" in caplog.text)
        assert first(chief.push_and_pull(pushed(1.0))) == 4.0


def test_a_server_that_was_killed_learns_from_others_what_to_restore(tmp_path):
    """A worker that knows nothing yet joins one server that goes on, and one that was started again."""

    with served(keeper=kept(tmp_path / "0", 1)) as zero, served(keeper=kept(tmp_path / "1", 1)) as one:
        with contextlib.closing(
            Servers([zero.client(PLAN, "chief 0"), one.client(PLAN, "chief 0")])
        ) as chief:
            chief.join()
            chief.initialize(initial(1.0) * 2, step=0)
            chief.push_and_pull(pushed(1.0) * 2)
        one.service.close()
        with served(keeper=kept(tmp_path / "1", 1)) as again:
            clients = [zero.client(PLAN, "chief 0", run="2"), again.client(PLAN, "chief 0", run="2")]
            with contextlib.closing(Servers(clients)) as chief:
                assert all(each.initialized for each in chief.join())
                assert [first([each]) for each in chief.pull_plans()] in ([2.0, 2.0], [2.0, 1.0])


def test_a_server_that_stands_still_is_named(monkeypatch, caplog):
    monkeypatch.setattr("muster.ps._retrying_connection._QUIET_SECS", 0.05)
    with served() as server, worker(server, PLAN) as one, worker(server, PLAN, "chief 0") as chief:
        thread = threading.Thread(target=one.pull_plans)
        thread.start()
        wait_for(lambda: "has not answered for 0 s" in caplog.text)
        chief.initialize(initial(1.0), step=0)
        thread.join()
    assert caplog.text.count("ps 0") == 2
    assert "answers again" in caplog.text


def test_a_server_that_leaves_serves_until_the_workers_have_gone():
    with served() as server:
        with worker(server, PLAN, "chief 0") as chief:
            chief.initialize(initial(1.0), step=0)
            server.service.leave()
            assert first(chief.push_and_pull(pushed(1.0))) == 2.0
            assert first([chief.read_all()[0][1]]) == 2.0
            assert server.service._thread.is_alive()
        server.service.join()


def test_a_server_reports_what_it_has_counted():
    reports = []
    with served(report=reports.append) as server, worker(server, PLAN, "chief 0") as chief:
        chief.initialize(initial(1.0), step=0)
        chief.push_and_pull(pushed(1.0))
        wait_for(lambda: reports and reports[-1].pushes == 1)
        assert reports[-1].pulls == 1
