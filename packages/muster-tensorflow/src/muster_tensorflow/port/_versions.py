"""Choose TensorFlow 1 or 2 for programs: once for all files that belong together."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster_tensorflow.port._lookup import says_which
from muster_tensorflow.port._program import Program, Use

# Classes of both, whose losses, optimizers and rates differ without any name that would say so.
_CANNED = tuple(f"tf.estimator.{kind}" for kind in ("Baseline", "DNN", "Linear"))


@dataclass(frozen=True)
class Version:
    """The TensorFlow that a file is for.

    Attributes:
        one: Whether it is TensorFlow 1.
        like: The file that says so, if its own names do not; empty if they do, or if no file does.
        told: What the user should know about the choice; empty if nothing.
    """

    one: bool
    like: str = ""
    told: str = ""


def choose_versions(
    programs: dict[Path, Program], read: Callable[[Path], Program | None], shown: Callable[[Path], str]
) -> dict[Path, Version]:
    """Choose the TensorFlow of each file.

    Files belong together if they are of one package, or if one imports the other. Those whose names are in
    both TensorFlows follow the others of their program, and else the other files.

    Args:
        programs: The files to choose for, as absolute paths, and what is in them.
        read: Returns what is in another file; None if it is no program.
        shown: Returns the name of a file for messages.
    """
    together = _Together(programs, read)
    groups = {together.group_of(path) for path in programs}
    of_group = {group: _of_group(together.files[group], shown) for group in groups}
    clear = {each for each in of_group.values() if each is not None}
    chosen = {}
    for path, program in programs.items():
        found = of_group[together.group_of(path)]
        if found is not None:
            own = says_which(program.uses) is not None
            chosen[path] = Version(found.one, "" if own else found.like, found.told)
        elif len({each.one for each in clear}) == 1:
            first = min(clear, key=lambda each: each.like)
            chosen[path] = Version(first.one, first.like)
        else:
            chosen[path] = Version(False, told=_unclear(shown(path), program.uses, among_both=bool(clear)))
    return chosen


def _of_group(files: dict[Path, Program], shown: Callable[[Path], str]) -> Version | None:
    """Return the version of files that belong together; None if no name in them says which."""
    votes = {path: says_which(files[path].uses) for path in sorted(files)}
    first = {one: next((path for path in votes if votes[path] is one), None) for one in (True, False)}
    names = {one: shown(path) for one, path in first.items() if path is not None}
    if not names:
        return None
    if len(names) == 1:
        (one,) = names
        return Version(one, names[one])
    one = says_which([use for path in files for use in files[path].uses]) is True
    told = (
        f"{names[True]} has names of TensorFlow 1, and {names[False]} of TensorFlow 2, though they are of "
        f"one program: all of it is taken for TensorFlow {1 if one else 2}, where less is missing."
    )
    return Version(one, names[one], told)


def _unclear(name: str, uses: Sequence[Use], among_both: bool) -> str:
    """Return what to say of a file that follows no other: nothing, if its names mean the same in both."""
    canned = next((use.path for use in uses if use.path.startswith(_CANNED)), None)
    if canned is not None:
        why = f"{canned} adds up the losses of a batch in TensorFlow 1 and averages them in 2, and nothing"
    elif among_both:
        why = "the other files are for TensorFlow 1 and 2, and nothing"
    else:
        return ""
    return (
        f"{name}: {why} here says which it is for: it is taken for 2. Name all files of its program at once."
    )


class _Together:
    """The files of the programs that some files are of, in groups that belong together.

    Attributes:
        files: Of each group, its files.
    """

    def __init__(self, programs: dict[Path, Program], read: Callable[[Path], Program | None]) -> None:
        self._above: dict[Path, Path] = {}
        known: dict[Path, Program | None] = dict(programs)
        waiting = list(programs)
        seen = set(waiting)
        while waiting:
            path = waiting.pop()
            if path not in known:
                known[path] = read(path)
            program = known[path]
            if program is None:
                continue
            root, package = _root_of(path)
            beside = package.rglob("*.py") if package != root else path.parent.glob("*.py")
            imported = set(_imported_files(program.tree, path, root))
            for other in [*beside, *imported]:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
                if package != root or other in imported:
                    self._join(path, other)
        self.files: dict[Path, dict[Path, Program]] = {}
        for path, program in known.items():
            if program is not None:
                self.files.setdefault(self.group_of(path), {})[path] = program

    def group_of(self, path: Path) -> Path:
        """Return the file that stands for all that belong together with a file."""
        while path in self._above:
            path = self._above[path]
        return path

    def _join(self, one: Path, other: Path) -> None:
        one, other = self.group_of(one), self.group_of(other)
        if one != other:
            self._above[one] = other


def _root_of(path: Path) -> tuple[Path, Path]:
    """Return the folder from which a file is imported, and the package that it is in; twice that if none."""
    folder = path.parent
    package = folder
    while (folder / "__init__.py").is_file():
        package, folder = folder, folder.parent
    return folder, package


def _imported_files(tree: ast.Module, path: Path, root: Path) -> Iterator[Path]:
    """Yield the files of the same program that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = f"{node.module}." if node.module else ""
            modules = [
                (node.level, each) for each in (node.module, *(inside + a.name for a in node.names)) if each
            ]
        else:
            continue
        for level, module in modules:
            folders = (path.parents[level - 1],) if 0 < level <= len(path.parents) else (path.parent, root)
            for folder in folders:
                place = folder.joinpath(*module.split("."))
                for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                    if file != path and file.is_file():
                        yield file
