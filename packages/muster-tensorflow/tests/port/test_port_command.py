"""``muster port``: what it lists of a program, and what it changes."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from muster.__main__ import main

Captured = pytest.CaptureFixture[str]


def ported(source: str, folder: Path, capsys: Captured, *options: str) -> tuple[int, list[str]]:
    """Return the exit code, and the lines without the path of the file, of a command on a program."""
    path = folder / "program.py"
    path.write_text(source)
    code = main(["port", *options, str(path)])
    shown = capsys.readouterr()
    assert shown.err == ""
    return code, [line.removeprefix(str(path)).lstrip(":") for line in shown.out.splitlines()]


def problems(source: str, folder: Path, capsys: Captured) -> list[str]:
    """Return the line and the name of each place that uses a missing name."""
    _, lines = ported(source, folder, capsys)
    return [found[1] for line in lines if (found := re.match(r"(\d+: \S+) is missing\. .", line))]


def test_names_are_listed_with_what_to_use(tmp_path: Path, capsys: Captured) -> None:
    source = """import tensorflow as tf
x = tf.constant(1.0)
config = tf.estimator.RunConfig()
again = tf.estimator.RunConfig()
model = tf.TypeSpec()
"""
    code, lines = ported(source, tmp_path, capsys)
    assert code == 1
    assert lines == [
        "3: tf.estimator.RunConfig differs: session_config, device_fn and protocol have no effect.",
        "5: tf.TypeSpec is missing. Use tf.TensorSpec.",
        " names: 3, of TensorFlow 2 (muster_tensorflow); uses of missing ones: 1; differences: 1.",
    ]


def test_a_folder_stands_for_its_programs(tmp_path: Path, capsys: Captured) -> None:
    package = tmp_path / "package"
    (package / "models" / ".kept").mkdir(parents=True)
    for place in ("train.py", "models/model.py", "models/.kept/old.py"):
        (package / place).write_text("import tensorflow as tf\ntf.app.run()\n")
    (package / "notes.txt").write_text("import tensorflow as tf\n")
    assert main(["port", "--write", str(package)]) == 0
    assert "import muster_tensorflow.compat.v1 as tf" in (package / "models" / "model.py").read_text()
    assert "import muster_tensorflow.compat.v1 as tf" in (package / "train.py").read_text()
    assert (package / "models" / ".kept" / "old.py").read_text().startswith("import tensorflow as tf")
    capsys.readouterr()
    (empty := tmp_path / "empty").mkdir()
    assert main(["port", str(empty)]) == 2
    assert "empty has no programs: no *.py is in it or below" in capsys.readouterr().err


def test_all_is_well(tmp_path: Path, capsys: Captured) -> None:
    code, lines = ported("import tensorflow as tf\ntf.constant(1)\n", tmp_path, capsys)
    assert (code, len(lines)) == (0, 1)
    other = ported("import numpy as tf\ntf.Session()\n", tmp_path, capsys)
    assert other == (0, [" imports neither TensorFlow nor Keras."])


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import tensorflow as tf", "tf.nothing"),
        ("import os, tensorflow as tf", "tf.nothing"),
        ("import tensorflow", "tensorflow.nothing"),
        ("import tensorflow.keras", "tensorflow.nothing"),
        ("import tensorflow.compat.v1 as tf", "tf.nothing"),
        ("import tensorflow.compat.v2 as tf", "tf.nothing"),
        ("from tensorflow.compat import v1", "v1.nothing"),
        ("from tensorflow import keras as k", "k.layers.nothing"),
        ("import tensorflow.keras.layers as layers", "layers.nothing"),
        ("from tensorflow.keras.layers import Dense", "Dense.nothing"),
        ("try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None", "tf.nothing"),
        ("import tensorflow as tf\nK = tf.keras.backend", "K.nothing"),
        ("import tensorflow as tf", "getattr(tf.nn, 'nothing')"),
        ("import keras", "keras.nothing"),
        ("import keras.layers", "keras.layers.nothing"),
        ("from keras import backend as K", "K.nothing"),
        ("import tensorflow_datasets as tfds", "tfds.nothing"),
        ("import muster_tensorflow as tf", "tf.nothing"),
        ("from muster_tensorflow.compat.v1 import layers", "layers.nothing"),
    ],
)
def test_names_are_followed_through_imports(
    imports: str, name: str, tmp_path: Path, capsys: Captured
) -> None:
    source = f"{imports}\ndef f():\n    return {name}\n"
    lines = problems(source, tmp_path, capsys)
    assert len(lines) == 1
    assert lines[0].startswith(f"{source[: source.index('return')].count(chr(10)) + 1}: ")
    assert lines[0].endswith(".nothing")


def test_imports_of_missing_names_and_modules(tmp_path: Path, capsys: Captured) -> None:
    source = """from tensorflow import get_default_session, constant
