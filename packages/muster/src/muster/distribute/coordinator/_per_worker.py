"""Per-worker datasets, and iterators over them."""

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any

import jax

from muster._arrays import dtype_named
from muster._errors import DatasetError
from muster._user_code import no_stop_iteration
from muster.data import Dataset, DistributeOptions, GetNext, TensorSpec, dataset_line
from muster.distribute.closures import ArrayKind, kind_of
from muster.distribute.coordinator._per_worker_values import PerWorkerValues
from muster.distribute.coordinator._pickling import pickled
from muster.distribute.engine._placement import Placement
from muster.distribute.functions._draws import Kind
from muster.distribute.input import Position
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.strategies._strategy import current_strategy
from muster.program.variables import current_scope, variables_owned_by
from muster.ps import Numbers

_numbers = itertools.count(1)

_ON_COORDINATOR = (
    "Iterating over an `AsyncDistributedIterator` is not supported right now: its elements are on the "
    "workers. Pass the iterator to a function: coordinator.schedule(fn, args=(iterator,))."
)


class PerWorkerDataset:
    """A dataset that each worker makes for itself, and reads all of, or shares with the others.

    Args:
        source: A dataset, or a function that makes one; it is called here, too, for the spec of elements.
        dispatch: ``"dynamic"`` lets workers share each pass; None does what the dataset's options say.

    Raises:
        ValueError: It is neither; the function needs or creates variables; or ``dispatch`` is something else.
        TypeError: The function returns something else than a dataset.

    Source: tensorflow/python/distribute/coordinator/values.py, ``PerWorkerDatasetFromDatasetFunction``.
    """

    def __init__(self, source: Any, dispatch: str | None = None) -> None:
        own = DistributeOptions(dispatch=dispatch)
        if not (isinstance(source, Dataset | DistributedDataset) or callable(source)):
            raise ValueError(
                f"Unexpected dataset type! create_per_worker_dataset takes a Dataset or a function that "
                f"returns one, got {source!r}.{dataset_line(source)}"
            )
        made = _made_by(source) if callable(source) else source
        self.sample = made.dataset if isinstance(made, DistributedDataset) else made
        options = own if own.dispatch else self.sample.options().experimental_distribute
        self._is_shared = options.dispatch is not None
        self.pickled = pickled(source if callable(source) else self.sample)
        self._kinds: tuple[ArrayKind, ...] | None = None

    @cached_property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``."""
        return self.sample.element_spec

    def __iter__(self) -> "PerWorkerIterator":
        if current_scope() is not None:
            raise RuntimeError(
                "__iter__() is not supported inside of tf.function or in graph mode. Make the iterator "
                "outside, and give it to the function as an argument."
            )
        return DispatchedIterator(self) if self._is_shared else PerWorkerIterator(self)

    @cached_property
    def key(self) -> Any:
        """The key that datasets with equal element specs share."""
        specs, structure = jax.tree.flatten(self.element_spec)
        return structure, tuple((spec.shape, spec.dtype) for spec in specs)

    def first_kind(self) -> Kind:
        """Return what elements are probably like: by the spec, or if that leaves sizes open by the first."""
        specs, structure = jax.tree.flatten(self.element_spec)
        if self._kinds is None:
            if all(_is_known(spec) for spec in specs):
                self._kinds = tuple(ArrayKind(tuple(spec.shape), str(spec.dtype)) for spec in specs)
            else:
                with self.sample.iterator() as elements:
                    first = next(elements, None)
                # Of a dataset without elements only the end is drawn.
                self._kinds = tuple(
                    map(_smallest, specs) if first is None else map(kind_of, jax.tree.leaves(first))
                )
        return kind_with(structure, self._kinds)


class PerWorkerIterator(PerWorkerValues, GetNext):
    """An iterator of each worker, as an argument of scheduled functions, which call `next` on it.

    Attributes:
        number: Its number, by which workers know theirs.
        dataset: The dataset.
        shared: Where the pass begins that all workers share; None if each makes one of its own.

    Source: tensorflow/python/distribute/coordinator/values.py, ``PerWorkerDistributedIterator``.
    """

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__(())  # they are on the workers
        self.dataset = dataset
        self.shared: dict[str, Any] | None = None
        self.become_new()

    def become_new(self) -> None:
        """Let workers make their iterators anew."""
        _alive.pop(getattr(self, "number", 0), None)
        self.number = next(_numbers)
        _alive[self.number] = self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError(_ON_COORDINATOR)


class DispatchedIterator(PerWorkerIterator):
    """One pass over a dataset that all workers share: each batch is drawn by one closure.

    ``schedule`` takes the batches of a function in order, and raises OutOfRangeError when none is left. A
    closure that runs again draws the same ones. Those of closures that are cancelled come next, and those of
    closures that fail, unless their data is wrong.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__(dataset)
        self._lock = threading.Lock()
        self._begin(Position())

    @property
    def place(self) -> Position:
        """Return where the pass continues. All before it is computed once the coordinator has joined."""
        with self._lock:
            numbers = self._numbers
            return Position(
                pipelines=[self._elements.position], begin=0, drawn=numbers.next, open=numbers.returned
            )

    @property
    def position(self) -> dict[str, Any]:
        """The `place` as JSON; `go_on` of an iterator over an equal dataset continues there."""
        return self.place.to_json()

    def go_on(self, position: Mapping[str, Any] | Position) -> None:
        """Hand out what is left at a `position`, maybe of another program. Join the coordinator before.

        Raises:
            PositionError: It belongs to another dataset.
        """
        place = position if isinstance(position, Position) else Position.of_json(position)
        with self._lock:
            self._begin(place)
            self.become_new()

    def take(self, holder: Hashable) -> int | None:
        """Return the number of the next batch, which the holder has from now on; None at the end."""
        with self._lock:
            return self._numbers.take(holder, self._elements.has)

    def held(self, holder: Hashable) -> list[int]:
        """Return the numbers that a holder has taken, in order."""
        with self._lock:
            return self._numbers.held(holder)

    def left(self, most: int) -> int:
        """Return how many batches are left, up to a number of them."""
        with self._lock:
            return self._numbers.left(most, self._elements.has)

    def end(self, holder: Hashable, used: int = 0) -> None:
        """Take back the numbers of a holder, but for the first ones, which have had an effect."""
        with self._lock:
            self._numbers.use(holder, used)
            self._numbers.give_back(holder)

    def _begin(self, place: Position) -> None:
        elements = self.dataset.sample.numbered(*place.pipelines)
        weakref.finalize(self, elements.close)
        self._elements = elements
        self._numbers = Numbers[Hashable](place.drawn, place.open)
        self.shared = elements.position


