"""What lies on an object store is whole or absent for others, whatever fails."""

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from muster import _remote, _remote_store, checkpoint, data, summary
from muster.__main__ import main
from muster._errors import CheckpointError, DatasetError, DirectoryInUseError, PathError, StorageError
from muster._paths import local_path
from muster.checkpoint import _lease
from muster.checkpoint._lease import WriterWatch
from remote_stores import Faulty, elsewhere, faulty_store, names

pytestmark = pytest.mark.usefixtures("faulty")
faulty = faulty_store

BIG = 70_000  # elements of more bytes than are copied when a folder is looked at


def write(step, url="faulty://b/run"):
    return checkpoint.write_checkpoint(url, step, {"w": np.full(BIG, float(step))}, {"note": step})


def newest(url="faulty://b/run"):
    with elsewhere():
        found = checkpoint.restore_latest(url)
        return None if found is None else (found.step, float(found.variables["w"][0]), found.metadata["note"])


def test_a_checkpoint_is_read_elsewhere_and_only_what_is_needed_is_copied(faulty):
    for step in (1, 2, 3):
        write(step)
    Faulty.done.clear()
    assert newest() == (3, 3.0, 3)
    copied = [name for what, name in Faulty.done if what == "get"]
    assert sorted(re.sub("-[0-9a-f]{8}", "", name) for name in copied) == [
        *["manifest.json"] * 3,
        "variables.safetensors",
    ]


def test_contents_come_before_what_says_that_they_are_there(faulty):
    write(1)
    assert [(what, re.sub("-[0-9a-f]{8}", "", name)) for what, name in Faulty.done] == [
        ("put", "manifest.json.tmp"),
        ("put", "variables.safetensors"),
        ("put", "manifest.json"),
        ("rm", "manifest.json.tmp"),
    ]


def test_who_reads_a_small_file_meanwhile_finds_the_old_one_or_the_new_one(faulty, monkeypatch):
    faulty.pipe_file("/b/run/note.json", b"1")
    place = Path(local_path("faulty://b/run/note.json", remote=True))
    found = []

    def get_file(self, rpath, lpath, **kwargs):
        found.append(place.read_bytes())
        MemoryFileSystem.get_file(self, rpath, lpath, **kwargs)

    monkeypatch.setattr(Faulty, "get_file", get_file)
    faulty.pipe_file("/b/run/note.json", b"2")
    _remote.refresh(str(place))
    assert (found, place.read_bytes()) == ([b"1"], b"2")


def test_an_old_copy_of_what_cannot_be_read_is_not_sent(faulty, monkeypatch):
    faulty.pipe_file("/b/run/note.json", b"1")
    place = local_path("faulty://b/run/note.json", remote=True)
    faulty.pipe_file("/b/run/note.json", b"2")
    with monkeypatch.context() as patched:
        patched.setattr(Faulty, "get_file", mock.Mock(side_effect=PermissionError("no")))
        with pytest.raises(StorageError, match="faulty://b/run/note.json cannot be read: no"):
            _remote.refresh(place)
    _remote.publish(place)
    assert faulty.cat_file("/b/run/note.json") == b"2"
    _remote.refresh(place)
    assert Path(place).read_bytes() == b"2"


def test_elements_of_a_dataset_are_saved_and_loaded_elsewhere(faulty):
    rows = np.arange(2.0 * BIG).reshape(2, BIG)
    data.Dataset.from_tensor_slices(rows).save("faulty://b/rows")
    assert names(faulty) == ["rows/elements.tfrecord"]
    with elsewhere():
        found = list(data.Dataset.load("faulty://b/rows"))
        np.testing.assert_array_equal(found, rows)
        with pytest.raises(DatasetError, match="faulty://b/none has no elements"):
            data.Dataset.load("faulty://b/none")


@pytest.mark.parametrize("kind", ["cache", "snapshot"])
def test_elements_that_one_process_has_computed_are_read_elsewhere(faulty, kind):
    def elements(start):
        counted = data.Dataset.range(start, start + 3)
        kept = counted.cache("faulty://b/kept") if kind == "cache" else counted.snapshot("faulty://b/kept")
        return [int(each) for each in kept]

    assert elements(0) == [0, 1, 2]
    assert names(faulty) == ["kept" if kind == "cache" else "kept/elements.tfrecord"]
    assert elements(5) == [0, 1, 2]
    with elsewhere():
        assert elements(7) == [0, 1, 2]


