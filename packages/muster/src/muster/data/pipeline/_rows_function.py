"""Call a function of text once for many elements, if that gives the same results as to call it for each."""

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from muster.data.pipeline._handles import Loaded, Stacked, unstacked
from muster.data.pipeline._rows import (
    _COMPUTING,
    ElementRows,
    NoRowsError,
    Rows,
    RowsValue,
    UnlikeRowsError,
    as_plain,
    rows_of,
)
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import as_element, as_leaf
from muster.data.pipeline._structure import flatten, flatten_as, rebuild

_log = logging.getLogger(__name__)
_FEWEST = 4  # elements: fewer are computed faster by themselves
_SAMPLE = 16  # elements, whose results are compared
_ATTEMPTS = 3
_LISTED = 60


class RowsFunction:
    """A user's function of text.

    Its results for the first elements are those of calling it for each. Only if calling it once for all of
    them gives the same, further elements are computed so; those for which it fails are computed one by one.

    Args:
        call: Calls the function with an element, or with what stands for many.
        name: For messages.
    """

    def __init__(self, call: Callable[[Any], Any], name: str) -> None:
        self._call = call
        self._name = name
        self._works: bool | None = None
        self._failures = 0
        self._lock = threading.Lock()

    def apply(self, loaded: Loaded, each: Callable[[list[Any]], list[Any]]) -> Loaded | None:
        """Return the results of elements; None if the function is to be called for each.

        Args:
            loaded: The elements.
            each: Calls the function for each element.
        """
        count = loaded.size if isinstance(loaded, Stacked) else len(loaded)
        if self._works is False or count < _FEWEST or (columns := _columns(loaded)) is None:
            return None
        template = loaded.columns if isinstance(loaded, Stacked) else loaded[0]
        if self._works is None:
            if not self._lock.acquire(blocking=False):
                return each(unstacked(loaded))
            try:
                return self._try(template, columns, count, loaded, each)
            finally:
                self._lock.release()
        try:
            return self._compute(template, columns, count)
        except Exception as exc:  # such as of a line that is wrong: by itself it raises the error again
            found = each(unstacked(loaded))
            self._note_failure(exc)
            return found

    def _try(
        self,
        template: Any,
        columns: list[Rows],
        count: int,
        loaded: Loaded,
        each: Callable[[list[Any]], list[Any]],
    ) -> Loaded:
        before = random.getstate(), np.random.get_state()
        found = each(unstacked(loaded))
        after = random.getstate(), np.random.get_state()
        if not _same_state(before, after):  # it draws, or another thread has drawn meanwhile
            self._note_failure(NoRowsError("it uses random numbers"))
            return found
        size = min(count, _SAMPLE)
        try:
            got = self._compute(template, [rows[:size] for rows in columns], size)
            same = _same_elements(found[:size], unstacked(got))
            reason: Exception = NoRowsError("it gives other results")
        except Exception as exc:
            same, reason = False, exc
        finally:
            random.setstate(after[0])
            np.random.set_state(after[1])
        if same:
            self._works = True
            _log.info("%s computes with the text of many elements at a time.", self._name)
        else:
            self._note_failure(reason)
        return found

    def _compute(self, template: Any, columns: list[Rows], count: int) -> Loaded:
        try:
            return self._compute_alike(template, columns, count)
        except UnlikeRowsError as exc:
            groups: dict[int, list[int]] = {}
            for index, key in enumerate(exc.keys):
                groups.setdefault(key, []).append(index)
            if len(groups) == 1:
                raise NoRowsError("it gives results of other shapes") from exc
            found: list[Any] = [None] * count
            for places in groups.values():
                chosen = [
                    [rows[i] for i in places] if isinstance(rows, list) else rows[places] for rows in columns
                ]
                results = unstacked(self._compute(template, chosen, len(places)))
                for place, result in zip(places, results, strict=True):
                    found[place] = result
            return found

    def _compute_alike(self, template: Any, columns: list[Rows], count: int) -> Loaded:
        source = ElementRows(count)
        token = _COMPUTING.set(True)
        try:
            result = self._call(rebuild(template, [RowsValue(source, rows) for rows in columns]))
        finally:
            _COMPUTING.reset(token)
        made = [_made(leaf, count) for leaf in flatten(result)]
        if not any(isinstance(leaf, RowsValue) for leaf in flatten(result)):
            raise NoRowsError("it reads nothing of an element")
        arrays = [rows for rows in made if isinstance(rows, np.ndarray)]
        if len(arrays) == len(made):
            return Stacked(rebuild(result, map(as_plain, arrays)), count)
        rows = [each if isinstance(each, list) else list(as_plain(each)) for each in made]
        return [as_element(rebuild(result, values)) for values in zip(*rows, strict=True)]

    def _note_failure(self, exc: Exception) -> None:
        self._failures += 1
        if self._failures == _ATTEMPTS or self._works is None:
            self._works = False if self._failures >= _ATTEMPTS or not _may_pass(exc) else None


