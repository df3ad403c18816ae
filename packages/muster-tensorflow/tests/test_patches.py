"""What ``import muster_tensorflow`` changes in others' packages: the manifest names it, and it is undone."""

import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import patches_page
from muster_tensorflow import patches
from repository import CORE

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def child():
    done = subprocess.run(
        [sys.executable, str(TESTS / "patches_child.py")],
        env={**os.environ, "PYTHONPATH": str(CORE / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.processes
def test_nothing_is_changed_that_the_manifest_does_not_name(child):
    assert child["once"]
    assert child["unnamed"] == []


@pytest.mark.processes
def test_undone_jax_keras_numpy_and_muster_are_as_they_were(child):
    assert child["undone"] == []


@pytest.mark.processes
def test_the_changes_are_made_again(child):
    assert child["again"] == child["once"]


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["adds", "changes"])
@pytest.mark.parametrize("part", patches.manifest(), ids=lambda part: part.name)
def test_the_manifest_says_what_a_part_changes(child, part, kind):
    """It fails, too, where a package has got a name that was added to it: is the part still needed?"""
    told = {(owner, name) for owner, names in getattr(part, kind).items() for name in names}
    made = {(owner, name) for owner, names in child["parts"][part.name][kind].items() for name in names}
    untold = [(owner, name) for owner, name in made if not _is_among(owner, name, told)]
    unmade = [
        (owner, name) for owner, name in told if not any(_is_among(*one, {(owner, name)}) for one in made)
    ]
    assert (untold, unmade) == ([], [])


def _is_among(owner, name, told):
    return any(name == one and fnmatch.fnmatchcase(owner, pattern) for pattern, one in told)


@pytest.mark.parametrize("part", patches.manifest(), ids=lambda part: part.name)
def test_a_part_has_a_reason_and_a_test(part):
    assert part.why.endswith(".")
    assert part.tests
    for test in part.tests:
        assert "import muster_tensorflow" in (TESTS / test).read_text()


def test_nothing_is_changed_outside_of_the_manifest():
    with pytest.raises(RuntimeError, match=r"Owner\.name was to be changed outside of the manifest"):
        patches.change(type("Owner", (), {}), "name", 1)


def test_parts_that_are_left_out_are_known():
    with pytest.raises(ValueError, match=r"no part library\.none"):
        patches.apply(without=["library.none"])


def test_the_page_says_what_the_manifest_does():
    assert patches_page.PAGE.read_text() == patches_page.page(), "Run python tests/patches_page.py."