def test_a_pass_that_was_broken_off_keeps_nothing_on_a_store(faulty):
    next(iter(data.Dataset.range(3).cache("faulty://b/kept")))
    assert names(faulty) == []


def save(keep=1):
    with checkpoint.Checkpointer("faulty://b/run", max_to_keep=keep) as checkpointer:
        checkpointer.save(2, {"w": np.full(BIG, 2.0)}, {"note": 2}, wait=True)


@pytest.mark.parametrize("steps", range(14))
def test_who_is_killed_at_any_moment_leaves_all_of_a_checkpoint_or_nothing(faulty, steps, monkeypatch):
    monkeypatch.setattr(_lease, "EXPIRE_SECS", 0.0)
    with elsewhere(), checkpoint.Checkpointer("faulty://b/run", max_to_keep=1) as checkpointer:
        checkpointer.save(1, {"w": np.full(BIG, 1.0)}, {"note": 1}, wait=True)
    with elsewhere():
        Faulty.left = steps
        with contextlib.suppress(SystemExit):
            save()
        killed, Faulty.left = Faulty.left == 0, None
    assert newest() in [(1, 1.0, 1), (2, 2.0, 2)]
    assert killed or steps == 13
    with elsewhere():
        save()
    assert newest() == (2, 2.0, 2)
    assert [re.sub("-[0-9a-f]{8}", "", name) for name in names(faulty)] == [
        "run/ckpt-2/manifest.json",
        "run/ckpt-2/variables.safetensors",
    ]


def test_what_fails_is_tried_again(faulty, caplog):
    Faulty.failures = [TimeoutError("slow down"), OSError("reset")]
    write(1)
    assert newest() == (1, 1.0, 1)
    assert [record.message for record in caplog.records] == [
        "faulty://b/run/ckpt-1/manifest.json.tmp cannot be written (slow down); again in 0 s.",
        "faulty://b/run/ckpt-1/manifest.json.tmp cannot be written (reset); again in 0 s.",
    ]


@pytest.mark.parametrize("errors", [[OSError("reset")] * 3, [PermissionError("read only")]])
def test_a_save_that_cannot_be_sent_fails_and_the_next_sends_all(faulty, errors):
    write(1)
    Faulty.failures = list(errors)
    with pytest.raises(CheckpointError, match=rf"faulty://b/run/ckpt-2/\S+ cannot be written: {errors[0]}"):
        write(2)
    assert newest() == (1, 1.0, 1)
    write(3)
    assert newest() == (3, 3.0, 3)


def test_a_bucket_that_is_read_only_is_named_before_anything_is_trained(faulty):
    Faulty.failures = [PermissionError("AccessDenied")]
    with pytest.raises(CheckpointError) as told:
        checkpoint.Checkpointer("faulty://b/run")
    assert str(told.value) == (
        "Checkpoints cannot be written to faulty://b/run: "
        "faulty://b/run/writer.lock cannot be written: AccessDenied. Choose a directory that can be written."
    )


@pytest.mark.parametrize(
    ("there", "told"), [((), "there is no bucket faulty://b."), (("/b/x",), "The upload is not known.")]
)
def test_what_is_not_found_by_a_write_is_named(faulty, monkeypatch, there, told):
    monkeypatch.setattr(Faulty, "root_marker", "")  # as stores without folders have it
    for each in there:
        faulty.pipe_file(each, b"")
    Faulty.failures = [FileNotFoundError("The upload is not known.")]
    with pytest.raises(CheckpointError, match=rf"faulty://b/run/\S+ cannot be written: {told}"):
        write(10)


def test_a_file_that_is_deleted_while_it_is_sent_is_left_out(faulty):
    place = local_path("faulty://b/run/events", remote=True)
    Path(place).write_text("a summary")

    def fail(*args, **options):
        Path(place).unlink(missing_ok=True)
        raise FileNotFoundError(place)

    with mock.patch.object(Faulty, "put_file", side_effect=fail):
        _remote.publish(place)
    assert names(faulty) == []


def test_what_is_not_there_is_named_by_its_url(faulty, capsys):
    with pytest.raises(DatasetError, match=r"No files matched pattern: faulty://b/\*.csv."):
        data.Dataset.list_files("faulty://b/*.csv")
    with pytest.raises(
        DatasetError, match="has found no file faulty://b/none. It looked for faulty://b/none. In faulty://b"
    ):
        list(data.TFRecordDataset("faulty://b/none"))
    assert main(["inspect", "faulty://b/run"]) == 2
    assert "muster: faulty://b/run is not a directory" in capsys.readouterr().err


