"""Build optimizers before their first step, to restore their slots from a checkpoint."""

from collections.abc import Iterable, Sequence
from typing import Any

from muster import keras
from muster.extend import strategy_of


def build_optimizers(owners: dict[str, Any], saved: Iterable[str]) -> None:
    """Build each optimizer that is not built, for the weights whose slots a checkpoint has.

    A slot has the name of its weight in its own. Of models that look alike, each optimizer takes the next.

    Args:
        owners: The objects of a checkpoint, by name.
        saved: The names of its variables, which begin with those of the objects.
    """
    names = list(saved)
    models = [each for each in owners.values() if isinstance(each, keras.Model)]
    left = list(models)
    for name, optimizer in owners.items():
        if not isinstance(optimizer, keras.Optimizer) or optimizer.built:
            continue
        slots = [each.rpartition("/")[2] for each in names if each.startswith(f"{name}/")]
        weights = [v for each in models for v in each.trainable_variables if _place(slots, v) is not None]
        if not _is_for(slots, weights):
            own = next((each for each in left if _is_for(slots, each.trainable_variables)), None)
            left = [each for each in left if each is not own]
            weights = [] if own is None else own.trainable_variables
        if weights:
            with strategy_of(weights[0]).scope():
                optimizer.build(sorted(weights, key=lambda each: _place(slots, each) or 0))


def _is_for(slots: Sequence[str], weights: Sequence[Any]) -> bool:
    """Return whether each weight has a slot, and no two have the same."""
    places = [_place(slots, each) for each in weights]
    return bool(places) and None not in places and len({*places}) == len(places)


def _place(slots: Sequence[str], weight: Any) -> int | None:
    """Return which slot is the first of a weight."""
    start = weight.path.replace("/", "_") + "_"
    return next((place for place, slot in enumerate(slots) if slot.startswith(start)), None)
