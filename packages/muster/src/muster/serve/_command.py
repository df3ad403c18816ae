"""``muster serve``: its options and their checks."""

import argparse
import functools
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

from muster._errors import PathError
from muster._extras import install_command, missing_package
from muster._paths import local_path

_DESCRIPTION = f"""\
Answer requests for a saved model over HTTP, as the REST API of TensorFlow Serving: clients of that need no
change. DIR has a folder for each version, whose name is its number, as export_saved_model and the exporters
write them. The newest is served; a newer one that comes takes over without a lost request. Needs
{install_command("serve")}.
"""

_EPILOG = """\
examples:
  muster serve runs/model/export/best --name census
  curl -d '{"instances": [{"age": 38.0}]}' http://127.0.0.1:8501/v1/models/census:predict

paths:
  GET  /v1/models/NAME[/versions/N]            the versions and how it stands with them
  GET  /v1/models/NAME[/versions/N]/metadata   signatures, their inputs and outputs
  POST /v1/models/NAME[/versions/N]:predict    also :classify and :regress

At Ctrl-C and SIGTERM the requests under way are answered first. A second one ends the server at once.

exit code:
  0 after SIGTERM, 130 after Ctrl-C; 1 if it could not start; 2 if these options make no sense.
"""


def add_serve_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``serve`` to the commands of a parser, with a ``handler`` as ``run`` has.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = commands.add_parser(
        "serve",
        help="answer requests for a saved model over HTTP",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="has a folder for each version")
    parser.add_argument(
        "--name",
        type=_name,
        default="default",
        metavar="NAME",
        help="the name of the model in URLs (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen at; 0.0.0.0 lets other machines ask, and whoever can reach it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=_number(int, 0, 65535),
        default=8501,
        metavar="N",
        help="the port; 0 takes a free one, which is printed (default: %(default)s)",
    )
    parser.add_argument(
        "--max-batch-size",
        type=_number(int, 1),
        default=64,
        metavar="ROWS",
        help="how many rows are computed together at most (default: %(default)s)",
    )
    parser.add_argument(
        "--max-wait-ms",
        type=_number(float, 0),
        default=0.0,
        metavar="MS",
        help="how long a request may wait for others to be computed with; with 0, those are computed "
        "together that came while others were (default: %(default)g)",
    )
    parser.add_argument(
        "--max-waiting",
        type=_number(int, 1),
        default=1024,
        metavar="N",
        help="how many requests may wait; more are refused with 503 (default: %(default)s)",
    )
    parser.add_argument(
        "--max-body-mb",
        type=_number(float, 0),
        default=64.0,
        metavar="MB",
        help="how long a request may be, in megabytes; longer ones are refused with 413 "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--poll-secs",
        type=_number(float, 0.01),
        default=1.0,
        metavar="S",
        help="how often to look for a newer version (default: %(default)g)",
    )
    parser.add_argument("--access-log", action="store_true", help="print a line for each request")
    parser.set_defaults(handler=functools.partial(_serve, parser))


def _name(text: str) -> str:
    if not re.fullmatch(r"[^/:\s]+", text):
        raise argparse.ArgumentTypeError(f"must be one word without slash and colon, given: {text!r}")
    return text


def _number(kind: type[int] | type[float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a type of argument: a number in a range."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            word = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {word}, given: {text!r}") from None
        if not least <= value <= most or value == math.inf:
            limit = f"{least} or more" if most == math.inf else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be {limit}, given: {text}")
        return value

    return parse


def _serve(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if missing := missing_package(("starlette", "uvicorn"), "serve"):
        return _failed(missing)
    try:
        args.folder = Path(local_path(args.folder))
    except PathError as exc:
        parser.error(str(exc))
    if not args.folder.is_dir():
        return _failed(f"there is no folder {args.folder}. Name the one that has the folders of versions.")
    # Imported late: JAX, and what is installed for this command alone.
    from muster.saved_model import contains_saved_model
    from muster.serve._server import ServeOptions, serve

    if contains_saved_model(args.folder):
        return _failed(
            f"{args.folder} is a saved model itself. Name the folder above it, in which the folders of "
            "versions have numbers for names."
        )
    options = ServeOptions(
        folder=args.folder,
        name=args.name,
        host=args.host,
        port=args.port,
        most_rows=args.max_batch_size,
        wait_secs=args.max_wait_ms / 1e3,
        most_jobs=args.max_waiting,
        most_bytes=int(args.max_body_mb * 1e6),
        poll_secs=args.poll_secs,
        access_log=args.access_log,
    )
    try:
        return serve(options)
    except OSError as exc:
        return _failed(f"cannot listen at {args.host}:{args.port}: {exc}. Choose another --host or --port.")


def _failed(message: str) -> int:
    print(f"muster serve: {message}", file=sys.stderr)
    return 1
