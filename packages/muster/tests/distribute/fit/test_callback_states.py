"""What callbacks know goes on over a restart by BackupAndRestore, as if nothing had been interrupted."""

import collections
import csv
import random
from pathlib import Path

import numpy as np
import pytest

from muster import summary
from muster._errors import CheckpointError
from muster._keras import keras
from muster.distribute import MirroredStrategy, get_strategy

pytestmark = pytest.mark.usefixtures("compiled_once")

R = np.random.default_rng(0)
X, Y = R.normal(size=(64, 4)).astype("float32"), R.normal(size=(64, 1)).astype("float32")
VX, VY = R.normal(size=(32, 4)).astype("float32"), R.normal(size=(32, 1)).astype("float32")
STEPS = 4


@pytest.fixture(scope="module", params=["one device", "mirrored"])
def strategy(request):
    return MirroredStrategy(["/cpu:0", "/cpu:1"]) if request.param == "mirrored" else get_strategy()


@pytest.fixture(scope="module")
def mirrored():
    return MirroredStrategy(["/cpu:0", "/cpu:1"])


class Break(keras.callbacks.Callback):
    """Breaks training off at an epoch, or after a step of it."""

    def __init__(self, epoch, step=None):
        super().__init__()
        self.at, self.step = epoch, step

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if epoch == self.at and self.step is None:
            raise InterruptedError

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == self.at and batch == self.step:
            raise InterruptedError


def fit(
    strategy, folder, callbacks, *, at=None, step=None, freq="epoch", epochs=12, optimizer=None, **options
):
    """Train as far as an interruption lets it; return the model and the epochs of this run."""
    keras.utils.set_random_seed(2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.02) if optimizer is None else optimizer(), "mse")
    backup = keras.callbacks.BackupAndRestore(folder / "backup", save_freq=freq, delete_checkpoint=False)
    breaks = [] if at is None else [Break(at, step)]
    try:
        history = model.fit(
            X, Y, batch_size=16, epochs=epochs, validation_data=(VX, VY), verbose=0,
            callbacks=[backup, *callbacks, *breaks], **options,
        )  # fmt: skip
    except InterruptedError:
        assert breaks
        for each in callbacks:
            if isinstance(each, keras.callbacks.CSVLogger):
                each.csv_file.close()  # as the end of the process does
        return model, None
    return model, history.epoch


