"""The names that programs use most have an example in the reference, which runs as it is.

An example uses ``muster``, ``keras``, ``np``, ``pathlib`` and ``Dataset`` without importing them.
"""

import ast
import collections
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
from pages import PAGES, blocks
from repository import ROOT

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
    get_or_create_global_step data.Dataset.range data.Dataset.list_files data.Dataset.map data.Dataset.batch
    data.BytesList data.Example data.Feature data.Features data.FixedLenFeature data.TensorSpec
    data.parse_example estimator.ModeKeys
    estimator.LinearRegressor estimator.DNNLinearCombinedClassifier estimator.SessionRunArgs
    estimator.build_raw_serving_input_receiver_fn saved_model.load cluster.TFConfigClusterResolver
    distribute.Server feature_column.categorical_column_with_hash_bucket feature_column.bucketized_column
    feature_column.make_parse_example_spec
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


def used_names(program: str) -> set[str]:
    """Return the public names of muster that a program uses, such as ``data.Dataset.range``."""
    tree, known = ast.parse(program), {"muster": "muster"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "muster":
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    found = set()
    for node in ast.walk(tree):
        spelled = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        first, _, rest = spelled.partition(".")
        if re.fullmatch(r"[\w.]+", spelled) and first in known:
            found.add(f"{known[first]}.{rest}".removeprefix("muster.").strip("."))
    return found


def documented_uses() -> collections.Counter[str]:
    """Return in how many programs of ``examples/`` and of all pages a name is used."""
    programs = [block.code for page in PAGES for block in blocks(page) if block.kind == "program"]
    programs += [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    return collections.Counter(name for program in programs for name in used_names(program))


def test_the_names_that_documented_programs_use_most_have_one() -> None:
    """Modules, and members of an enumeration, are not counted."""
    uses, most = documented_uses(), []
    for name in sorted(uses, key=lambda name: (-uses[name], name)):
        try:
            value = functools.reduce(getattr, filter(None, name.split(".")), muster)
        except AttributeError:
            continue  # an attribute of a value
        if (inspect.isclass(value) or inspect.isroutine(value)) and not name.startswith("keras"):
            most.append(name)
    assert len(most) > 100
    assert [name for name in most[:40] if name not in MOST_USED] == []


def test_what_the_reference_leaves_out_is_needed_by_no_program() -> None:
    """Names of packages that are for muster's other packages, and for front ends."""
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    found = re.findall(r"names of muster\.(\w+) without\s([^>]*) -->", pages)
    left_out = {f"{package}.{name}" for package, names in found for name in names.split()}
    assert len(left_out) > 100
    assert left_out & documented_uses().keys() == set()
