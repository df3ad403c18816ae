"""``tf.saved_model``: a Keras model in a directory, and the function that serves it.

What is in the directory is Keras' own archive: TensorFlow and its servers cannot read it.
"""

import os
from typing import Any, NamedTuple

from muster._keras import keras

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
_ARCHIVE = "model.keras"


class SaveOptions(NamedTuple):
    """Accepted: the process that saves writes.

    Source: tensorflow/python/saved_model/save_options.py, ``SaveOptions``.
    """

    experimental_io_device: str | None = None


class LoadOptions(NamedTuple):
    """Accepted: the process that loads reads.

    Source: tensorflow/python/saved_model/load_options.py, ``LoadOptions``.
    """

    experimental_io_device: str | None = None


def save(
    obj: Any, export_dir: str | os.PathLike[str], signatures: None = None, options: SaveOptions | None = None
) -> None:
    """Save a Keras model that `load` finds in the directory.

    Args:
        obj: a built model.
        export_dir: the directory; it may be there already.
        signatures: only None: a model is served by its ``call``.
        options: accepted for TensorFlow's programs.

    Raises:
        TypeError: It is no Keras model.
        ValueError: It was not built, or signatures are given.

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
    export_dir: str | os.PathLike[str], tags: Any = None, options: LoadOptions | None = None
) -> "LoadedModel":
    """What `save` or ``model.save`` has written, as functions.

    In a strategy's scope its variables live where the strategy says, and `Strategy.run` takes its functions.

    Args:
        export_dir: the directory, or a ``.keras`` file.
        tags: accepted for TensorFlow's programs.
        options: likewise.

    Raises:
        FileNotFoundError: There is none.

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
    """A model that was loaded: call it, or its signatures.

    Args:
        model: the Keras model.

    Attributes:
        signatures: by name, functions of inputs that return a dict of outputs: ``"serving_default"``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: Signature(model)}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model's call returns."""
        return self._model(*args, **kwargs)

    @property
    def variables(self) -> list[Any]:
        """All of its variables."""
        variables: list[Any] = self._model.variables
        return variables

    @property
    def trainable_variables(self) -> list[Any]:
        """Those that training changes."""
        variables: list[Any] = self._model.trainable_variables
        return variables


class Signature:
    """Predicts with a model.

    Args:
        model: the Keras model.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The outputs by name.

        Args:
            *args: what the model is called with.
            **kwargs: or its inputs by name.

        Returns:
            Name -> array: the names of the output layers; of a subclassed model, ``output_1`` and so on.
        """
        outputs = self._model(*args, training=False) if args else self._model(kwargs, training=False)
        if isinstance(outputs, dict):
            return outputs
        several = outputs if isinstance(outputs, list | tuple) else [outputs]
        names = _output_names(self._model) or [f"output_{i + 1}" for i in range(len(several))]
        return dict(zip(names, several, strict=True))


def _output_names(model: Any) -> list[str] | None:
    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    names: list[str] | None = getattr(model, "output_names", None)
    return names
