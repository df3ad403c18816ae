"""Let Keras 3 save under TensorFlow's file names: without a suffix, ``.ckpt``, or ``.h5`` for weights.

Weights of ``cp-0001.ckpt`` are in ``cp-0001.ckpt.weights.h5``, and a whole model is a folder that Keras
itself reads, of ``model.save(path, zipped=False)``. Names that Keras takes are as they were.

`saving`, `saving_weights`, `loading_weights`, `naming` and `placing` wrap public methods of Keras' classes.

Source: keras/src/saving/saving_api.py and keras/src/callbacks/model_checkpoint.py, of Keras 3.15.
"""

import functools
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import h5py  # type: ignore[import-untyped]

from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster._paths import local_path
from muster._remote import publish
from muster.checkpoint import Checkpoint, assign_exported, is_complete, read_checkpoint
from muster.checkpoint.objects import assign_saved
from muster.checkpoint.tensorflow import (
    find_checkpoint,
    is_tensorflow_checkpoint,
    load_weights,
    read_either,
)
from muster.distribute.functions import check_labels

_log = logging.getLogger(__name__)


def load_by_name(model: Any, file: str, skip_mismatch: bool = False) -> bool:
    """Set the weights of a model's layers to those of layers of the same names, and leave those of others.

    Args:
        model: The model.
        file: What Keras 3 has written by ``save_weights``.
        skip_mismatch: Whether layers whose weights have other shapes are left as they are, too, and a warning
            names them.

    Returns:
        Whether the file has names of layers.

    Raises:
        ValueError: A layer's weights have other shapes, or it has none yet.
    """
    with h5py.File(file) as saved:
        layers = saved.get("layers", {})
        groups = {place: group["vars"] for place, group in layers.items() if "vars" in group}
        names = {group.attrs.get("name"): f"layers/{place}" for place, group in groups.items()}
        filled = {group.attrs.get("name") for group in groups.values() if len(group)}
    if unbuilt := [layer.name for layer in model.layers if not layer.weights and layer.name in filled]:
        raise ValueError(
            f"The layers {unbuilt} have no weights yet, and the file has weights for them: build the model "
            "before load_weights(by_name=True), by model.build(input_shape) or a call."
        )
    failed: dict[int, tuple[Any, Exception]] = {}
    library = keras.src.saving.saving_lib
    store = library.H5IOStore(file, mode="r")
    try:
        for layer in model.layers:
            if layer.weights and (place := names.get(layer.name)) is not None:
                library._load_state(layer, store, None, place, skip_mismatch, error_msgs=failed)
    finally:
        store.close()
    for layer, error in failed.values():
        _log.warning("The layer %s was left as it is: %s", layer.name, error)
    return bool(names)


WEIGHTS = ".weights.h5"
_WEIGHTS_ENDINGS = (WEIGHTS, ".weights.json")
_H5 = (".h5", ".hdf5")
_ENDINGS = (".keras", *_H5)
# A name, and the number that Keras gives it if there is one like it.
_BUILD = "muster_build"  # an attribute of a file of weights
_IN_FOLDER = "model.weights.h5"  # where Keras keeps the weights in the folder of a model


class LoadStatus:
    """The result of ``load_weights`` from a file of TensorFlow's naming: all weights were matched."""

    def assert_consumed(self) -> "LoadStatus":
        """Pass: all weights were used."""
        return self

    def assert_existing_objects_matched(self) -> "LoadStatus":
        """Pass: all weights were found."""
        return self

    def expect_partial(self) -> "LoadStatus":
        """Do nothing: there is nothing to warn of."""
        return self


