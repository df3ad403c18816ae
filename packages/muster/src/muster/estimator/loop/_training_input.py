"""The input of a training: opened where a checkpoint says that it goes on."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from muster._errors import PositionError
from muster.checkpoint import Checkpoint
from muster.data import Dataset
from muster.distribute import InputContext, Strategy
from muster.distribute.input import BatchNumbers, DispatchedInput, OwnInput, Position
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator.loop._batches import check_batch, converting, own_input
from muster.estimator.loop._setup import EstimatorSetup
from muster.estimator.loop._tracing import GLOBAL_STEP

_log = logging.getLogger(__name__)


def open_training_input(
    setup: EstimatorSetup,
    strategy: Strategy,
    call_input_fn: Callable[[InputContext], Any],
    checkpoint: Checkpoint | None,
    position: Position | None,
) -> OwnInput | DispatchedInput:
    """Open the input of this worker at a position; at its start, with a warning, if that is of another one.

    Args:
        setup: The Estimator's model and config.
        strategy: Says what this worker reads.
        call_input_fn: Returns what the input_fn returns for a pipeline.
        checkpoint: What training goes on from; None for none.
        position: What it says of the input; None to begin.

    Raises:
        ValueError: Batches are to be handed out, and workers train in step.
    """
    context, numbers = strategy.input_context, strategy.steps.numbers
    contexts, per_step = [context], strategy.local_replicas
    if (share := strategy.workers.share) is not None:
        per_step = 1
        contexts = [
            InputContext(share.total, number, share.total)
            for number in range(share.first, share.first + share.count)
        ]
    elif position is not None and len(position.pipelines) > context.num_input_pipelines:
        per_step = position.per_step
        contexts = context.of_job(len(position.pipelines), per_step)
        _log.info(
            "Worker %d of %d reads input pipelines %s of %d, as many as this training began with.",
            context.input_pipeline_id,
            context.num_input_pipelines,
            " and ".join(str(each.input_pipeline_id) for each in contexts),
            len(position.pipelines),
        )
    returned = [call_input_fn(each) for each in contexts]
    if numbers is not None and is_shared(returned[0]):
        return _dispatched(setup, returned[0], numbers, place_of(checkpoint, position, numbers))
    if context.num_input_pipelines > 1 and any(map(is_shared, returned)):
        raise ValueError(
            f'dispatch="dynamic" is for workers beside parameter servers. The {context.num_input_pipelines} '
            f"workers of {strategy} train in step: divide the data by the input_context of the input_fn."
        )
    if numbers is not None:
        numbers.share_nothing()
    returned_for = None
    if share is not None:

        def returned_for(number: int) -> Any:
            return call_input_fn(InputContext(share.total, number, share.total))

    return _own(setup, returned, per_step, contexts, position, returned_for)


def _own(
    setup: EstimatorSetup,
    returned: Sequence[Any],
    per_step: int,
    contexts: Sequence[InputContext],
    position: Position | None,
    returned_for: Callable[[int], Any] | None,
) -> OwnInput:
    def opened(positions: Sequence[Any] | None) -> OwnInput:
        return own_input(
            returned,
            ModeKeys.TRAIN,
            per_step,
            positions=positions,
            seed=setup.config.tf_random_seed,
            past_end=contexts[0].num_input_pipelines > 1,
            prepare=setup.prepare,
            host=setup.host,
            returned_for=returned_for,
            first_number=contexts[0].input_pipeline_id,
        )

    if position is None:
        return opened(None)
    try:
        return opened([position.pipelines[each.input_pipeline_id] for each in contexts])
    except PositionError as exc:
        _log.warning("The input starts again at its first example: %s", exc)
        return opened(None)


def _dispatched(
    setup: EstimatorSetup, dataset: Dataset, numbers: BatchNumbers, place: Position
) -> DispatchedInput:
    return DispatchedInput(
        dataset,
        numbers,
        place,
        seed=setup.config.tf_random_seed,
        convert=converting(ModeKeys.TRAIN, setup.prepare, None),
        check=check_batch,
    )


def is_shared(returned: Any) -> bool:
    """Return whether what an input_fn returned is a dataset whose batches are to be handed out."""
    return isinstance(returned, Dataset) and returned.options().experimental_distribute.dispatch is not None


def saved_position(checkpoint: Checkpoint | None, strategy: Strategy) -> Position | None:
    """Return where the input goes on after an interruption; None if it starts afresh."""
    if checkpoint is None or checkpoint.metadata.get("ended", True):
        return None
    try:
        position = Position.of_json(checkpoint.metadata.get("input"))
    except PositionError as exc:
        _log.warning("The input starts again at its first example: %s has %s", checkpoint.path, exc)
        return None
    count, workers = len(position.pipelines), strategy.input_context.num_input_pipelines
    if strategy.workers.share is not None and count != workers:
        raise ValueError(
            f"virtual_replicas={workers}, and the checkpoint {checkpoint.path} is of a job with {count} "
            "input pipelines, one for each of its replicas. Give the strategy "
            f"virtual_replicas={count}, however many workers there are; or begin anew with another model_dir."
        )
    if count < workers or (count > 1 and strategy.steps.shared):
        _log.warning(
            "The input starts again at its first example: %s has the places of %d input pipelines, and %s.",
            checkpoint.path,
            count,
            "a worker beside parameter servers reads one, for a step of its own"
            if strategy.steps.shared
            else f"there are {workers} workers, each of which reads one or more",
        )
        return None
    return position


def place_of(checkpoint: Checkpoint | None, position: Position | None, numbers: BatchNumbers) -> Position:
    """Return where training goes on in a pass whose batches are handed out, by tickets: global steps.

    Args:
        checkpoint: The checkpoint; None for none.
        position: What it says about the input; None if another pass is to begin.
        numbers: Tell which batches it lacks.

    Returns:
        ``drawn`` is the global step. Numbers that are open are tickets below it, as it were.
    """
    step = 0 if checkpoint is None else checkpoint.step
    if checkpoint is None or position is None or position.begin is None:
        return Position(begin=step, drawn=step)
    # The values on servers may have been further than the step that the checkpoint is named after.
    further = int(checkpoint.variables.get(GLOBAL_STEP, step)) - step
    left_open = [number - further for number in numbers.left_open(checkpoint.variables)]
    return Position(pipelines=position.pipelines, begin=position.begin - further, drawn=step, open=left_open)
