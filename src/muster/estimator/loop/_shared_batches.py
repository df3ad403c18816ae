"""The batches of an input that workers share: the ticket of a step says which one it computes."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

from muster._errors import PositionError
from muster.data import Dataset
from muster.distribute import RemoteServers
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.loop._batches import Batch, Prepare, batches_of, check_batch
from muster.ps import SharedInput

_log = logging.getLogger(__name__)


def is_shared(returned: Any) -> bool:
    """Return whether what an input_fn returned is a dataset whose batches are to be handed out."""
    return isinstance(returned, Dataset) and returned.options().experimental_distribute.dispatch is not None


class SharedBatches:
    """Iterates over the batches of those steps for which this worker gets tickets.

    The chief says which pass over the data it is; the others hear of it from the first server. At the end of
    the data no step is left for any worker, once those are made that others have begun.

    Args:
        dataset: The dataset of ``(features, labels)`` or of features, the same in all workers.
        servers: Give the tickets.
        global_step: The global step to begin at.
        position: Where the pass was when a checkpoint was written; None begins another one.
        done: How many steps had been made then.
        seed: Seeds shuffles that have no seed of their own; None leaves them random.
        prepare: As of ``Batches``.

    Attributes:
        meet: Called before the first batch: this worker has its first ticket then.
        first: The very first batch; None if there is none.
        example: The same.
        taken: How many batches the iteration has yielded.
        share: A description of what this worker reads.

    Raises:
        DatasetError: A step cannot compute with the first batch.
        ValueError: Workers train in rounds, in which several have the same ticket.
    """

    share = "what it gets tickets for"

    def __init__(
        self,
        dataset: Dataset,
        servers: RemoteServers,
        global_step: int,
        position: Mapping[str, Any] | None,
        done: int,
        *,
        seed: int | None,
        prepare: Prepare | None,
    ) -> None:
        if servers.max_staleness == 0:
            raise ValueError(
                'max_staleness=0 and dispatch="dynamic" exclude each other: in a round all workers make the '
                "same step, and the step says which batch is read. Set max_staleness=1, or divide the data "
                "by hand: dataset.shard(...)."
            )
        self.meet: Callable[[], None] = lambda: None
        self._servers = servers
        self._numbered = partial(
            dataset.numbered,
            seed=seed,
            convert=partial(batches_of, mode=ModeKeys.TRAIN, prepare=prepare),
        )
        self._started = False
        self.taken = 0
        begin, saved = global_step, (position or {}).get("begin")
        if position is not None and saved is not None:
            begin = global_step - (done - int(saved))
        with ExitStack() as undo:
            try:
                self._elements = self._numbered(None if saved is None else position)
            except PositionError as exc:
                _log.warning("The input starts again at its first example: %s", exc)
                self._elements, begin = self._numbered(None), global_step
            undo.callback(lambda: self._elements.close())
            servers.shared = SharedInput(position=self._elements.position, begin=begin)
            try:
                self.example: Batch | None = self._elements.read(0)
                check_batch(self.example)
            except IndexError:
                self.example = None
            self.first = self.example
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the batch of this worker's ticket.

        Raises:
            NoMoreSteps: All are computed; it is a StopIteration.
            ValueError: The chief's input is not shared.
        """
        if not self._started:
            self._started = True
            self.meet()
            self._join()
        while True:
            self._servers.require_ticket()
            number = (self._servers.ticket or 0) - self._shared.begin
            try:
                batch: Batch = self._elements.read(number)
            except IndexError:
                self._servers.end_at(self._servers.ticket or 0)
                continue
            self.taken += 1
            return batch

    @property
    def position(self) -> Mapping[str, Any]:
        """Where the pass is, as JSON: how far says the global step."""
        shared = self._shared
        return {**shared.position, "begin": shared.begin}

    @property
    def _shared(self) -> SharedInput:
        shared = self._servers.shared
        if shared is None:
            raise ValueError(
                'The input_fn of this worker has dispatch="dynamic", and that of the chief has not. Run the '
                "same program in all tasks."
            )
        return shared

    def _join(self) -> None:
        """Take part in the pass that the first server knows."""
        if self._elements.position != self._shared.position:
            self._elements.close()
            self._elements = self._numbered(self._shared.position)
