"""Writing saved models."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from muster._errors import SavedModelError
from muster._paths import local_path
from muster._pickle import dumps
from muster._version import __version__
from muster.checkpoint import FileRecord, MappedArray, write_arrays
from muster.data import TensorSpec
from muster.feature_column import FeatureColumn, NumericColumn, SequenceNumericColumn, column_as_data
from muster.saved_model._arguments import (
    Feature,
    OwnCode,
    feature_record,
    feature_spec,
    symbolic_arguments,
)
from muster.saved_model._folder import write_file, write_folder
from muster.saved_model._manifest import (
    OWN_CODE,
    OutputRecord,
    SavedModelManifest,
    SignatureRecord,
    TensorRecord,
    WeightRecord,
)
from muster.saved_model._modules import (
    PLATFORMS,
    Computation,
    Module,
    fixed_shape,
    normalizer_module,
    to_module,
)

ASSETS = "assets"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Output:
    """An output of a signature.

    Attributes:
        name: The computation's name of it; or the key of a feature, or of what the own code makes.
        words: The words that its numbers stand for; None for numbers.
        spec: The shape and dtype of what the host has; None if it is of the computation.
    """

    name: str
    words: tuple[str, ...] | None = None
    spec: TensorSpec | None = None


@dataclass(frozen=True, kw_only=True)
class SignatureToSave:
    """A signature to save.

    Attributes:
        method_name: TensorFlow's name of what it is for: `PREDICT`, `CLASSIFY`, `REGRESS`, `TRAIN` or `EVAL`.
        inputs: The inputs by name: the first axis counts examples, None is any size.
        outputs: The outputs by name.
        computation: What the model computes.
        features: The features of the model by key.
        columns: What the host computes of them.
        rows: The computation's argument with a zero for each row, or None.
        own_code: Computes further arguments of features, on the host; None for nothing. It is kept by
            cloudpickle, and whoever calls the signature runs it.
        made: Makes further features of others, on the host and before all else; None for nothing. It is kept
            likewise.
    """

    method_name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, Output]
    computation: Computation
    features: Mapping[str, Feature]
    columns: Sequence[FeatureColumn] = ()
    rows: str | None = None
    own_code: OwnCode | None = None
    made: OwnCode | None = None


def save(
    export_dir: str | os.PathLike[str],
    signatures: Mapping[str, SignatureToSave],
    files: Mapping[str, str | os.PathLike[str]] | None = None,
) -> None:
    """Write a saved model: readers see all of it, or none.

    Args:
        export_dir: The folder, which an earlier saved model may have.
        signatures: What the model can be asked, by name.
        files: Files to copy into the folder: their paths by those that they get there.

    Raises:
        SavedModelError: It cannot be written; nothing of it is left. Or the model does not work for any
            number of rows.
        ValueError: A column is of a kind of the program's own, or a file lies out of the folder.
    """
    path = local_path(export_dir, remote=True)
    files = {name: local_path(source) for name, source in (files or {}).items()}
    for name in files:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise ValueError(f"A file is copied to a path within the folder, got {name!r}.")
    modules = _modules(signatures)
    try:
        write_folder(path, lambda folder: _SavedModelWriter(folder).write(signatures, modules, files))
    except OSError as exc:
        raise SavedModelError(f"The saved model {path} was not written: {exc}.") from exc


def _modules(signatures: Mapping[str, SignatureToSave]) -> dict[str, Module]:
    """Return the module of each signature; those that compute the same have one."""
    made: dict[Any, Module] = {}
    found = {}
    for name, signature in signatures.items():
        outputs = tuple(output.name for output in signature.outputs.values() if output.spec is None)
        key = (id(signature.computation), outputs)
        if key not in made:
            made[key] = to_module(signature.computation, outputs)
        found[name] = made[key]
    return found


class _SavedModelWriter:
    """Writes the files of a saved model into a folder, and notes their checksums."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, FileRecord] = {}

    def write(
        self,
        signatures: Mapping[str, SignatureToSave],
        modules: Mapping[str, Module],
        files: Mapping[str, str | os.PathLike[str]],
    ) -> SavedModelManifest:
        """Write all files, and return the manifest."""
        weights: dict[str, np.ndarray[Any, Any] | MappedArray] = {}
        for name, signature in signatures.items():
            for each in modules[name].weights:
                value = signature.computation.weights[each]
                weights[each] = value if isinstance(value, MappedArray) else np.asarray(value)
        self._files[WEIGHTS] = write_arrays(os.path.join(self._folder, WEIGHTS), weights)
        records = {name: self._signature(name, each, modules[name]) for name, each in signatures.items()}
        for name, source in files.items():
            self._write(name, Path(source).read_bytes())
        return SavedModelManifest(
            muster=__version__,
            jax=jax.__version__,
            platforms=PLATFORMS,
            weights={
                name: WeightRecord(dtype=value.dtype.name, shape=value.shape)
                for name, value in weights.items()
            },
            weights_file=WEIGHTS,
            signatures=records,
            files=self._files,
        )

    def _signature(self, name: str, signature: SignatureToSave, module: Module) -> SignatureRecord:
        arguments = signature.computation.arguments

        def store_normalizer(column: Any, normalizer: Callable[[Any], Any]) -> str:
            data = normalizer_module(normalizer, _normalized(signature, column))
            return self._store(data, f"normalizer_{column.key}")

        columns = [column_as_data(column, self._vocabulary, store_normalizer) for column in signature.columns]
        return SignatureRecord(
            method_name=signature.method_name,
            inputs={
                key: TensorRecord(dtype=_dtype_name(spec.dtype), shape=tuple(spec.shape or ()))
                for key, spec in signature.inputs.items()
            },
            outputs=_output_records(signature.outputs, module),
            features={key: feature_record(each) for key, each in signature.features.items()},
            columns=tuple(columns),
            arguments={key: np.dtype(arguments[key].dtype).name for key in module.arguments},
            rows=signature.rows,
            module=self._store(module.data, name),
            weights=module.weights,
            own_code=None if signature.own_code is None else self._own_code(signature.own_code),
            made=None if signature.made is None else self._own_code(signature.made),
        )

    def _own_code(self, code: OwnCode) -> str:
        try:
            data = dumps(code)
        except Exception as exc:
            raise SavedModelError(
                "What the host computes for the model is kept as Python code, and something in it cannot be "
                f"pickled: {exc}. Use no open files and locks in it, or look up text before the model."
            ) from exc
        return self._store(data, "own_code", OWN_CODE)

    def _store(self, data: bytes, name: str, suffix: str = ".stablehlo") -> str:
        """Write a module, or code, under a name of its own, once."""
        digest = hashlib.sha256(data).hexdigest()[:12]
        plain = "".join(letter if letter.isalnum() else "_" for letter in name)
        for file in self._files:
            if file.endswith(f"-{digest}{suffix}"):
                return file
        return self._write(f"{plain}-{digest}{suffix}", data)

    def _vocabulary(self, path: str) -> str:
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:12]
        file = os.path.join(ASSETS, f"{digest}-{os.path.basename(path)}")
        return file if file in self._files else self._write(file, data)

    def _write(self, file: str, data: bytes) -> str:
        path = os.path.join(self._folder, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._files[file] = write_file(path, data)
        return file


def _output_records(outputs: Mapping[str, Output], module: Module) -> dict[str, OutputRecord]:
    results = iter(module.outputs)
    records = {}
    for key, output in outputs.items():
        if output.spec is not None:
            shape = tuple(output.spec.shape or ())
            records[key] = OutputRecord(dtype=_dtype_name(output.spec.dtype), shape=shape, host=output.name)
            continue
        result = next(results)
        dtype = "object" if output.words is not None else np.dtype(result.dtype).name
        records[key] = OutputRecord(dtype=dtype, shape=fixed_shape(result.shape), words=output.words)
    return records


def _normalized(
    signature: SignatureToSave, column: NumericColumn | SequenceNumericColumn
) -> jax.ShapeDtypeStruct:
    """Return what the ``normalizer_fn`` of a column is called with."""
    spec = feature_spec(signature.inputs, signature.features[column.key])
    shape: tuple[int | None, ...] = (None,)
    if isinstance(column, NumericColumn) and spec.shape is not None:
        shape = spec.shape if len(spec.shape) > 1 else (None, 1)
    return symbolic_arguments({column.key: TensorSpec(shape, spec.dtype)}, (), None)[column.key]


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "object" if dtype.kind in "USO" else dtype.name
