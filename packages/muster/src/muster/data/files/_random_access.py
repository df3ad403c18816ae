"""Sources with random access: objects of the user, and ArrayRecord files."""

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from muster._errors import DatasetError
from muster._extras import extra_module
from muster.data.files._files import FileSource, missing_file
from muster.data.pipeline._handles import Handles, Loaded
from muster.data.pipeline._node import Run, Table
from muster.data.pipeline._spec import TensorSpec, as_element, spec_of
from muster.data.pipeline._structure import map_leaves


class RandomAccess(Protocol):
    """An object with elements by number: a list, a data source of Grain, a map-style dataset of PyTorch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class RandomAccessSource(Table):
    """The elements of an object, in order.

    Args:
        elements: Returns the same element for a number each time.
    """

    uniform = False

    def __init__(self, elements: RandomAccess):
        super().__init__()
        self._elements = elements

    @property
    def label(self) -> str:
        return f"from_source({type(self._elements).__name__} of {self.cardinality})"

    @cached_property
    def cardinality(self) -> int:
        return len(self._elements)

    @cached_property
    def element_spec(self) -> Any:
        """The spec of the first element, without shapes.

        Raises:
            DatasetError: There is no element.
        """
        if not self.cardinality:
            raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")
        first = as_element(self._elements[0])
        return map_leaves(lambda leaf: TensorSpec(None, spec_of(leaf).dtype), first)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return read_rows(self._elements, handles)


def read_rows(elements: RandomAccess, handles: Handles) -> list[Any]:
    """Return the elements with these numbers, in one call if the object has ``__getitems__``."""
    rows = np.asarray(handles).tolist()
    getitems = getattr(elements, "__getitems__", None)
    found = [elements[row] for row in rows] if getitems is None else getitems(rows)
    return [as_element(element) for element in found]


class ArrayRecordSource(Table, FileSource):
    """The records of ArrayRecord files, as bytes, read by number with Grain.

    Args:
        files: Paths.

    Raises:
        ImportError: Grain is not installed.
    """

    kind = "ArrayRecordDataset"
    uniform = False
    element_spec = TensorSpec((), object)

    def __init__(self, files: tuple[str, ...]):
        super().__init__(files)
        self._sources = extra_module("grain.sources", "grain", self.kind)

    @cached_property
    def cardinality(self) -> int:
        with self._records() as records:
            return len(records)

    def load(self, run: Run, handles: Handles) -> Loaded:
        records = run.stores.get(self)
        if records is None:
            records = run.stores[self] = self._records()  # until the iteration ends
        return read_rows(records, handles)

    def _records(self) -> Any:
        """Open the files as a sequence of their records, which can be used in a ``with`` statement."""
        for path in self.files:
            try:
                open(path, "rb").close()  # for an error that lists the files beside it
            except OSError as exc:
                raise missing_file(self.kind, path, self.files, exc) from exc
        try:
            records = self._sources.ArrayRecordDataSource(list(self.files))
            len(records)
        except (ValueError, RuntimeError) as exc:
            raise DatasetError(f"{', '.join(self.files)}: these are no ArrayRecord files: {exc}") from exc
        return records
