"""The command ``muster port``."""

import argparse
import io
import os
import sys
import tempfile
import tokenize
from typing import TYPE_CHECKING, Any

from muster.extend import printable

if TYPE_CHECKING:
    from muster_tensorflow.port._program import Program


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
    port.add_argument("files", metavar="FILE", nargs="+", help="a program, such as train.py")
    port.add_argument(
        "--write",
        action="store_true",
        help="change the imports to those of muster; each original stays beside its file, as FILE.bak",
    )
    port.set_defaults(handler=_port)


def _port(args: argparse.Namespace) -> int:
    return max(_port_file(path, args.write) for path in args.files)


def _port_file(path: str, write: bool) -> int:
    # Imported late: this imports JAX and Keras, to look names up where programs will.
    from muster_tensorflow.port._lookup import OTHERS, is_for_tensorflow_1, is_namespace
    from muster_tensorflow.port._program import read_program

    shown = printable(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = data.decode(encoding)
        program = read_program(source, is_namespace, set(OTHERS))
    except OSError as exc:
        return _complain(f"{shown} cannot be read: {exc.strerror}.")
    except (SyntaxError, ValueError, LookupError) as exc:
        line = getattr(exc, "lineno", None)
        place = shown if line is None else f"{shown}:{line}"
        return _complain(f"{place} is not a program for Python 3: {getattr(exc, 'msg', exc)}.")
    if not program.imports and not program.others:
        print(f"{shown} imports neither TensorFlow nor Keras.")
        return 0
    one = is_for_tensorflow_1(program.uses)
    missing = _report(shown, program, one)
    if write:
        failed = _write(path, data, source, encoding, program, one)
        if failed:
            return failed
    return 1 if missing else 0


def _report(shown: str, program: "Program", one: bool) -> int:
    """Print what becomes of the names of a program, and return how many places use missing ones."""
    from muster_tensorflow.port._lookup import OTHERS, look_up

    lines: list[tuple[int, str]] = []
    missing, told = 0, set()
    for use in program.uses:
        line, name, answer = use.line, use.path, look_up(use, one)
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
    module = "muster_tensorflow.compat.v1" if one else "muster_tensorflow"
    print(
        f"{shown}: names: {len(names)}, of TensorFlow {1 if one else 2} ({module}); uses of missing ones: "
        f"{missing}; differences: {len(told)}."
    )
    return missing


def _write(path: str, data: bytes, source: str, encoding: str, program: "Program", one: bool) -> int:
    """Change the imports of a file, and return 0, or 2 if the file could not be changed."""
    from muster_tensorflow.port._rewrite import rewrite_imports

    shown = printable(path)
    changed, stayed = rewrite_imports(source, program.imports, one)
    for line in stayed:
        print(f"{shown}:{line}: the import stays as it is, since muster has no such module.")
    if changed == source:
        print(f"{shown}: no import is changed.")
        return 0
    backup = f"{path}.bak"
    try:
        with open(backup, "xb") as file:
            file.write(data)
        # In one step, so that no reader sees half a program.
        folder = os.path.dirname(os.path.abspath(path))
        with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as new:
            new.write(changed.encode(encoding))
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
