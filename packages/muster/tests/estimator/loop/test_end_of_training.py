"""A signal that comes at the end of a training: whom it ends."""

import signal
from types import SimpleNamespace

import pytest

from muster.estimator.loop._training import Training
from muster.lifecycle import SignalWatch

TERM = int(signal.SIGTERM)


@pytest.mark.parametrize(
    ("comes_and_goes", "received", "rank", "ends"),
    [
        (False, [None, None], 0, None),
        (False, [None, TERM], 0, (1, TERM)),
        (True, [None, TERM], 0, None),  # the other one leaves alone
        (True, [None, TERM], 1, (1, TERM)),
        (True, [TERM, TERM], 1, (0, TERM)),
    ],
)
def test_a_signal_at_the_end_ends_all_or_of_workers_that_come_and_go_one(
    comes_and_goes, received, rank, ends
):
    early = []
    workers = SimpleNamespace(
        comes_and_goes=comes_and_goes,
        rank=rank,
        all_gather_object=lambda value: received,
        end_early=lambda *who: early.append(who),
    )
    signals = SignalWatch()
    signals.received = received[rank]
    Training._agree_to_end(SimpleNamespace(strategy=SimpleNamespace(workers=workers)), signals)
    assert early == ([] if ends is None else [ends])
    assert (signals.received is None) == (ends is None)