_alive: weakref.WeakValueDictionary[int, PerWorkerIterator] = weakref.WeakValueDictionary()


def is_used(number: int) -> bool:
    """Return whether an iterator may still be passed to functions."""
    return number in _alive


def kind_with(structure: jax.tree_util.PyTreeDef, arrays: tuple[ArrayKind, ...]) -> Kind:
    """Return the kind of an element with these arrays."""
    return Kind(structure, tuple((each.shape, dtype_named(each.dtype), None) for each in arrays))


class _NoVariables:
    """Refuses variables that are created."""

    num_replicas_in_sync = 1
    placement = Placement(None)

    def __init__(self) -> None:
        self.strategy = current_strategy()  # in whose scope the code stays

    def check_variable(self, variable: Any) -> None:
        raise ValueError(
            f"Creating variables in `dataset_fn` is not allowed: it creates {variable.path!r}. Workers call "
            "it, and have no variables."
        )


def _made_by(function: Callable[[], Any]) -> Dataset | DistributedDataset:
    code = getattr(function, "python_function", function)
    with no_stop_iteration("The dataset function", DatasetError), variables_owned_by(_NoVariables()):
        made = code()
    if not isinstance(made, Dataset | DistributedDataset):
        raise TypeError(
            f"The function given to create_per_worker_dataset must return a Dataset, it returned {made!r}."
            f"{dataset_line(made)}"
        )
    return made


def _is_known(spec: TensorSpec) -> bool:
    return spec.shape is not None and None not in spec.shape


def _smallest(spec: TensorSpec) -> ArrayKind:
    return ArrayKind(tuple(size or 0 for size in spec.shape or ()), str(spec.dtype))