def test_old_checkpoints_are_deleted_there_too(faulty):
    with checkpoint.Checkpointer("faulty://b/run", max_to_keep=2) as checkpointer:
        for step in range(1, 6):
            checkpointer.save(step, {"w": np.full(BIG, float(step))}, {"note": step})
    with elsewhere():
        assert [info.step for info in checkpoint.list_checkpoints("faulty://b/run")] == [4, 5]
    assert {name.split("/")[1] for name in names(faulty)} == {"ckpt-4", "ckpt-5"}


def test_what_somebody_tidies_up_here_is_not_deleted_there(faulty):
    """Such as systemd does with old files of /tmp."""
    path = write(1)
    there = names(faulty)
    for name in os.listdir(path):
        os.unlink(os.path.join(path, name))
    _remote.publish(path)
    _remote.publish(os.path.dirname(path))
    os.rmdir(path)
    for store in _remote._stores.values():
        store.publish("")  # as at the end
    assert names(faulty) == there
    assert newest() == (1, 1.0, 1)


def test_a_folder_there_is_not_repaired_in_place(faulty):
    path = write(1)
    for folder in (os.path.dirname(path), "faulty://b/run"):
        with pytest.raises(CheckpointError, match="faulty://b/run is on an object store"):
            checkpoint.repair(folder)


@pytest.mark.parametrize("delete", [checkpoint.delete_checkpoint, checkpoint.delete_old_checkpoint])
def test_a_checkpoint_is_deleted_by_its_url(faulty, delete):
    write(1), write(2)
    with elsewhere():
        delete("faulty://b/run/ckpt-1")
    assert {name.split("/")[1] for name in names(faulty)} == {"ckpt-2"}


def test_a_reader_sees_what_others_write_and_delete_meanwhile(faulty):
    assert checkpoint.latest_checkpoint("faulty://b/run") is None
    with elsewhere():
        write(1)
    first = checkpoint.latest_checkpoint("faulty://b/run")
    assert checkpoint.read_checkpoint(first).step == 1
    with elsewhere():
        write(2)
        checkpoint.delete_checkpoint(checkpoint.latest_checkpoint("faulty://b/run").replace("-2", "-1"))
    assert [info.step for info in checkpoint.list_checkpoints("faulty://b/run")] == [2]
    assert not os.path.exists(first)
    with elsewhere():
        write(2)  # again, with another file
    assert checkpoint.restore_latest("faulty://b/run").step == 2


def test_a_checkpoint_that_is_deleted_while_it_is_read_is_not_there(faulty):
    write(1)
    with elsewhere():
        path = checkpoint.latest_checkpoint("faulty://b/run")
        for name in names(faulty):
            faulty.rm_file(f"/b/{name}")
        with pytest.raises(CheckpointError):
            checkpoint.read_checkpoint(path)
        assert checkpoint.restore_latest("faulty://b/run") is None


def test_a_listing_that_lags_shows_the_checkpoint_before(faulty):
    write(1)
    before = set(faulty.find("/b"))
    write(2)
    Faulty.hidden = set(faulty.find("/b")) - before
    assert newest() == (1, 1.0, 1)
    Faulty.hidden = {name for name in Faulty.hidden if name.endswith(".safetensors")}
    assert newest() == (2, 2.0, 2)


def record(**changes):
    known = {"token": "t", "machine": "another", "host": "far", "pid": 7, "since": "now", "count": 1}
    return json.dumps({**known, **changes}).encode()


def test_a_second_writer_is_refused_while_the_first_counts(faulty, monkeypatch):
    monkeypatch.setattr(_lease, "RENEW_SECS", 0.02)
    monkeypatch.setattr(_lease, "EXPIRE_SECS", 5.0)
    monkeypatch.setattr(_lease, "_LOOK_REMOTE_SECS", 0.01)
    with checkpoint.Checkpointer("faulty://b/run"):
        with elsewhere():
            with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()} on "):
                checkpoint.Checkpointer("faulty://b/run")
            _remote.working_path("faulty", "//b/run")
            assert WriterWatch(_remote._stores["faulty"].place("b/run")).is_writing()
    with elsewhere(), checkpoint.Checkpointer("faulty://b/run"):
        pass
    assert names(faulty) == []


