"""What a store goes on from: snapshots, and the changes of a coordinator since then."""

import logging
import time

import msgspec
import numpy as np
import pytest
from store_job import client, keeper_in, kept, saved, serving, wait_for
from store_values import ADD, CHIEF, COUNT, TRAIN, WORKER, A, B, Talk, full

from muster.ps import _keeper
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import packed
from muster.ps._journal import Journal, Recorded
from muster.ps._messages import Caller
from muster.ps._replies import Lost
from muster.ps.contents import StoredArray, StoredName


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ps-0" / "store"


def seen(machine, **changes):
    given = {
        "origin": "origin",
        "run": "another process",
        "version": machine.statistics(0.0).version,
        "idle_secs": 1.0,
    }
    return messages.Seen(**(given | changes))


def test_changes_alone_are_gone_on_from(folder):
    machine, _ = kept(folder)
    chief = Talk(machine).prepare()
    chief.assign(A, 5.0)
    chief.delete("b")
    chief.create((B, 2.0))
    sequence = chief.sequence
    again, _ = kept(folder)
    worker = Talk(again, WORKER)
    assert (worker.first("a"), worker.first("b")) == (5.0, 2.0)
    chief = Talk(again, CHIEF)
    assert chief.joined.sequence == sequence
    chief.assign(A, 6.0, sequence=sequence)  # its answer was lost
    assert chief.first("a") == 5.0


def test_values_and_closures_are_of_one_instant(folder, caplog):
    machine, keeper = kept(folder, updates=1)
    Talk(machine).prepare()
    worker = Talk(machine, WORKER)
    for closure in (1, 2, 3, 5):
        worker.apply(closure, 2.0**closure, watermark=1)
    saved(machine, keeper)
    worker.apply(4, 2.0**4, watermark=2)
    worker.apply(6, 2.0**6, watermark=2)
    again, _ = kept(folder)
    worker = Talk(again, WORKER, seen=seen(machine))
    assert worker.first("a") == sum(2.0**closure for closure in (1, 2, 3, 5))
    assert [worker.apply(closure, 2.0**closure, watermark=2)[0].repeated for closure in (4, 5, 6)] == [
        False,
        True,
        False,
    ]
    assert worker.first("a") == sum(2.0**closure for closure in range(1, 7))
    assert worker.first("count") == 6
    assert again.statistics(0.0).lost_updates == 2
    assert "ps 0 lost 2 updates, " in caplog.text


@pytest.mark.parametrize("by_rows", [(), ("rows", "rows/slot")])
def test_rows_slots_and_closures_are_of_one_instant(folder, by_rows):
    machine, keeper = kept(folder, updates=1)
    Talk(machine).prepare_rows(by_rows=by_rows)
    worker = Talk(machine, WORKER)
    worker.push(1, [101, 105], [1.0, 2.0])
    saved(machine, keeper)
    worker.push(2, [105], [1.0])
    saved(machine, keeper)
    worker.push(3, [105, 109], [1.0, 1.0])
    again, keeper = kept(folder, updates=1)
    worker = Talk(again, WORKER)
    assert worker.rows(100, 101, 105, 109)[:, 0].tolist() == [0, 1, 4, 0]  # counted twice the second time
    assert worker.read("rows/slot")[0].tolist() == [0, 1, 0, 0, 0, 2, 0, 0, 0, 0]
    assert [worker.push(each, [109], [1.0])[0].repeated for each in (1, 2, 3)] == [True, True, False]
    saved(again, keeper)
    worker.push(4, [100], [1.0])
    saved(again, keeper)
    third, _ = kept(folder)
    assert Talk(third, WORKER).rows(100, 101, 105, 109)[:, 0].tolist() == [4, 1, 4, 3]


def test_rows_that_a_coordinator_assigns_since_a_snapshot(folder):
    machine, keeper = kept(folder, updates=1)
    chief = Talk(machine).prepare_rows(by_rows=("rows",))
    Talk(machine, WORKER).push(1, [101], [1.0])
    saved(machine, keeper)
    chief.assign_rows("rows", 2, [5.0, 5.0, 6.0, 6.0])
    chief.change(messages.Register, [packed(msgspec.structs.replace(TRAIN, fingerprint="later"))])
    again, _ = kept(folder)
    assert Talk(again, WORKER).rows(101, 102, 103, function="later")[:, 0].tolist() == [1, 5, 6]


