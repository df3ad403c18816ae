"""Operations that combine datasets: concatenate and zip."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._handles import Handles, Loaded, Stacked, Stream, join, stacked, unstacked
from muster.data.pipeline._node import INFINITE, UNKNOWN, Epoch, Node, Run
from muster.data.pipeline._spec import common_spec, short
from muster.data.pipeline._structure import flatten, flatten_as, form, rebuild


class Concatenate(Node):
    """The elements of one dataset, then those of another.

    The first column of a handle is the number of its dataset.
    """

    @cached_property
    def width(self) -> int:
        widths = [node.width for node in self.inputs]
        return 1 + max(widths) if all(widths) else 0

    @cached_property
    def uniform(self) -> bool:
        if not all(node.uniform for node in self.inputs):
            return False
        first, second = (node.element_spec for node in self.inputs)
        return bool(first == second)

    @property
    def label(self) -> str:
        return f"concatenate({self.inputs[1].description})"

    @property
    def cardinality(self) -> int:
        counts = [node.cardinality for node in self.inputs]
        for special in (INFINITE, UNKNOWN):
            if special in counts:
                return special
        return sum(counts)

    @property
    def element_spec(self) -> Any:
        return common_structure([node.element_spec for node in self.inputs])

    def open(self, run: Run, epoch: Epoch) -> Stream:
        if all(node.uniform for node in self.inputs):
            _check_same(*(node.element_spec for node in self.inputs))
        return _ConcatenateStream([node.open(run, epoch) for node in self.inputs], self.width)

    def load(self, run: Run, handles: Handles) -> Loaded:
        tags = handles[:, 0] if isinstance(handles, np.ndarray) else np.array([tag for tag, _ in handles])
        places, parts = [], []
        for i, node in enumerate(self.inputs):
            where = np.flatnonzero(tags == i)
            if len(where):
                places.append(where)
                parts.append(node.load(run, self._handles_of(node, handles, where)))
        if len(parts) == 1:
            return parts[0]
        if self.uniform:
            return merge(places, [stacked(part) for part in parts])
        elements: list[Any] = [None] * len(handles)
        for where, part in zip(places, parts, strict=True):
            for place, element in zip(where.tolist(), unstacked(part), strict=True):
                elements[place] = element
        return elements

    def _handles_of(self, node: Node, handles: Handles, where: np.ndarray[Any, Any]) -> Handles:
        if isinstance(handles, np.ndarray):
            return _columns(handles[where], 1, node.width)
        return node.as_handles([handles[place][1] for place in where.tolist()])


class _ConcatenateStream(Stream):
    def __init__(self, sources: list[Stream], width: int):
        super().__init__(*sources)
        self._width = width
        self._tag = 0

    def pull(self, count: int) -> Handles:
        parts: list[Handles] = []
        while count and self._tag < len(self.sources):
            part = self.sources[self._tag].pull(count)
            if len(part):
                parts.append(self._tagged(part))
            count -= len(part)
            if count:
                self._tag += 1
        return join(parts)

    def skip(self, count: int) -> int:
        done = 0
        while done < count and self._tag < len(self.sources):
            done += self.sources[self._tag].skip(count - done)
            if done < count:
                self._tag += 1
        return done

    def _tagged(self, part: Handles) -> Handles:
        if not self._width:
            return [(self._tag, handle) for handle in part]
        rows = np.asarray(part)
        tagged = np.zeros((len(rows), self._width), dtype=np.int64)
        tagged[:, 0] = self._tag
        if rows.ndim == 1:
            tagged[:, 1] = rows
        else:
            tagged[:, 1 : 1 + rows.shape[1]] = rows
        return tagged


class Zip(Node):
    """Elements of datasets side by side, as many as the shortest dataset has."""

    def __init__(self, template: Any, nodes: list[Node]):
        super().__init__(*nodes)
        self._template = template

    @cached_property
    def width(self) -> int:
        widths = [node.width for node in self.inputs]
        return sum(widths) if all(widths) else 0

    @cached_property
    def uniform(self) -> bool:
        return all(node.uniform for node in self.inputs)

    @property
    def label(self) -> str:
        return f"zip{_show(self._template, iter([node.description for node in self.inputs]))}"

    @cached_property
    def description(self) -> str:
        return self.label

    @property
    def cardinality(self) -> int:
        counts = [node.cardinality for node in self.inputs if node.cardinality != INFINITE]
        if UNKNOWN in counts:
            return UNKNOWN
        return min(counts, default=INFINITE)

    @property
    def element_spec(self) -> Any:
        return rebuild(self._template, [node.element_spec for node in self.inputs])

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _ZipStream([node.open(run, epoch) for node in self.inputs], bool(self.width))

    def load(self, run: Run, handles: Handles) -> Loaded:
        parts: list[Loaded] = []
        if isinstance(handles, np.ndarray):
            offset = 0
            for node in self.inputs:
                parts.append(node.load(run, _columns(handles, offset, node.width)))
                offset += node.width
        else:
            for i, node in enumerate(self.inputs):
                parts.append(node.load(run, node.as_handles([handle[i] for handle in handles])))
        if all(isinstance(part, Stacked) for part in parts):
            columns = [part.columns for part in parts if isinstance(part, Stacked)]
            return Stacked(rebuild(self._template, columns), len(handles))
        rows = zip(*(unstacked(part) for part in parts), strict=True)
        return [rebuild(self._template, row) for row in rows]


class _ZipStream(Stream):
    def __init__(self, sources: list[Stream], rows: bool):
        super().__init__(*sources)
        self._rows = rows

    def pull(self, count: int) -> Handles:
        parts: list[Handles] = []
        for source in self.sources:
            parts.append(source.pull(count))
            count = min(count, len(parts[-1]))
        if not count:
            return []
        if self._rows:
            return np.column_stack([part[:count] for part in parts])
        return list(zip(*(part[:count] for part in parts), strict=True))

    def skip(self, count: int) -> int:
        for source in self.sources:
            count = min(count, source.skip(count))
        return count


def _show(template: Any, texts: Iterator[str]) -> str:
    """Format a structure with `texts` at its leaves."""
    if isinstance(template, tuple):
        return f"({', '.join(_show(item, texts) for item in template)})"
    if isinstance(template, dict):
        return f"({', '.join(f'{key}={_show(item, texts)}' for key, item in template.items())})"
    return next(texts)


def _columns(handles: np.ndarray[Any, Any], first: int, width: int) -> np.ndarray[Any, Any]:
    return handles[:, first] if width == 1 else handles[:, first : first + width]


def merge(places: list[np.ndarray[Any, Any]], parts: list[Any]) -> Stacked:
    """Join the rows of structures of arrays; row i of part k goes to ``places[k][i]``."""
    back = np.argsort(np.concatenate(places))
    leaves = zip(*(flatten_as(parts[0], part) for part in parts), strict=True)
    return Stacked(rebuild(parts[0], [np.concatenate(arrays)[back] for arrays in leaves]), len(back))


def common_structure(specs: Sequence[Any]) -> Any:
    """Return the spec that the elements of several datasets have.

    Raises:
        DatasetError: They differ in structure or type.
    """
    common, *others = specs
    for other in others:
        _check_same(common, other)
        pairs = zip(flatten(common), flatten_as(common, other), strict=True)
        common = rebuild(common, [common_spec(a, b) for a, b in pairs])
    return common


def _check_same(first: Any, second: Any) -> None:
    """Check that elements can be concatenated.

    Raises:
        DatasetError: They differ in structure or type.
    """
    leaves = flatten_as(first, second)
    if form(first) == form(rebuild(first, leaves)):  # the keys of dicts may come in any order
        if all(a.dtype == b.dtype for a, b in zip(flatten(first), leaves, strict=True)):
            return
    raise DatasetError(
        f"cannot concatenate datasets of different elements: {short(first)} and {short(second)}."
    )
