"""The names that programs use most have an example in the reference, which runs as it is.

An example uses ``muster``, ``keras``, ``np``, ``pathlib`` and ``Dataset`` without importing them.
"""

import functools
import inspect
import pathlib
import re
import textwrap

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset

MOST_USED = """
    function GradientTape minimize value_and_grad name_output config.run_functions_eagerly
    data.Dataset.from_tensor_slices data.Dataset.from_generator data.Dataset.from_loader
    data.Dataset.from_source data.Dataset data.Dataset.iterator data.TFRecordDataset data.TFRecordWriter
    data.TextLineDataset distribute.MirroredStrategy distribute.MultiWorkerMirroredStrategy
    distribute.OneDeviceStrategy distribute.get_strategy distribute.Strategy.run distribute.Strategy.reduce
    estimator.Estimator estimator.EstimatorSpec estimator.RunConfig estimator.train_and_evaluate
    estimator.TrainSpec estimator.EvalSpec estimator.DNNClassifier estimator.LinearClassifier
    estimator.SessionRunHook estimator.LoggingTensorHook estimator.LatestExporter
    feature_column.numeric_column feature_column.categorical_column_with_vocabulary_list
    feature_column.embedding_column feature_column.indicator_column feature_column.crossed_column
    summary.create_file_writer summary.scalar checkpoint.read_checkpoint
    apply_gradients distribute.InputContext distribute.CommunicationOptions distribute.DatasetCreator
    distribute.ParameterServerStrategy distribute.coordinator.ClusterCoordinator
    cluster.ClusterSpec cluster.SimpleClusterResolver estimator.BestExporter
    estimator.stop_if_no_decrease_hook estimator.numpy_input_fn estimator.WarmStartSettings
    estimator.MultiClassHead estimator.model_to_estimator
    checkpoint.latest_checkpoint checkpoint.list_checkpoints checkpoint.write_checkpoint
    summary.read_events data.make_csv_dataset data.as_arrays data.wide_ids layers.HashEmbedding
""".split()


@pytest.mark.parametrize("name", MOST_USED)
def test_it_has_an_example_that_runs(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documented = functools.reduce(getattr, name.split("."), muster)
    found = re.search(r"Example:\n\s+```python\n(.*?)```", inspect.getdoc(documented), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    known = {"muster": muster, "keras": keras, "np": np, "pathlib": pathlib, "Dataset": Dataset}
    exec(textwrap.dedent(found[1]), known)
