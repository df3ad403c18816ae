"""All parameter servers of a job, as one worker sees them: asked at the same time, one message each."""

import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from muster.ps import _messages as messages
from muster.ps._client import Client, FirstValues, Held, Pulled
from muster.ps._collectives import broadcast, gather
from muster.ps._flat_layout import Array, Flat

_T = TypeVar("_T")


class Pushed(NamedTuple):
    """One push, for one server.

    Attributes:
        flat: The arguments of its update, in flat buffers.
        whole: What is pushed for its tables as a whole.
        rows: For each of its tables ids and rows, as of `Client.push`.
        asks: As of there, too: what its answer is to bring.
    """

    flat: Flat
    whole: Sequence[Array] = ()
    rows: Sequence[tuple[Array, Sequence[Array]]] = ()
    asks: Sequence[Array] = ()


class Servers:
    """Asks all servers, and then waits for all. One thread at a time may use it.

    Each method blocks, and raises what `Client.receive` does; after that the methods can be called again,
    but for `end`.

    Args:
        clients: One for each server; the first server keeps the global step.
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = clients

    def join(self) -> list[messages.Joined]:
        """Connect to all servers, and agree on their plans."""
        joined = [client.join() for client in self._clients]
        origin = next((each.origin for each in joined if each.initialized), "")
        return [
            each if each.initialized or not origin else client.join(origin)
            for client, each in zip(self._clients, joined, strict=True)
        ]

    def initialize(
        self,
        values: Sequence[FirstValues],
        step: int,
        shared: messages.SharedInput | None = None,
        open: Sequence[int] = (),
    ) -> None:
        """Give all servers their first values, unless they have some. Only the chief may.

        Args:
            values: The values for each server.
            step: The global step that they belong to.
            shared: The pass over the data, if workers share one.
            open: As of `Initialize`.
        """
        message = messages.Initialize(step=step, origin=uuid.uuid4().hex, shared=shared, open=tuple(open))
        requests = [client.initial(message, each) for client, each in zip(self._clients, values, strict=True)]
        for together in itertools.zip_longest(*requests):
            asked = [(client, each) for client, each in zip(self._clients, together, strict=True) if each]
            gather(
                [client for client, _ in asked],
                lambda client, place: client.send(*asked[place][1]),  # noqa: B023  # it is called at once
                lambda client, place: client.receive(),
            )

    def pull(self) -> list[Pulled]:
        """Return the values of all servers; waits for initial ones."""
        return self._all(lambda client, index: client.send(messages.Pull()), Client.pulled)

    def look_up(self, ids: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return rows of the tables of each server; nothing of those without tables.

        Args:
            ids: For each server and each of its tables, ids as of `Client.push`.
        """
        asked = [index for index, each in enumerate(ids) if each]
        rows: list[list[Array]] = [[] for _ in ids]
        found = gather(
            [self._clients[index] for index in asked],
            lambda client, place: client.look_up(ids[asked[place]]),
            lambda client, place: client.rows(),
        )
        for index, each in zip(asked, found, strict=True):
            rows[index] = each
        return rows

    def push_and_pull(
        self,
        pushed: Sequence[Pushed],
        *,
        ticket: int | None = None,
        shared: messages.Round | None = None,
        wants: bool = False,
        max_steps: int | None = None,
        exact: bool = False,
    ) -> list[Pulled]:
        """Push to all servers, and return their new values, in one message to each and one back.

        If a ticket says what its step computes, all servers hear of it, and the first one last: it does not
        count the step before the others have applied it.

        Args:
            pushed: What each server gets.
            ticket: The ticket of the step, if it counts as a global step.
            shared: The round of that ticket, if workers train in rounds.
            wants: Whether to take the next ticket, too; waits until there is one, or none is left.
            max_steps: The global step at which tickets end; None for no end.
            exact: Whether a ticket says what its step computes.
        """

        def push(client: Client, index: int) -> None:
            if index:
                client.push(*pushed[index], ticket=ticket if exact else None, shared=shared)
            else:
                client.push(*pushed[index], ticket=ticket, shared=shared, wants=wants, max_steps=max_steps)

        if not exact:
            return self._all(push, Client.pulled)
        others = gather(
            self._clients[1:],
            lambda client, index: push(client, index + 1),
            lambda client, index: client.pulled(),
        )
        return gather(self._clients[:1], push, lambda client, index: client.pulled()) + others

    def read(self) -> list[tuple[messages.Values, Held]]:
        """Return everything, each server's at one instant of its own, in new buffers."""
        return self._all(lambda client, index: client.read(), Client.held)

    def take_ticket(self, max_steps: int | None) -> messages.Ticket:
        """Return the right to make a step, by the global step that it starts from; None if none is left."""
        try:
            answer: messages.Ticket = self._clients[0].ask(messages.Take(max_steps=max_steps))
        except BaseException:
            self._clients[0].abandon()
            raise
        return answer

    def give_back_ticket(self) -> None:
        """Say that the step of the ticket will not be made."""
        self._all(lambda client, index: client.send(messages.GiveBack()), Client.receive)

    def end(self) -> None:
        """Tell all servers that the job has ended, none after another that cannot be reached. Only the chief
        may; once is enough."""
        broadcast(self._clients, lambda client: client.ask(messages.End()))

    def statistics(self) -> list[messages.Statistics]:
        """Return what each server has counted."""
        answers = self._all(lambda client, index: client.send(messages.Stats()), Client.receive)
        return [answer for answer, _ in answers]

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()

    def _all(self, send: Callable[[Client, int], None], receive: Callable[[Client], _T]) -> list[_T]:
        return gather(self._clients, send, lambda client, index: receive(client))
