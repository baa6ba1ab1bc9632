"""Which requests go on with an earlier one. A client sends a conversation whole, and again with every call."""

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from agentlearn.library.shown import Shown
from agentlearn.live.recorder import Reserved
from agentlearn.models.reply import CallResult, DialogueMessage

SentMessages = Sequence[DialogueMessage]
MOST = 20_000
"""Conversations that are remembered; the one that was longest without a request is forgotten first."""
MOST_BYTES = 2**26
"""Size of the conversations that are kept whole, because a request may name their reply in place of them."""


@dataclass(slots=True)
class GatewayTurn:
    """One request of a conversation."""

    episode: str
    """Name of the conversation."""
    reserved: Reserved
    """The rollout that it is recorded as: that of the earlier request where only results of tools came since."""
    continued: bool = False
    """Whether a later request has gone on from it."""
    shown: dict[str, Shown] = field(default_factory=dict[str, Shown])
    """What the conversation has read, by library."""
    begun: bool = False
    """Whether an earlier request of it is known to this process."""


class Conversations:
    """The latest requests, by what they said. One process knows only its own."""

    def __init__(self, reserve: Callable[[Reserved | None], Reserved]) -> None:
        """reserve: returns the id of a new rollout, or of one that holds the given one and goes on."""
        self._reserve = reserve
        self._lock = threading.Lock()
        self._turns: OrderedDict[bytes, GatewayTurn] = OrderedDict()
        self._whole: OrderedDict[tuple[str, str], tuple[SentMessages, int]] = OrderedDict()
        self._size = 0
        self._episodes: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def turn(self, scope: str, chat: SentMessages, episode: str = "") -> GatewayTurn:
        """Return the place of a request.

        scope: what separates conversations that say the same, such as the tenant. episode: its name, where the client
        gives one; otherwise the request that it continues names it, or it gets a new name.
        """
        digests = list(_digests(scope + "\0" + episode, chat))
        places = [k for k in range(len(chat) - 1, 0, -1) if chat[k].role == "assistant"]
        with self._lock:
            place = next((k for k in places if digests[k - 1] in self._turns), 0)
            before = self._turns[digests[place - 1]] if place else None
            asked_anew = any(one.role == "user" for one in chat[place:])  # by the user: another rollout
            goes_on = before is not None and not before.continued and not asked_anew
            if before is not None and goes_on:
                before.continued = True
            found = GatewayTurn(
                episode or (before.episode if before else secrets.token_hex(16)),
                self._reserve(before.reserved if before is not None and goes_on else None),
                shown=dict(before.shown) if before is not None else {},
                begun=before is not None,
            )
            self._turns[digests[-1] if digests else b""] = found
            while len(self._turns) > MOST:
                self._turns.popitem(last=False)
        return found

    def is_new(self, episode: str) -> bool:
        """Whether this process hears the name of an episode for the first time. Empty names are never new."""
        with self._lock:
            if not episode or episode in self._episodes:
                return False
            self._episodes[episode] = None
            while len(self._episodes) > MOST:
                self._episodes.popitem(last=False)
        return True

    def keep(self, scope: str, reply: str, chat: SentMessages) -> None:
        """Keep a conversation whole, with the reply of this name at its end."""
        size = len(repr(chat))
        with self._lock:
            self._size += size - self._whole.pop((scope, reply), (chat, 0))[1]
            self._whole[scope, reply] = chat, size
            while self._size > MOST_BYTES:
                self._size -= self._whole.popitem(last=False)[1][1]

    def whole(self, scope: str, reply: str, chat: SentMessages) -> SentMessages:
        """Return the conversation that ends with the reply of this name and goes on with `chat`, if it is kept."""
        before, _ = self._whole.get((scope, reply), ((), 0))
        repeats = bool(before) and chat[:1] == before[:1] and before[0].role == "system"
        return [*before, *(chat[1:] if repeats else chat)]


def _digests(scope: str, chat: SentMessages) -> "list[bytes]":
    """A digest of the conversation up to each of its messages."""
    found: list[bytes] = []
    whole = blake2b(scope.encode(errors="replace"), digest_size=16)
    for message in chat:
        calls = [(one.id, one.name, one.arguments) for one in message.calls]
        results = [(one.call, one.text) for one in message.parts if isinstance(one, CallResult)]
        whole.update(json.dumps([message.role, message.text, calls, results]).encode())
        found.append(whole.digest())
    return found
