"""TensorFlow's names settle Keras' backend, in a process that has not chosen it yet."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes


def test_the_names_settle_it_beside_tensorflow(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "KERAS_HOME")}
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text('{"backend": "tensorflow"}')
    (tmp_path / "tensorflow.py").write_text('raise ImportError("this TensorFlow is imported")\n')
    code = "import muster_tensorflow as tf\nimport keras; print(keras.backend.backend())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "jax\n"), done.stderr
