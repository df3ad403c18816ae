"""Values of many elements at a time, as a function of text sees them, and what is computed of them at once.

A function of a dataset that reads text runs in Python. To call it for each element would cost a hundred times
what its operations take: so it is called once for many, with a `RowsValue` for each value of an element, and
each operation computes its results for all. A *rule* says how an operation does so; an operation without one
is called for one element after the other. Whatever has no rule and is no operation, such as Python's ``if``,
is refused, and the function is called for each element instead.
"""

import inspect
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from muster._frontend import frontend
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import TensorSpec, spec_of
from muster.data.pipeline._stand_in import StandIn, StandInSource
from muster.data.pipeline._structure import replaced

Rows = np.ndarray[Any, Any] | list[Any]
"""The values of elements: an array with a row for each, text as objects; or a list of values that differ."""


_LARGE = 64 * 1024  # bytes of a value: many of them at a time would take more memory than time


class _TextRows(np.ndarray[Any, Any]):
    """An array of objects that are known to be text: to look at each again takes as long as to split it."""


class NoRowsError(Exception):
    """A rule does not know how to compute with these arguments."""


class _LargeError(Exception):
    """Values are too large to have those of many elements in memory."""

    def __init__(self, size: int) -> None:
        super().__init__(f"Values of {size} bytes, such as images, are computed for each element.")