def test_a_writer_that_stands_still_is_taken_over_and_learns_it(faulty, monkeypatch):
    monkeypatch.setattr(_lease, "EXPIRE_SECS", 0.05)
    monkeypatch.setattr(_lease, "_LOOK_REMOTE_SECS", 0.01)
    monkeypatch.setattr(_lease, "RENEW_SECS", 0.2)  # it comes late
    first = checkpoint.Checkpointer("faulty://b/run")
    with elsewhere(), checkpoint.Checkpointer("faulty://b/run"):
        deadline = time.monotonic() + 10
        while first._lease._lost_to is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(DirectoryInUseError, match="has been taken over"):
            first.save(1, {}, {})
        first.close()
        assert names(faulty) == ["run/writer.lock"]  # the other's


def test_a_killed_writer_of_this_machine_is_not_waited_for(faulty):
    ended = 1 << 22  # no process has this number
    faulty.pipe_file("/b/run/writer.lock", record(machine=_lease.this_machine(), pid=ended))
    began = time.monotonic()
    checkpoint.Checkpointer("faulty://b/run").close()
    assert time.monotonic() - began < _lease.EXPIRE_SECS / 2


def test_of_two_that_write_at_once_where_no_put_is_conditional_one_has_it(faulty, monkeypatch):
    pipe = Faulty.pipe_file

    def unconditional(self, path, value, mode="overwrite", **kwargs):
        if mode == "create":
            raise NotImplementedError
        pipe(self, path, value, **kwargs)
        if path.endswith("writer.lock"):
            pipe(self, path, record(token="another's"))  # it has looked at the same moment, and written after

    monkeypatch.setattr(Faulty, "pipe_file", unconditional)
    with pytest.raises(DirectoryInUseError, match="process 7 on far"):
        checkpoint.Checkpointer("faulty://b/run")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("xyz://b/run", "it has no file system for xyz:// .*Or mount it, or give a folder of this machine"),
        ("oss://b/run", "it has no file system for oss:// .*ossfs.*Or mount it"),
        ("faulty://", "names no file or folder"),
        ("faulty://b/../c", "names no file or folder"),
    ],
)
def test_urls_that_name_nothing(url, why):
    with pytest.raises(PathError, match=why):
        checkpoint.latest_checkpoint(url)


def test_a_store_that_does_not_answer_is_named(faulty, monkeypatch):
    def info(self, path, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(Faulty, "info", info)
    with pytest.raises(StorageError, match="faulty://b/run cannot be looked at: no route"):
        checkpoint.latest_checkpoint("faulty://b/run")


CHILD = """
import os, signal, sys
import fsspec
from fsspec.implementations.local import LocalFileSystem
from muster import checkpoint, summary

class Far(LocalFileSystem):
    protocol = "far"
    root_marker = "/"

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + str(path).removeprefix("far://").lstrip("/")

fsspec.register_implementation("far", Far)
where, how = sys.argv[1:]
os.makedirs(where, exist_ok=True)
writer = summary.EventFileWriter(f"far:/{where}/run")
writer.add_scalar("loss", 1.0, 1)
writer.flush()
print(os.path.dirname(writer.path), flush=True)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.processes
def test_what_is_left_is_sent_at_the_end_and_working_copies_go(tmp_path):
    temporary, where = tmp_path / "tmp", tmp_path / "far"
    temporary.mkdir()

    def run(how):
        command = [sys.executable, "-c", CHILD, str(where), how]
        done = subprocess.run(
            command, env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout.strip()

    code, copy = run("killed")
    assert code == -signal.SIGKILL
    assert Path(copy).exists()
    assert not (where / "run").exists()
    code, other = run("ends")
    assert code == 0
    assert not Path(copy).exists()  # that of the killed one went when the next began
    assert not Path(other).exists()
    assert [event.value for event in summary.read_events(where / "run")] == [1.0]


class TooSkewedError(PermissionError):
    """What s3fs and botocore raise together, for a date that S3 does not accept."""

    response = {
        "Error": {"Code": "RequestTimeTooSkewed", "Message": "The difference is too large."},
        "ResponseMetadata": {"HTTPHeaders": {"date": "Mon, 30 Nov 2026 12:00:00 GMT"}},
    }


def test_a_clock_that_a_store_does_not_accept_is_told_with_how_far_it_is_off(faulty, monkeypatch):
    there = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC).timestamp()
    monkeypatch.setattr(_remote_store, "date_now", lambda: there + 1234)
    Faulty.failures = [TooSkewedError("The difference is too large.")]
    said = "The difference is too large. This machine's clock is 1234 s ahead of the store's: set it"
    with pytest.raises(CheckpointError, match=said):
        write(1)
