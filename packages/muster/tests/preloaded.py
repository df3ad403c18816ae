"""Starts programs as copies of itself, which has imported what else takes each of them a second or two.

Reads a line of JSON for each: [arguments, environment, log file, folder or null]. Writes a line for each that
it has started, its process' id, and for each that has ended, the id, its exit code, and the milliseconds that
it took of the processors. Run by jobs.py.

Arguments: a folder in which the programs keep what they compile, for each other, and the module of muster
that they use.
"""

import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import sys
from pathlib import Path


def prepare(folder: str, module: str) -> None:
    """Import what the programs need, and let them keep what they compile in a folder."""
    import jax

    importlib.import_module(module)
    from muster._compilation_cache import keep_compiled

    jax.config.update("jax_enable_compilation_cache", True)
    keep_compiled(folder)
    gc.freeze()  # else each copy goes through all that, and copies it


def serve() -> list[object]:
    """Start what is asked for, until nobody asks any more; returns in each copy what that is to be."""
    asked = b""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:  # it has ended
                    _, status, used = os.wait4(key.data, 0)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    milliseconds = round((used.ru_utime + used.ru_stime) * 1000)
                    say(key.data, os.waitstatus_to_exitcode(status), milliseconds)
                    continue
                received = os.read(key.fd, 1 << 16)
                if not received:
                    sys.exit()
                *lines, asked = (asked + received).split(b"\n")
                for line in lines:
                    process = os.fork()
                    if process == 0:
                        for other in selector.get_map().values():
                            if other.data is not None:
                                os.close(other.fd)
                        return json.loads(line)
                    selector.register(os.pidfd_open(process), selectors.EVENT_READ, process)
                    say(process)


def say(*numbers: int) -> None:
    os.write(sys.stdout.fileno(), " ".join(map(str, numbers)).encode() + b"\n")


def become(arguments: list[str], environment: dict[str, str], log: str, folder: str | None) -> None:
    """Run a program as a process of its own would."""
    import numpy as np

    os.environ.clear()
    os.environ.update(environment)
    for name, flags, places in (
        (os.devnull, os.O_RDONLY, [0]),
        (log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, [1, 2]),
    ):
        opened = os.open(name, flags, 0o666)
        for place in places:
            os.dup2(opened, place)
        os.close(opened)
    if folder is not None:
        os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    np.random.seed()
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # what goes on is no child of the tests, which look for those that they leave
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this
    prepare(*sys.argv[1:])
    become(*serve())  # outside of any function: errors and ends are those of a program
