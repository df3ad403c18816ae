"""Loading saved models."""

import math
import os
import pickle
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from muster._arrays import dtype_named
from muster._compilation_cache import keep_compiled
from muster._errors import DamagedCheckpointError, DamagedSavedModelError, SavedModelError
from muster._paths import local_path
from muster.checkpoint import FileRecord, MappedFile, open_regular, places_in, read_arrays
from muster.feature_column import column_from_data
from muster.saved_model._arguments import OwnCode
from muster.saved_model._folder import missing, read_file, read_manifest
from muster.saved_model._manifest import OWN_CODE, SavedModelManifest, WeightRecord
from muster.saved_model._modules import read_module
from muster.saved_model._signature import Signature

# Smaller weights are read into memory.
_LEAST_MAPPED_BYTES = 16 << 20


class SavedModel:
    """A saved model that was loaded.

    Args:
        path: Its folder.
        signatures: Its signatures by name.
        files: The sizes and checksums of its files, by their paths in the folder.

    Attributes:
        path: Its folder.
        signatures: What it can be asked, by name, such as ``"serving_default"``: functions of arrays by name.
    """

    def __init__(
        self, path: str, signatures: Mapping[str, Signature], files: Mapping[str, FileRecord]
    ) -> None:
        self.path = path
        self.signatures = signatures
        self._files = files

    def has_file(self, name: str) -> bool:
        """Return whether `save` was given a file for this path in the folder."""
        return name in self._files

    def read_file(self, name: str) -> bytes:
        """Return what a file of the folder holds.

        Raises:
            DamagedSavedModelError: It is missing, or its bytes have changed.
        """
        return read_file(self.path, name, self._files)


def load(export_dir: str | bytes | os.PathLike[str]) -> SavedModel:
    """Load a saved model, with JAX alone: neither Keras nor the program that trained it is needed.

    But for a model_fn or a receiver that computes with text: what it does with text is kept as Python code,
    which a call of the signature runs. Call models of this kind only if you trust their source.

    What is compiled for a number of rows is kept in the user's cache directory for the next process. On a CPU
    weights of 16 MiB and more stay in their file: a call brings the rows into memory that it looks up.

    Args:
        export_dir: The folder, such as ``Estimator.export_saved_model`` returns.

    Raises:
        SavedModelNotFoundError: There is no saved model in the folder, or a half written one.
        DamagedSavedModelError: A file is missing, or its bytes have changed.
        SavedModelError: It cannot be read, or is for another platform or version.

    Example:
        ```python
        columns = [muster.feature_column.numeric_column("x")]
        regressor = muster.estimator.LinearRegressor(columns, "runs/loaded")
        regressor.train(lambda: Dataset.from_tensor_slices(({"x": np.ones(4)}, np.ones(4))).batch(4))
        features = {"x": np.zeros(1, np.float32)}
        receiver_fn = muster.estimator.build_raw_serving_input_receiver_fn(features)
        model = muster.saved_model.load(regressor.export_saved_model("exports", receiver_fn))
        answer = model.signatures["predict"](x=np.ones(3, np.float32))
        assert answer["predictions"].shape == (3, 1)
        ```
    """
    path = local_path(export_dir, remote=True)
    keep_compiled(None)
    while True:
        manifest = read_manifest(path)
        try:
            return _load(path, manifest)
        except DamagedSavedModelError:
            if read_manifest(path) == manifest:
                raise
            # Another process has saved another model in its place meanwhile.


def _load(path: str, manifest: SavedModelManifest) -> SavedModel:
    weights, mapped = _weights(path, manifest)
    files = {name: read_file(path, name, manifest.files) for name in manifest.files if _is_read(name)}

    def find_file(name: str) -> str:
        return os.path.join(path, name)

    modules = {name: read_module(data, name) for name, data in files.items() if name.endswith(".stablehlo")}
    signatures = {}
    for name, record in manifest.signatures.items():
        columns = [column_from_data(each, find_file, modules.__getitem__) for each in record.columns]
        module = modules[record.module]
        own_code, made = (
            None if file is None else _CodeInFile(file, files[file])
            for file in (record.own_code, record.made)
        )
        of_module = [weights[each] for each in record.weights]
        forget = None if mapped is None else mapped.forget
        signatures[name] = Signature(name, record, columns, module, of_module, own_code, made, forget)
    return SavedModel(path, signatures, manifest.files)


def _is_read(name: str) -> bool:
    return name.endswith((".stablehlo", OWN_CODE)) or name.startswith("assets" + os.sep)


class _CodeInFile:
    """Calls code of the program that wrote a saved model, which it loads at the first call."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name, self._data = name, data
        self._loaded: OwnCode | None = None

    def __call__(self, features: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
        if self._loaded is None:
            try:
                self._loaded = pickle.loads(self._data)
            except Exception as exc:
                raise SavedModelError(
                    f"{self._name} has Python code of the program that exported the model, and it cannot be "
                    f"loaded here: {exc}. Install the packages that it imports, in the versions it had."
                ) from exc
        return self._loaded(features)


def _weights(path: str, manifest: SavedModelManifest) -> tuple[dict[str, jax.Array], MappedFile | None]:
    """Return the weights by name; on a CPU the large ones stay in their file, mapped into memory."""
    name = manifest.weights_file
    file = os.path.join(path, name)
    large = [key for key, record in manifest.weights.items() if _nbytes(record) >= _LEAST_MAPPED_BYTES]
    if jax.default_backend() != "cpu":
        large = []
    mapped = None
    try:
        with open(file, "rb", buffering=0, opener=open_regular) as opened:
            stored = read_arrays(opened, file, manifest.files[name], large)
            if large:
                mapped, places = MappedFile(opened), places_in(opened)
                stored |= {key: mapped.bytes(places[key], _nbytes(manifest.weights[key])) for key in large}
    except DamagedCheckpointError as exc:
        raise DamagedSavedModelError(f"{exc} Export the model again.") from exc
    except FileNotFoundError as exc:
        raise missing(path, name) from exc
    except OSError as exc:
        raise SavedModelError(f"{file} cannot be read: {exc}.") from exc
    weights = {
        key: jax.device_put(
            stored[key].view(dtype_named(record.dtype)).reshape(record.shape), may_alias=key in large
        )
        for key, record in manifest.weights.items()
    }
    return weights, mapped


def _nbytes(record: WeightRecord) -> int:
    return math.prod(record.shape) * dtype_named(record.dtype).itemsize
