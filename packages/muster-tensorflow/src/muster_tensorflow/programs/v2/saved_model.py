"""``tf.saved_model``: save Keras models and modules in directories, and load them as functions.

The directory is a saved model of `muster.saved_model`, which TensorFlow and its servers cannot read, with a
Keras archive.
"""

import enum
import functools
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from muster import keras, saved_model
from muster.data import TensorSpec
from muster.extend import local_path
from muster_tensorflow.library.ops._eager_values import as_tensor
from muster_tensorflow.programs.v2._module import OwnModule
from muster_tensorflow.programs.v2.checkpoints._checkpoint_objects import Objects
from muster_tensorflow.programs.v2.saved._model_signatures import DEFAULT, named_outputs, signatures_of
from muster_tensorflow.programs.v2.saved._saved_modules import (
    OBJECTS,
    LoadedModule,
    functions_of,
    read_module,
    write_module,
)

_log = logging.getLogger(__name__)

DEFAULT_SERVING_SIGNATURE_DEF_KEY = DEFAULT
# Where the archive lies says whether the default signature is the model's call, or the program's function.
_OF_CALL = "model.keras"
_CONFIG_OF_KERAS = "config.json"  # in a folder that model.save has written
_OF_FUNCTIONS = os.path.join("functions", "model.keras")


class VariablePolicy(enum.Enum):
    """TensorFlow's policies for saving distributed variables; unused: whole values are saved.

    Source: tensorflow/python/saved_model/save_options.py, ``VariablePolicy``.
    """

    NONE = None
    SAVE_VARIABLE_DEVICES = "save_variable_devices"
    EXPAND_DISTRIBUTED_VARIABLES = "expand_distributed_variables"


class SaveOptions(NamedTuple):
    """Options that `save` accepts and ignores: the process that saves writes.

    Source: tensorflow/python/saved_model/save_options.py, ``SaveOptions``.
    """

    namespace_whitelist: object = None
    save_debug_info: bool = False
    function_aliases: object = None
    experimental_debug_stripper: bool = False
    experimental_io_device: str | None = None
    experimental_variable_policy: object = None
    experimental_custom_gradients: bool = True
    experimental_image_format: bool = False
    experimental_skip_saver: bool = False


class LoadOptions(NamedTuple):
    """Options that `load` accepts and ignores: the process that loads reads.

    Source: tensorflow/python/saved_model/load_options.py, ``LoadOptions``.
    """

    allow_partial_checkpoint: bool = False
    experimental_io_device: str | None = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: object = None
    experimental_load_function_aliases: bool = False


def contains_saved_model(export_dir: str | bytes | os.PathLike[str]) -> bool:
    """Return whether a directory has a saved model that was written to its end.

    Source: ``contains_saved_model`` (tensorflow/python/saved_model/loader_impl.py).
    """
    return saved_model.contains_saved_model(export_dir)


def save(
    obj: Any,
    export_dir: str | os.PathLike[str],
    signatures: Any = None,
    options: SaveOptions | None = None,
) -> None:
    """Save a model, a module or a Checkpoint, for `load`, `muster.saved_model.load` and ``muster serve``.

    Args:
        obj: A built model; or a module, a Checkpoint, or a model that was never called, whose functions
            and variables `load` finds, and other loaders only its signatures.
        export_dir: The directory; it may have an earlier saved model.
        signatures: What the model can be asked: a ``tf.function`` with an ``input_signature``, what its
            ``get_concrete_function`` returned, or several by name. None for the model's
            ``call``; a module has none then.
        options: Unused.

    Raises:
        TypeError: The object is no Keras model, or a signature is none.
        ValueError: The model does not say what it takes.
        SavedModelError: A signature does not work for any number of rows, or the model cannot be written.

    Source: tensorflow/python/saved_model/save.py, ``save``.
    """
    is_unbuilt = isinstance(obj, keras.Model) and not obj.built
    if is_unbuilt and not functions_of(obj):
        _log.warning(
            "The model %r is saved without its call, since it has not been built: call it once, or give it "
            "an Input, before.",
            obj.name,
        )
    if isinstance(obj, OwnModule | Objects) or is_unbuilt:
        to_save = {} if signatures is None else signatures_of(obj, signatures)
        with tempfile.TemporaryDirectory() as folder:
            saved_model.save(export_dir, to_save, write_module(obj, folder))
        return
    if not isinstance(obj, keras.Model):
        raise TypeError(
            f"tf.saved_model.save takes a Keras model or a tf.Module, got {type(obj).__name__}: {obj!r}. For "
            "variables and optimizers there is tf.train.Checkpoint."
        )
    to_save = signatures_of(obj, signatures)
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "model.keras")
        obj.save(archive)
        place = _OF_CALL if signatures is None else _OF_FUNCTIONS
        saved_model.save(export_dir, to_save, {place: archive})