def _may_pass(exc: Exception) -> bool:
    return isinstance(exc, NoRowsError) and str(exc) == "it uses random numbers"


def _columns(loaded: Loaded) -> list[Rows] | None:
    """Return the rows of elements that have text; None for others, or if their arrays are not alike."""
    first = loaded.columns if isinstance(loaded, Stacked) else loaded[0]
    if not any(map(_holds_text, flatten(first))):
        return None
    if isinstance(loaded, Stacked):
        arrays = flatten(loaded.columns)
        if not all(isinstance(array, np.ndarray) for array in arrays):
            return None
        columns: list[Rows] = [rows_of(list(a)) if a.dtype.kind in "UO" else a for a in arrays]
    else:
        leaves = [flatten_as(loaded[0], element) for element in loaded]
        columns = [rows_of(list(values)) for values in zip(*leaves, strict=True)]
    if any(isinstance(rows, list) for rows in columns):
        return None
    texts = [rows for rows in columns if isinstance(rows, np.ndarray) and rows.dtype == object]
    return columns if texts and not any(map(_has_zeros, texts)) else None


def _holds_text(leaf: Any) -> bool:
    return isinstance(leaf, str | bytes) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "UO")


def _has_zeros(rows: np.ndarray[Any, Any]) -> bool:
    """Return whether there are texts with zeros, of which NumPy's arrays drop those at the end."""
    return any("\0" in text for text in rows.ravel().tolist() if isinstance(text, str))


def _made(leaf: Any, count: int) -> Rows:
    """Return the rows of a leaf of a result, which may be the same for all elements."""
    if isinstance(leaf, RowsValue):
        return leaf.rows
    value = as_leaf(leaf)
    if isinstance(value, str) or (isinstance(value, np.ndarray | np.generic) and value.dtype != object):
        return rows_of([value] * count)
    raise NoRowsError(f"it returns a value of type {type(leaf).__name__}")


def _same_elements(one: list[Any], other: list[Any]) -> bool:
    """Return whether elements are equal: in structure, types, shapes and values."""
    for a, b in zip(one, other, strict=True):
        pairs = list(zip(flatten(a), flatten_as(a, b), strict=True))
        if not all(_same_leaf(*pair) for pair in pairs):
            return False
    return True


def _same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, SparseTensor) and isinstance(other, SparseTensor):
        parts = [(each.plain_indices, each.plain_values, each.shape) for each in (one, other)]
        return all(_same_leaf(np.asarray(a), np.asarray(b)) for a, b in zip(*parts, strict=True))
    if isinstance(one, str | bytes):
        return isinstance(other, type(one) if type(one) in (str, bytes) else str) and one == other
    if not isinstance(one, np.ndarray | np.generic) or not isinstance(other, np.ndarray | np.generic):
        return False
    kinds = [each.dtype.kind if each.dtype.kind in "US" else each.dtype for each in (one, other)]
    alike = kinds[0] == kinds[1] and one.shape == other.shape
    return alike and np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind in "fc")


def _same_state(one: Any, other: Any) -> bool:
    numpy = zip(one[1], other[1], strict=True)
    return one[0] == other[0] and all(np.array_equal(a, b) for a, b in numpy)