def test_only_rows_that_have_changed_are_written(folder):
    """The bytes of a snapshot are those of changed rows, but for the whole arrays."""
    big, slot = ArraySpec("rows", (60_000, 2), "float32"), ArraySpec("rows/slot", (60_000,), "float32")
    machine, keeper = kept(folder, updates=1)
    chief = Talk(machine)
    chief.create((A, 0.0), (B, 0.0), (COUNT, 1), (big, 0.0), (slot, 0.0))
    chief.register(TRAIN)
    worker, sizes = Talk(machine, WORKER), []
    for closure, count in enumerate((1, 10, 1000, 4000), 1):
        worker.push(closure, np.arange(count) * 4 + 100, [1.0] * count)
        saved(machine, keeper)
        sizes.append(
            (folder / "changes").stat().st_size if closure > 1 else (folder / "values").stat().st_size
        )
    assert sizes[0] > 60_000 * 12
    few, some, many = sizes[1:]
    assert few < 2000
    # Two rows and four slots are written together, each with its number of 8 bytes.
    assert some - few == pytest.approx(990 * (2 * 16 + 4 * 12), rel=0.05)
    assert many - some == pytest.approx(3000 * (2 * 16 + 4 * 12), rel=0.05)


def test_what_was_lost_is_counted_with_nothing_but_changes(folder):
    machine, _ = kept(folder)
    Talk(machine).prepare()
    worker = Talk(machine, WORKER)
    for closure in range(3):
        worker.apply(closure)
    again, _ = kept(folder)
    Talk(again, WORKER, seen=seen(machine))
    assert again.statistics(0.0).lost_updates == 3
    assert Talk(again, WORKER).first("a") == 0.0


def test_changes_after_a_snapshot(folder):
    machine, keeper = kept(folder, updates=1)
    chief = Talk(machine).prepare()
    worker = Talk(machine, WORKER)
    for turn in range(3):
        worker.apply(turn)
        saved(machine, keeper)
        chief.assign(B, turn)
    chief.create((ArraySpec("new", (2,), "int8"), 7))
    assert len(list(folder.glob("changes-*"))) == 1  # those before are in the snapshot
    again, _ = kept(folder)
    chief = Talk(again)
    assert [array.max() for array in chief.read("a", "b", "new")] == [3.0, 2.0, 7]
    assert chief.pull("add")[0].tolist() == [3.0] * 6 + [2.0] * 4
    assert Talk(again, WORKER).apply(2)[0].repeated


def test_a_change_that_was_being_written_is_left_out(folder):
    machine, _ = kept(folder)
    chief = Talk(machine).prepare()
    chief.assign(A, 5.0)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) - 20, len(whole) - 60):
        path.write_bytes(whole[:size])
        again, _ = kept(folder)
        worker = Talk(again, WORKER)
        assert worker.first("a") == 0.0
    chief = Talk(again, CHIEF)
    chief.assign(A, 6.0, sequence=chief.joined.sequence + 1)
    again, _ = kept(folder)
    assert Talk(again, WORKER).first("a") == 6.0


def test_missing_changes_are_said(folder, caplog):
    machine, keeper = kept(folder, updates=1)
    chief = Talk(machine).prepare()
    Talk(machine, WORKER).apply(1)
    saved(machine, keeper)
    chief.assign(A, 5.0)
    Talk(machine, WORKER).apply(2)
    saved(machine, keeper)
    chief.assign(A, 6.0)
    for path in [folder / "values", folder / "changes"]:
        path.unlink(missing_ok=True)
    again, _ = kept(folder)
    with pytest.raises(RuntimeError, match="has no snapshot of the values"):
        Talk(again, WORKER)
    assert "Changes of this server are missing on its disk" in caplog.text


