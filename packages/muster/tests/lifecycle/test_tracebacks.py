"""Tracebacks of uncaught errors: the lines of the program."""

import os
import subprocess
import sys
import traceback
from types import SimpleNamespace

import jax
import pytest

import muster
from muster.estimator import RunConfig
from muster.lifecycle import _tracebacks
from muster.lifecycle._uncaught import hook_uncaught

OURS = os.path.join(os.path.dirname(muster.__file__), "some", "module.py")


def caught(function):
    try:
        function()
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


def code_in(file, text):
    names = {}
    exec(compile(text, file, "exec"), names)
    return names


CALLS = """
def outer(function):
    return lambda: inner(function)

def inner(function):
    function()
"""


def calling(function):
    """Return a function of a module of muster that calls another."""
    return code_in(OURS, CALLS)["outer"](function)


def own_line():
    raise ValueError("of the program")


def lines_of(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_lines_of_libraries_between_those_of_the_program_are_left_out():
    error = caught(calling(own_line))
    assert lines_of(error) == ["caught", "<lambda>", "inner", "own_line"]
    assert _tracebacks.shorten(error)
    assert lines_of(error) == ["caught", "own_line"]


def test_those_that_python_makes_for_classes_of_libraries_too():
    error = caught(lambda: RunConfig(train_distribute=3))
    assert "__init__" in lines_of(error)
    assert _tracebacks.shorten(error)
    assert lines_of(error) == ["caught", "<lambda>"]


def test_those_of_what_an_error_came_from_too():
    def again():
        try:
            calling(own_line)()
        except ValueError as exc:
            raise KeyError from exc

    error = caught(calling(again))
    _tracebacks.shorten(error)
    assert (lines_of(error), lines_of(error.__cause__)) == (["caught", "again"], ["again", "own_line"])


def test_a_traceback_without_other_lines_stays():
    error = caught(calling(own_line))
    error.__traceback__ = error.__traceback__.tb_next
    error.__traceback__.tb_next.tb_next = None
    assert not _tracebacks.shorten(error)
    assert lines_of(error) == ["<lambda>", "inner"]


@pytest.mark.parametrize(("value", "shown"), [("1", 4), ("0", 2), ("", 2)])
def test_a_variable_shows_all_lines(monkeypatch, value, shown):
    monkeypatch.setenv("MUSTER_FULL_TRACEBACKS", value)
    error = caught(calling(own_line))
    _tracebacks.shorten(error)
    assert len(lines_of(error)) == shown


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (lambda x: bool(x > 0), "In place of `if` write keras.ops.cond"),
        (lambda x: range(x.astype(int)), "keras.ops.fori_loop"),
        (lambda x: memoryview(x.__array__()), "NumPy's functions need the numbers of an array"),
        (lambda x: float(x), "name an output for a LoggingTensorHook"),
        (lambda x: jax.numpy.ones(3)[jax.numpy.ones(3) > x], "keras.ops.where(mask, x, 0)"),
    ],
    ids=["bool", "index", "array", "number", "mask"],
)
def test_what_a_step_does_not_know_yet_is_told_with_what_to_do(step, advice):
    error = caught(lambda: jax.make_jaxpr(step)(1.0))
    _tracebacks.advise(error)
    (text,) = error.args
    assert advice in text
    assert "\n" not in text
    assert "docs.jax.dev" not in text


@pytest.mark.processes
def test_an_uncaught_error_ends_at_the_line_of_the_program(tmp_path):
    (tmp_path / "program.py").write_text(
        "from muster import lifecycle\nfrom muster.data import Dataset\n"
        "lifecycle.install()\nDataset.range('ten')\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    first, *lines, last = done.stderr.splitlines()
    assert first == "(Lines in muster, Keras and JAX are left out; MUSTER_FULL_TRACEBACKS=1 shows them.)"
    assert [line.strip() for line in lines[:3]] == [
        "Traceback (most recent call last):",
        f'File "{tmp_path}/program.py", line 4, in <module>',
        "Dataset.range('ten')",
    ]
    assert len(lines) <= 4
    assert last.startswith("TypeError: ")


class Shell:
    """Stands in for IPython's."""

    custom_exceptions = ()

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, shown, tb_offset):
        self.shown = shown


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_errors_of_a_notebooks_cells_end_at_the_line_of_the_program_too(shell, capsys):
    hook_uncaught()
    error = caught(calling(own_line))
    assert issubclass(type(error), shell.custom_exceptions)
    shell.handler(shell, type(error), error, error.__traceback__, tb_offset=None)
    kind, shown, trace = shell.shown
    assert (kind, shown, trace) == (ValueError, error, error.__traceback__)
    assert lines_of(error) == ["caught", "own_line"]
    assert capsys.readouterr() == ("", f"{_tracebacks.LEFT_OUT}\n")


def test_a_program_that_shows_errors_by_itself_in_its_notebook_does_so(shell):
    shell.custom_exceptions = (KeyError,)
    hook_uncaught()
    assert shell.custom_exceptions == (KeyError,)
