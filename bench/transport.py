"""Measure muster.net beside plain blocking sockets: bytes to another process, and as many back.

Over TLS too, if the openssl command is there to make certificates.
"""

import contextlib
import multiprocessing
import selectors
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import _results
from muster.net import Acceptor, Connection, Credentials, Hello, Tls, dial

SIZES = {"1.4 MB": (1_400_000, 60), "100 MB": (100_000_000, 8)}
PLAIN, NET, TLS = "plain sockets", "muster.net", "muster.net, TLS 1.3"
DEADLINE = 600.0
PURPOSE = "bench"


def credentials(folder: Path | None) -> Credentials:
    """Return a secret, and certificates from a folder if there is one."""
    secret = b"a secret for a benchmark"
    return Credentials(secret=secret, tls=None if folder is None else Tls.load(folder))


def make_certificates(folder: Path) -> None:
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout tls.key "
        "-out tls.crt -subj /CN=localhost -addext subjectAltName=DNS:localhost".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (folder / "tls.key").chmod(0o600)
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())


def fill(sock: socket.socket, into: memoryview) -> None:
    done = 0
    while done < len(into):
        if not (count := sock.recv_into(into[done:])):
            raise EOFError
        done += count


def answer_plainly(port: Any) -> None:
    """Send back as much as comes, over a blocking socket."""
    with socket.create_server(("localhost", 0)) as server:
        port.send(server.getsockname()[1])
        sock, _ = server.accept()
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size, turns in SIZES.values():
            data = memoryview(bytearray(size))
            for _ in range(turns):
                fill(sock, data)
                sock.sendall(data)


def answer(folder: Path | None, port: Any) -> None:
    """Send back as much as comes, over a connection of muster."""
    with selectors.DefaultSelector() as selector, socket.create_server(("localhost", 0)) as server:
        port.send(server.getsockname()[1])
        taken: list[Connection] = []
        handlers = {PURPOSE: lambda connection, hello: taken.append(connection)}
        Acceptor(selector, [server], credentials(folder), lambda: "the other end", handlers)
        while not taken:
            for key, mask in selector.select(DEADLINE):
                key.data(mask)
    with taken[0] as connection:
        until = time.monotonic() + DEADLINE
        for size, turns in SIZES.values():
            data = memoryview(bytearray(size))
            for _ in range(turns):
                connection.receive_all([data], until)
                connection.send_all([data], until)


@contextlib.contextmanager
def contestant(target: Callable[..., None], *args: Any) -> Iterator[int]:
    """Start the other end, and yield its port."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(*args, there))
    process.start()
    try:
        yield here.recv()
    finally:
        process.join(DEADLINE)


def main() -> dict[str, Any]:
    """Take turns, and print and return how long a push and a pull take, in milliseconds."""
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        sock = socket.create_connection(("localhost", held.enter_context(contestant(answer_plainly))))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held.enter_context(sock)

        def plainly(data: memoryview) -> None:
            sock.sendall(data)
            fill(sock, data)

        turns: dict[str, Callable[[memoryview], None]] = {PLAIN: plainly}
        folders: dict[str, Path | None] = {NET: None}
        try:
            make_certificates(folder)
            folders[TLS] = folder
        except (OSError, subprocess.CalledProcessError) as exc:
            print(f"Without TLS, since the openssl command makes no certificates: {exc}")
        for name, where in folders.items():
            port = held.enter_context(contestant(answer, where))
            connection = dial(f"localhost:{port}", Hello(purpose=PURPOSE), credentials(where), DEADLINE)
            held.enter_context(connection)

            def over_net(data: memoryview, connection: Connection = connection) -> None:
                until = time.monotonic() + DEADLINE
                connection.send_all([data], until)
                connection.receive_all([data], until)

            turns[name] = over_net
        results: dict[str, Any] = {}
        for label, (size, count) in SIZES.items():
            data = memoryview(bytearray(size))
            seconds: dict[str, list[float]] = {name: [] for name in turns}
            for _ in range(count):
                for name, turn in turns.items():
                    began = time.perf_counter()
                    turn(data)
                    seconds[name].append(time.perf_counter() - began)
            middle = {name: statistics.median(each[1:]) for name, each in seconds.items()}
            for name, secs in middle.items():
                print(
                    f"{label:>7} {name:20} {1e3 * secs:8.2f} ms, {secs / middle[PLAIN]:5.2f} times plain "
                    f"sockets, {2e-9 * size / secs:.2f} GB/s"
                )
            results[label] = {name: round(1e3 * secs, 3) for name, secs in middle.items()}
    return results


if __name__ == "__main__":
    _results.write("transport", main())
