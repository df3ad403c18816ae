"""A server's part of a checkpoint: of one instant, written beside the server's work, named if it fails."""

import contextlib
import errno
import json
import logging
import struct
import threading
import time

import pytest
from ps_job import SECS, accepting, kept, served, worker
from ps_rows import added, filled

from muster._errors import CheckpointError
from muster.net import NO_CREDENTIALS, Connection, Hello, dial, encode_frame
from muster.ps import (
    PURPOSE,
    FirstValues,
    PartRequest,
    PartRequests,
    PartWriter,
    Pushed,
    SavePart,
    _shard_snapshot,
    fingerprint,
)
from muster.ps import _part_messages as parts
from muster.ps._flat_layout import FlatLayout

PLAN = added(1000)
FILE = "variables-12345678-ps-0.safetensors"
TOKEN = "token"


class Serving:
    """A server with values, which writes into a folder."""

    def __init__(self, servers, address, folder, service=None):
        self.servers, self.address, self.folder, self.service = servers, address, folder, service

    def dial(self, secs):
        return dial(self.address, Hello(purpose=PURPOSE, name="chief 0", run="run"), NO_CREDENTIALS, secs)

    def request(
        self, name="ps 0", plan=PLAN, token=TOKEN, file=FILE, origin="", dialed=None, secs=SECS, write=SECS
    ):
        save = SavePart(
            plan=fingerprint(plan), origin=origin, folder=str(self.folder), token=token, file=file
        )
        return PartRequest(name, dialed or self.dial, save, reach_secs=secs, write_secs=write)

    def push(self, value):
        pushed = dict(zip(FlatLayout(PLAN.pushed).sizes, filled(PLAN.pushed, value), strict=True))
        return first(self.servers.push_and_pull([Pushed(pushed)]))

    @property
    def written(self):
        """The first value of each array in the file."""
        data = (self.folder / FILE).read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        return {
            name: struct.unpack_from("<f", data, 8 + length + entry["data_offsets"][0])[0]
            for name, entry in header.items()
        }


def first(pulled):
    return float(pulled[0].pulled["float32"][0])


@contextlib.contextmanager
def writer_of(server):
    writer = PartWriter(server.service, server.machine)
    with accepting(writer.serve) as address:
        yield address
    writer.close()


def initial():
    """Ones, in flat buffers, pulled and kept."""
    return FirstValues(
        *(
            dict(zip(FlatLayout(each).sizes, filled(each, 1.0), strict=True))
            for each in (PLAN.pulled, PLAN.kept)
        )
    )


@pytest.fixture
def saved(tmp_path):
    (tmp_path / TOKEN).touch()
    with served() as server, writer_of(server) as address, worker(server, PLAN, "chief 0") as servers:
        servers.initialize([initial()], 0)
        yield Serving(servers, address, tmp_path, server.service)


class Gate:
    """Holds what writes a part until it is opened."""

    def __init__(self, monkeypatch):
        self.reached, self.opened, self.times = threading.Event(), threading.Event(), 0
        self._write = _shard_snapshot.write_part
        monkeypatch.setattr(_shard_snapshot, "write_part", self)

    def __call__(self, *args):
        self.times += 1
        self.reached.set()
        assert self.opened.wait(SECS)
        return self._write(*args)


def test_a_part_is_of_one_instant_and_pushes_go_on_while_it_is_written(saved, monkeypatch):
    gate = Gate(monkeypatch)
    requests = PartRequests([saved.request()])
    assert requests.begin() == [True]
    assert gate.reached.wait(SECS)
    assert [saved.push(1.0) for _ in range(3)] == [2.0, 3.0, 4.0]
    gate.opened.set()
    (record,) = requests.wait()
    assert saved.written == {"a": 1.0, "b": 1.0, "count": 1.0}
    assert record.file.bytes == (saved.folder / FILE).stat().st_size
    assert saved.push(1.0) == 5.0


def test_nobody_writes_if_one_does_not_see_the_folder(saved):
    requests = PartRequests([saved.request(), saved.request("ps 1", token="another")])
    assert requests.begin() == [True, False]
    assert [path.name for path in saved.folder.iterdir()] == [TOKEN]
    assert saved.push(1.0) == 2.0


def test_a_full_disk_is_told_with_the_server_once_nobody_writes_any_more(saved, monkeypatch):
    other = FILE.replace("ps-0", "ps-1")
    write = _shard_snapshot.write_part

    def full(folder, file, arrays):
        if file == FILE:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(folder, file, arrays)

    monkeypatch.setattr(_shard_snapshot, "write_part", full)
    requests = PartRequests([saved.request(), saved.request("ps 1", file=other)])
    assert requests.begin() == [True, True]
    with pytest.raises(CheckpointError, match=r"^ps 0 has not written .*: No space left on device; \d+ b"):
        requests.wait()
    assert (saved.folder / other).exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"plan": added(3)}, "its plan differs"),
        ({"file": "../else.safetensors"}, "not the name of a data file"),
    ],
)
def test_what_is_refused_is_told_with_the_server(saved, changed, says):
    requests = PartRequests([saved.request(**changed)])
    with pytest.raises(CheckpointError, match=f"^ps 0 has not written .*{says}"):
        _ = requests.begin(), requests.wait()
    assert [path.name for path in saved.folder.iterdir()] == [TOKEN]


