"""Recognize other libraries' data, and refuse data without defined batches."""

from functools import partial
from types import FunctionType, MethodType
from typing import Any

_FROM_SOURCE = "muster.data.Dataset.from_source(data).shuffle(len(data)).batch(32)"

# (the package, the class) -> the line that makes batches of it, or arrays.
_LINES = {
    ("polars", "LazyFrame"): "data.collect()",
    ("pyarrow", "RecordBatchReader"): "data.read_all()",
    ("pyarrow", "Dataset"): "data.to_table()",
    ("pyarrow", "Scanner"): "data.to_table()",
    ("datasets", "DatasetDict"): 'data["train"]',
    ("datasets", "IterableDatasetDict"): 'data["train"]',
    ("datasets", "IterableDataset"): (
        'muster.data.Dataset.from_source(data.with_format("numpy")).batch(32)'
        '.map(lambda rows: (rows, rows.pop("label")))'
    ),
    ("torch", "IterableDataset"): "torch.utils.data.DataLoader(data, batch_size=32)",
    ("torch", "Dataset"): _FROM_SOURCE,
    ("scipy", "spmatrix"): "data.toarray()",
    ("scipy", "sparray"): "data.toarray()",
}

# (the package, the class) -> the arguments that divide a table into features and labels.
_LABEL_LINES = {
    ("pandas", "DataFrame"): 'data.drop(columns="{0}")',
    ("polars", "DataFrame"): 'data.drop("{0}")',
    ("pyarrow", "Table"): 'data.drop_columns("{0}")',
    ("datasets", "Dataset"): 'data.remove_columns("{0}")',
}
_LABEL_NAMES = ("label", "labels", "target", "y")


def is_kind(value: Any, package: str, *names: str) -> bool:
    """Return whether a value is of a class of a package, or of one that is derived from it.

    Args:
        value: Anything.
        package: The package, such as ``"torch"``.
        names: The names of classes, wherever in the package they are.
    """
    return any(
        each.__name__ in names and each.__module__.partition(".")[0] == package
        for each in type(value).__mro__
    )


def line_for(value: Any) -> str | None:
    """Return the line that makes batches or arrays of a value, which does not say itself; None for others."""
    for (package, name), line in _LINES.items():
        if is_kind(value, package, name):
            return line
    if isinstance(value, FunctionType | MethodType | partial):
        return "muster.data.Dataset.from_loader(data)"
    by_number = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    others = ("__iter__", "__array__", "columns", "num_batches")
    if by_number and not any(hasattr(value, each) for each in others):
        return _FROM_SOURCE
    return None


def parts_with_labels(table: Any, names: list[str]) -> tuple[str, str] | None:
    """Return the code of a table's features, and that of its labels; None where the library is not known.

    Args:
        table: A table, which the code calls ``data``.
        names: The names of its columns. One by which labels go is taken for them.
    """
    label = next((each for each in _LABEL_NAMES if each in names), _LABEL_NAMES[0])
    for (package, name), features in _LABEL_LINES.items():
        if is_kind(table, package, name):
            return features.format(label), f'data["{label}"]'
    return None


def whole_line(value: Any) -> str | None:
    """Return the line that makes batches of a table on disk, a Dataset of Hugging Face; None for others."""
    if not is_kind(value, "datasets", "Dataset"):
        return None
    return (
        'muster.data.Dataset.from_source(data.with_format("numpy")).shuffle(len(data)).batch(32)'
        '.map(lambda rows: (rows, rows.pop("label")))'
    )


def refuse_whole(value: Any) -> None:
    """Raise the error that says what to write, if a value is a table on disk, too large to be one batch.

    Raises:
        TypeError: It is a Dataset of Hugging Face.
    """
    line = whole_line(value)
    if line is not None:
        raise TypeError(
            f"A Dataset of Hugging Face would be read whole, as one batch. Of this data write: {line}"
        )


def refuse(value: Any) -> None:
    """Raise the error that says what to write, if a value does not say what a batch is.

    Raises:
        TypeError: It does not.
    """
    line = line_for(value)
    if line is not None:
        package = type(value).__module__.partition(".")[0]
        kind = "A function" if package == "builtins" else f"{package}'s {type(value).__name__}"
        raise TypeError(f"{kind} does not say what a batch is. Of this data write: {line}")
