"""Simulate workers step by step, without a clock: pure functions of times and a seed."""

import heapq
import random
from collections.abc import Callable

# How many steps each worker takes, how many there are in all at least, and the part that is not counted.
_STEPS_EACH, _STEPS_AT_LEAST, _WARM_UP = 6, 3_000, 0.34
# How many steps of workers in step are drawn: more of few workers, and about so many draws.
_ROUNDS_AT_LEAST, _DRAWS = 20, 40_000


def slowest(workers: int, mean: float, spread: float, seed: int = 0) -> float:
    """Return the time that the slowest of some workers takes for a step, on average.

    Args:
        workers: How many there are.
        mean: The mean time of a step of one, in seconds.
        spread: Its standard deviation, as a part of the mean.
        seed: Of the random numbers.
    """
    if workers == 1 or spread <= 0 or mean <= 0:
        return mean
    draw = _drawing(mean, spread, random.Random(seed))
    rounds = max(_ROUNDS_AT_LEAST, _DRAWS // workers)
    return sum(max(draw() for _ in range(workers)) for _ in range(rounds)) / rounds


def served_rate(
    workers: int, *, own: float, spread: float, between: float, serve: float, seed: int = 0
) -> float:
    """Return how many steps workers make in a second that ask a server in each, which serves one at a time.

    Servers that share the work of each step are one: all of them are asked together, and take equally long.

    Args:
        workers: How many there are.
        own: The mean seconds of a step that a worker spends by itself.
        spread: Their standard deviation, as a part of the mean.
        between: The seconds of a step on the way to the server and back.
        serve: The seconds that the server works for a step.
        seed: Of the random numbers.
    """
    generator = random.Random(seed)
    draw = _drawing(own, spread, generator)
    # Workers begin anywhere in a step, else all of them would come at the same time.
    arrivals = [(draw() + generator.random() * (own + between), number) for number in range(workers)]
    heapq.heapify(arrivals)
    steps = max(_STEPS_AT_LEAST, _STEPS_EACH * workers)
    uncounted = int(steps * _WARM_UP)
    free = began = 0.0
    for step in range(steps):
        arrival, number = arrivals[0]
        free = max(arrival, free) + serve
        heapq.heapreplace(arrivals, (free + between + draw(), number))
        if step == uncounted:
            began = free
    return (steps - 1 - uncounted) / max(free - began, 1e-12)


def _drawing(mean: float, spread: float, generator: random.Random) -> Callable[[], float]:
    """Return a function that draws times, which are never negative and now and then long."""
    if spread <= 0 or mean <= 0:
        return lambda: mean
    shape = 1 / spread**2
    scale = mean / shape
    return lambda: generator.gammavariate(shape, scale)
