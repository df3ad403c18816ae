"""Recognise values of other libraries, and refuse those that do not say what a batch is."""

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
        'muster.data.Dataset.from_loader(data.with_format("numpy").batch(32)).map('
        'lambda rows: (rows["x"], rows["label"]))'
    ),
    ("torch", "IterableDataset"): "torch.utils.data.DataLoader(data, batch_size=32)",
    ("torch", "Dataset"): _FROM_SOURCE,
    ("scipy", "spmatrix"): "data.toarray()",
    ("scipy", "sparray"): "data.toarray()",
}


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
    by_number = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    others = ("__iter__", "__array__", "columns", "num_batches")
    if by_number and not any(hasattr(value, each) for each in others):
        return _FROM_SOURCE
    return None


def refuse(value: Any) -> None:
    """Raise the error that says what to write, if a value does not say what a batch is.

    Raises:
        TypeError: It does not.
    """
    line = line_for(value)
    if line is not None:
        kind = f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}"
        raise TypeError(f"{kind} does not say what a batch is. Of this data write: {line}")
