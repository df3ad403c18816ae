"""``muster serve``: its options and their checks."""

import argparse
import functools
import re
import sys
from pathlib import Path

from muster._commands import add_command
from muster._extras import install_command, missing_package


def add_serve_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``serve`` to the commands of a parser, with a ``handler`` as ``run`` has.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = add_command(commands, "serve", {"name": _name}, install_command=install_command("serve"))
    parser.set_defaults(handler=functools.partial(_serve, parser))


def _name(text: str) -> str:
    if not re.fullmatch(r"[^/:\s]+", text):
        raise argparse.ArgumentTypeError(f"must be one word without slash and colon, given: {text!r}")
    return text


def _serve(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if missing := missing_package(("starlette", "uvicorn", "prometheus_client"), "serve"):
        return _failed(missing)
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
    if others := _served_below(args.folder):
        return _failed(
            f"{args.folder} has no folders of versions; {others[0]} has some. Name that"
            + (f", or one of {', '.join(map(str, others[1:]))}." if others[1:] else ".")
        )
    if any(args.folder.glob("ckpt-*")) and not _has_versions(args.folder):
        return _failed(
            f"{args.folder} has a model's checkpoints, and no exported one. Export the model, and name the "
            "folder of its versions, such as that of an exporter in export."
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


def _served_below(folder: Path) -> list[Path]:
    """Return the folders of exports in a model's directory that have versions, unless it has some itself."""
    if _has_versions(folder):
        return []
    return sorted({path.parent for path in folder.glob("export/*/*") if path.name.isdecimal()})


def _has_versions(folder: Path) -> bool:
    return any(path.name.isdecimal() for path in folder.iterdir())


def _failed(message: str) -> int:
    print(f"muster serve: {message}", file=sys.stderr)
    return 1
