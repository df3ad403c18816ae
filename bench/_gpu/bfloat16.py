"""Time a net in bfloat16 in a loop under ``MirroredStrategy``, in turn with JAX by hand and with PyTorch.

The part's name says which net it is. muster and the loop by hand begin with the same weights, and must find
nearly the same losses.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
from bench._gpu._model import LOSS, first_device
from bench._gpu._nets import ByHand, cast_loss, torch_turns, turn_of
from bench._gpu._part import OURS, Part, alternate, speeds, this_part
from bench._gpu.nets import net, weights_of

import muster
from muster import keras
from muster.distribute import MirroredStrategy

TURNS = 7
CHECKED_STEPS = 3
# How far losses of the same steps may be apart that two programs compute in bfloat16, relatively.
AGREEMENT = 0.02


def under_a_strategy(chosen: Any, loss_of: Callable[[Any, Any], Any]) -> tuple[Any, Callable[..., Any]]:
    """Return the net and its training step, run on the one replica of a MirroredStrategy."""
    strategy = MirroredStrategy([first_device()])
    with strategy.scope():
        model, optimizer = built(chosen)

    def on_replica(inputs: Any, labels: Any) -> Any:
        with muster.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @muster.function
    def step(inputs: Any, labels: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(on_replica, (inputs, labels)), axis=None)

    return model, step


def built(chosen: Any) -> tuple[Any, Any]:
    """Return the net and its optimizer, the same each time."""
    keras.utils.set_random_seed(7)
    return chosen.keras_model(keras), chosen.keras_optimizer(keras)


def measure(part: Part) -> None:
    """Report how long steps take all contestants."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    chosen = net(part.name, part.size)
    loss_of = cast_loss(LOSS)
    with torch_turns(part, part.name, chosen.steps) as torch:
        # Not committed to the device, or else the loop by hand would be compiled again for its second step.
        batch = jax.device_put(chosen.data())
        model, ours = under_a_strategy(chosen, loss_of)
        by_hand = ByHand(*built(chosen), loss_of)
        part.note(weights=weights_of(model), batch=chosen.batch)
        losses = {
            name: [float(step(*batch)) for _ in range(CHECKED_STEPS)]
            for name, step in ((OURS, ours), ("jax", by_hand))
        }
        part.note(losses={name: [round(loss, 5) for loss in each] for name, each in losses.items()})
        for mine, other in zip(*losses.values(), strict=True):
            if not abs(mine - other) <= AGREEMENT * abs(other):
                part.fail(f"The losses of the same steps differ: {losses}.")
                break
        batches = itertools.repeat(batch)
        contestants = {
            OURS: lambda: turn_of(ours, batches, chosen.steps),
            "jax": lambda: turn_of(by_hand, batches, chosen.steps),
            **torch(),
        }
        seconds = alternate(contestants, 1 if part.small else TURNS, part.ends_at - 15)
    part.note(turns=len(seconds[OURS]), **speeds(seconds, chosen.steps, chosen.batch))


if __name__ == "__main__":
    this = this_part()
    measure(this)
    this.end()
