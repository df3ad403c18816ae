"""Programs whose folders and data lie on an object store."""

import numpy as np
import pytest
from linear import FEATURES, LABELS, dataset, estimator, model_fn, train_input

from muster import saved_model, summary
from muster._errors import DatasetError
from muster._keras import keras
from muster._paths import local_path
from muster.data import Dataset, NpzDataset, TextLineDataset
from muster.estimator import SessionRunHook, build_raw_serving_input_receiver_fn
from remote_stores import Faulty, elsewhere, faulty_store, names

pytestmark = pytest.mark.usefixtures("compiled_once")
faulty = faulty_store


def test_an_estimator_trains_resumes_evaluates_and_exports(faulty, tmp_path):
    url = "faulty://b/run"
    with elsewhere():
        estimator(url, of_features, save_checkpoints_steps=10, log_step_count_steps=5).train(
            train_input, steps=25
        )
    assert "run/ckpt-25/manifest.json" in names(faulty)
    with elsewhere():
        again = estimator(url, of_features)
        again.train(train_input, max_steps=40)
        exported = again.export_saved_model("faulty://b/exports", receiver)
    assert exported.startswith(b"faulty://b/exports/")
    with elsewhere():
        metrics = estimator(url, of_features).evaluate(dataset)
        assert metrics["global_step"] == 40
        loaded = saved_model.load(exported)
        assert np.shape(loaded.signatures["serving_default"](x=FEATURES)["y"]) == (64, 1)
        losses = [event.step for event in summary.read_events(url) if event.tag == "loss"]
        assert {1, 26} <= set(losses)
        assert [event.tag for event in summary.read_events(f"{url}/eval")][:1]
    with elsewhere():
        local = estimator(tmp_path / "local")
        local.train(train_input, steps=25)
        local.train(train_input, max_steps=40)
        assert local.evaluate(dataset)["loss"] == metrics["loss"]


class StoreIsSlow(SessionRunHook):
    """Lets the store take what it holds when this step is done.

    Attributes:
        seen: For each step, the checkpoints that are on the store.
    """

    def __init__(self, faulty, until):
        self.faulty, self.until, self.seen = faulty, until, {}

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step
        self.seen[step] = [name for name in names(self.faulty) if name.endswith("manifest.json")]
        if step == self.until:
            Faulty.may_write.set()


def test_training_goes_on_while_a_checkpoint_is_sent_slowly(faulty):
    """Up to the next checkpoint: the steps between two are the time that a store has for one."""
    Faulty.held = "ckpt-10/manifest.json"
    with elsewhere():
        hook = StoreIsSlow(faulty, until=19)
        estimator("faulty://b/run", save_checkpoints_steps=10).train(train_input, hooks=[hook], steps=25)
    assert Faulty.done.count(("held", "manifest.json")) == 1
    first = "run/ckpt-0/manifest.json"
    assert [hook.seen[step] for step in range(11, 20)] == [[first]] * 9
    assert "run/ckpt-10/manifest.json" in hook.seen[21]
    assert "run/ckpt-25/manifest.json" in names(faulty)


receiver = build_raw_serving_input_receiver_fn({"x": np.zeros((1, 2), np.float32)})


def of_features(features, labels, mode):
    return model_fn(features["x"] if isinstance(features, dict) else features, labels, mode)


def test_datasets_read_files_and_find_them_by_patterns(faulty, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(3))
    faulty.pipe_file("/b/d/x.npz", (tmp_path / "x.npz").read_bytes())
    for name in ("a", "b"):
        faulty.pipe_file(f"/b/d/{name}.txt", f"{name}1\n{name}2\n".encode())
    lines = TextLineDataset(["faulty://b/d/a.txt", "faulty://b/d/b.txt"])
    assert not [each for each in Faulty.done if each[0] == "get"]  # not before they are read
    assert [*lines] == ["a1", "a2", "b1", "b2"]
    assert [*lines] == ["a1", "a2", "b1", "b2"]
    assert sorted(each[1] for each in Faulty.done if each[0] == "get") == ["a.txt", "b.txt"]
    found = Dataset.list_files("faulty://b/d/*.txt", shuffle=False)
    assert [*TextLineDataset(found)] == ["a1", "a2", "b1", "b2"]
    assert [int(each["x"]) for each in NpzDataset("faulty://b/d/x.npz")] == [0, 1, 2]
    with pytest.raises(
        DatasetError, match=r"has found no file \S+/b/d/c.txt. .* In \S+ there is a.txt, b.txt"
    ):
        [*TextLineDataset("faulty://b/d/c.txt")]


def model():
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def test_fit_backs_up_and_saves_there(faulty):
    x, y = FEATURES, LABELS
    with elsewhere():
        saver = keras.callbacks.ModelCheckpoint("faulty://b/best.keras", monitor="loss", save_best_only=True)
        backup = keras.callbacks.BackupAndRestore("faulty://b/backup")
        stop = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: crash(epoch))
        with pytest.raises(InterruptedError):
            model().fit(x, y, epochs=4, verbose=0, callbacks=[backup, saver, stop])
    assert any(name.startswith("backup/") for name in names(faulty))
    with elsewhere():
        backup = keras.callbacks.BackupAndRestore("faulty://b/backup")
        history = model().fit(x, y, epochs=4, verbose=0, callbacks=[backup])
        assert history.epoch == [2, 3]
    assert names(faulty) == ["best.keras", "training.json"]
    with elsewhere():
        assert keras.saving.load_model(fetched("faulty://b/best.keras")).count_params() == 3
        made = model()
        made.save_weights("faulty://b/w.weights.h5")
    with elsewhere():
        other = model()
        other.load_weights("faulty://b/w.weights.h5")
        assert np.array_equal(other.get_weights()[0], made.get_weights()[0])


def crash(epoch):
    if epoch == 2:
        raise InterruptedError


def fetched(url):
    return local_path(url, remote=True)
