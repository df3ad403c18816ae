"""fit with BackupAndRestore goes on with the very next batch of a shuffled dataset, in any epoch."""

from pathlib import Path

import numpy as np
import pytest

from muster._errors import PositionError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy

pytestmark = pytest.mark.usefixtures("compiled_once")

COUNT, BATCH, EPOCHS = 24, 4, 4
STEPS = COUNT // BATCH
X = np.arange(COUNT, dtype=np.float32)[:, None]
ALL = float(np.sum(X**2))


class Seen(keras.callbacks.Callback):
    """Notes the sum of the squares that an epoch has seen so far, and breaks off after some steps."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.sums: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self.sums.append(round(logs["loss"] * (batch + 1) * BATCH))
        if len(self.sums) == self.most:
            raise InterruptedError


def fit(
    folder: Path, seed: int | None, save_freq: int | str, most: int = 0, shuffles: int = 1, **options: int
) -> list[float]:
    """Train a model that predicts 0 in a new program, as far as datasets know; return the sums."""
    dataset = Dataset.from_tensor_slices((X, X))
    for _ in range(shuffles):
        dataset = dataset.shuffle(COUNT, seed)
    dataset = dataset.batch(BATCH)
    if options:
        dataset = dataset.repeat()
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    seen = Seen(most)
    backup = keras.callbacks.BackupAndRestore(str(folder), save_freq=save_freq)
    try:
        model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[backup, seen], **options)
    except InterruptedError:
        assert most
    return seen.sums


@pytest.mark.samples("1-7", "epoch-4")
@pytest.mark.parametrize("most", [4, STEPS + 1, 2 * STEPS + 3, 3 * STEPS + 2])
@pytest.mark.parametrize("save_freq", [1, "epoch"])
def test_orders_go_on(tmp_path: Path, save_freq: int | str, most: int) -> None:
    whole = fit(tmp_path / "whole", 7, save_freq)
    assert whole[STEPS - 1 :: STEPS] == [ALL] * EPOCHS
    fit(tmp_path / "parts", 7, save_freq, most)
    assert fit(tmp_path / "parts", 7, save_freq) == whole  # the backup has the sums that were seen until then


@pytest.mark.parametrize("most", [4, 2 * STEPS + 3])
def test_each_row_counts_once_without_a_seed(tmp_path: Path, most: int) -> None:
    fit(tmp_path, None, 1, most)
    rest = fit(tmp_path, None, 1)
    assert rest[STEPS - 1 :: STEPS] == [ALL] * EPOCHS


@pytest.mark.parametrize("save_freq", [1, "epoch"])
def test_epochs_of_a_dataset_that_repeats_go_on(tmp_path: Path, save_freq: int | str) -> None:
    whole = fit(tmp_path / "whole", 7, save_freq, steps_per_epoch=4)
    fit(tmp_path / "parts", 7, save_freq, 11, steps_per_epoch=4)
    assert fit(tmp_path / "parts", 7, save_freq, steps_per_epoch=4) == whole


@pytest.mark.parametrize("shuffles", [0, 2])
def test_a_dataset_with_other_shuffles_is_refused(tmp_path: Path, shuffles: int) -> None:
    fit(tmp_path, None, 1, 4)
    with pytest.raises(PositionError, match=rf"has 1 shuffle\(s\), and this one has {shuffles}: go"):
        fit(tmp_path, None, 1, shuffles=shuffles)
