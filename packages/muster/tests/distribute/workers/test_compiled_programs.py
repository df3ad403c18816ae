"""Whether a worker that joins others has compiled the same."""

import pytest

from muster import MismatchError
from muster.distribute.workers._meeting import CompiledPrograms


def programs(*noted: tuple[str, str]) -> CompiledPrograms:
    made = CompiledPrograms()
    for shapes, text in noted:
        made.note(shapes, text)
    return made


@pytest.mark.parametrize(
    "theirs",
    [
        [("[4]", "step")],
        [("[4]", "step"), ("[4]", "evaluation"), ("[3]", "another")],
        [("[3]", "another")],  # they have seen no batch of these rows
        [],
    ],
)
def test_it_takes_the_same_step_as_far_as_can_be_told(theirs: list[tuple[str, str]]) -> None:
    programs(("[4]", "step")).require_those(programs(*theirs).to_json())


def test_another_program_for_the_same_shapes_is_refused() -> None:
    with pytest.raises(MismatchError, match="The step of this worker is another"):
        programs(("[4]", "step")).require_those(programs(("[4]", "another")).to_json())
