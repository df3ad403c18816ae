"""``muster saved-model show``: prints the signatures of a saved model."""

import os

from muster._paths import local_path
from muster._text import printable
from muster.saved_model._folder import read_file, read_manifest
from muster.saved_model._manifest import SignatureRecord, TensorRecord


def show_saved_model(path: str) -> int:
    """Print the signatures of a saved model, with dtypes and shapes of inputs and outputs, and its size.

    Every byte is read and checked.

    Args:
        path: The folder.

    Returns:
        The exit code of the command.

    Raises:
        SavedModelError: There is no saved model, or it is half written or damaged.
    """
    path = local_path(path, remote=True)
    manifest = read_manifest(path)
    for name in manifest.files:
        read_file(path, name, manifest.files)
    size = sum(record.bytes for record in manifest.files.values())
    count = len(manifest.weights)
    lines = [
        f"{os.path.abspath(path)}: a saved model, intact",
        f"  by muster {manifest.muster} with JAX {manifest.jax}, for {' and '.join(manifest.platforms)}",
        f"  {size:,} bytes in {len(manifest.files)} files; {count} weight{'s' if count != 1 else ''}, "
        f"{manifest.files[manifest.weights_file].bytes:,} bytes",
    ]
    for name, record in sorted(manifest.signatures.items()):
        lines += _signature(name, record)
    print("\n".join(map(printable, lines)))
    return 0


def _signature(name: str, record: SignatureRecord) -> list[str]:
    lines = ["", f"{name}  ({record.method_name})"]
    for title, tensors in (("input", record.inputs), ("output", record.outputs)):
        for key, tensor in tensors.items():
            lines.append(f"  {title:6}  {key}: {_type(tensor)}")
    for key, feature in record.features.items():
        if feature.parse is not None:
            parse = feature.parse
            dtype = "string" if parse.dtype == "str" else parse.dtype
            sizes = "any number" if parse.kind == "variable" else f"{parse.kind} {list(parse.shape)}"
            if parse.csv is not None:
                sizes = f"field {parse.key} of a line in CSV format"
            lines.append(f"  parsed  {key}: {dtype}, {sizes}")
    for file in (record.made, record.own_code):
        if file is not None:
            lines.append(f"  code    {file}: Python of the program that exported it, run by each call")
    return lines


def _type(tensor: TensorRecord) -> str:
    dtype = "string" if tensor.dtype == "object" else tensor.dtype
    return f"{dtype} [{', '.join('any' if size is None else str(size) for size in tensor.shape)}]"
