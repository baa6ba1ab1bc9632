"""Requests as clients send them: in three dialects, and each with the whole conversation that it goes on with.

The dialects are Chat Completions, Responses, and Anthropic's Messages. A request is changed in one place only, where
lessons are added; every other byte stays. Requests are also read as messages, to record them. Nothing is translated
from one dialect into another.
"""

import json
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, cast

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RequestUsage

from agentlearn.formats.openai_chat import model_messages
from agentlearn.library.lessons import Advice, takes_advice, with_advice
from agentlearn.library.shown import Choose, LessonPlace, Shown
from agentlearn.live.recorder import Reserved
from agentlearn.models.endings import ending_of
from agentlearn.models.reply import CallResult, DialogueMessage, Reply, Said, read_messages, read_parts

_Json = Mapping[str, Any]
_COUNT = "/count_tokens"
_SPACE = re.compile(r"[ \t\r\n]*")
_value_at = json.JSONDecoder().raw_decode


def is_counted(path: str) -> bool:
    """Whether a path asks how many tokens a request has, which no model answers."""
    return path.endswith(_COUNT)


def is_inference(path: str) -> bool:
    """Whether a request to this path gets lessons: a model answers it, or its tokens are counted."""
    return takes_advice(path.removesuffix(_COUNT))


def with_lessons(
    path: str,
    content: bytes,
    body: dict[str, Any],
    model: str,
    advice_for: Callable[[str], Advice],
    *,
    choose: Choose = "conversation",
    place: LessonPlace = "instructions",
) -> bytes:
    """Return a request with lessons and for this model; all bytes of `content` that say something else stay.

    body: the JSON object in it. advice_for, choose, place: as for `with_advice`. Raises LibraryError for a
    message that is no text.
    """
    wanted = dict(with_advice(path.removesuffix(_COUNT), body, advice_for, choose=choose, place=place))
    if model != body.get("model"):
        wanted["model"] = model
    text = content.decode()
    start = _skip(text, 0)
    for begin, end, changed in sorted(_changes(text, start, _value_at(text, start)[1], body, wanted), reverse=True):
        text = text[:begin] + changed + text[end:]
    return text.encode()


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _values(text: str, at: int) -> Iterator[tuple[Any, int, int]]:
    """Key or place, begin and end of each value of the JSON object or list that begins at `at`."""
    is_object, place = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: Any = place
        if is_object:
            key, at = _value_at(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        _, end = _value_at(text, at)
        yield key, at, end
        at, place = _skip(text, end), place + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _changes(text: str, begin: int, end: int, old: Any, new: Any) -> Iterator[tuple[int, int, str]]:
    """Begin, end and new text of each place where the JSON value from `begin` to `end` differs from `new`."""
    if isinstance(old, str) and isinstance(new, str) and new.startswith(old):
        yield end - 1, end - 1, json.dumps(new[len(old) :])[1:-1]
    elif isinstance(old, str) and isinstance(new, str) and new.endswith(old):
        yield begin + 1, begin + 1, json.dumps(new.removesuffix(old))[1:-1]
    elif isinstance(old, dict) and isinstance(new, dict):
        known, wanted = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        places = list(_values(text, begin))
        if len(places) > len(known):  # a name stands twice, so a service may read another value than we did
            yield begin, end, json.dumps(wanted)
            return
        for key, first, last in places:
            if known[key] != wanted[key]:
                yield from _changes(text, first, last, known[key], wanted[key])
        added = {key: value for key, value in wanted.items() if key not in known}
        if added:
            yield begin + 1, begin + 1, json.dumps(added)[1:-1] + (", " if known else "")
    elif isinstance(old, list) and isinstance(new, list) and len(new := cast("list[Any]", new)) == len(old) + 1:
        known, starts = cast("list[Any]", old), [first for _, first, _ in _values(text, begin)]
        place = next((at for at, one in enumerate(known) if one != new[at]), len(known))
        before = place < len(known)
        at, added = starts[place] if before else end - 1, json.dumps(new[place])
        yield at, at, f"{added}, " if before else f", {added}" if known else added
    elif isinstance(old, list) and isinstance(new, list):
        for place, first, last in _values(text, begin):
            if old[place] != new[place]:
                yield from _changes(text, first, last, old[place], new[place])
    else:
        yield begin, end, json.dumps(new)


def dialogue(body: _Json) -> list[DialogueMessage]:
    """Return the messages of a request. Raises UnreadReply with the place of one that cannot be read."""
    sent = body.get("input", body.get("messages"))
    told = read_parts(body.get("instructions", body.get("system")))
    opening = [DialogueMessage("system", told)] if told else []
    if isinstance(sent, str):
        return [*opening, DialogueMessage("user", (Said(sent),))]
    return [*opening, *read_messages(cast("list[object]", sent) if isinstance(sent, list) else [])]


def output_limit(body: _Json) -> int | None:
    """Return the limit that a request sets on the tokens of its reply; None when it sets none."""
    limits = (body.get(name) for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"))
    return next((one for one in limits if isinstance(one, int) and one > 0), None)


def messages_of(chat: Sequence[DialogueMessage], reply: Reply | None) -> list[ModelMessage]:
    """Return a dialogue as pydantic-ai's messages, with the reply at its end."""
    if reply is None:
        return model_messages(chat, cut=True)
    *before, last = model_messages([*chat, reply.message], cut=True)
    assert isinstance(last, ModelResponse)
    given, cached, made = reply.tokens
    answer = replace(
        last,
        usage=RequestUsage(input_tokens=given, cache_read_tokens=cached, output_tokens=made),
        model_name=reply.model or None,
        provider_response_id=reply.identity or None,
        provider_details=dict(reply.details) or None,
        finish_reason=ending_of(reply.ending),
    )
    return [*before, answer]


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
