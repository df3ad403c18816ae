"""Which version is served."""

from muster.serve._versions import Versions


def states(versions):
    return {each.version: (each.state, each.error) for each in versions.statuses()}


def serve(versions, number, stamp="a"):
    assert versions.choose({number: stamp}) == (number, [])
    versions.loaded(number)


def test_the_newest_is_served_and_replaced_by_a_newer_one():
    versions = Versions()
    assert versions.candidates([3, 10, 9]) == [10, 9, 3]
    assert versions.choose({10: "a", 9: "a", 3: "a"}) == (10, [])
    assert states(versions) == {10: ("LOADING", "")}
    versions.loaded(10)
    assert versions.candidates([3, 10, 9]) == []
    assert versions.candidates([3, 10, 11]) == [11]
    serve(versions, 11)
    assert states(versions) == {11: ("AVAILABLE", ""), 10: ("END", "")}


def test_a_broken_version_is_reported_once_when_nobody_writes_it_any_more():
    versions = Versions()
    serve(versions, 1)
    assert versions.choose({2: "half"}) == (2, [])
    versions.failed(2, "half", "no manifest")
    assert versions.choose({2: "more"}) == (2, [])
    versions.failed(2, "more", "no weights")
    assert states(versions) == {1: ("AVAILABLE", ""), 2: ("END", "no weights")}
    assert versions.choose({2: "more"}) == (None, ["version 2 cannot be loaded: no weights"])
    assert versions.choose({2: "more"}) == (None, [])
    assert versions.choose({2: "still more"}) == (2, [])
    versions.failed(2, "still more", "no weights")
    assert versions.choose({2: "still more"}) == (None, [])
    assert versions.choose({2: "whole"}) == (2, [])
    versions.loaded(2)
    assert states(versions) == {1: ("END", ""), 2: ("AVAILABLE", "")}


def test_the_next_older_one_is_tried_if_the_newest_is_broken():
    versions = Versions()
    assert versions.choose({3: "a", 2: "a"}) == (3, [])
    versions.failed(3, "a", "broken")
    assert versions.choose({3: "a", 2: "a"}) == (2, ["version 3 cannot be loaded: broken"])
    versions.loaded(2)
    assert versions.candidates([1, 2, 3]) == [3]


def test_an_older_one_takes_over_if_the_one_that_is_served_is_removed():
    versions = Versions()
    serve(versions, 2)
    assert versions.candidates([1]) == [1]
    serve(versions, 1)
    assert states(versions)[1] == ("AVAILABLE", "")


def test_the_one_that_is_served_stays_if_all_are_removed():
    versions = Versions()
    serve(versions, 2)
    assert versions.candidates([]) == []
    versions.forget([])
    assert states(versions) == {2: ("AVAILABLE", "")}


def test_versions_that_are_gone_are_forgotten():
    versions = Versions()
    serve(versions, 1)
    serve(versions, 2)
    versions.choose({3: "a"})
    versions.failed(3, "a", "broken")
    versions.forget([2])
    assert states(versions) == {2: ("AVAILABLE", "")}
    assert versions.choose({3: "a"}) == (3, [])
