"""Which position of a checkpoint a worker's input goes on at."""

import re
from types import SimpleNamespace

import pytest

from muster.checkpoint import Checkpoint
from muster.distribute import InputContext
from muster.distribute.input import Position
from muster.distribute.workers._workers import ReplicaShare
from muster.estimator.loop._training_input import saved_position

THREE = Position(pipelines=[{"elements": n} for n in (1, 2, 3)])


def at(position, *, workers, shared=False, ended=False, share=None):
    """Where so many workers go on after a checkpoint that says this of its input."""
    strategy = SimpleNamespace(
        input_context=InputContext(workers),
        steps=SimpleNamespace(shared=shared),
        workers=SimpleNamespace(share=share),
    )
    checkpoint = Checkpoint("model/ckpt-7", 7, {}, {"input": position, "ended": ended})
    return saved_position(checkpoint, strategy)


def test_another_number_of_virtual_replicas_is_refused():
    assert at(THREE.to_json(), workers=3, share=ReplicaShare(0, 1, 3)) == THREE
    with pytest.raises(ValueError, match="virtual_replicas=2, and .* Give the strategy virtual_replicas=3"):
        at(THREE.to_json(), workers=2, share=ReplicaShare(0, 1, 2))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_as_many_workers_as_pipelines_or_fewer_go_on(workers, caplog):
    assert at(THREE.to_json(), workers=workers) == THREE
    assert not caplog.records


@pytest.mark.parametrize(
    ("position", "options", "reason"),
    [
        (
            THREE.to_json(),
            {"workers": 4},
            "has the places of 3 input pipelines, and there are 4 workers",
        ),
        (THREE.to_json(), {"workers": 1, "shared": True}, "3 input pipelines, .* a step of its own"),
        (THREE.pipelines, {"workers": 3}, "ckpt-7 has a position of another kind or version"),
    ],
)
def test_others_start_again_and_are_told_why(position, options, reason, caplog):
    assert at(position, **options) is None
    (told,) = caplog.records
    assert told.getMessage().startswith("The input starts again at its first example: ")
    assert re.search(reason, told.getMessage())


def test_an_ended_training_begins_anew(caplog):
    assert at(THREE.to_json(), workers=3, ended=True) is None
    assert saved_position(None, None) is None
    assert not caplog.records
