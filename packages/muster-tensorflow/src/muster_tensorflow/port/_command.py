"""The command ``muster port``."""

import argparse
import io
import os
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.extend import printable

if TYPE_CHECKING:
    from muster_tensorflow.port._program import Program
    from muster_tensorflow.port._versions import Version


def add_port_command(commands: Any) -> None:
    """Add ``port`` to the commands of a parser."""
    port = commands.add_parser(
        "port",
        help="list what to change in programs for TensorFlow",
        description="Read programs for TensorFlow and Keras, without running them, and list the names that "
        "muster lacks, with what to use instead, and those that differ, with how.",
        epilog="Exit code: 0 if muster has all names, 1 if some are missing, 2 if a file cannot be read or "
        "written.",
    )
    port.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a program, such as train.py, or a folder, for all *.py in it and below",
    )
    port.add_argument(
        "--write",
        action="store_true",
        help="change the imports to those of muster; each original stays beside its file, as FILE.bak",
    )
    port.set_defaults(handler=_port)


@dataclass(frozen=True)
class _File:
    """A program that was read.

    Attributes:
        name: Its path, as it was given.
        data: What is in the file.
        source: The same as text.
        encoding: The encoding of the text.
        program: The names of TensorFlow in it.
    """

    name: str
    data: bytes
    source: str
    encoding: str
    program: "Program"


def _port(args: argparse.Namespace) -> int:
    # Imported late: this imports JAX and Keras, to look names up where programs will.
    from muster_tensorflow.port._versions import choose_versions

    files: dict[Path, _File] = {}
    failed = 0
    for given in args.files:
        names = _programs_in(given)
        if not names:
            failed = _complain(f"{printable(given)} has no programs: no *.py is in it or below.")
        for name in names:
            try:
                files[Path(os.path.abspath(name))] = _read(name)
            except ValueError as exc:
                failed = _complain(str(exc))

    def shown(path: Path) -> str:
        return printable(files[path].name if path in files else str(path))

    programs = {path: file.program for path, file in files.items() if _imports_any(file.program)}
    versions = choose_versions(programs, _other_program, shown)
    for told in dict.fromkeys(each.told for each in versions.values()):
        if told:
            print(told)
    codes = []
    for path, file in files.items():
        if path in versions:
            codes.append(_port_file(file, versions[path], args.write))
        else:
            print(f"{shown(path)} imports neither TensorFlow nor Keras.")
    return max([failed, *codes])


def _programs_in(given: str) -> list[str]:
    """Return what a command names: a file, or the files of a folder, but those that are hidden."""
    if not os.path.isdir(given):
        return [given]
    found = sorted(Path(given).rglob("*.py"))
    below = [path for path in found if not any(part[0] == "." for part in path.relative_to(given).parts)]
    return [str(path) for path in below if path.is_file()]


def _read(path: str) -> _File:
    """Read a program.

    Raises:
        ValueError: It cannot be read, or is no program; the message is for the user.
    """
    from muster_tensorflow.port._lookup import OTHERS, is_namespace
    from muster_tensorflow.port._program import read_program

    shown = printable(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = data.decode(encoding)
        return _File(path, data, source, encoding, read_program(source, is_namespace, set(OTHERS)))
    except OSError as exc:
        raise ValueError(f"{shown} cannot be read: {exc.strerror}.") from exc
    except (SyntaxError, ValueError, LookupError) as exc:
        line = getattr(exc, "lineno", None)
        place = shown if line is None else f"{shown}:{line}"
        raise ValueError(f"{place} is not a program for Python 3: {getattr(exc, 'msg', exc)}.") from exc


def _other_program(path: Path) -> "Program | None":
    """Return what is in a file that was not named, which only tells what the others are for."""
    try:
        return _read(str(path)).program
    except ValueError:
        return None


def _imports_any(program: "Program") -> bool:
    return bool(program.imports or program.others)


def _port_file(file: _File, version: "Version", write: bool) -> int:
    missing = _report(file, version)
    if write:
        failed = _write(file, version.one)
        if failed:
            return failed
    return 1 if missing else 0


def _report(file: _File, version: "Version") -> int:
    """Print what becomes of the names of a program, and return how many places use missing ones."""
    from muster_tensorflow.port._lookup import OTHERS, look_up

    shown, program = printable(file.name), file.program
    lines: list[tuple[int, str]] = []
    missing, told = 0, set()
    for use in program.uses:
        line, name, answer = use.line, use.path, look_up(use, version.one)
        if answer.instead is not None:
            missing += 1
            lines.append((line, f"{name} is missing. {answer.instead}"))
        elif answer.differs is not None and answer.about not in told:
            told.add(answer.about)
            lines.append((line, f"{name} differs: {answer.differs}."))
    for line, package in program.others:
        missing += 1
        lines.append((line, f"{package} is missing. {OTHERS[package]}"))
    for line, text in sorted(lines):
        print(f"{shown}:{line}: {text}")
    names = {use.path for use in program.uses}
    module = "muster_tensorflow.compat.v1" if version.one else "muster_tensorflow"
    like = f", as {version.like} is" if version.like else ""
    print(
        f"{shown}: names: {len(names)}, of TensorFlow {1 if version.one else 2} ({module}){like}; uses of "
        f"missing ones: {missing}; differences: {len(told)}."
    )
    return missing


def _write(file: _File, one: bool) -> int:
    """Change the imports of a file, and return 0, or 2 if the file could not be changed."""
    from muster_tensorflow.port._rewrite import rewrite_imports

    path, shown = file.name, printable(file.name)
    changed, stayed = rewrite_imports(file.source, file.program.imports, one)
    for line in stayed:
        print(f"{shown}:{line}: the import stays as it is, since muster has no such module.")
    if changed == file.source:
        print(f"{shown}: no import is changed.")
        return 0
    backup = f"{path}.bak"
    try:
        with open(backup, "xb") as original:
            original.write(file.data)
        # In one step, so that no reader sees half a program.
        folder = os.path.dirname(os.path.abspath(path))
        with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as new:
            new.write(changed.encode(file.encoding))
        os.chmod(new.name, os.stat(path).st_mode)
        os.replace(new.name, path)
    except FileExistsError:
        return _complain(f"{shown} stays as it is: {printable(backup)} exists already. Move it away.")
    except OSError as exc:
        return _complain(f"{shown} cannot be written: {exc.strerror}.")
    print(f"{shown}: the imports are changed; the original is {printable(backup)}.")
    return 0


def _complain(message: str) -> int:
    print(f"muster: {message}", file=sys.stderr)
    return 2