def twice(strategy, tmp_path, make, *, at=3, step=None, freq="epoch", **options):
    """Train in one run and in two; return the callbacks, model, epochs and folder of each."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    callbacks = make(whole)
    expected = (callbacks, *fit(strategy, whole, callbacks, freq=freq, **options), whole)
    assert fit(strategy, parts, make(parts), at=at, step=step, freq=freq, **options)[1] is None
    callbacks = make(parts)
    return expected, (callbacks, *fit(strategy, parts, callbacks, freq=freq, **options), parts)


def test_monitors_go_on(strategy, tmp_path):
    """Training stops and rates are reduced at the same epoch, and the best model stays."""

    def make(folder):
        return [
            keras.callbacks.ReduceLROnPlateau("val_loss", patience=2, factor=0.5, cooldown=1),
            keras.callbacks.ModelCheckpoint(folder / "best.keras", monitor="val_loss", save_best_only=True),
            keras.callbacks.EarlyStopping("val_loss", patience=4, restore_best_weights=True),
        ]

    whole, parts = twice(strategy, tmp_path, make)
    assert parts[2][-1] == whole[2][-1] < 11
    for name in ("best", "wait", "stopped_epoch", "best_epoch"):
        assert getattr(parts[0][2], name) == getattr(whole[0][2], name), name
    assert parts[0][0].cooldown_counter == whole[0][0].cooldown_counter
    assert float(parts[1].optimizer.learning_rate) == float(whole[1].optimizer.learning_rate)
    for one, other in zip(parts[1].get_weights(), whole[1].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    best = [keras.models.load_model(each[3] / "best.keras").get_weights() for each in (whole, parts)]
    for one, other in zip(*best, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_training_that_was_stopped_is_not_continued(mirrored, tmp_path):
    """Where it was killed between the decision to stop and the end, it ends at the decision."""

    class Killed(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            raise InterruptedError

    def stopping():
        return keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)

    stop = stopping()
    with pytest.raises(AssertionError):  # the interruption that fit has not asked for
        fit(mirrored, tmp_path, [Killed(), stop])
    again = stopping()
    model, epochs = fit(mirrored, tmp_path, [again])
    assert epochs == []
    assert again.stopped_epoch == stop.stopped_epoch > 0
    assert model.evaluate(VX, VY, verbose=0) == pytest.approx(again.best, rel=1e-5)


def test_what_a_program_changes_holds(mirrored, tmp_path):
    """State is what training changes: another patience or monitor of the second run is taken."""
    fit(mirrored, tmp_path, [keras.callbacks.EarlyStopping("val_loss", patience=9)], at=3)
    stop = keras.callbacks.EarlyStopping("val_loss", patience=2)
    _, epochs = fit(mirrored, tmp_path, [stop])
    assert stop.patience == 2
    assert epochs == [3]


def rows_of(log):
    return list(csv.reader(Path(log).read_text().splitlines()))


def test_a_csv_log_has_each_epoch_once(mirrored, tmp_path):
    def make(folder):
        return [keras.callbacks.CSVLogger(folder / "log.csv")]

    whole, parts = twice(mirrored, tmp_path, make, at=3, step=2, freq=3)
    rows = [rows_of(each[3] / "log.csv") for each in (whole, parts)]
    assert [row[0] for row in rows[0]] == ["epoch", *map(str, range(12))]
    assert rows[1] == rows[0]


def test_a_csv_log_loses_what_was_written_after_the_backup(mirrored, tmp_path):
    """A backup of step 3 of epoch 2, and a log that is a row ahead of it."""
    log = tmp_path / "log.csv"
    fit(mirrored, tmp_path, [keras.callbacks.CSVLogger(log, append=True)], at=3, step=0, freq=11)
    assert len(log.read_text().splitlines()) == 4
    fit(mirrored, tmp_path, [keras.callbacks.CSVLogger(log, append=True)], freq=11)
    assert [row[0] for row in rows_of(log)] == ["epoch", *map(str, range(12))]


def test_summaries_count_on(mirrored, tmp_path):
    """Under another folder as well, as programs name it by the time."""
    folder = tmp_path / "board" / "first"
    fit(mirrored, tmp_path, [keras.callbacks.TensorBoard(folder, update_freq=2)], at=3, step=1, freq=2)
    second = tmp_path / "board" / "second"
    board = keras.callbacks.TensorBoard(second, update_freq=2)
    fit(mirrored, tmp_path, [board], freq=2, epochs=5)
    assert board._global_train_batch == 5 * STEPS

    def steps(each):
        events = summary.read_events(each / "train")
        return [event.step for event in events if event.tag == "batch_loss"]

    assert steps(second)[0] == 3 * STEPS + 2  # the step that broke off
    assert sorted({*steps(folder), *steps(second)}) == [*range(2, 5 * STEPS + 1, 2)]


class Told(keras.callbacks.Callback):
    """Knows what it was told of."""

    def __init__(self):
        super().__init__()
        self.begun, self.ended = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_batch_begin(self, batch, logs=None):
        self.begun.append((self.epoch, batch))

    def on_train_batch_end(self, batch, logs=None):
        self.ended.append((self.epoch, batch))


def test_nobody_is_told_of_a_batch_that_is_not_trained(strategy, tmp_path):
    whole, parts = twice(strategy, tmp_path, lambda folder: [Told()], at=1, step=2, freq=2, epochs=3)
    assert parts[0][0].begun == whole[0][0].begun
    assert parts[0][0].ended == whole[0][0].ended == [(e, b) for e in range(3) for b in range(STEPS)]
    told = Told()
    fit(strategy, tmp_path / "parts", [told], freq=2, epochs=3)
    assert told.ended == whole[0][0].ended  # a third run, after the last backup, trains nothing


Point = collections.namedtuple("Point", "x y")


class Tracker:
    def __init__(self):
        self.best, self.worse = None, 0


class Holds(keras.callbacks.Callback):
    """Holds plain values of every kind, and changes them at each epoch."""

    def __init__(self):
        super().__init__()
        self.given = "of this run"
        self.count, self.factor, self.name, self.none = 0, 1.5, "at first", "none"
        self.list, self.tuple, self.set, self.bytes = [], (), set(), b""
        self.nested = {"a": {1: [0.0]}, ("b", 2): None}
        self.deque = collections.deque(maxlen=2)
        self.counter = collections.Counter()
        self.sums = collections.defaultdict(float)
        self.array = np.zeros(3, "int64")
        self.scalar = np.float32(0)
        self.device = keras.ops.zeros(2)
        self.generator, self.random = np.random.default_rng(1), random.Random(2)
        self.tracker, self.point = Tracker(), Point(0, 0)
        self.mean = keras.metrics.Mean()
        self.function, self.infinite = len, 0.0

    def on_train_begin(self, logs=None):
        self.began = object()

    def on_epoch_end(self, epoch, logs=None):
        self.count += 1
        self.factor *= 1.1
        self.name, self.none = f"epoch {epoch}", None
        self.list.append(logs["loss"])
        self.tuple += (epoch,)
        self.set.add(epoch)
        self.bytes += bytes([epoch])
        self.nested["a"][epoch] = [logs["val_loss"]]
        self.deque.append(epoch)
        self.counter[epoch % 2] += 1
        self.sums["loss"] += logs["loss"]
        self.array[epoch % 3] += 2**40
        self.scalar = np.float32(self.scalar + 0.1)
        self.device = self.device + 1
        self.draws = [self.generator.random(), self.random.random()]
        self.tracker.best, self.tracker.worse = epoch, self.tracker.worse + 1
        self.point = Point(epoch, -epoch)
        self.mean.update_state(float(epoch))
        self.infinite = float("inf")

    def plain(self):
        names = [
            name for name in vars(self) if name not in ("_model", "model", "params", "began", "function")
        ]
        state = {name: getattr(self, name) for name in sorted(names)}
        state["generator"] = state["generator"].random()
        state["random"] = state["random"].random()
        state["tracker"] = vars(state["tracker"])
        state["mean"] = float(state["mean"].result())
        return {name: (type(value), str(value)) for name, value in state.items()}


def test_callbacks_of_ones_own_go_on_with_what_they_hold(mirrored, tmp_path):
    def make(folder):
        return [Holds(), Holds()]

    whole, parts = twice(mirrored, tmp_path, make, epochs=5)
    for one, other in zip(parts[0], whole[0], strict=True):
        assert one.plain() == other.plain()


class Own(keras.callbacks.Callback):
    """Says itself what is to be kept."""

    def __init__(self):
        super().__init__()
        self.seen = self.not_kept = 0

    def on_epoch_end(self, epoch, logs=None):
        self.seen += 1
        self.not_kept += 1

    def get_state(self):
        return {"seen": self.seen, "weights": [np.full(2, self.seen)]}

    def set_state(self, state):
        np.testing.assert_array_equal(state["weights"][0], np.full(2, state["seen"]))
        self.seen = state["seen"]


def test_callbacks_may_say_what_is_kept(mirrored, tmp_path):
    _, parts = twice(mirrored, tmp_path, lambda folder: [Own()], epochs=5)
    assert (parts[0][0].seen, parts[0][0].not_kept) == (5, 2)


def test_a_state_that_cannot_be_kept(mirrored, tmp_path, caplog):
    class Opaque(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.sent = (each for each in [epoch])

    class Refuses(Opaque):
        def get_state(self):
            return {"sent": self.sent}

        def set_state(self, state):
            pass

    fit(mirrored, tmp_path, [Opaque()], epochs=2)
    assert [each for each in caplog.messages if "Opaque" in each and "sent" in each and "get_state" in each]
    assert len([each for each in caplog.messages if "Opaque" in each]) == 1
    with pytest.raises(TypeError, match=r"Refuses.*get_state.*generator"):
        fit(mirrored, tmp_path / "other", [Refuses()], epochs=2)


def test_a_callback_with_half_of_the_two(mirrored, tmp_path):
    class Half(keras.callbacks.Callback):
        def get_state(self):
            return 1

    with pytest.raises(TypeError, match=r"Half has get_state and no set_state"):
        fit(mirrored, tmp_path, [Half()], epochs=1)


def test_a_state_that_does_not_fit(mirrored, tmp_path):
    class Picky(Own):
        def set_state(self, state):
            raise KeyError("other")

    Own.__qualname__, kept = "Picky", Own.__qualname__
    try:
        fit(mirrored, tmp_path, [Own()], at=2)
    finally:
        Own.__qualname__ = kept
    Picky.__qualname__ = "Picky"
    with pytest.raises(CheckpointError, match=r"Picky.*KeyError.*other.*Delete the directory"):
        fit(mirrored, tmp_path, [Picky()])


def test_other_callbacks_than_before(mirrored, tmp_path, caplog):
    """New ones begin anew, and what is kept of others is named."""
    fit(mirrored, tmp_path, [keras.callbacks.EarlyStopping("val_loss", patience=9)], at=2)
    told = Told()
    caplog.set_level("INFO")
    fit(mirrored, tmp_path, [told], epochs=4)
    assert told.ended[0] == (2, 0)
    assert [each for each in caplog.messages if "EarlyStopping" in each]


def test_averaged_weights_go_on(mirrored, tmp_path):
    def make(folder):
        return [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)]

    whole, parts = twice(
        mirrored, tmp_path, make, epochs=5, optimizer=lambda: keras.optimizers.SGD(0.01, use_ema=True)
    )
    for one, other in zip(parts[1].get_weights(), whole[1].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