from tensorflow.contrib import ffmpeg, slim
import tensorflow.contrib.slim.nets as nets
from tensorflow.python.compiler import tensorrt
from tensorflow.examples.speech_commands import models
import tensorflow_hub as hub
from tensorflow.keras.models import *
from .tensorflow import other
"""
    assert problems(source, tmp_path, capsys) == [
        "1: tf.get_default_session",
        "2: tf.contrib.ffmpeg",
        "3: tf.contrib.slim.nets",
        "4: tf.python.compiler",
        "5: tf.examples.speech_commands",
        "6: tensorflow_hub",
    ]


def test_other_things_of_the_same_name_are_no_names_of_tensorflow(tmp_path: Path, capsys: Captured) -> None:
    source = """import tensorflow as tf
def f(tf): return tf.nothing
g = lambda tf: tf.nothing
h = [tf.nothing for tf in ()]
class A:
    tf = None
    x = tf.nothing
    def m(self): return tf.nothing0
def local():
    tf = object()
    return tf.nothing
def caught():
    try: pass
    except OSError as tf: tf.nothing
self.tf.nothing
"text tf.nothing"
# tf.nothing
optimizer = tf.keras.optimizers.Adam
optimizer = optimizer()
optimizer.nothing
tf.app.flags.FLAGS.nothing
tf.float32.name
"""
    assert problems(source, tmp_path, capsys) == ["8: tf.nothing0"]


def test_methods_of_tensors_are_there(tmp_path: Path, capsys: Captured) -> None:
    source = """import tensorflow as tf
def f(x):
    x.get_shape().as_list(); x.shape.as_list(); x.shape[0].value; x.set_shape([1])
    x.value; x.other.as_list(); tf.TensorShape([1]).as_list(); x.mine(); x.to_yaml(x)
    return x.numpy(), x.reset_states(), x.to_yaml()
"""
    code, lines = ported(source, tmp_path, capsys)
    assert code == 0
    assert [line.partition(" differs")[0] for line in lines if line[0].isdigit()] == ["4: tf.TensorShape"]


@pytest.mark.parametrize(
    ("code", "one"),
    [
        ("tf.layers.dense", True),
        ("tf.train.AdamOptimizer", True),
        ("tf.train.Checkpoint", False),
        ("tf.metrics.accuracy", True),
        ("tf.metrics.Mean", False),
        ("tf.metrics.Mean, tf.keras, tf.to_float, tf.losses.MeanSquaredError", False),
        ("tf.get_default_session, tf.constant", False),
        ("tf.compat.v1.layers.dense", False),
        ("tf.estimator.DNNClassifier\ntf.estimator.inputs.pandas_input_fn", True),
        ("tf.estimator.RunConfig\ntf.contrib.predictor.from_estimator", True),
    ],
)
def test_programs_are_for_tensorflow_1_or_2(code: str, one: bool, tmp_path: Path, capsys: Captured) -> None:
    _, lines = ported(f"import tensorflow as tf\n{code}\n", tmp_path, capsys)
    assert f"of TensorFlow {1 if one else 2} (" in lines[-1]


PROGRAM = """#!/usr/bin/env python
# Größe: tensorflow stays in comments.
\"\"\"import tensorflow as tf\"\"\"
from __future__ import print_function
import os, tensorflow as tf  # both
import tensorflow.keras.layers as L; import tensorflow_datasets as tfds
ä = 1; from tensorflow import (
    keras,
    losses as l,
)
if ä:
\tfrom \\
  tensorflow.keras.models import Model
