"""Rounds: who takes part, who is waited for, and whose push counts."""

from muster.ps._sync_rounds import SyncRounds


def begun(*tasks):
    rounds = SyncRounds()
    rounds.begin(tasks)
    return rounds


def test_a_round_is_over_when_all_have_pushed():
    rounds = begun("a", "b")
    assert (rounds.number, rounds.members, rounds.is_open) == (1, ("a", "b"), True)
    assert rounds.push("a", 1, "ab")
    assert rounds.awaited == {"b"}
    assert not rounds.is_over
    assert rounds.push("b", 1, "ab")
    assert rounds.is_over
    rounds.end()
    assert not rounds.is_over
    rounds.begin("a")
    assert (rounds.number, rounds.members, rounds.awaited) == (2, ("a",), {"a"})


def test_a_server_hears_of_a_round_by_its_first_push():
    rounds = SyncRounds()
    assert rounds.push("b", 4, ("a", "b"))
    assert (rounds.number, rounds.awaited) == (4, {"a"})
    assert not rounds.follows(4)
    assert rounds.follows(5)


def test_who_leaves_is_not_waited_for():
    rounds = begun("a", "b")
    rounds.push("a", 1, "ab")
    rounds.leave("b")
    assert rounds.is_over


def test_who_has_left_before_a_server_hears_of_the_round_is_not_waited_for():
    rounds = SyncRounds()
    rounds.leave("b")
    rounds.push("a", 1, "ab")
    assert rounds.is_over
    rounds.end()
    rounds.come("b")
    rounds.push("a", 2, "ab")
    assert rounds.awaited == {"b"}


def test_a_push_that_comes_while_the_round_is_open_counts_and_later_it_does_not():
    rounds = begun("a", "b", "c")
    rounds.leave("b")
    assert rounds.push("b", 1, "abc")
    assert rounds.awaited == {"a", "c"}
    rounds.leave("c")
    rounds.push("a", 1, "abc")
    rounds.end()
    assert not rounds.push("c", 1, "abc")
    rounds.begin("a")
    assert not rounds.push("c", 1, "abc")
    assert rounds.awaited == {"a"}
