"""Ask several servers at the same time."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from muster._errors import JobEndedError


class Abandons(Protocol):
    """An object that may have an open request."""

    def abandon(self) -> None:
        """Forget it."""


_C = TypeVar("_C", bound=Abandons)
_T = TypeVar("_T")


def gather(
    clients: Sequence[_C],
    send: Callable[[_C, int], None],
    receive: Callable[[_C, int], _T],
    meanwhile: Callable[[], None] | None = None,
) -> list[_T]:
    """Send to all, and then receive from all, each with its number; what one raises, this does.

    Args:
        clients: Who asks a server each.
        send: Sends a request.
        receive: Returns the answer.
        meanwhile: Called while the servers answer.
    """
    try:
        for index, client in enumerate(clients):
            send(client, index)
        if meanwhile is not None:
            meanwhile()
        return [receive(client, index) for index, client in enumerate(clients)]
    except BaseException:
        # Answers that are still to come would be taken for those to the next requests.
        for client in clients:
            client.abandon()
        raise


def broadcast(clients: Sequence[_C], tell: Callable[[_C], object]) -> None:
    """Tell all that the job has ended, none after another that cannot be reached; raise the first failure."""
    failures: list[Exception] = []

    def tell_one(client: _C) -> None:
        try:
            tell(client)
        except JobEndedError:
            pass  # who died then has told it
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=tell_one, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
