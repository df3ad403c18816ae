"""Look up names in the modules of `muster.compat.tensorflow`; errors say what to use for missing ones."""

import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

# What to use instead of names that TensorFlow's guides use and muster lacks.
INSTEAD = {
    "tf.Module": "Use keras.layers.Layer or keras.Model.",
    "tf.cond": "Use keras.ops.cond.",
    "tf.while_loop": "Use keras.ops.while_loop.",
    "tf.autograph": "Functions are traced as they are: write loops and conditions with keras.ops or JAX.",
    "tf.debugging.enable_check_numerics": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.debugging.check_numerics": 'Use jax.config.update("jax_debug_nans", True).',
    "tf.profiler": "Use jax.profiler, whose profiles TensorBoard shows, too.",
    "tf.summary.create_file_writer": "Use keras.callbacks.TensorBoard with fit, or "
    "muster.summary.EventFileWriter.",
    "tf.random.Generator": "Use keras.random with a keras.random.SeedGenerator, whose state is saved.",
    "tf.random.experimental": "Use keras.random with a keras.random.SeedGenerator, whose state is saved.",
    "tf.random.stateless_uniform": "Use jax.random, whose functions take a key.",
    "tf.random.stateless_normal": "Use jax.random, whose functions take a key.",
    "tf.executing_eagerly": "Functions are compiled unless tf.config.run_functions_eagerly(True) was called.",
    "tf.strings": "Text is Python's str: use its methods in input functions.",
    "tf.image": "Use keras.ops.image, or Keras' layers, such as keras.layers.Resizing.",
    "tf.test": "Use tf.config.list_physical_devices('GPU').",
    "tf.linalg": "Use keras.ops.linalg and tf.matmul.",
    "tf.data.FixedLengthRecordDataset": "Use numpy.memmap with Dataset.from_tensor_slices.",
    "tf.distribute.cluster_resolver.SageMakerClusterResolver": "Use muster.cluster.SageMakerClusterResolver.",
    "tf.config.experimental.enable_op_determinism": "Input is always in one order; on GPUs set "
    "XLA_FLAGS=--xla_gpu_deterministic_ops=true.",
    "tf.config.experimental.get_memory_info": "Use jax.Device.memory_stats.",
    "tf.config.threading": "XLA decides; `muster run` gives each task its share of the cores.",
    "tf.TypeSpec": "Use tf.TensorSpec.",
}


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a TensorFlow name that muster does not have.

    Args:
        module: The module's name in programs, such as ``tf.compat.v1``.
        name: The name that was looked up.
    """
    wanted = f"{module}.{name}"
    advice = INSTEAD.get(
        wanted,
        'The page "Coming from TensorFlow" of the documentation says what to use instead and what is not '
        "there yet.",
    )
    return AttributeError(f"muster has no {wanted}. {advice}", name=name)


def report_missing(package: str) -> None:
    """Let the modules of a package raise the error of `missing` for names that they lack.

    Each module that is loaded gets a ``__getattr__``, unless it has one. Type checkers do not see it, and so
    report missing names, too.

    Args:
        package: The package that programs import as ``tf``.
    """
    for path, module in list(sys.modules.items()):
        if f"{path}.".startswith(f"{package}."):
            name = f"tf{path.removeprefix(package)}"
            vars(module).setdefault("__getattr__", functools.partial(_raise_missing, name))


def _raise_missing(module: str, name: str) -> NoReturn:
    raise missing(module, name)


class Names(SimpleNamespace):
    """A small TensorFlow module that needs no file of its own; unknown names raise the error of `missing`.

    Args:
        module: The module's name in programs, such as ``tf.data.experimental``.
        **names: The names in it.
    """

    def __init__(self, module: str, **names: object) -> None:
        super().__init__(**names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        raise missing(self._module, name)


def passed_on(module: ModuleType, name: str, *extra: str) -> Any:
    """Look up a name in a module that another one extends, for the ``__getattr__`` of that other one.

    Args:
        module: The module that is extended.
        name: The name that was looked up, or ``__all__``, which ``import *`` asks for.
        *extra: The public names that the extending module adds.

    Raises:
        AttributeError: There is no such name.
    """
    if name == "__all__":
        names = getattr(module, "__all__", dir(module))
        return sorted({*extra, *(each for each in names if not each.startswith("_"))})
    return getattr(module, name)
