"""``tf.saved_model``: save Keras models in directories, and load them as functions.

The directory holds a Keras archive, which TensorFlow and its servers cannot read.
"""

import functools
import os
from typing import Any, NamedTuple

from muster._keras import keras

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
_ARCHIVE = "model.keras"


class SaveOptions(NamedTuple):
    """Options that `save` accepts and ignores: the process that saves writes.

    Source: tensorflow/python/saved_model/save_options.py, ``SaveOptions``.
    """

    experimental_io_device: str | None = None


class LoadOptions(NamedTuple):
    """Options that `load` accepts and ignores: the process that loads reads.

    Source: tensorflow/python/saved_model/load_options.py, ``LoadOptions``.
    """

    experimental_io_device: str | None = None


def save(
    obj: object,
    export_dir: str | os.PathLike[str],
    signatures: None = None,
    options: SaveOptions | None = None,
) -> None:
    """Save a Keras model in a directory, for `load`.

    Args:
        obj: A built model.
        export_dir: The directory; it may exist.
        signatures: Only None, since models are served by their ``call``.
        options: Unused.

    Raises:
        TypeError: The object is no Keras model.
        ValueError: The model was not built, or there are signatures.

    Source: tensorflow/python/saved_model/save.py, ``save``.
    """
    if not isinstance(obj, keras.Model):
        raise TypeError(
            f"tf.saved_model.save takes a Keras model, got {type(obj).__name__}: {obj!r}. For variables and "
            "optimizers there is tf.train.Checkpoint."
        )
    if not obj.built:
        raise ValueError(
            f"The model {obj.name!r} has not been built: call it once, or give it an Input, before."
        )
    if signatures is not None:
        raise ValueError(
            f"A model is served by its call, got signatures={signatures!r}. Save a model whose call does "
            "what they do."
        )
    os.makedirs(export_dir, exist_ok=True)
    obj.save(os.path.join(export_dir, _ARCHIVE))


def load(
    export_dir: str | os.PathLike[str], tags: object = None, options: LoadOptions | None = None
) -> "LoadedModel":
    """Load a model that `save` or ``model.save`` has written, as functions.

    In a strategy's scope the strategy places its variables, and `Strategy.run` takes its functions.

    Args:
        export_dir: The directory, or a ``.keras`` file.
        tags: Unused.
        options: Unused.

    Raises:
        FileNotFoundError: There is no saved model.

    Source: tensorflow/python/saved_model/load.py, ``load``.
    """
    path = os.fspath(export_dir)
    archive = os.path.join(path, _ARCHIVE) if os.path.isdir(path) else path
    if not os.path.isfile(archive):
        raise FileNotFoundError(
            f"There is no saved model at {path!r}: a directory that tf.saved_model.save has written, or a "
            "file of model.save('….keras'). What TensorFlow has saved cannot be read."
        )
    return LoadedModel(keras.models.load_model(archive))


class LoadedModel:
    """A loaded model: call it, or its signatures.

    Args:
        model: The Keras model.

    Attributes:
        signatures: Functions from inputs to a dict of outputs, by name: ``"serving_default"``.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self.signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: functools.partial(_predict, model)}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self._model(*args, **kwargs)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of the model, also those that training leaves as they are."""
        variables: list[keras.Variable] = self._model.variables
        return variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables that training changes."""
        variables: list[keras.Variable] = self._model.trainable_variables
        return variables


def _predict(model: keras.Model, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the outputs of a model by name.

    Args:
        model: The model.
        *args: The arguments of its ``call``.
        **kwargs: Its inputs by name, if there are no ``args``.

    Returns:
        Arrays by the names of the output layers; for a subclassed model ``output_1`` and so on.
    """
    outputs = model(*args, training=False) if args else model(kwargs, training=False)
    if isinstance(outputs, dict):
        return outputs
    arrays = outputs if isinstance(outputs, list | tuple) else [outputs]
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    else:
        names = getattr(model, "output_names", None) or [f"output_{i + 1}" for i in range(len(arrays))]
    return dict(zip(names, arrays, strict=True))