def test_another_coordinator_begins_anew(folder):
    machine, keeper = kept(folder, updates=1)
    Talk(machine).prepare()
    Talk(machine, WORKER).apply(1)
    saved(machine, keeper)
    machine.handle([Lost(CHIEF)], 0.0)
    other = Caller("chief 0", "another process")
    Talk(machine, other, origin="another").create((A, 3.0))
    again, _ = kept(folder)
    with pytest.raises(RuntimeError, match="has no snapshot"):
        Talk(again, WORKER)
    assert Talk(again, WORKER, origin="another").first("a") == 3.0
    with pytest.raises(RuntimeError, match="no array b"):
        Talk(again, WORKER, origin="another").first("b")


def test_a_disk_on_which_nothing_can_be_written(folder, caplog):
    folder.parent.mkdir()
    folder.write_text("")
    machine, keeper = kept(folder, updates=1)
    with caplog.at_level(logging.INFO):
        Talk(machine).prepare()
        assert "A change of this server's variables cannot be written" in caplog.text
        worker = Talk(machine, WORKER)
        worker.apply(1)
        folder.unlink()
        saved(machine, keeper)
    again, _ = kept(folder)
    assert Talk(again, WORKER).first("a") == 1.0


def test_the_end_of_a_job_removes_what_was_kept(folder):
    machine, keeper = kept(folder, updates=1)
    Talk(machine).prepare()
    Talk(machine, WORKER).apply(1)
    saved(machine, keeper)
    keeper.remove()
    assert not folder.exists()


def test_arrays_of_any_size_in_a_journal(folder):
    journal = Journal(folder)
    given = [np.arange(5, dtype=np.int16), np.zeros(0, np.float32), np.full(3, 2, np.dtype("bool"))]
    message = messages.Delete(sequence=1)
    journal.write(Recorded(0, "origin"), [])
    journal.write(Recorded(1, "origin", "client", message), given)
    (_, none), (change, arrays) = Journal(folder).read("origin")
    assert (none, change.message) == ([], message)
    for array, wanted in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array, wanted)
    assert Journal(folder).read("another") == []


def test_clients_go_on_with_a_server_that_was_killed(folder, caplog):
    arrays = [StoredArray(spec.name, 0, spec.shape, spec.dtype) for spec in (A, B, COUNT)]
    push = [[full(ADD.pushed[0], 1.0)]]
    with (
        serving(keeper=keeper_in(folder, 3)) as server,
        client(server) as chief,
        client(server, task="worker 0") as worker,
    ):
        chief.create([(array, full(array, 0)) for array in arrays])
        chief.register([ADD])
        for closure in range(5):
            worker.apply("add", closure, closure, push)
            if closure == 2:
                wait_for(lambda: (found := keeper_in(folder, 3).find("origin")) and found.saved.version == 3)
        server.service.close()
        with serving(keeper=keeper_in(folder, 3)) as again:
            server.address = again.address
            taken = worker.apply("add", 5, 5, push)
            assert float(taken[0][0].max()) == 4.0
            chief.assign({StoredName(0, "b"): full(B, 2.0)})
            (counts,) = chief.statistics()
            assert (counts.lost_updates, counts.version) == (2, 4)
            assert counts.lost_secs > 0
            assert "ps 0 lost 2 updates" in caplog.text
            chief.end()
            wait_for(lambda: not folder.exists())


def test_restarts_are_counted_whatever_the_clock_says(folder, caplog, monkeypatch):
    """Rounds are numbered by them, so that other servers take none for one before."""
    machine, keeper = kept(folder)
    Talk(machine).prepare()
    now = time.time()
    for restarts in (1, 2, 3):
        monkeypatch.setattr(_keeper.time, "time", lambda: now - 3600.0)
        found = keeper_in(folder).find("origin")
        assert (found.restarts, found.age_secs) == (restarts, 0.0)
    assert "What this server goes on from is dated 3600 s in the future" in caplog.text
    keeper.remove()
    assert not folder.exists()


def test_a_count_of_restarts_that_cannot_be_read_is_told(folder, caplog):
    machine, _ = kept(folder)
    Talk(machine).prepare()
    (folder / "restarts").write_text("many")
    assert keeper_in(folder).find("origin").restarts == 1
    assert "It cannot be counted that this server was started again" in caplog.text
