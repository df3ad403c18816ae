"""TensorFlow 1's iterators: ``get_next`` returns a symbolic element that stands for every element."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

import jax

from muster.data import Dataset, TensorSpec, as_arrays, dataset_of_batches, flatten, rebuild, replaced
from muster.extend import Initializer
from muster.program import StandIn, StandInSource
from muster_tensorflow.library.ops._fed_arrays import fed_arrays
from muster_tensorflow.patches import change


class NextValue(StandIn):
    """A value of the next element, which stands for that value in each element of a dataset.

    Args:
        spec: Its shape and dtype.
        source: What `OneShotIterator.get_next` was called on, and which call it was.
        place: Which of the values of an element it is: for `NextElement` its number.
    """

    __slots__ = ()
    source: "NextElement"

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self!r} of get_next() stands for a value of each element and has none of its own: an input_fn "
            "returns it. Compute by TensorFlow's operations or in Dataset.map, or take elements by `for "
            "element in dataset`."
        )


class NextElement(StandInSource):
    """An element of a dataset that ``get_next`` has been asked for.

    Args:
        iterator: What was asked.
        dataset: Its `Dataset`.
    """

    def __init__(self, iterator: "OneShotIterator", dataset: Any) -> None:
        self.iterator = iterator
        self.dataset = dataset

    def compute(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what stands for the results of a function of each element's values.

        Args:
            function: Takes and returns arrays, as a function for ``Dataset.map`` does.
            args: Its arguments, which have values of this element in lists, tuples and dicts.
            kwargs: Its named arguments.
        """
        alone = not isinstance(self.dataset.element_spec, tuple)
        before = len(flatten(self.dataset.element_spec))
        made: list[Any] = []

        def appended(*element: Any) -> Any:
            values = flatten(element[0] if alone else element)
            given, named = replaced((args, kwargs), NextValue, lambda value: values[value.place])
            result = function(*given, **named)
            made[:] = [result]
            return (*values, *flatten(_without_lists(result)))

        self.dataset = self.dataset.map(appended)
        spec = flatten(self.dataset.element_spec)
        leaves = [NextValue(leaf, self, i) for i, leaf in enumerate(spec)][before:]
        return list(leaves) if isinstance(made[0], list) else rebuild(_without_lists(made[0]), leaves)

    def dataset_of(self, returned: Any) -> Any:
        """Return the dataset whose elements have the structure that an input_fn returned."""
        leaves = flatten(returned)
        spec = self.dataset.element_spec
        places = [leaf.place for leaf in leaves]
        if rebuild(returned, places) == rebuild(spec, range(len(flatten(spec)))):
            return self.dataset
        alone = not isinstance(spec, tuple)

        def chosen(*element: Any) -> Any:
            values = flatten(element[0] if alone else element)
            return rebuild(returned, [values[place] for place in places])

        return self.dataset.map(chosen)


class IteratorInitializer(Initializer):
    """Begins the iterator of a dataset: gives values to the placeholders that it is made of.

    Args:
        dataset: The `Dataset`.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def run(self, feed_dict: Mapping[Any, Any] | None = None, session: object = None) -> None:
        """Give the placeholders their values, unless they have them.

        Args:
            feed_dict: Placeholder -> array.
            session: Ignored.

        Raises:
            ValueError: The value of a placeholder is missing, or has another shape.
        """
        for source in fed_arrays(self._dataset._node):
            source.feed(feed_dict or {})

    @property
    def complete(self) -> bool:
        """True if all placeholders have values."""
        return not any(source.placeholders for source in fed_arrays(self._dataset._node))


class OneShotIterator:
    """An iterator of TensorFlow 1, for an input_fn that returns what `get_next` returns.

    Args:
        dataset: The dataset.

    Source: tensorflow/python/data/ops/dataset_ops.py, ``DatasetV1.make_one_shot_iterator``. There
    ``get_next`` returns tensors, which have new values in each step.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def initializer(self) -> IteratorInitializer:
        """Gives values to the placeholders of the dataset. An iterator without any begins by itself."""
        return IteratorInitializer(self._dataset)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element: its values stand for those of each element, in an input_fn.

        They can be taken apart and put together otherwise, as ``{"x": images}, labels``. Operations of
        `muster_tensorflow` compute with them, as in `Dataset.map`.
        """
        element, spec = NextElement(self, self._dataset), self._dataset.element_spec
        return rebuild(spec, [NextValue(leaf, element, i) for i, leaf in enumerate(flatten(spec))])


# What has been drawn in the input_fn that runs, by the ids of the arrays: these, and what draws others.
_DRAWN: ContextVar[dict[int, tuple[Any, Callable[[], NextValue]]] | None] = ContextVar(
    "muster_drawn_in_input_fn", default=None
)


@contextmanager
def noting_draws() -> Iterator[Mapping[int, Any]]:
    """Let `as_dataset` know, in a ``with`` block, which arrays of an input_fn are random numbers.

    It yields what is noted of them, by their ids: empty where nothing is drawn.
    """
    noted: dict[int, tuple[Any, Callable[[], NextValue]]] = {}
    token = _DRAWN.set(noted)
    try:
        yield noted
    finally:
        _DRAWN.reset(token)


def note_draw(drawn: Any, stream: Callable[[], NextValue]) -> None:
    """Note random numbers that may be returned from an input_fn; elsewhere do nothing.

    Args:
        drawn: The array.
        stream: Returns what stands for other numbers in each element.
    """
    if (noted := _DRAWN.get()) is not None:
        noted[id(drawn)] = drawn, stream


def _with_new_draws(returned: Any) -> Any:
    """Return what an input_fn returned, with new random numbers in each element for those that it drew.

    Other arrays beside them are the same in each element, as those of TensorFlow's graphs.
    """
    noted = _DRAWN.get() or {}
    found: list[NextValue] = []
    replaced(returned, NextValue, found.append)
    before = len(found)

    def anew(leaf: Any) -> Any:
        if id(leaf) in noted:
            found.append(noted[id(leaf)][1]())
            return found[-1]
        return leaf

    returned = replaced(returned, tuple({type(drawn) for drawn, _ in noted.values()}), anew)
    if before or not found:
        return returned
    datasets = type(found[0].source.dataset)

    def repeated(leaf: Any) -> Any:
        if isinstance(leaf, NextValue):
            return leaf
        return OneShotIterator(datasets.from_tensors(leaf).repeat()).get_next()

    returned = _with_tuples(returned)
    return rebuild(returned, list(map(repeated, flatten(returned))))


def compute_for_next(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute with values of `OneShotIterator.get_next`, or of a step's batch: see `StandInSource.compute`.

    Raises:
        ValueError: They are of several calls of ``get_next``.
    """
    found: list[StandIn] = []
    replaced((args, kwargs), StandIn, found.append)
    sources = {value.source for value in found}
    if len(sources) > 1:
        raise ValueError(
            "A value is computed of values of one call of get_next(). Put datasets together by Dataset.zip."
        )
    return sources.pop().compute(function, args, kwargs)


