"""Load weights by layer name from another model's file, for the layers that both have.

Files of weights have the names of layers from keras 3.15 on, which has no public way to load by them: tried
on 3.15.1, and ``tests/distribute/fit/test_weights_by_name.py`` fails when what is used here changes.

Source: keras/src/legacy/saving/legacy_h5_format.py of Keras 3.15, ``load_weights_from_hdf5_group_by_name``.
"""

import logging
from typing import Any

import h5py  # type: ignore[import-untyped]

from muster._keras import keras

_log = logging.getLogger("muster")


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
