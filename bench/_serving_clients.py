"""Clients of ``bench/serving.py``: connections, each of which asks again as soon as it has its answer.

Arguments: port, path, body, clients, seconds. Prints a line of JSON: how long answers took in milliseconds,
answers a second, and how many there were with those that are not counted. It is asyncio of the standard
library, since clients must cost less than the server does.
"""

import asyncio
import json
import sys
import time


class Client(asyncio.Protocol):
    """Sends one request again and again, and notes how long the answers take."""

    def __init__(self, request: bytes, took: list[float]) -> None:
        self._request, self._took = request, took
        self._received = bytearray()
        self._wanted = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._wanted < 0 and (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            if not head.startswith(b"http/1.1 200"):
                raise RuntimeError(f"The server answered: {bytes(self._received)!r}")
            self._wanted = end + 4 + int(head.partition(b"content-length:")[2].split()[0])
        if len(self._received) == self._wanted:
            self._took.append(time.perf_counter() - self._began)
            self._received.clear()
            self._wanted = -1
            self._ask()


async def main(port: int, path: str, body: str, clients: int, seconds: float) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    if not body:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    request = (head + body).encode()
    took: list[float] = []
    for _ in range(clients):
        await asyncio.get_running_loop().create_connection(lambda: Client(request, took), "127.0.0.1", port)
    await asyncio.sleep(seconds / 5)  # not counted
    first = len(took)
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    lasted = time.perf_counter() - began
    counted = took[first:]
    figures = {
        "ms": [round(1e3 * each, 4) for each in counted],
        "per_second": len(counted) / lasted,
        "answers": len(took),
    }
    print(json.dumps(figures))


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
