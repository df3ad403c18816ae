"""A plugin for pytest: ``-p without_patches --without-patch=library.keras2._adapt`` leaves out patches."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-patch", action="append", default=[])


def pytest_collection(session: pytest.Session) -> None:
    """Leave out the parts before tests are imported, once what they are held to is set up."""
    from muster_tensorflow import patches

    patches.undo()
    patches.apply(without=session.config.getoption("--without-patch"))