def test_a_caller_of_another_job_is_refused(saved, monkeypatch):
    monkeypatch.setattr(saved.service, "_job", "ours")
    with pytest.raises(CheckpointError, match="ps 0 has not written.*of job , and this server of job ours"):
        PartRequests([saved.request()]).begin()


def test_a_server_without_values_is_refused_and_one_that_is_gone_named(tmp_path):
    (tmp_path / TOKEN).touch()
    with served() as server, writer_of(server) as address:
        with pytest.raises(CheckpointError, match="ps 0 has not written.*started again, and has no values"):
            PartRequests([Serving(None, address, tmp_path).request()]).begin()
    with pytest.raises(CheckpointError, match="ps 0 has not written.*cannot be reached"):
        PartRequests([Serving(None, address, tmp_path).request(secs=0.5)]).begin()


def test_a_server_that_was_killed_saves_what_it_has_from_its_snapshot(tmp_path):
    (tmp_path / TOKEN).touch()

    with served(keeper=kept(tmp_path / "snapshot")) as server, worker(server, PLAN, "chief 0") as servers:
        servers.initialize([initial()], 0)
        origin = servers.pull_plans()[0].answer.origin
    with served(keeper=kept(tmp_path / "snapshot")) as again, writer_of(again) as address:
        serving = Serving(None, address, tmp_path)
        requests = PartRequests([serving.request(origin=origin)])
        assert requests.begin() == [True]
        requests.wait()
        assert serving.written == {"a": 1.0, "b": 1.0, "count": 1.0}


def test_a_server_is_asked_again_after_its_connection_broke_while_it_wrote(saved, monkeypatch, caplog):
    gate = Gate(monkeypatch)
    made = []

    def dialed(secs):
        made.append(saved.dial(secs))
        return made[-1]

    requests = PartRequests([saved.request(dialed=dialed)])
    assert requests.begin() == [True]
    assert gate.reached.wait(SECS)
    saved.push(1.0)
    hear = type(made[0]).wait_for_data

    def broken(connection, size, deadline):
        if connection is made[0]:
            gate.opened.set()
            raise ConnectionResetError("cut by the test")
        return hear(connection, size, deadline)

    monkeypatch.setattr(type(made[0]), "wait_for_data", broken)
    with caplog.at_level(logging.WARNING):
        requests.wait()
    assert len(made) == gate.times == 2
    assert saved.written == {"a": 2.0, "b": 2.0, "count": 2.0}
    assert "The connection to ps 0 is broken while it writes its part of a checkpoint" in caplog.text


def test_a_server_whose_connection_breaks_whenever_it_writes_is_not_asked_for_ever(saved):
    class Breaking(Connection):
        heard = 0

        def wait_for_data(self, size, deadline):
            self.heard += 1
            if self.heard > 2:  # the head and the body of the first answer
                raise ConnectionResetError("cut by the test")
            return super().wait_for_data(size, deadline)

    requests = PartRequests([saved.request(dialed=lambda secs: Breaking(saved.dial(secs)._sock), write=0.5)])
    assert requests.begin() == [True]
    with pytest.raises(CheckpointError, match=r"its connection breaks when it writes: cut by the test"):
        requests.wait()


def test_a_server_that_is_asked_again_writes_no_file_twice_at_a_time(saved, monkeypatch):
    write, entered = _shard_snapshot.write_part, []
    first, both = threading.Event(), threading.Event()

    def writes(*args):
        entered.append(args)
        first.set()
        if len(entered) > 1:
            both.set()
        elif both.wait(1.0):  # as long as it would be written by one alone
            raise OSError("both write")
        return write(*args)

    monkeypatch.setattr(_shard_snapshot, "write_part", writes)
    forgotten, asked = saved.request(), saved.request()
    forgotten.ask()
    assert forgotten.begin()
    forgotten.go()
    assert first.wait(SECS)
    asked.ask()
    assert asked.begin()
    asked.go()
    asked.wait()
    forgotten.wait()


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 100, encode_frame({"type": "go"}), encode_frame(parts.WritePart())],
    ids=["bytes", "another message", "go"],
)
def test_something_else_than_a_request_ends_the_connection(saved, garbage):
    with saved.dial(SECS) as connection:
        connection.send_all([garbage], time.monotonic() + SECS)
        with contextlib.suppress(ConnectionResetError):
            assert connection.wait_for_data(1, time.monotonic() + SECS) == b""
    requests = PartRequests([saved.request()])
    assert requests.begin() == [True]
    assert len(requests.wait()) == 1