class UnlikeRowsError(Exception):
    """The results of elements differ in shape.

    Args:
        keys: For each element a number, equal for elements whose results are alike.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        super().__init__("The results of elements differ in shape.")
        self.keys = keys


class OwnRows:
    """Values of elements that differ in shape, as a rule returns them.

    Args:
        values: One for each element.
    """

    def __init__(self, values: list[Any]) -> None:
        self.values = values


class RowsValue(StandIn):
    """A value of each of many elements.

    Args:
        source: What computes with it.
        rows: The values.
    """

    __slots__ = ()
    source: "ElementRows"
    __hash__ = StandIn.__hash__

    def __init__(self, source: "ElementRows", rows: Rows) -> None:
        super().__init__(_spec_of(rows), source, rows)

    @property
    def rows(self) -> Rows:
        """The values."""
        rows: Rows = self.place
        return rows

    def element(self, index: int) -> Any:
        """Return the value of one element."""
        row = self.rows[index]
        if isinstance(self.rows, list) or self.rows.dtype != object or not isinstance(row, np.ndarray):
            return row
        return _text_array(row)

    def __eq__(self, other: object) -> Any:
        return self.source.compute(operator.eq, (self, other), {})

    def __ne__(self, other: object) -> Any:
        return self.source.compute(operator.ne, (self, other), {})

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("It stands for values of many elements, which Python cannot tell apart here.")

    __bool__ = __int__ = __float__ = __index__ = __contains__ = __str__ = __format__ = _refuse


class ElementRows(StandInSource):
    """Some elements of a dataset, as a function sees them that is called for all at once.

    Args:
        size: How many there are.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def compute(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the results of a function for all elements: by its rule, or for one after the other.

        Raises:
            UnlikeRowsError: They differ in shape, and a rule can compute those that do not.
        """
        plain = inspect.unwrap(function)
        rule = _RULES.get(plain) or frontend().rules.get(plain)
        if rule is not None:
            try:
                return self._standing_for(rule(plain, args, kwargs))
            except NoRowsError:
                pass
        return self._one_by_one(function, args, kwargs)

    def _one_by_one(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        shown = frontend().argument or (lambda value: value)
        results = []
        for index in range(self.size):
            given = replaced((args, kwargs), RowsValue, lambda value: shown(value.element(index)))  # noqa: B023
            results.append(function(*given[0], **given[1]))
        return self._joined(results)

    def _joined(self, results: list[Any]) -> Any:
        """Return what stands for results of elements, in structures of one form."""
        first = results[0]
        if isinstance(first, dict):
            if any(not isinstance(each, dict) or each.keys() != first.keys() for each in results):
                raise NoRowsError
            return {key: self._joined([each[key] for each in results]) for key in first}
        if isinstance(first, list | tuple):
            if any(type(each) is not type(first) or len(each) != len(first) for each in results):
                raise NoRowsError
            parts = [self._joined(list(part)) for part in zip(*results, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        if getattr(first, "nbytes", 0) > _LARGE:
            raise _LargeError(first.nbytes)
        return RowsValue(self, rows_of(results))

    def _standing_for(self, result: Any) -> Any:
        """Return what stands for results with an axis of all elements."""
        if isinstance(result, dict):
            return {key: self._standing_for(each) for key, each in result.items()}
        if isinstance(result, list | tuple):
            parts = map(self._standing_for, result)
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if isinstance(result, SparseTensor):
            of_sparse = result.plain_indices, result.plain_values, result.dense_shape
            return SparseTensor.of_checked(*map(self._standing_for, of_sparse))
        if isinstance(result, OwnRows):
            return RowsValue(self, result.values)
        if not isinstance(result, np.ndarray) or result.shape[:1] != (self.size,):
            raise NoRowsError
        if result.nbytes > _LARGE * self.size:
            raise _LargeError(result.nbytes // self.size)
        return RowsValue(self, as_rows(result))


Rule = Callable[[Callable[..., Any], Any, Any], Any]
"""Takes an operation and its arguments, among them `RowsValue` s, and returns results of all elements."""

_RULES: dict[Any, Rule] = {}
_COMPUTING: ContextVar[bool] = ContextVar("muster_computing_rows", default=False)


def by_rows(rule: Rule, *functions: Callable[..., Any]) -> None:
    """Let operations of muster's compute their results for many elements; a front end has rules of its own.

    Args:
        rule: Returns them as arrays with a row for each element, in a structure like that of a single result.
            It raises `NoRowsError` where it cannot, and `UnlikeRowsError` where results differ in shape.
        functions: The operations.
    """
    _RULES.update({inspect.unwrap(function): rule for function in functions})


def is_computing_rows() -> bool:
    """Return whether this thread calls a function once for many elements: it cannot draw numbers for each."""
    return _COMPUTING.get()


def uniform_rows(value: RowsValue) -> np.ndarray[Any, Any]:
    """Return values of elements as an array.

    Raises:
        NoRowsError: They differ in shape or type.
    """
    if isinstance(value.rows, list):
        raise NoRowsError
    return value.rows


def of_each(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute an operation that takes each item of an array by itself, of one of its arguments.

    It is a rule: see `by_rows`.
    """
    found: list[Any] = []
    replaced((args, kwargs), RowsValue, found.append)
    given = [*args, *kwargs.values()]
    if len(found) != 1 or not any(each is found[0] for each in given):
        raise NoRowsError
    rows = uniform_rows(found[0])
    new_args, new_kwargs = replaced((args, kwargs), RowsValue, lambda value: rows)
    return function(*new_args, **new_kwargs)


def of_same_places(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute an operation of numbers on items at the same place of two arrays.

    It is a rule: see `by_rows`. The shapes of elements are broadcast, as NumPy does.
    """
    given = _broadcast(args)
    if any(getattr(each, "dtype", np.dtype(int)).kind in "US" for each in given):
        raise NoRowsError
    return function(*given, *args[2:], **kwargs)


def of_equal_places(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compare items at the same place of two arrays, of numbers or of text, as `of_same_places` does."""
    return function(*_broadcast(args), *args[2:], **kwargs)


def _broadcast(args: Any) -> list[Any]:
    """Return two operands, with axes in the rows of the one that has fewer."""
    sides = [each if isinstance(each, RowsValue) else np.asarray(each) for each in args[:2]]
    if len(sides) < 2 or any(isinstance(each, np.ndarray) and each.dtype == object for each in sides):
        raise NoRowsError
    rank = max(uniform_rows(each).ndim - 1 if isinstance(each, RowsValue) else each.ndim for each in sides)
    given = []
    for each, side in zip(args, sides, strict=False):
        if not isinstance(side, RowsValue):
            given.append(each)  # as it is: a number of Python's takes the other side's type
            continue
        rows = as_plain(uniform_rows(side))
        given.append(rows.reshape(len(rows), *[1] * (rank + 1 - rows.ndim), *rows.shape[1:]))
    return given


_RULES |= {operator.eq: of_equal_places, operator.ne: of_equal_places}


def as_rows(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array with text as objects.

    Raises:
        NoRowsError: It has other objects, or text and bytes.
    """
    if isinstance(array, _TextRows):
        return array
    plain = np.asarray(array)
    if plain.dtype.kind == "U":
        return plain.astype(object).view(_TextRows)
    if plain.dtype.kind in "SV" or (plain.dtype == object and not _is_text(plain.ravel().tolist())):
        raise NoRowsError
    return plain


def text_rows(texts: list[str]) -> np.ndarray[Any, Any]:
    """Return texts as an array of rows."""
    return np.array(texts, object).view(_TextRows)


def rows_of(values: list[Any]) -> Rows:
    """Return values of elements as rows."""
    first = values[0]
    if isinstance(first, str | bytes):
        kind: type = str if isinstance(first, str) else bytes
        if not all(isinstance(value, kind) for value in values):
            return values
        rows = np.empty(len(values), object)
        rows[:] = [kind(value) for value in values]
        return rows
    if all(type(value) is bool for value in values):
        return np.array(values)
    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        return values
    arrays = [np.asarray(value) for value in values]
    kinds = {(each.shape, "U" if each.dtype.kind == "U" else each.dtype) for each in arrays}
    if len(kinds) > 1 or arrays[0].dtype.kind in "OSV":
        return values
    stacked = np.stack(arrays)
    return stacked.astype(object) if stacked.dtype.kind == "U" else stacked


def as_plain(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return rows as an array that datasets have: text of NumPy's own type, and bytes as objects."""
    return _text_array(rows) if rows.dtype == object else rows


def _text_array(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = rows.ravel().tolist()
    if flat and isinstance(flat[0], bytes):
        return rows
    return np.array(flat, str).reshape(rows.shape)


def _is_text(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    return all(issubclass(kind, str) for kind in kinds) or all(issubclass(kind, bytes) for kind in kinds)


def _spec_of(rows: Rows) -> TensorSpec:
    if isinstance(rows, list):
        try:
            return TensorSpec(None, spec_of(rows[0]).dtype)
        except (AttributeError, TypeError):
            return TensorSpec(None, object)
    return TensorSpec(rows.shape[1:], str if rows.dtype == object else rows.dtype)
