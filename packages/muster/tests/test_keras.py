"""How Keras is imported: in a process of its own, which has not imported it yet."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

PROGRAM = """
import gc
{before}
collections = []
gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
told = gc.isenabled(), gc.get_freeze_count() > 0
import jax
del collections[:]
import muster._keras
assert told[1] or 2 not in collections, collections
assert (gc.isenabled(), gc.get_freeze_count() > 0) == told
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "gc.disable()", "gc.freeze()"])
def test_no_full_collection_runs_meanwhile_and_the_collector_is_left_as_it_was(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before)], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()


WRAPPERS = """
import sys
from pathlib import Path
Path("sklearn.py").write_text("raise RuntimeError('it was imported')")  # found before the real one, if any
sys.path.insert(0, ".")
from muster import keras
import muster.estimator
assert "sklearn" not in sys.modules and not [finder for finder in sys.meta_path if "muster" in repr(finder)]
try:
    keras.wrappers.SKLearnClassifier
except RuntimeError as error:
    print(error)
"""


@pytest.mark.slow
def test_scikit_learn_is_not_imported_until_its_wrappers_are_used(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRAPPERS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "it was imported\n"), done.stderr


SEARCHED = """
import inspect, sys
from muster import keras
inspect.stack()
inspect.getmodule(type("Unknown", (), {}))
[getattr(module, "__warningregistry__", None) for module in list(sys.modules.values())]  # as assertWarns does
assert "keras.src.wrappers.sklearn_wrapper" not in sys.modules
assert "SKLearnRegressor" in dir(keras.wrappers) and not hasattr(keras.wrappers, "SKLearn")
"""

THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from muster import keras
ready = Barrier(4)
def use(_):
    ready.wait()
    return keras.wrappers.SKLearnRegressor
with ThreadPoolExecutor(4) as pool:
    assert len(set(pool.map(use, range(4)))) == 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [SEARCHED, THREADS], ids=["searched", "threads"])
def test_the_wrappers_beside_what_others_do(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.samples("from muster import keras; keras.wrappers.SKLearnRegressor")
@pytest.mark.parametrize(
    "use",
    [
        "from muster import keras; keras.wrappers.SKLearnRegressor",
        "import muster._keras; from keras.wrappers import SKLearnRegressor",
        "import muster._keras, keras.wrappers; keras.wrappers.SKLearnRegressor",
        "import muster._keras; from keras.wrappers import *; SKLearnRegressor",
    ],
)
def test_the_wrappers_are_those_of_keras(use: str) -> None:
    done = subprocess.run([sys.executable, "-c", use], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()


LATER = """
import sys
import numpy as np
from muster import keras
import muster.estimator
names = ["pandas", "requests", "scipy.sparse.linalg", "jax.experimental.pallas"]
assert not [name for name in names if name in sys.modules]
slicing = keras.src.trainers.data_adapters.array_slicing
assert slicing.can_slice_array(np.ones(2)) and not slicing.can_slice_array(3)
assert "pandas" not in sys.modules
assert slicing.pandas.DataFrame({"a": [1]}).a.tolist() == [1]
import pandas, requests
assert pandas.read_csv and requests.exceptions.RequestException
assert slicing.can_slice_array(pandas.DataFrame()) and slicing.can_slice_array(pandas.Series([1.0]))
assert isinstance(pandas.Series([1.0]), slicing.ARRAY_TYPES)
monitor = sys.modules["keras.src.callbacks.remote_monitor"].requests
assert monitor.exceptions.RequestException is requests.exceptions.RequestException
requests.post = 3
assert monitor.post == 3
import jax.experimental.sparse
solvers = jax.experimental.sparse.linalg
import jax.experimental.sparse.linalg
found = jax.experimental.sparse.linalg
assert found.spsolve is solvers.spsolve and solvers is not found
mask = keras.src.backend.nn.splash_attention_mask.CausalMask((2, 2))
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask
assert type(mask) is splash_attention_mask.CausalMask
"""


def test_what_keras_seldom_uses_is_imported_when_it_is_used() -> None:
    pytest.importorskip("pandas", reason="Keras takes tables of pandas where it is installed")
    pytest.importorskip("requests", reason="RemoteMonitor sends by requests")
    done = subprocess.run([sys.executable, "-c", LATER], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()


INTERRUPTED = """
import functools, os, signal, sys
moments = [sys.argv[1]]
def interrupt(moment):
    if moment in moments:
        moments.clear()
        os.kill(os.getpid(), signal.SIGINT)
class Described(functools.cached_property):
    def __set_name__(self, owner, name):  # Python turns what is raised here into a RuntimeError
        interrupt("a descriptor of " + owner.__module__.partition(".")[0])
        super().__set_name__(owner, name)
functools.cached_property = Described
sys.addaudithook(lambda event, args: event == "import" and interrupt(args[0]))
try:
    import muster.estimator
finally:
    assert not moments
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print("keras" in sys.modules)
"""


@pytest.mark.samples("numpy-True", "muster.estimator-False", "jaxlib._jax-True")
@pytest.mark.parametrize(
    ("moment", "held_off"),
    [
        ("numpy", True),
        ("a descriptor of numpy", True),
        ("jaxlib._jax", True),
        ("keras.src.backend", True),
        ("muster.estimator._estimator", True),
        ("muster.estimator", False),
    ],
)
def test_ctrl_c_waits_for_the_imports(moment: str, held_off: bool) -> None:
    command = [sys.executable, "-c", INTERRUPTED, moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT, done.stderr
    of_imports = not moment.startswith("muster")  # which are told of, without a traceback
    assert done.stderr.endswith("nothing had begun.\n" if of_imports else "KeyboardInterrupt\n")
    assert done.stdout == f"{held_off}\n"
