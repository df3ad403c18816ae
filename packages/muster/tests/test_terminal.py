"""The line at the foot of a terminal."""

import io
import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from muster._terminal import CellLine, FootLine
from terminals import OnTerminal, screen


class Screen(io.TextIOWrapper):
    """A terminal whose bytes are kept."""

    def __init__(self, device=None):
        super().__init__(io.BytesIO() if device is None else device, encoding="utf-8", write_through=True)

    def isatty(self):
        return True

    @property
    def text(self):
        return self.buffer.getvalue().decode()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Screen()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_end():
    wait_until(lambda: all(thread.name != "muster-bar" for thread in threading.enumerate()))


def test_it_is_drawn_a_few_times_a_second_and_only_if_it_says_something_else(terminal):
    looks = []

    def source(width):
        looks.append(time.monotonic())
        return "the same" if len(looks) < 4 else f"look {len(looks)}"

    line = FootLine.at(terminal)
    line.add(source)
    wait_until(lambda: len(looks) > 5)
    line.remove(source)
    wait_for_end()

    assert looks[5] - looks[0] >= 5 * 0.19
    assert terminal.text.count("the same") == 1
    assert screen(terminal.text) == [""]


def test_what_is_written_meanwhile_is_above_it_and_nothing_is_replaced_afterwards(terminal, monkeypatch):
    output = Screen(terminal.buffer)
    monkeypatch.setattr(sys, "stdout", output)
    line = FootLine.at(terminal)
    line.add(source := lambda width: "foot")
    print("one", file=terminal)
    print("two", end="")
    print("")
    line.remove(source, "the end")
    wait_for_end()

    assert screen(terminal.text) == ["one", "two", "the end", ""]
    assert not {"write"} & {*vars(terminal), *vars(output)}


def test_a_source_that_said_nothing_is_drawn_at_once_when_it_does(terminal):
    said = []
    line = FootLine.at(terminal)
    line.add(source := lambda width: said[-1] if said else None)
    line.draw()
    said.append("something")
    line.draw()
    line.remove(source)

    assert "something" in terminal.text


def test_the_last_source_is_shown_and_the_one_before_it_again(terminal):
    line = FootLine.at(terminal)
    line.add(outer := lambda width: "outer")
    again = FootLine.at(terminal)
    assert again is line
    again.add(inner := lambda width: "inner")
    assert screen(terminal.text) == ["inner"]
    again.remove(inner, "inner is done")
    wait_until(lambda: screen(terminal.text) == ["inner is done", "outer"])
    again.remove(inner, "this is too late")
    line.remove(outer)
    wait_for_end()

    assert screen(terminal.text) == ["inner is done", ""]


def test_a_write_of_another_library_is_put_back_or_left(terminal):
    def theirs(text):
        return Screen.write(terminal, text.upper())

    vars(terminal)["write"] = theirs
    line = FootLine.at(terminal)
    line.add(source := lambda width: None)
    print("loud", file=terminal)
    line.remove(source)
    assert vars(terminal)["write"] is theirs

    line = FootLine.at(terminal)
    line.add(source)
    before = terminal.write
    vars(terminal)["write"] = later = lambda text: before(text)
    line.remove(source)
    print("still", file=terminal)
    wait_for_end()

    assert vars(terminal)["write"] is later
    assert screen(terminal.text) == ["LOUD", "STILL", ""]


def test_a_terminal_that_is_gone_disturbs_nobody(terminal):
    line = FootLine.at(terminal)
    line.add(source := lambda width: "foot")
    terminal.close()
    line.erase()
    line.remove(source, "the end")
    wait_for_end()


FORKS = """
import os, sys, threading
from muster._terminal import CellLine, FootLine

line = FootLine.at(sys.stderr)
line.add(source := lambda width: "foot")
holds, let_go = threading.Event(), threading.Event()

def hold():
    with line._lock:
        holds.set()
        let_go.wait()

threading.Thread(target=hold).start()
holds.wait()
child = os.fork()
if child == 0:
    sys.stderr.write("from the child\\n")
    os._exit(7)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
let_go.set()
line.remove(source)
sys.exit(code)
"""


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_does_not_wait_for_the_lock_of_its_parent():
    with OnTerminal(["-W", "ignore::DeprecationWarning", "-c", FORKS]) as program:
        assert program.end() == 7
        assert "from the child" in program.written


def test_streams_that_are_no_terminals_have_none(terminal, monkeypatch):
    assert FootLine.at(io.StringIO()) is None
    assert FootLine.at(None) is None
    monkeypatch.setenv("TERM", "dumb")
    assert FootLine.at(terminal) is None


class Display:
    """Stands in for ``IPython.display.display``, and for its handle."""

    def __init__(self):
        self.calls = []

    def __call__(self, data, **how):
        self.calls.append(("new", data["text/plain"], how))
        return self

    def update(self, data, **how):
        self.calls.append(("update", data["text/plain"], how))


def test_a_cell_has_one_display_that_is_updated():
    display = Display()
    line = CellLine(display)
    looks = []

    def source(width):
        looks.append(width)
        return None if len(looks) == 2 else f"look {len(looks)}"

    line.add(source)
    wait_until(lambda: len(looks) > 3)
    for _ in range(100):  # as for each prediction
        line.erase()
        line.draw()
    assert len(looks) < 10
    line.remove(source, "done")
    wait_for_end()
    line.draw()

    first, *others = display.calls
    assert first == ("new", "look 1", {"raw": True, "display_id": True})
    assert {(kind, *how) for kind, _, how in others} == {("update", "raw")}
    assert [text for _, text, _ in others[:2]] == ["look 3", "look 4"]
    assert others[-1][1] == "done"


@pytest.mark.parametrize(
    ("shell", "is_notebook"),
    [(None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=object()), True)],
    ids=["Python", "IPython in a terminal", "a kernel"],
)
def test_only_a_kernel_has_cells(monkeypatch, shell, is_notebook):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=Display()))
    assert (CellLine.of_notebook() is not None) is is_notebook


def test_there_are_no_cells_without_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert CellLine.of_notebook() is None
