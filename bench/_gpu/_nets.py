"""The loops that muster's steps are measured beside: by hand in JAX, and in PyTorch's process."""

import importlib.util
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from bench._gpu._part import Part
from bench.peers import Contestant, python_of

from bench import _results

ROOT = _results.RESULTS.parents[1]


class ByHand:
    """The training loop that a user would write in JAX, for a Keras model and optimizer.

    Args:
        model: The model, built.
        optimizer: The optimizer, new.
        loss_of: A function of labels and logits.
    """

    def __init__(self, model: Any, optimizer: Any, loss_of: Callable[[Any, Any], Any]) -> None:
        optimizer.build(model.trainable_variables)
        # Copies, for the step takes their memory.
        self._state = jax.tree.map(
            lambda variable: jax.numpy.array(variable.value),
            (list(model.trainable_variables), list(model.non_trainable_variables), list(optimizer.variables)),
        )

        def step(state: Any, inputs: Any, labels: Any) -> Any:
            trainable, others, slots = state

            def loss(trainable: Any) -> Any:
                logits, after = model.stateless_call(trainable, others, inputs, training=True)
                return loss_of(labels, logits), after

            (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(trainable)
            trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
            return (trainable, after, slots), value

        self._step = jax.jit(step, donate_argnums=0)

    def __call__(self, inputs: Any, labels: Any) -> Any:
        """Take a step, and return its loss, which may not be computed yet."""
        self._state, loss = self._step(self._state, inputs, labels)
        return loss


def turn_of(step: Callable[[Any, Any], Any], batches: Iterator[tuple[Any, Any]], steps: int) -> float:
    """Take steps, and return the seconds until the loss of the last one was read."""
    began = time.perf_counter()
    for _ in range(steps):
        loss = step(*next(batches))
    float(loss)
    return time.perf_counter() - began


def cast_loss(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a loss that is computed in float32, whatever the logits are."""
    return lambda labels, logits: loss(labels, jax.numpy.asarray(logits, "float32"))


def torch_python() -> str | None:
    """Return a Python that has PyTorch: this one, or the one that ``bench.peers`` would take; or None."""
    return sys.executable if importlib.util.find_spec("torch") else python_of("torch")


@contextmanager
def torch_turns(part: Part, net: str, steps: int) -> Iterator[Callable[[], dict[str, Callable[[], float]]]]:
    """Start PyTorch's loop, which gets ready meanwhile; yield what waits for it, and returns contestants.

    If PyTorch is not here, or fails, there is none, and the part's report says why.

    Args:
        part: The part.
        net: One of those of ``nets.py``.
        steps: The number of steps in a turn.
    """
    python = torch_python()
    if python is None:
        part.note(torch="not installed")
        yield dict
        return
    device = "cpu" if os.environ["JAX_PLATFORMS"] == "cpu" else "cuda"
    command = [python, "-m", "bench._gpu.torch_loop", net, part.size, str(steps), device]
    log = part.folder / f"{part.name}-torch.log"
    with (
        log.open("w") as messages,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, text=True, cwd=ROOT
        ) as process,
    ):

        def contestant() -> dict[str, Callable[[], float]]:
            try:
                found = Contestant(process, log)
            except RuntimeError as error:
                part.fail(f"PyTorch failed: {error}")
                return {}
            part.note(torch=found.versions)
            failed = False

            def turn() -> float:
                nonlocal failed
                if not failed:
                    try:
                        return found.seconds_per_turn()
                    except RuntimeError as error:
                        failed = True
                        part.fail(f"PyTorch failed: {error}")
                return math.nan  # others' figures are to be kept

            return {"torch": turn}

        try:
            yield contestant
        finally:
            process.kill()
