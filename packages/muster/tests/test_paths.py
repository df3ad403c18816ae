"""Every function that takes a path refuses a scheme that muster cannot write, before it makes anything."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from given_paths import URL, made_by
from muster import (
    checkpoint,
    data,
    estimator,
    feature_column,
    integrations,
    keras,
    launch,
    saved_model,
    summary,
)
from muster.__main__ import main
from muster._commands import folder
from muster._errors import MusterError, PathError
from muster._paths import local_path
from muster.checkpoint import tensorflow as tensorflow_checkpoints
from muster.distribute import HParamsCallback, Server, SidecarEvaluator
from muster.distribute.engine._state_store import ArrayStore
from muster.estimator.session import Session
from muster.launch._command import add_program_options
from path_parameters import path_options, path_parameters


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        (b"/a/b", "/a/b"),
        (Path("/a/b"), "/a/b"),
        ("file:///x/y", "/x/y"),
        (b"file:///x/y", "/x/y"),
        (Path("file:///x/y"), "/x/y"),  # which has one slash
        ("FILE://localhost/x/y", "/x/y"),
        ("file:///", "/"),
        ("a:/b", "a:/b"),
        ("./s3:/b", "./s3:/b"),
        ("runs/10:/x", "runs/10:/x"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_local_paths(given: Any, path: str) -> None:
    assert local_path(given) == path


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "memory", "xyz", "GS", "a+b.c-1"])
@pytest.mark.parametrize("kind", [str, str.encode, Path])
def test_other_schemes_are_named(scheme: str, kind: Callable[[str], Any]) -> None:
    with pytest.raises(PathError, match="not a path that muster can use") as raised:
        local_path(kind(f"{scheme}://bucket/run"))
    assert f"no file system for {scheme.lower()}://" in str(raised.value)
    assert f"{scheme}:/" in str(raised.value)
    assert "mount" in str(raised.value)
    assert isinstance(raised.value, MusterError)
    assert isinstance(raised.value, ValueError)


def test_files_of_other_hosts_are_no_files_here() -> None:
    with pytest.raises(PathError, match="it names the host 'server'"):
        local_path("file://server/x")
    with pytest.raises(TypeError):
        local_path(3)  # type: ignore[arg-type]


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    raise AssertionError("not to be called")


def model() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def compiled() -> Any:
    made = model()
    made.compile("sgd", "mse")
    return made


def dataset() -> Any:
    return data.Dataset.range(3)


COLUMNS = [feature_column.numeric_column("x")]
IDS = feature_column.categorical_column_with_identity("ids", 3)
IN_ORDER = [feature_column.sequence_numeric_column("x")]


class OwnTracker(integrations.Tracker):
    name = "own"

    def _open(self, run: str | None) -> str:
        raise AssertionError("not to be called")

    def _send(self, metrics: dict[str, float], step: int) -> None:
        raise AssertionError("not to be called")

    def _close(self, failed: bool) -> None:
        raise AssertionError("not to be called")


def canned(name: str, parameter: str) -> Callable[[Any], Any]:
    """Return a function that makes a canned Estimator with a path as this argument."""
    more: dict[str, Any] = {"feature_columns": COLUMNS}
    if name.startswith("Baseline"):
        more = {}
    elif name.startswith("RNN"):
        more = {"sequence_feature_columns": IN_ORDER, "units": [2]}
    elif "Combined" in name:
        more = {"linear_feature_columns": COLUMNS}
    elif name.startswith("DNN"):
        more["hidden_units"] = [2]
    if name.endswith("Estimator"):
        more["head"] = estimator.RegressionHead()
    return lambda path: getattr(estimator, name)(**more, **{parameter: path})


def trained() -> estimator.Estimator:
    """Return an Estimator with a checkpoint, in a folder that is not that of the test."""
    made = estimator.Estimator(model_fn)
    checkpoint.write_checkpoint(made.model_dir, 1, {"w": np.ones(2)}, {})
    return made


def exported(method: str, parameter: str) -> Callable[[Any], Any]:
    """Return a function that exports an Estimator with a path as this argument."""
    receivers: Any = {"infer": model_fn} if method.endswith("models") else model_fn

    def export(path: Any) -> None:
        given = {"export_dir_base": "exports"} | {parameter: path}
        if parameter == "assets_extra":
            given[parameter] = {"words.txt": path}
        base = given.pop("export_dir_base")
        getattr(trained(), method)(base, receivers, **given)

    return export


def in_session(call: Callable[[Session], Any]) -> None:
    call(Session(ArrayStore({}), save=Saving()))


class Saving:
    """Saves nothing."""

    def __call__(self, store: Any, step: int, wait: bool, directory: str | None) -> None:
        raise AssertionError("not to be called")

    def is_late(self, directory: str) -> bool:
        raise AssertionError("not to be called")


def begun_with(path: Any) -> None:
    summary.trace_on(profiler_outdir=path)
    summary.trace_off()


def traced_to(path: Any) -> None:
    summary.trace_on(profiler=True)
    try:
        summary.trace_export("run", profiler_outdir=path)
    finally:
        summary.trace_off()


# What is called with a URL, and what with a path: the same. What the walk finds has the name that it gives,
# with the parameter; it does not find what is Keras'.
CALLS: dict[str, Callable[[Any], Any]] = {
    "estimator.Estimator(model_dir)": lambda path: estimator.Estimator(model_fn, path),
    "estimator.Estimator(warm_start_from)": lambda path: estimator.Estimator(model_fn, warm_start_from=path),
    "estimator.RunConfig(model_dir)": lambda path: estimator.RunConfig(model_dir=path),
    "RunConfig.replace": lambda path: estimator.RunConfig().replace(model_dir=path),
    "estimator.RunConfig(profile_dir)": lambda path: estimator.RunConfig(profile_dir=path),
    "estimator.WarmStartSettings(ckpt_to_initialize_from)": lambda path: estimator.WarmStartSettings(path),
    "estimator.VocabInfo(new_vocab)": lambda path: estimator.VocabInfo(path, 1, 0, "old"),
    "estimator.VocabInfo(old_vocab)": lambda path: estimator.VocabInfo("new", 1, 0, path),
    "estimator.CheckpointSaverHook(checkpoint_dir)": lambda path: estimator.CheckpointSaverHook(
        path, save_steps=1
    ),
    "estimator.SummarySaverHook(output_dir)": lambda path: estimator.SummarySaverHook(
        1, output_dir=path, summary_op="loss"
    ),
    "estimator.StepCounterHook(output_dir)": lambda path: estimator.StepCounterHook(output_dir=path),
    "estimator.ProfilerHook(output_dir)": lambda path: estimator.ProfilerHook(1, output_dir=path),
    "estimator.stop_if_higher_hook(eval_dir)": lambda path: estimator.stop_if_higher_hook(
        estimator.Estimator(model_fn), "loss", 1.0, path
    ),
    "estimator.stop_if_lower_hook(eval_dir)": lambda path: estimator.stop_if_lower_hook(
        estimator.Estimator(model_fn), "loss", 1.0, path
    ),
    "estimator.stop_if_no_increase_hook(eval_dir)": lambda path: estimator.stop_if_no_increase_hook(
        estimator.Estimator(model_fn), "loss", 1, path
    ),
    "estimator.stop_if_no_decrease_hook(eval_dir)": lambda path: estimator.stop_if_no_decrease_hook(
        estimator.Estimator(model_fn), "loss", 1, path
    ),
    "estimator.model_to_estimator(model_dir)": lambda path: estimator.model_to_estimator(
        compiled(), model_dir=path
    ),
    "checkpoint.Checkpointer(directory)": lambda path: checkpoint.Checkpointer(path).close(),
    "checkpoint.write_checkpoint(directory)": lambda path: checkpoint.write_checkpoint(
        path, 1, {"w": np.ones(2)}, {}
    ),
    "checkpoint.latest_checkpoint(directory)": lambda path: checkpoint.latest_checkpoint(path),
    "checkpoint.list_checkpoints(directory)": lambda path: checkpoint.list_checkpoints(path),
    "checkpoint.restore_latest(directory)": lambda path: checkpoint.restore_latest(path),
    "checkpoint.delete_old_checkpoint(path)": lambda path: checkpoint.delete_old_checkpoint(path),
    "checkpoint.tensorflow.find_checkpoint(path)": lambda path: tensorflow_checkpoints.find_checkpoint(path),
    "checkpoint.tensorflow.meant_path(path)": lambda path: tensorflow_checkpoints.meant_path(path),
    "checkpoint.tensorflow.newest_checkpoint(checkpoint_dir)": lambda path: (
        tensorflow_checkpoints.newest_checkpoint(path)
    ),
    "checkpoint.tensorflow.is_tensorflow_checkpoint(path)": lambda path: (
        tensorflow_checkpoints.is_tensorflow_checkpoint(path)
    ),
    "checkpoint.tensorflow.latest_prefix(directory)": lambda path: tensorflow_checkpoints.latest_prefix(path),
    "checkpoint.tensorflow.prefixes(directory)": lambda path: tensorflow_checkpoints.prefixes(path),
    "keras.Model.save_weights": lambda path: model().save_weights(path),
    "keras.Model.save": lambda path: model().save(path),
    "saved_model.save(export_dir)": lambda path: saved_model.save(path, {}),
    "ModelCheckpoint": lambda path: keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
    "BackupAndRestore": lambda path: keras.callbacks.BackupAndRestore(path),
    "TensorBoard": lambda path: keras.callbacks.TensorBoard(log_dir=path),
    "CSVLogger": lambda path: keras.callbacks.CSVLogger(path),
    "summary.create_file_writer(logdir)": lambda path: summary.create_file_writer(path).close(),
    "summary.EventFileWriter(logdir)": lambda path: summary.EventFileWriter(path).close(),
    "summary.trace_on(profiler_outdir)": begun_with,
    "data.Dataset.save(path)": lambda path: dataset().save(path),
    "data.Dataset.cache(filename)": lambda path: list(dataset().cache(path)),
    "data.Dataset.snapshot(path)": lambda path: list(dataset().snapshot(path)),
    "data.TFRecordWriter(path)": lambda path: data.TFRecordWriter(path).close(),
    "distribute.Server(snapshot_dir)": lambda path: Server(
        {"ps": ["localhost:0"]}, start=False, snapshot_dir=path
    ),
    "distribute.SidecarEvaluator(checkpoint_dir)": lambda path: SidecarEvaluator(compiled(), None, path),
    "distribute.HParamsCallback(writer)": lambda path: HParamsCallback(path, {"rate": 0.1}),
    "integrations.Tracker(folder)": lambda path: OwnTracker(folder=path),
    "feature_column.embedding_column(ckpt_to_load_from)": lambda path: feature_column.embedding_column(
        IDS, 2, ckpt_to_load_from=path, tensor_name_in_ckpt="w"
    ),
    "feature_column.shared_embeddings(ckpt_to_load_from)": lambda path: feature_column.shared_embeddings(
        [IDS], 2, ckpt_to_load_from=path, tensor_name_in_ckpt="w"
    ),
    "feature_column.categorical_column_with_vocabulary_file(vocabulary_file)": lambda path: (
        feature_column.categorical_column_with_vocabulary_file("a", path, 3)
    ),
    "feature_column.sequence_categorical_column_with_vocabulary_file(vocabulary_file)": lambda path: (
        feature_column.sequence_categorical_column_with_vocabulary_file("a", path, 3)
    ),
    "extend.local_path(path)": lambda path: local_path(path),
    "--log-dir": lambda path: folder(path),
    **{
        f"estimator.{name}({parameter})": canned(name, parameter)
        for name in [
            f"{kind}{what}"
            for kind in ("Baseline", "Linear", "DNN", "DNNLinearCombined", "RNN")
            for what in ("Classifier", "Regressor", "Estimator")
            if (kind, what) != ("RNN", "Regressor")
        ]
        for parameter in ("model_dir", "warm_start_from")
        if parameter == "model_dir" or not name.startswith(("Baseline", "RNN"))
    },
}
# What needs something at the path to begin with, or something beside it.
READS: dict[str, Callable[[Any], Any]] = {
    "checkpoint.read_checkpoint(path)": lambda path: checkpoint.read_checkpoint(path),
    "checkpoint.read_metadata(path)": lambda path: checkpoint.read_metadata(path),
    "checkpoint.list_rows(path)": lambda path: checkpoint.list_rows(path),
    "checkpoint.list_tables(path)": lambda path: checkpoint.list_tables(path),
    "checkpoint.list_variables(path)": lambda path: checkpoint.list_variables(path),
    "checkpoint.delete_checkpoint(path)": lambda path: checkpoint.delete_checkpoint(path),
    "checkpoint.repair(directory)": lambda path: checkpoint.repair(path),
    "checkpoint.write_part(folder)": lambda path: checkpoint.write_part(
        path, "variables-01234567.safetensors", {"w": np.ones(2)}
    ),
    "checkpoint.tensorflow.TensorFlowCheckpoint(prefix)": lambda path: (
        tensorflow_checkpoints.TensorFlowCheckpoint(path)
    ),
    "checkpoint.tensorflow.list_either(path)": lambda path: tensorflow_checkpoints.list_either(path),
    "checkpoint.tensorflow.read_either(path)": lambda path: tensorflow_checkpoints.read_either(path),
    "checkpoint.tensorflow.load_weights(path)": lambda path: tensorflow_checkpoints.load_weights(
        model(), path
    ),
    "checkpoint.tensorflow.restore_objects(prefix)": lambda path: tensorflow_checkpoints.restore_objects(
        path, model(), []
    ),
    "keras.Model.load_weights": lambda path: model().load_weights(path),
    "saved_model.load(export_dir)": lambda path: saved_model.load(path),
    "saved_model.show_saved_model(path)": lambda path: saved_model.show_saved_model(path),
    "saved_model.save(files)": lambda path: saved_model.save("export", {}, {"words.txt": path}),
    "summary.read_events(logdir)": lambda path: list(summary.read_events(path)),
    "summary.read_event_file(path)": lambda path: list(summary.read_event_file(path)),
    "summary.trace_export(profiler_outdir)": traced_to,
    "data.Dataset.load(path)": lambda path: data.Dataset.load(path),
    "data.Dataset.list_files(file_pattern)": lambda path: data.Dataset.list_files(path),
    "data.TFRecordDataset(filenames)": lambda path: list(data.TFRecordDataset(path)),
    "data.TextLineDataset(filenames)": lambda path: list(data.TextLineDataset([path])),
    "data.ArrayRecordDataset(filenames)": lambda path: data.ArrayRecordDataset(path),
    "data.CsvDataset(filenames)": lambda path: data.CsvDataset(path, [0.0]),
    "data.FixedLengthRecordDataset(filenames)": lambda path: data.FixedLengthRecordDataset(path, 3),
    "data.NpzDataset(filenames)": lambda path: data.NpzDataset(path),
    "data.ParquetDataset(filenames)": lambda path: data.ParquetDataset(path),
    "data.make_csv_dataset(file_pattern)": lambda path: data.make_csv_dataset(path, 2),
    "data.load_mnist(data_dir)": lambda path: data.load_mnist("test", path),
    "data.read_idx(path)": lambda path: data.read_idx(path),
    "estimator.Estimator.evaluate(checkpoint_path)": lambda path: trained().evaluate(
        dataset, 1, checkpoint_path=path
    ),
    "estimator.Estimator.predict(checkpoint_path)": lambda path: list(
        trained().predict(dataset, checkpoint_path=path)
    ),
    **{
        f"estimator.Estimator.{method}({parameter})": exported(method, parameter)
        for method in ("export_saved_model", "export_savedmodel", "experimental_export_all_saved_models")
        for parameter in ("export_dir_base", "assets_extra", "checkpoint_path")
    },
    "estimator.model_to_estimator(keras_model_path)": lambda path: estimator.model_to_estimator(
        keras_model_path=path
    ),
    "estimator.Session.save(directory)": lambda path: in_session(lambda each: each.save(1, directory=path)),
    "estimator.Session.is_late(directory)": lambda path: in_session(lambda each: each.is_late(path)),
    "integrations.MLflow(folder)": lambda path: integrations.MLflow(folder=path),
    "integrations.WandB(folder)": lambda path: integrations.WandB(folder=path),
    "launch.run(program)": lambda path: launch.run(path),
}
# Parameters that the walk takes for paths of users.
NO_PATHS = {
    "Records, in which muster tells of paths that it has used.": """
        checkpoint.Checkpoint(path) checkpoint.Checkpoint(files) checkpoint.CheckpointInfo(path)
        checkpoint.tensorflow.CheckpointState(model_checkpoint_path)
        checkpoint.tensorflow.CheckpointState(all_model_checkpoint_paths) saved_model.SavedModel(path)
        saved_model.SavedModel(files) engines.TaskStart(log)""",
    "A column that its function makes, which takes the file.": """
        feature_column.VocabularyFileCategoricalColumn(vocabulary_file)""",
    "TF_CONFIG as it is: RunConfig takes the folder.": "cluster.TFConfig(model_dir)",
    "A folder that is joined with a name: what uses the result refuses it.": """
        checkpoint.checkpoint_path(directory)""",
    "A name, or a pattern of names, within a folder that another argument is.": """
        checkpoint.write_part(file) checkpoint.tensorflow.newest_checkpoint(latest_filename)
        checkpoint.tensorflow.latest_prefix(state_file) checkpoint.tensorflow.prefixes(state_file)
        estimator.BestExporter(event_file_pattern) summary.create_file_writer(filename_suffix)
        summary.EventFileWriter(filename_suffix)""",
    "Muster calls it, with paths below the model_dir.": """
        estimator.Exporter.export(export_path) estimator.Exporter.export(checkpoint_path)
        estimator.BestExporter.export(export_path) estimator.BestExporter.export(checkpoint_path)
        estimator.BestExporter.write(export_path) estimator.BestExporter.write(checkpoint_path)
        estimator.FinalExporter.export(export_path) estimator.FinalExporter.export(checkpoint_path)
        estimator.LatestExporter.export(export_path) estimator.LatestExporter.export(checkpoint_path)
        extend.StoredVariables.save(folder)""",
    "The name of a variable, or of a table.": """
        estimator.Session.get_variable_value(path) estimator.Session.set_variable_value(path)
        extend.Table(path) extend.VariableSpec(path)""",
    "Files that are open, or their bytes.": """
        checkpoint.tensorflow.TensorFlowCheckpoint.map(files) extend.read_record(file)
        checkpoint.tensorflow.TensorFlowCheckpoint.read_all(files) engines.HostOptions(files)""",
    "A folder of another machine.": "engines.HostOptions(workdir)",
    "Text that an event says.": "summary.EventFileWriter.add_session_log(path)",
    "Folders of code, for tracebacks.": "extend.Frontend(folders)",
    "Seconds.": "estimator.make_stop_at_checkpoint_step_hook(wait_after_file_check_secs)",
}


def test_every_path_of_a_public_function_is_tried() -> None:
    found, tried = {*path_parameters()}, {*CALLS, *READS}
    listed = " ".join(NO_PATHS.values()).split()
    assert sorted(found - tried - {*listed}) == []
    assert sorted({*listed} - found | {*listed} & tried) == []
    assert sorted(each for each in tried - found if each.endswith(")")) == []
    assert len({*listed}) == len(listed)


@pytest.mark.parametrize("call", [*CALLS, *READS])
def test_a_scheme_is_refused_before_anything_is_made(call: str, empty: Path) -> None:
    with pytest.raises((PathError, argparse.ArgumentTypeError), match="no file system for oss://") as raised:
        {**CALLS, **READS}[call](URL)
    assert [*empty.iterdir()] == []
    if call in path_parameters():
        assert path_parameters()[call].__code__ in [entry.frame.code.raw for entry in raised.traceback]


@pytest.mark.parametrize("call", CALLS)
def test_a_file_url_is_its_path(call: str, empty: Path, tmp_path: Path) -> None:
    name = "w.csv" if call == "CSVLogger" else "ckpt"
    assert made_by(CALLS[call], f"file://{tmp_path}/two", name) == made_by(
        CALLS[call], f"{tmp_path}/one", name
    )
    assert [*empty.iterdir()] == []


def test_tf_config_may_name_the_folder(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"model_dir": "file:///tmp/m"}')
    assert estimator.RunConfig().model_dir == "/tmp/m"
    assert estimator.RunConfig(model_dir="/tmp/m").model_dir == "/tmp/m"
    monkeypatch.setenv("TF_CONFIG", '{"model_dir": "gs://bucket/m"}')
    with pytest.raises(PathError, match="gs://"):
        estimator.RunConfig()


# The words of a command in which URL stands for an option's path.
COMMANDS = {
    "run --log-dir": f"run --log-dir {URL} train.py",
    "run --profile": f"run --profile {URL} train.py",
    "run SCRIPT": f"run {URL}",
    "pods --pod": f"manifest kubernetes --image x --name x --pod {URL} train.py",
    "manifest SCRIPT": f"manifest kubernetes --image x --name x {URL}",
    "status job": f"status {URL}",
    "logs --job": f"logs --job {URL}",
    "page job": f"page {URL}",
    "stop job": f"stop {URL}",
    "scale job": f"scale {URL} 2",
    "stacks --job": f"stacks --job {URL}",
    "plan job": f"plan {URL}",
    "replay log": f"replay {URL}",
    "keys folder": f"keys {URL} --hosts localhost",
    "serve folder": f"serve {URL}",
    "inspect path": f"inspect {URL}",
    "convert source": f"convert {URL} here",
    "convert model_dir": f"convert here {URL}",
    "show path": f"saved-model show {URL}",
}
# What these name is not on this machine, but on hosts and in containers, or goes into a text as it is; and
# the other jobs of a plan are found as the first one is.
ELSEWHERE = [
    *("run --workdir", "run --python", "kind --workdir", "allocations --mount"),
    *("dockerfile --workdir", "dockerfile --requirements", "plan --against"),
]


def test_a_program_may_be_a_url_of_a_file() -> None:
    parser = argparse.ArgumentParser()
    add_program_options(parser, "the program")
    assert parser.parse_args(["file:///a/b.py"]).script == "/a/b.py"
    assert parser.parse_args(["./b.py"]).script == "./b.py"


def test_every_path_of_a_command_is_tried() -> None:
    known = {*COMMANDS, *ELSEWHERE}
    assert sorted(path_options().keys() - known) == []
    assert sorted(known - path_options().keys()) == ["manifest SCRIPT", "run SCRIPT"]


@pytest.mark.parametrize("option", COMMANDS)
def test_the_commands_say_so(option: str, empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty / "train.py").touch()
    try:
        code = main(COMMANDS[option].split())
    except SystemExit as exc:
        code = int(exc.code or 0)
    assert code in (1, 2)
    assert "no file system for oss://" in capsys.readouterr().err
    assert [path.name for path in empty.iterdir()] == ["train.py"]


def test_nothing_is_left_of_an_export_to_elsewhere(empty: Path) -> None:
    made = estimator.Estimator(model_fn, os.fspath(empty / "model"))
    with pytest.raises(ValueError, match="Train first|oss://"):
        made.export_saved_model(URL, lambda: None)
    assert not (empty / "oss:").exists()
