"""What docs/architecture.md says of rooms, machines and the input of steps, beside the code."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster._event_log import EventLog
from muster.cluster.roster._membership import Membership
from muster.cluster.roster._roster_watch import Watch
from muster.distribute.input import StepInput
from muster.launch._job import Job
from muster.ps._machine import Machine
from repository import CORE, FRONT_END, ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
MUSTER = CORE / "src/muster"
WHERE_TO_LOOK = {
    "The core": MUSTER,
    "TensorFlow's names": FRONT_END / "src/muster_tensorflow",
}


def rows(section: str, after: str = "## Where to look") -> Iterator[str]:
    """Yield what the last column of the tables of a section says."""
    text = PAGE.partition(after)[2].partition(f"### {section}\n")[2].partition("\n#")[0]
    for row in re.findall(r"^\| .* \| (.*) \|$", text, re.MULTILINE):
        if "`" in row:
            yield row


def places(section: str) -> Iterator[Path]:
    """Yield the files and folders that a section's tables name.

    A path is below the package, or below a folder that its row has named before, or one around that.
    """
    for row in rows(section):
        folders = [WHERE_TO_LOOK[section], *WHERE_TO_LOOK.values()]
        for name in re.findall(r"`([\w/]+(?:/|\.py|\.toml))`", row):
            path = next((folder / name for folder in folders if (folder / name).exists()), Path(name))
            yield path
            own = path if name.endswith("/") else path.parent
            folders += [each for each in (own, *own.parents) if each.is_relative_to(folders[0])]


@pytest.mark.parametrize("section", WHERE_TO_LOOK)
def test_what_the_tables_name_is_there(section: str) -> None:
    named = [*places(section)]
    assert len(named) > 20
    assert [str(path) for path in named if not path.exists()] == []


@pytest.mark.parametrize("section", WHERE_TO_LOOK)
def test_every_room_is_found_in_two_hops(section: str) -> None:
    """The first is a row that names the room, a file of it or the room around it; the second is what the
    room's first line says."""
    source = WHERE_TO_LOOK[section]
    folders = {path for path in places(section) if path.is_dir()}
    named = folders | {path.parent for path in places(section)}
    # The others have public names, and nothing else.
    rooms = {path.parent for path in source.rglob("_[a-z]*.py") if path.parent != source}
    missing = {room for room in rooms if room not in named and room.parent not in folders}
    assert sorted(str(room.relative_to(source)) for room in missing) == []
    for room in rooms:
        says = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
        assert says, f"{room} does not say what it is for"


MACHINES = {each.__name__: each for each in (Job, Watch, Membership, Machine)}


def test_machines_have_one_form() -> None:
    """Those of the table, and no others, have a log of events, and turn these into actions."""
    table = PAGE.partition("## State machines")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)`, in `(\S+\.py)` \|", table, re.MULTILINE))
    assert {name: Path(inspect.getfile(kind)) for name, kind in MACHINES.items()} == {
        name: MUSTER / path for name, path in listed.items()
    }
    for kind in MACHINES.values():
        assert len(inspect.signature(kind.handle).parameters) == 3  # itself, events, the time
    logs = [path for path in MUSTER.rglob("*.py") if re.search(r"= EventLog\(", path.read_text())]
    assert {*logs} == {MUSTER / path for path in listed.values()}
    assert inspect.signature(EventLog).parameters["most"].default == 5000


def derived(base: str) -> set[str]:
    """Return the names of the classes of the core that are derived from one."""
    bases = {
        kind: set(re.findall(r"\w+", of))
        for path in MUSTER.rglob("*.py")
        for kind, of in re.findall(r"^class (\w+)\(([^)]*)\):", path.read_text(), re.MULTILINE)
    }
    found, new = set(), {base}
    while new:
        new = {kind for kind, of in bases.items() if of & new} - found
        found |= new
    return found


def test_steps_have_one_kind_of_input() -> None:
    """Three kinds, those of ``fit``, and the shapes of an export, which has no data."""
    three = {"OwnInput", "SynchronizedInput", "DispatchedInput"}
    of_fit = {"FitInput", "KerasBatches", "DatasetBatches", "SingleBatch", "WorkerBatches"}
    assert derived("StepInput") == three | of_fit | {"_Shapes"}
    assert {*StepInput.__abstractmethods__} == {"__next__", "position", "share"}
    assert [kind for kind in sorted(three) if f"| `{kind}` |" not in PAGE] == []
    assert derived("FitInput") == of_fit - {"FitInput"}


# Functions that objects on a batch's way keep, and call later. Whoever follows a batch has to know who gave
# them: the room of input reads by methods and generators, and keeps these alone.
KEPT = {
    "DispatchedInput": {"meet", "_numbered"},
    "DistributedIterator": {"_drew"},
    "OwnInput": {"_check", "_open_pipeline"},
    "Pipeline": {"_convert"},
}


def kept_functions(source: str) -> dict[str, set[str]]:
    """Return the attributes, by class, that are set to a lambda, a partial or an argument that is called."""
    found: dict[str, set[str]] = {}
    for kind in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)):
        for method in (node for node in kind.body if isinstance(node, ast.FunctionDef)):
            given = {
                each.arg
                for each in (*method.args.args, *method.args.kwonlyargs)
                if each.annotation and re.search(r"Callable|Convert", ast.unparse(each.annotation))
            }
            for name, value in assigned(method):
                is_given = isinstance(value, ast.Name) and value.id in given
                is_partial = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("partial")
                if is_given or is_partial or isinstance(value, ast.Lambda):
                    found.setdefault(kind.name, set()).add(name)
    return found


def assigned(method: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes of ``self`` that a method sets, each with its value."""
    for node in ast.walk(method):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(target, node.value) for target in targets]
            if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(targets[0].elts, node.value.elts, strict=True)]
            for place, value in pairs:
                if isinstance(place, ast.Attribute) and ast.unparse(place.value) == "self":
                    yield place.attr, value


def test_a_batch_does_not_go_through_functions_that_others_have_kept() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted((MUSTER / "distribute/input").glob("*.py")):
        found |= kept_functions(path.read_text())
    del found["DatasetCreator"]  # a function of the user's is all that it is
    assert found == KEPT


def test_functions_that_are_kept_are_found() -> None:
    assert kept_functions(
        "class A:\n"
        "    def __init__(self, f: Callable[[], int], n: int) -> None:\n"
        "        self.f, self.n = f, n\n"
        "        self.g: Any = functools.partial(print, n)\n"
        "    def later(self) -> None:\n"
        "        self.h = lambda: 1\n"
    ) == {"A": {"f", "g", "h"}}