def weights_file(path: str | os.PathLike[str]) -> str:
    """Return the file of a name of weights: the name itself, if Keras takes it."""
    path = local_path(path, remote=True)
    if path.endswith(_WEIGHTS_ENDINGS):
        return path
    return path.removesuffix(".h5").removesuffix(".hdf5") + WEIGHTS


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.save``: a name without an ending is a folder; labels are checked first."""

    @functools.wraps(original)
    def save(
        self: Any, filepath: Any, overwrite: bool = True, zipped: bool | None = None, **kwargs: Any
    ) -> Any:
        check_labels()
        kwargs.pop("options", None)  # which device writes
        for argument in ("signatures", "save_traces"):
            if kwargs.get(argument) in (None, True):  # they say nothing else than the defaults do
                kwargs.pop(argument, None)
        name = _local(filepath)
        filepath = filepath if name is None else name
        if zipped is None and name is not None and not name.endswith(_ENDINGS):
            kwargs.pop("save_format", None)
            zipped = False
            if overwrite and os.path.isdir(name):
                _save_over(functools.partial(original, self, zipped=False, **kwargs), name)
                return None
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        return original(self, filepath, overwrite=overwrite, zipped=zipped, **kwargs)

    return _publishing(save)


def saving_weights(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.save_weights``: other names than Keras takes get its ending; labels are checked first."""

    @functools.wraps(original)
    def save_weights(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        check_labels()
        kwargs.pop("save_format", None)
        name = _local(filepath)
        filepath = filepath if name is None else name
        if name is not None and not name.endswith(_WEIGHTS_ENDINGS):
            filepath = weights_file(name)
            os.makedirs(os.path.dirname(filepath) or ".", exist_ok=True)
            _log.info("The weights %s are written to %s, as Keras 3 names such files.", name, filepath)
            if not name.endswith(_H5) and not self.built and "build" not in vars(type(self)):
                return _save_unbuilt(self, functools.partial(original, self, filepath, *args, **kwargs))
            original(self, filepath, *args, **kwargs)
            _note_build(self, filepath)
            return None
        return original(self, filepath, *args, **kwargs)

    return _publishing(save_weights)


def loading_weights(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.load_weights``: it finds what the others write, and checkpoints."""

    @functools.wraps(original)
    def load(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        name = _local(filepath)
        filepath = filepath if name is None else name
        if (
            kwargs.get("by_name")
            and name is not None
            and (name.endswith(WEIGHTS) or not os.path.exists(name))
        ):
            file = weights_file(name)
            if not os.path.isfile(file):
                raise FileNotFoundError(f"There is no file of weights {name}, and none {file}.")
            _build_as_noted(self, file)
            if load_by_name(self, file, args[0] if args else kwargs.get("skip_mismatch", False)):
                return LoadStatus()
            raise ValueError(
                "load_weights(by_name=True) reads what save_weights writes, from Keras 3.15 on, and what "
                f"Keras 2 wrote: {name} has no names of layers."
            )
        if name is None or name.endswith((*_WEIGHTS_ENDINGS, ".keras")):
            return original(self, filepath, *args, **kwargs)
        if name.endswith(_H5) and os.path.exists(name):
            return original(self, filepath, *args, **kwargs)
        for file in (weights_file(name), os.path.join(name, _IN_FOLDER)):
            if os.path.exists(file):
                with warnings.catch_warnings():
                    # An optimizer that has not trained yet has no variables to load: TensorFlow says nothing.
                    warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
                    warnings.filterwarnings("ignore", message="Model .* had a build config")
                    _build_as_noted(self, file)
                    original(self, file, *args, **kwargs)
                return LoadStatus()
        if is_tensorflow_checkpoint(name):
            load_weights(self, name)
            return LoadStatus()
        if is_complete(name):
            _load_model(self, name)
            return LoadStatus()
        if (found := find_checkpoint(name)) is not None:
            _load_export(self, found)
            return LoadStatus()
        return original(self, filepath, *args, **kwargs)

    return load


def naming(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``ModelCheckpoint.__init__``, which refuses the names that `saving` and `saving_weights` take."""

    @functools.wraps(original)
    def init(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
        weights = kwargs.get("save_weights_only", args[3] if len(args) > 3 else False)
        taken = (WEIGHTS,) if weights else _ENDINGS
        name = _local(filepath)
        if name is None or name.endswith(taken):
            original(self, filepath if name is None else name, *args, **kwargs)
            return
        original(self, name + taken[0], *args, **kwargs)
        self.filepath = name

    return init


# The folders of callbacks that may be on an object store.
_REMOTE = "backup_dir", "log_dir"


def placing(original: Callable[..., Any], argument: str) -> Callable[..., Any]:
    """Wrap the ``__init__`` of a callback whose first argument is a path."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        remote = argument in _REMOTE
        if args and (name := _local(args[0], remote=remote)) is not None:
            args = (name, *args[1:])
        elif (name := _local(kwargs.get(argument), remote=remote)) is not None:
            kwargs[argument] = name
        original(self, *args, **kwargs)

    return init


def _save_unbuilt(model: Any, save: Callable[[], Any]) -> Any:
    """Save the weights that a model has before its first call, as TensorFlow's format does and Keras' not."""
    model.built = True
    try:
        return save()
    finally:
        model.built = False


def _note_build(model: Any, file: str) -> None:
    """Note in a file of weights for which inputs the model was built."""
    config = model.get_build_config() if model.built else None
    if config is not None and file.endswith(WEIGHTS) and os.path.isfile(file):
        with h5py.File(file, "r+") as weights:
            weights.attrs[_BUILD] = json.dumps(keras.saving.serialize_keras_object(config))


def _build_as_noted(model: Any, file: str) -> None:
    """Build a model that has not been called for inputs like those of the model whose weights a file has.

    TensorFlow waits for the first call, and gives the weights their values then.
    """
    if model.built or model.variables or not file.endswith(WEIGHTS):
        return
    with h5py.File(file) as weights:
        noted = weights.attrs.get(_BUILD)
    if noted is not None:
        model.build_from_config(_with_tuples(keras.saving.deserialize_keras_object(json.loads(noted))))
        model.built = bool(model.variables)  # Keras builds what is in the model alone


def _with_tuples(config: Any) -> Any:
    """Return what JSON has kept with tuples for lists, as shapes are."""
    if isinstance(config, dict):
        return {name: _with_tuples(each) for name, each in config.items()}
    return tuple(map(_with_tuples, config)) if isinstance(config, list) else config


def _save_over(save: Callable[[str], object], folder: str) -> None:
    """Save into a folder that is there, perhaps with a model.

    Keras fails on the folder of assets, if the path is absolute. Other files in the folder stay.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as place:
        made = os.path.join(place, "model")
        save(made)
        for name in os.listdir(made):
            target = os.path.join(folder, name)
            if os.path.isdir(target):
                os.rename(target, os.path.join(place, name))
            os.replace(os.path.join(made, name), target)


def _load_model(model: Any, path: str) -> None:
    """Set a model's weights to those of ``tf.train.Checkpoint(model=model)``."""
    found = read_checkpoint(path)
    weights = {name: value for name, value in found.variables.items() if name.startswith("model/")}
    if not weights:
        raise CheckpointMismatchError(
            f"{path} has no model: it was not saved by tf.train.Checkpoint(model=model). Restore it by the "
            "Checkpoint that saved it."
        )
    advice = "Build the model as the one that was saved."
    assign_saved(Checkpoint(found.path, found.step, weights, {}), {"model": model.variables}, advice)


def _load_export(model: Any, found: str) -> None:
    """Set a model's weights to those of an exported model, muster's or TensorFlow's."""
    if is_tensorflow_checkpoint(found):
        load_weights(model, found)
        return
    stored = read_either(found, mapped=True)
    try:
        assign_exported(model.variables, stored)
    finally:
        stored.close()


def _local(path: Any, *, remote: bool = True) -> str | None:
    """Return a path as text; None for what is no path, or a model at Hugging Face, which Keras knows."""
    if not isinstance(path, str | bytes | os.PathLike) or str(path).startswith("hf://"):
        return None
    return local_path(path, remote=remote)


def _publishing(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that saves: what it has written into a working copy is sent."""

    @functools.wraps(save)
    def saved(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        name = _local(filepath)
        result = save(self, filepath if name is None else name, *args, **kwargs)
        for path in [] if name is None else {name, weights_file(name)}:
            publish(path)
        return result

    return saved
