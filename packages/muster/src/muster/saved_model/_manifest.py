"""The manifest of a saved model: its computations, their inputs, and its files.

``saved_model.json`` is one JSON object. Its first line holds the CRC-32 of every byte after it, and is the
same in every version of the format.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from muster._errors import DamagedSavedModelError, SavedModelError
from muster.checkpoint import SAVED_MODEL, FileRecord, with_checksum, without_checksum

MANIFEST = SAVED_MODEL
FORMAT = 1
OWN_CODE = ".pickle"
"""The suffix of files with the program's own code."""

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
TRAIN = "tensorflow/supervised/training"
EVAL = "tensorflow/supervised/eval"

Size = int | None


@dataclass(frozen=True, kw_only=True)
class TensorRecord:
    """An input.

    Attributes:
        dtype: The name of its NumPy dtype; ``object`` for text.
        shape: Its sizes, None where any will do.
    """

    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, kw_only=True)
class WeightRecord:
    """A weight.

    Attributes:
        dtype: The name of its dtype.
        shape: Its shape.
    """

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class OutputRecord(TensorRecord):
    """An output.

    Attributes:
        words: The words that the module's numbers stand for; None for numbers.
        host: The key of a feature, or of what the own code makes, that is the output as it is; None for an
            output of the module.
    """

    words: tuple[str, ...] | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class CsvRecord:
    """The format of lines; attributes as of `muster.data.CsvField`."""

    fields: int | None
    field_delim: str
    use_quote_delim: bool
    na_value: str


@dataclass(frozen=True, kw_only=True)
class ParseRecord:
    """The parsing spec of a feature of Examples, or of CSV lines.

    Attributes:
        key: Its key in them; of lines, the number of the field.
        kind: ``fixed``, ``sequence`` or ``variable``: which of `muster.data`'s descriptions; or ``csv``.
        dtype: The name of the dtype.
        shape: The shape of one example's values, or of an item of a sequence.
        default: What stands for a missing feature, or pads a sequence; None for nothing.
        csv: The format of lines; None for Examples.
    """

    key: str
    kind: str
    dtype: str
    shape: tuple[int, ...] = ()
    default: Any = None
    csv: CsvRecord | None = None


@dataclass(frozen=True, kw_only=True)
class FeatureRecord:
    """The source of a feature of the model.

    Attributes:
        input: The name of the signature's input.
        parse: How to read it from there; None if it is the input itself.
        words: The words whose numbers, from 0, it consists of, while the input has their text; None for what
            the input has.
    """

    input: str
    parse: ParseRecord | None = None
    words: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class SignatureRecord:
    """One way to call the model.

    Attributes:
        method_name: The method of TensorFlow's servers.
        inputs: By name.
        outputs: By name; those of the module in its order.
        features: The model's features by key.
        columns: What the host computes of features for the module, as `muster.feature_column` has it as data.
        arguments: The dtypes of the module's arguments by key: features, and what the columns made of them.
        rows: The argument that only says how many examples there are, by a zero for each; None for none.
        module: The file with the computation.
        weights: The names of the weights that the module takes, in order.
        own_code: The file with the program's own code, which computes arguments of features; None for none.
        made: The file with that of its code which makes features of others, before all else; None for none.
    """

    method_name: str
    inputs: Mapping[str, TensorRecord]
    outputs: Mapping[str, OutputRecord]
    features: Mapping[str, FeatureRecord]
    columns: tuple[Any, ...]
    arguments: Mapping[str, str]
    rows: str | None
    module: str
    weights: tuple[str, ...]
    own_code: str | None = None
    made: str | None = None


@dataclass(frozen=True, kw_only=True)
class SavedModelManifest:
    """The contents of a saved model.

    Attributes:
        muster: The version that wrote it.
        jax: The version of JAX that wrote the modules.
        platforms: Where the modules run.
        weights: By name.
        weights_file: The file that has them.
        signatures: By name.
        files: All files but the manifest, with their sizes and checksums, by their paths in the folder.
    """

    muster: str
    jax: str
    platforms: tuple[str, ...]
    weights: Mapping[str, WeightRecord]
    weights_file: str
    signatures: Mapping[str, SignatureRecord]
    files: Mapping[str, FileRecord]


def encode(manifest: SavedModelManifest) -> bytes:
    """Return the bytes of the manifest's file."""
    body = msgspec.json.format(msgspec.json.encode({"format": FORMAT, **dataclasses.asdict(manifest)}))
    return with_checksum(body.removeprefix(b"{\n") + b"\n")


def decode(data: bytes, path: str) -> SavedModelManifest:
    """Parse the bytes of a manifest's file.

    Args:
        data: The bytes.
        path: The file's path, for messages.

    Raises:
        DamagedSavedModelError: The bytes have changed since they were written.
        SavedModelError: They were written in a format that this version does not know.
    """
    body = without_checksum(data)
    if body is None:
        raise DamagedSavedModelError(
            f"{path} does not match its checksum: its bytes have changed. Export the model again."
        )
    contents = msgspec.json.decode(body)
    if (version := contents.pop("format", None)) != FORMAT:
        raise SavedModelError(
            f"{path} has format {version!r}, but this version of muster reads format {FORMAT}. Use the "
            "version that wrote it, or a newer one."
        )
    return msgspec.convert(contents, SavedModelManifest)