def load(
    export_dir: str | os.PathLike[str], tags: object = None, options: LoadOptions | None = None
) -> "LoadedModel | LoadedModule":
    """Load as functions what `save`, ``Estimator.export_saved_model`` or ``model.save`` has written.

    Functions that were kept as Python code are unpickled, which can run any code: load only what you trust.
    In a strategy's scope the strategy places its variables, and `Strategy.run` takes the function of a
    model's ``call``.

    Args:
        export_dir: The directory, or a file or folder of ``model.save``.
        tags: Unused.
        options: Unused.

    Raises:
        FileNotFoundError: There is no saved model.
        SavedModelError: It is damaged, or for another platform or version.

    Source: tensorflow/python/saved_model/load.py, ``load``.
    """
    path = local_path(export_dir)
    if os.path.isfile(path) or os.path.isfile(os.path.join(path, _CONFIG_OF_KERAS)):
        model = keras.models.load_model(path)
        return LoadedModel({DEFAULT: functools.partial(_predict, model)}, model)
    found = saved_model.load(path)
    if found.has_file(OBJECTS):
        module = read_module(found.read_file)
        module.signatures = {name: _Served(each, None) for name, each in found.signatures.items()}
        return module
    called = _archived(os.path.join(path, _OF_CALL))
    model = called or _archived(os.path.join(path, _OF_FUNCTIONS))
    return LoadedModel({name: _Served(each, called) for name, each in found.signatures.items()}, model)


class LoadedModel:
    """A loaded model: call it, or its signatures.

    Args:
        signatures: Functions from inputs to a dict of outputs, by name.
        model: The Keras model; None if there is none, or it cannot be loaded without the program's classes.

    Attributes:
        signatures: Functions from inputs to a dict of outputs, by name: ``"serving_default"``.
    """

    def __init__(
        self, signatures: Mapping[str, Callable[..., dict[str, Any]]], model: keras.Model | None
    ) -> None:
        self.signatures = signatures
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self._keras_model()(*args, **kwargs)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of the model, also those that training leaves as they are."""
        variables: list[keras.Variable] = self._keras_model().variables
        return variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables that training changes."""
        variables: list[keras.Variable] = self._keras_model().trainable_variables
        return variables

    def _keras_model(self) -> keras.Model:
        if self._model is None:
            raise ValueError(
                "The saved model has signatures, and no Keras model that this program can load: call "
                f"loaded.signatures[...], one of {sorted(self.signatures)}. Import the classes of a Keras "
                "model, registered by keras.saving.register_keras_serializable, before it is loaded."
            )
        return self._model


class _Served:
    """A signature as TensorFlow's: takes inputs by position, too.

    Args:
        signature: The signature.
        model: The Keras model whose call it is, for the values of a step; None if there is none.
    """

    def __init__(self, signature: saved_model.Signature, model: keras.Model | None) -> None:
        self._signature, self._model = signature, model

    @property
    def structured_outputs(self) -> dict[str, TensorSpec]:
        """The outputs' shapes and dtypes by name."""
        return self._signature.outputs

    @property
    def structured_input_signature(self) -> tuple[tuple[()], dict[str, TensorSpec]]:
        """The inputs' shapes and dtypes: none by position, and those by name."""
        return (), self._signature.inputs

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Compute the outputs by name."""
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))
        if traced and self._model is not None:
            return _predict(self._model, *args, **kwargs)
        inputs = dict(zip(self._signature.inputs, args, strict=False)) | kwargs
        if traced:
            return self._signature.in_step(inputs)
        outputs = self._signature(**{name: np.asarray(value) for name, value in inputs.items()})
        return {name: as_tensor(value) for name, value in outputs.items()}


def archive_in(export_dir: Any) -> str | None:
    """Return the file of the Keras model that `save` has written in a directory; None if there is none."""
    if not isinstance(export_dir, str | os.PathLike):
        return None
    places = (os.path.join(local_path(export_dir), each) for each in (_OF_CALL, _OF_FUNCTIONS))
    return next(filter(os.path.isfile, places), None)


def _archived(archive: str) -> keras.Model | None:
    if not os.path.isfile(archive):
        return None
    try:
        return keras.models.load_model(archive)
    except (TypeError, ValueError):  # of classes that this program has not registered
        return None


def _predict(model: keras.Model, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the outputs of a model by name.

    Args:
        model: The model.
        *args: The arguments of its ``call``.
        **kwargs: Its inputs by name, if there are no ``args``.
    """
    return named_outputs(model, model(*args, training=False) if args else model(kwargs, training=False))
