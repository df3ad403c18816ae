"""When an evaluator waits for training no longer."""

import dataclasses
import math

import pytest

from muster import _errors
from muster.checkpoint import note_training, read_note
from muster.distribute.fit._training_end import TrainingEnd


@pytest.fixture
def on(tmp_path):
    """The note of a training that goes on."""
    note_training(tmp_path)
    return read_note(tmp_path)


@pytest.fixture
def ended(on):
    return dataclasses.replace(on, ended=True)


@pytest.fixture
def gone(on):
    return dataclasses.replace(on, started=0)


def watch(first, *, fresh=False):
    return TrainingEnd("models", first, fresh=fresh, now=0.0)


def test_training_that_was_seen_has_ended_a_moment_after_it_says_so(on, ended):
    end = watch(None)
    assert not end.has_come(None, 0.0)
    assert not end.has_come(on, 10.0)
    assert not end.has_come(ended, 20.0)
    assert not end.has_come(ended, 24.9)
    assert end.has_come(ended, 25.0)


def test_another_training_may_begin_in_that_moment(on, ended):
    end = watch(None)
    assert not end.has_come(ended, 0.0)
    assert not end.has_come(on, 4.0)
    assert not end.has_come(ended, 8.0)
    assert not end.has_come(ended, 12.9)
    assert end.has_come(ended, 13.0)


def test_an_earlier_training_is_not_the_one_to_wait_for(ended):
    end = watch(ended)
    assert not end.has_come(ended, 0.0)
    assert not end.has_come(ended, 599.0)
    assert end.has_come(ended, 600.0)


def test_training_that_ended_while_the_evaluator_started_counts(ended):
    end = watch(ended, fresh=True)
    assert not end.has_come(ended, 0.0)
    assert end.has_come(ended, 5.0)


def test_training_that_is_gone_may_go_on_and_is_not_waited_for_forever(on, gone):
    end = watch(None)
    assert not end.has_come(on, 0.0)
    assert not end.has_come(gone, 10.0)
    assert not end.has_come(on, 600.0)
    assert not end.has_come(gone, 700.0)
    assert not end.has_come(gone, 1299.0)
    with pytest.raises(_errors.PeerLostError, match="Nobody has trained in models for 600 s"):
        end.has_come(gone, 1300.0)


def test_where_nothing_is_noted_the_evaluator_waits_on():
    end = watch(None)
    assert not end.has_come(None, 0.0)
    assert not end.has_come(None, math.nextafter(math.inf, 0.0))
