"""Keras' backend, whatever is imported first: in processes of their own, which have not chosen it yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

# A package that Keras' TensorFlow backend would import; muster never does.
TENSORFLOW = 'raise ImportError("this TensorFlow is imported")\n'
SAYS = "import keras; print(keras.backend.backend())"
ADVICE = "Write this line above the first one that imports Keras: import muster"


def run(
    code: str, tmp_path: Path, backend: str | None = None, chosen: str | None = None, tensorflow: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a program.

    Args:
        code: The program.
        tmp_path: Its home directory.
        backend: The value of KERAS_BACKEND; None unsets it.
        chosen: The backend that Keras' file in the home directory names; None for no file.
        tensorflow: Whether a package of that name lies beside the program.
    """
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    environment["HOME"] = str(tmp_path)
    environment.pop("KERAS_HOME", None)
    if backend is not None:
        environment["KERAS_BACKEND"] = backend
    if chosen is not None:
        (tmp_path / ".keras").mkdir()
        (tmp_path / ".keras" / "keras.json").write_text(f'{{"backend": "{chosen}"}}')
    if tensorflow:
        (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.samples("None-None-True")
@pytest.mark.parametrize(
    ("backend", "chosen", "tensorflow"),
    [
        (None, None, False),
        (None, None, True),
        (None, "tensorflow", True),
        (None, "torch", False),
        ("", "tensorflow", False),
        ("jax", "tensorflow", True),
    ],
)
def test_after_import_muster_keras_is_on_jax(
    tmp_path: Path, backend: str | None, chosen: str | None, tensorflow: bool
) -> None:
    done = run(f"import muster\n{SAYS}", tmp_path, backend, chosen, tensorflow)
    assert (done.stdout, done.stderr) == ("jax\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "from muster.cluster import ClusterSpec",
        "import muster.estimator",
    ],
)
def test_any_part_of_muster_settles_it(tmp_path: Path, first: str) -> None:
    done = run(f"{first}\n{SAYS}", tmp_path, chosen="tensorflow", tensorflow=True)
    assert (done.returncode, done.stdout) == (0, "jax\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "chosen"), [("jax", None), (None, "jax"), ("jax", "tensorflow")])
def test_keras_on_jax_may_come_first(tmp_path: Path, backend: str | None, chosen: str | None) -> None:
    done = run(
        f"import keras\nfrom muster import keras as same\nassert same is keras\n{SAYS}",
        tmp_path,
        backend,
        chosen,
    )
    assert (done.stdout, done.stderr) == ("jax\n", "")


@pytest.mark.samples("None-numpy-import muster.estimator")
@pytest.mark.parametrize(
    ("backend", "chosen", "use"),
    [
        ("numpy", None, "from muster import keras"),
        (None, "numpy", "import muster.estimator"),
        ("numpy", "jax", "muster.minimize"),
    ],
)
def test_keras_on_another_backend_is_an_error_that_names_the_line(
    tmp_path: Path, backend: str | None, chosen: str | None, use: str
) -> None:
    done = run(f"import keras\nimport muster\n{use}", tmp_path, backend, chosen)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    advice = (
        ADVICE
        if backend is None
        else "Set the environment variable KERAS_BACKEND to 'jax', or leave it unset"
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: muster trains on JAX, but Keras was imported before muster, with the backend 'numpy', "
        f"and cannot change it any more. {advice}"
    )


@pytest.mark.slow
def test_the_line_that_the_error_names_helps(tmp_path: Path) -> None:
    done = run(
        f"{ADVICE.partition(': ')[2]}\nimport keras\nimport muster.estimator\n{SAYS}",
        tmp_path,
        chosen="numpy",
    )
    assert (done.returncode, done.stdout) == (0, "jax\n"), done.stderr


def test_a_variable_that_names_a_backend_stays_until_muster_takes_keras(tmp_path: Path) -> None:
    code = "import muster, os, sys\nprint(os.environ['KERAS_BACKEND'], sys.excepthook is sys.__excepthook__)"
    assert run(code, tmp_path, "torch").stdout == "torch True\n"


@pytest.mark.slow
def test_what_needs_no_keras_works_beside_another_backend(tmp_path: Path) -> None:
    code = f"{SAYS}\nfrom muster.data import Dataset\nprint(len(list(Dataset.range(2))))"
    done = run(code, tmp_path, "numpy")
    assert (done.stdout, done.stderr) == ("numpy\n2\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [False, True], ids=["without TensorFlow", "beside TensorFlow"])
def test_an_import_of_keras_that_failed_before_does_not_count(tmp_path: Path, tensorflow: bool) -> None:
    """As in a notebook, where the cell that imports Keras is run again."""
    code = f"""
try:
    import keras
except ImportError as error:
    print(error)
import muster
{SAYS}
import muster.estimator
keras.layers.Dense(1), keras.wrappers
"""
    done = run(code, tmp_path, tensorflow=tensorflow)
    error = "this TensorFlow is imported" if tensorflow else "No module named 'tensorflow'"
    assert (done.stdout, done.stderr) == (f"{error}\njax\n", "")


@pytest.mark.slow
def test_a_variable_that_is_replaced_is_logged_once_when_muster_takes_keras(tmp_path: Path) -> None:
    code = "import muster\nfrom muster import keras\nimport muster.estimator"
    done = run(code, tmp_path, "torch")
    assert done.stderr == "KERAS_BACKEND was 'torch'. muster trains on JAX, and has set it to 'jax'.\n"


@pytest.mark.slow
def test_a_variable_that_is_changed_after_muster_is_replaced_too(tmp_path: Path) -> None:
    code = f"import os, muster\nos.environ['KERAS_BACKEND'] = 'tensorflow'\nfrom muster import keras\n{SAYS}"
    done = run(code, tmp_path)
    assert done.stdout == "jax\n"
    assert "KERAS_BACKEND was 'tensorflow'" in done.stderr


@pytest.mark.slow
def test_muster_chooses_without_importing_keras(tmp_path: Path) -> None:
    code = "import muster, os, sys\nprint(os.environ['KERAS_BACKEND'], 'keras' in sys.modules)"
    assert run(code, tmp_path).stdout == "jax False\n"
