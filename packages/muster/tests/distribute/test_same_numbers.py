"""Training a model on two devices ends on the numbers of training it alone."""

import pytest
from same_numbers_cases import CASES, outcome, same

from muster.distribute import MirroredStrategy, get_strategy


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_devices_train_as_one(name: str) -> None:
    mirrored = outcome(MirroredStrategy(["/cpu:0", "/cpu:1"]), name)
    same(mirrored, outcome(get_strategy(), name))