def _with_tuples(structure: Any) -> Any:
    """Return a structure with tuples for its lists, which elements of datasets take for arrays."""
    if isinstance(structure, dict):
        return {key: _with_tuples(value) for key, value in structure.items()}
    return tuple(map(_with_tuples, structure)) if type(structure) in (list, tuple) else structure


def _without_lists(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def as_dataset(returned: Any) -> Any:
    """Return the dataset that values of `OneShotIterator.get_next` stand for; anything else as it is.

    Values of several iterators are those of their datasets together, as `Dataset.zip` makes it.

    Args:
        returned: What an input_fn returned.

    Raises:
        ValueError: It has values of several calls of ``get_next`` of one iterator, or other values beside
            them.
    """
    returned = _with_new_draws(returned)
    if not isinstance(returned, dict | tuple | list | NextValue):
        return returned
    found: list[NextValue] = []
    replaced(returned, NextValue, found.append)
    returned = _with_tuples(returned) if found else returned
    if not found:
        return returned
    sources = list(dict.fromkeys(leaf.source for leaf in found))
    iterators = {source.iterator for source in sources}
    if len(iterators) < len(sources) or not all(isinstance(leaf, NextValue) for leaf in flatten(returned)):
        raise ValueError(
            "An input_fn that returns values of get_next() returns those of one call, and no others, or of "
            "one call on each of its iterators. Put datasets together by Dataset.zip, and compute in "
            "Dataset.map."
        )
    return sources[0].dataset_of(returned) if len(sources) == 1 else _zipped(sources, returned)


def _zipped(sources: list[NextElement], returned: Any) -> Any:
    """Return the dataset whose elements have values of one element of each source."""
    starts = accumulate((len(flatten(source.dataset.element_spec)) for source in sources), initial=0)
    start = dict(zip(sources, starts, strict=False))
    zipped = sources[0].dataset.zip(tuple(source.dataset for source in sources))
    places = [start[leaf.source] + leaf.place for leaf in flatten(returned)]

    def chosen(*elements: Any) -> Any:
        values = flatten(elements)
        return rebuild(returned, [values[place] for place in places])

    return zipped.map(chosen)


def called_for_input(call: Callable[[], Any], trains: bool) -> Any:
    """Return the input that an input_fn of either version returns.

    Values of iterators stand for their datasets, and random numbers for new ones in each batch: training
    calls an input_fn that draws them for each.

    Args:
        call: Calls the input_fn.
        trains: Whether to train.

    Raises:
        ValueError: It returns values of several calls of ``get_next`` of one iterator.
    """
    with noting_draws() as drawn:
        returned = call()
        is_drawn = drawn and dataset_of_batches(returned) is None and not _of_iterators(returned)
        if is_drawn and trains:  # evaluation would not end
            return _called_for_each_batch(call, returned)
        return as_dataset(returned)


def _of_iterators(returned: Any) -> bool:
    """Return whether there are values of TensorFlow 1's iterators in what an input_fn returned."""
    return any(isinstance(leaf, NextValue) for leaf in jax.tree.leaves(returned))


def _called_for_each_batch(call: Callable[[], Any], first: Any) -> Dataset:
    """Return a dataset that calls an input_fn for each batch: what it computes of random numbers is new.

    TensorFlow runs a graph of the input_fn's operations in each step.
    """

    def batches() -> Iterator[Any]:
        while True:
            yield as_arrays(call())

    def spec_of(leaf: Any) -> TensorSpec:
        return TensorSpec(leaf.shape, leaf.dtype)

    return Dataset.from_generator(batches, output_signature=jax.tree.map(spec_of, as_arrays(first)))


def make_one_shot_iterator(dataset: Dataset) -> OneShotIterator:
    """Return an iterator whose ``get_next()`` an input_fn returns for the whole dataset."""
    return OneShotIterator(dataset)


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> OneShotIterator:
    """Do as `make_one_shot_iterator`; the initializer gives values to placeholders."""
    return OneShotIterator(dataset)


def patch() -> None:
    """Let datasets make such iterators."""
    change(Dataset, "make_one_shot_iterator", make_one_shot_iterator)
    change(Dataset, "make_initializable_iterator", make_initializable_iterator)
