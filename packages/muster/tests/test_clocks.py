"""Machines whose clocks differ: how far, and what was written by another one."""

import pytest

from muster._clocks import clock_difference, is_ahead


@pytest.mark.parametrize(
    ("told", "ahead"),
    [
        (1000.0, 0.0),
        (1002.5, 0.0),  # between question and answer
        (1003.0, 0.0),
        (1007.9, 0.0),  # too little to be told
        (1063.0, 60.0),
        (940.0, -60.0),
        (-1e9, -1e9 - 1000),
    ],
)
def test_a_clock_differs_if_it_tells_a_time_before_the_question_or_after_the_answer(told, ahead):
    assert clock_difference(told, 1000.0, 1003.0) == pytest.approx(ahead)


def test_what_is_dated_in_the_future_was_written_by_another_clock(caplog):
    assert not is_ahead(1000.9, 1000.0, "A file")  # as file systems round
    assert caplog.messages == []
    assert is_ahead(1090.0, 1000.0, "A file")
    assert caplog.messages == [
        "A file is dated 90 s in the future. The clock of the machine that wrote it is ahead of this one's "
        "by that much, or more: let both follow one clock, such as by NTP."
    ]
