"""``tensorflow.python.eager.monitoring``: labelled counters and gauges of programs.

They stay in this process. Source: tensorflow/python/eager/monitoring.py.
"""

from typing import Any


class GaugeCell:
    """A value that a program sets."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def set(self, value: Any) -> None:
        """Set the value."""
        self._value = value

    def value(self) -> Any:
        """Return the value."""
        return self._value


class CounterCell(GaugeCell):
    """A number that grows."""

    def increase_by(self, value: int) -> None:
        """Add to the number."""
        self._value += value


class _Metric:
    """A cell for each combination of labels.

    Args:
        name: The metric's name.
        description: What it is.
        labels: The names of the labels.
    """

    _first: Any = 0
    _cell: type[Any] = GaugeCell

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self.name, self.description, self._labels = name, description, labels
        self._cells: dict[tuple[str, ...], Any] = {}

    def get_cell(self, *labels: str) -> Any:
        """Return the cell of some labels.

        Raises:
            ValueError: The metric has another number of them.
        """
        if len(labels) != len(self._labels):
            raise ValueError(f"The metric {self.name!r} takes {len(self._labels)} labels, got {labels}.")
        return self._cells.setdefault(labels, self._cell(self._first))


class BoolGauge(_Metric):
    """Booleans."""

    _first = False


class IntGauge(_Metric):
    """Integers."""


class StringGauge(_Metric):
    """Texts."""

    _first = ""


class Counter(_Metric):
    """Numbers that grow."""

    _cell = CounterCell
