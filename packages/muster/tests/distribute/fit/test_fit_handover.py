"""What a worker that joins ``fit`` skips, and when it cannot join, without processes."""

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from muster.distribute.fit._fit_handover import Handover
from muster.distribute.fit._fit_step import StepFunction


def test_a_call_of_several_steps_takes_those_that_are_left_of_it() -> None:
    function, caught_up = StepFunction(4, list), list[Any]()
    batches = iter(())
    function.skip(6, {"loss": 1.0}, caught_up.append)
    assert function.skips(batches)
    assert not caught_up
    assert not function.skips(batches)
    assert (function.left_out, function.in_epoch, caught_up) == (2, 6, [batches])
    assert not function.skips(batches)
    assert function.left_out == 0


def test_a_worker_on_its_way_to_the_others_cannot_evaluate() -> None:
    class Workers:
        def stand_by(self, reason: str) -> NoReturn:
            raise SystemExit(reason)

    agreement: Any = SimpleNamespace(catching_up=True)
    workers: Any = Workers()
    nothing: Any = None
    handover = Handover(workers, agreement, nothing, nothing, nothing, list, lambda: nothing, 1)
    with pytest.raises(SystemExit, match="evaluates the model at the beginning"), handover.paused():
        pass