from tensorflow.contrib import slim
import tensorflow.contrib.slim.nets as nets
from tensorboard.plugins.hparams import api as hp
import tensorflow
import tensorflow.keras
x = tf.layers.dense
"""


def test_imports_are_changed_and_nothing_else(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(PROGRAM.replace("\n", "\r\n").encode())
    path.chmod(0o755)
    assert main(["port", "--write", str(path)]) == 1
    shown = capsys.readouterr().out
    one = "muster_tensorflow.compat.v1"
    expected = (
        PROGRAM.replace("os, tensorflow as tf", f"os, {one} as tf")
        .replace("import tensorflow.keras.layers as L", f"import {one}.keras.layers as L")
        .replace("import tensorflow_datasets", "import muster_tensorflow.datasets")
        .replace("from tensorflow import (", f"from {one} import (")
        .replace("  tensorflow.keras.models", f"  {one}.keras.models")
        .replace("from tensorflow.contrib import", "from muster_tensorflow.contrib import")
        .replace("from tensorboard.plugins", "from muster_tensorflow.tensorboard.plugins")
        .replace("\nimport tensorflow\n", f"\nimport {one} as tensorflow\n")
        .replace("\nimport tensorflow.keras\n", f"\nimport {one} as tensorflow\n")
    )
    assert path.read_bytes().decode() == expected.replace("\n", "\r\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert f"{path}:15: the import stays as it is" in shown
    assert f"the original is {path}.bak" in shown
    assert Path(f"{path}.bak").read_bytes() == PROGRAM.replace("\n", "\r\n").encode()
    assert sorted(os.listdir(tmp_path)) == ["program.py", "program.py.bak"]


def test_a_ported_program_runs_and_is_listed_as_before(tmp_path: Path, capsys: Captured) -> None:
    source = """import tensorflow as tf
from tensorflow.keras.layers import Dense
import tensorflow.compat.v2.io.gfile as gfile
assert Dense is tf.keras.layers.Dense
assert gfile.exists is tf.io.gfile.exists
assert tf.layers.dense and tf.nn.relu
"""
    before = ported(source, tmp_path, capsys, "--write")
    path = tmp_path / "program.py"
    assert before[0] == 0
    exec(compile(path.read_text(), path, "exec"), {})
    assert main(["port", "--write", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{path}: no import is changed."
    again = [line.removeprefix(str(path)).lstrip(":").replace("tf.compat.v1.", "tf.") for line in lines]
    assert again[:-2] == before[1][:-2]


KERAS = """import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, math
import keras.backend as K
import keras.ops
from keras import layers, ops
from keras.layers import StringLookup
from tensorflow import data as tf_data
assert keras.backend.backend() == K.backend() == "tensorflow"  # whose branches it takes
assert keras.config.backend() == "jax"
assert keras.ops.relu is ops.relu
assert StringLookup is layers.StringLookup
lookup = StringLookup(vocabulary=["a", "b"])
dataset = tf_data.Dataset.from_tensor_slices(["b", "c"]).map(lookup)
assert [int(each) for each in dataset] == [2, 0]
"""


@pytest.mark.processes
def test_a_program_may_import_keras_before_tensorflow(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(KERAS)
    assert main(["port", "--write", str(path)]) == 0
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    subprocess.run([sys.executable, path], check=True, env=environment, timeout=120)


def test_an_earlier_original_is_kept(tmp_path: Path, capsys: Captured) -> None:
    path, backup = tmp_path / "program.py", tmp_path / "program.py.bak"
    path.write_text("import tensorflow as tf\n")
    backup.write_text("precious")
    assert main(["port", "--write", str(path)]) == 2
    assert "exists already. Move it away" in capsys.readouterr().err
    assert (path.read_text(), backup.read_text()) == ("import tensorflow as tf\n", "precious")


def test_other_encodings_are_kept(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "program.py"
    path.write_bytes("# coding: latin-1\nä = 'ü'; import tensorflow as tf\n".encode("latin-1"))
    assert main(["port", "--write", str(path)]) == 0
    expected = "# coding: latin-1\nä = 'ü'; import muster_tensorflow as tf\n"
    assert path.read_bytes() == expected.encode("latin-1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"import tensorflow as tf\nprint 'x'\n", ":2 is not a program for Python 3: Missing parentheses"),
        (b"x = '\xff'\n", " is not a program for Python 3: "),
        (b"# coding: none\n", " is not a program for Python 3: unknown encoding"),
        (None, " cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_read_is_said(
    content: bytes | None, message: str, tmp_path: Path, capsys: Captured
) -> None:
    path, good = tmp_path / "program.py", tmp_path / "good.py"
    good.write_text("import tensorflow as tf\ntf.TypeSpec\n")
    if content is not None:
        path.write_bytes(content)
    assert main(["port", str(path), str(good)]) == 2
    shown = capsys.readouterr()
    assert f"muster: {path}{message}" in shown.err
    assert f"{good}:2: tf.TypeSpec is missing." in shown.out


@pytest.mark.processes
def test_the_command_line_does_not_wait_for_jax() -> None:
    code = """
import sys, muster.__main__
muster.__main__._parser()
assert not {"jax", "keras", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
