"""The initial state of a program: from initializers, a checkpoint, or another model."""

from muster._arrays import AnyArray
from muster._errors import CheckpointMismatchError
from muster.checkpoint import Checkpoint
from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.program.trace import Program

_SHOWN = 10


def initial_state(
    program: Program[EstimatorSpec], checkpoint: Checkpoint | None, warm_start: WarmStartSettings | None
) -> dict[str, AnyArray]:
    """Return the value of every variable of a program before its first step.

    Training restores metrics too; evaluation and prediction start theirs afresh.

    Args:
        program: Traced with the checkpoint's variables as known values.
        checkpoint: The checkpoint to restore; None for initial values.
        warm_start: Where trainable variables start from without a checkpoint; None for their initializers.

    Returns:
        Path -> array of global shape.

    Raises:
        CheckpointMismatchError: The checkpoint lacks a variable of the model, or has another shape.
        CheckpointError: The checkpoint to warm-start from cannot be read.
    """
    state: dict[str, AnyArray] = dict(program.initial)
    if checkpoint is not None:
        _require_match(program, checkpoint)
    elif warm_start is not None:
        state.update(warm_start.values(program.variables))
    return state


def _require_match(program: Program[EstimatorSpec], checkpoint: Checkpoint) -> None:
    stored, mode = checkpoint.variables, program.static.mode
    wanted = {v.path: v for v in program.variables if mode == ModeKeys.TRAIN or not v.local}
    missing = [str(v) for path, v in wanted.items() if path not in stored and not v.local]
    reshaped = [
        f"{v} (the checkpoint has {list(stored[path].shape)})"
        for path, v in wanted.items()
        if path in stored and stored[path].shape != v.shape
    ]
    if not missing and not reshaped:
        return
    unused = [path for path in stored if path not in wanted] if mode == ModeKeys.TRAIN else []
    raise CheckpointMismatchError(
        f"The checkpoint {checkpoint.path} is of another model."
        + _listed(" It lacks", missing)
        + _listed(" It differs in shape in", reshaped)
        + _listed(" The model does not have its", unused)
        + " Give the model another model_dir, or build it as it was when it was saved."
    )


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}: {', '.join(names[:_SHOWN])}{more}."
