"""``muster port`` knows what the modules have: no name is missed, and none is missing that is there."""

import re
from pathlib import Path

import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster_tensorflow.names._hints import advice_for
from muster_tensorflow.port._differences import DIFFERENCES
from muster_tensorflow.port._lookup import OTHERS, is_namespace, look_up
from muster_tensorflow.port._program import Use, read_program
from muster_tensorflow.port._tables import names_by_module
from repository import ROOT
from used_names import NAMES

# Names that tests of missing names use.
DELIBERATE = {
    "packages/muster-tensorflow/tests/test_other_names.py": {"tf.compat.v1.get_default_session"},
    "packages/muster-tensorflow/tests/v2/test_keras_backend_names.py": {
        "tf.keras.layers.experimental.preprocessing.PreprocessingLayer"
    },
    "packages/muster-tensorflow/tests/test_used_names.py": {"tf.losses.huber_loss", "tf.layers.dense"},
    **{
        f"packages/muster-tensorflow/tests/programs/sessions/{name}_before.py": {
            "tf.compat.v1.train.MonitoredTrainingSession",
            "tf.compat.v1.train.replica_device_setter",
        }
        for name in ("dist_mnist", "sync_replicas")
    },
}


def there(module: object, name: str) -> bool:
    for part in name.split(".")[1:]:
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
        if part == "FLAGS":  # whose values are there once it is parsed
            break
    return True


def test_all_names_of_the_modules_are_known() -> None:
    for module, names in names_by_module().items():
        for name in names:
            assert look_up(Use(1, f"{module}.{name}"), one=False).instead is None
        assert is_namespace(module)
        assert look_up(Use(1, module, is_module=True), one=False).instead is None


@pytest.mark.parametrize("one", [False, True])
def test_names_are_missing_where_programs_would_miss_them(one: bool) -> None:
    for name in NAMES:
        answer = look_up(Use(1, name), one)
        assert (answer.instead is None) == there(tf1 if one else tf, name), name
        assert answer.instead != advice_for("tf.nothing")


def test_names_of_tensorflow_1_are_found_in_programs_for_it() -> None:
    program = read_program("import tensorflow as tf\n" + "\n".join(NAMES), is_namespace, set())
    assert {use.path for use in program.uses} == set(NAMES)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=str(path.relative_to(ROOT)))
        for folder in (
            "packages/muster/tests",
            "packages/muster-tensorflow/tests",
            "examples",
            "bench",
            "docs",
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "muster_tensorflow" in path.read_text() and "_peers" not in path.parts  # those run TensorFlow
    ],
)
def test_programs_that_run_miss_nothing(path: Path) -> None:
    program = read_program(path.read_text(), is_namespace, set(OTHERS))
    missing = {use.path for use in program.uses if look_up(use, one=False).instead is not None}
    assert missing == DELIBERATE.get(str(path.relative_to(ROOT)), set())


def test_differences_are_without_markup() -> None:
    assert len(DIFFERENCES) > 100
    assert DIFFERENCES["tf.estimator.Estimator"] == (
        "training resumes with the very next example; variables have Keras' names"
    )
    assert "tf.train.AdamOptimizer" not in DIFFERENCES  # its row compares with Keras
    for name, differs in DIFFERENCES.items():
        assert re.fullmatch(r"tf\.[\w.]+", name)
        assert not re.search(r"`|\]\(|\.$", differs), name
