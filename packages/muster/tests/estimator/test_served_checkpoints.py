"""Checkpoints that parameter servers write, and how training goes on from them elsewhere.

Servers are in this process, and reached over sockets.
"""

import contextlib
import errno
import logging
import os
import re

import numpy as np
import pytest
from local_servers import servers
from parameter_server_child import X, Y, model_fn

from muster._checkpoint_commands import inspect_checkpoints
from muster._errors import CheckpointError
from muster.checkpoint import (
    latest_checkpoint,
    list_checkpoints,
    list_rows,
    read_checkpoint,
    write_checkpoint,
    writer_of,
)
from muster.data import Dataset
from muster.distribute import (
    FixedShardsPartitioner,
    MirroredStrategy,
)
from muster.estimator import Estimator, RunConfig
from muster.estimator.loop import _saving
from muster.ps import _part_writer, _shard_snapshot

pytestmark = pytest.mark.usefixtures("compiled_once")

EPOCHS = 8  # the steps of two; training that goes on begins with another


one_process = contextlib.nullcontext


@contextlib.contextmanager
def two_replicas():
    yield MirroredStrategy(["CPU:0", "CPU:1"])


RUNNERS = {
    "one server": lambda: servers(1),
    "two servers": lambda: servers(2),
    "rows on two servers": lambda: servers(2, FixedShardsPartitioner(2)),
    "rows on three servers": lambda: servers(3, FixedShardsPartitioner(3)),
    "one process": one_process,
    "two replicas": two_replicas,
}


def train(folder, runner, max_steps, **config):
    with RUNNERS[runner]() as strategy:
        run_config = RunConfig(
            tf_random_seed=1, train_distribute=strategy, log_step_count_steps=None, **config
        )
        rows = 16 // (1 if strategy is None else strategy.num_replicas_in_sync)
        data = Dataset.from_tensor_slices((X, Y)).batch(rows).repeat()
        Estimator(model_fn, str(folder), run_config).train(lambda: data, max_steps=max_steps)
    return read_checkpoint(latest_checkpoint(folder))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp("one") / "model", "one process", 2 * EPOCHS).variables


@pytest.mark.samples("rows on three servers-one process")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("two servers", "one server"),
        ("one server", "rows on two servers"),
        ("rows on two servers", "rows on three servers"),
        ("rows on three servers", "one process"),
        ("two servers", "two replicas"),
        ("one process", "rows on two servers"),
        ("two replicas", "two servers"),
    ],
)
def test_training_goes_on_from_a_checkpoint_elsewhere_as_if_it_had_not_been_interrupted(
    tmp_path, first, then, uninterrupted
):
    saved = train(tmp_path, first, EPOCHS)
    assert saved.step == int(saved.variables["global_step"]) == EPOCHS
    saved = train(tmp_path, then, 2 * EPOCHS)
    assert saved.step == int(saved.variables["global_step"]) == 2 * EPOCHS
    assert saved.variables.keys() == uninterrupted.keys()
    assert any("adam" in name for name in uninterrupted)
    for name, value in uninterrupted.items():
        assert saved.variables[name].dtype == value.dtype
        np.testing.assert_allclose(saved.variables[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("then", ["two servers", "one process"])
def test_the_global_step_goes_on_from_the_step_of_the_checkpoint(tmp_path, then):
    saved = train(tmp_path, "one process", 4)
    later = {**saved.variables, "global_step": saved.variables["global_step"] + 3}
    write_checkpoint(tmp_path, 4, later, saved.metadata)
    saved = train(tmp_path, then, 6)
    assert saved.step == int(saved.variables["global_step"]) == 6


def writers(checkpoint):
    return sorted(writer_of(name) for name in os.listdir(checkpoint) if name != "manifest.json")


def test_servers_write_side_by_side_and_old_checkpoints_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(_saving, "_PATIENCE_SECS", 60.0)  # else one may be put off
    train(tmp_path, "rows on two servers", 12, save_checkpoints_steps=2, keep_checkpoint_max=3)
    infos = list_checkpoints(tmp_path)
    assert [info.step for info in infos] == [8, 10, 12]
    assert all(writers(info.path) == ["", "ps-0", "ps-1"] for info in infos)


def test_a_full_disk_of_a_server_is_an_error_of_the_chief_and_no_checkpoint(tmp_path, monkeypatch):
    def full(folder, file, arrays):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_shard_snapshot, "write_part", full)
    with pytest.raises(CheckpointError, match=r"^ps 0 at 127.* has not written .*ckpt-4: No space left"):
        train(tmp_path, "two servers", 4)
    assert [info.step for info in list_checkpoints(tmp_path)] == [0]
    assert not (tmp_path / "ckpt-4").exists()


def test_inspect_shows_which_server_held_which_rows(tmp_path, capsys):
    saved = train(tmp_path, "rows on two servers", 4)
    assert inspect_checkpoints(str(tmp_path), step=None, variables=True, restore=False) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^Parameter servers wrote what they held: ps 0 \d+ B, ps 1 \d+ B\.$", shown, re.M)
    assert "variable" in shown
    assert re.search(r"^dense_1/kernel +\(5, 8\) +float32  ps \d \[0:3\], ps \d \[3:5\]$", shown, re.M)
    assert re.search(r"^global_step +\(\) +\w+ +ps 0$", shown, re.M)
    assert len(list_rows(saved.path)["adam/dense_1_kernel_momentum"]) == 2


def test_inspect_says_nothing_of_servers_where_there_were_none(tmp_path, capsys):
    train(tmp_path, "one process", 1)
    assert inspect_checkpoints(str(tmp_path), step=None, variables=True, restore=False) == 0
    shown = capsys.readouterr().out
    assert "servers" not in shown
    assert "rows on" not in shown


def test_the_chief_writes_alone_where_servers_do_not_see_its_folder(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_part_writer, "sees_folder", lambda folder, token: False)
    with caplog.at_level(logging.WARNING):
        saved = train(tmp_path, "rows on two servers", 6, save_checkpoints_steps=2)
    assert saved.step == int(saved.variables["global_step"]) == 6
    assert writers(saved.path) == [""]
    (said,) = [record.message for record in caplog.records if "does not see" in record.message]
    assert said.startswith("ps 0 at 127.0.0.1:")
    assert f"does not see {tmp_path}, which is not on storage that it shares with the chief" in said
