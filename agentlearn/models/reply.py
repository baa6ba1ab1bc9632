"""What models, people and tools said, in one form, in whichever dialect it was written.

`read_reply` reads the body of a reply, and `read_messages` the messages of a conversation: Chat Completions with its
older forms, Responses, and Anthropic's Messages. What a text holds tells the dialect. Services differ within a dialect
too: content as a text, a part or a list of parts, arguments as a text or an object, calls without ids, thoughts in
several fields, usage in several places. What is said is kept; what is left out stays out. The texts of one reply are
joined with nothing between them, as the services' own clients do: a service may cut a sentence into several parts.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard, cast

from agentlearn.models.refusal import service_words
from agentlearn.types.ids import content_hash

PROMPT_IDS = "prompt_token_ids"
IDS = "token_ids"
LOGPROBS = "token_logprobs"
REASONING = ("reasoning", "reasoning_content", "thinking", "reasoning_text", "reasoning_details")
"""Fields of a message in which services return what a model thought."""

_MOST_TOKENS = 2**53
"""Largest number of tokens that is believed. A service that reports more is treated as if it reported none."""
_TEXTS = ("text", "thinking", "reasoning", "refusal", "transcript", "content", "summary", "value")
"""Fields of a part that hold its words; the first that has any is read."""
_CALLS = frozenset(("function", "function_call", "custom_tool_call", "tool_use", "tool_call"))
_BY_SERVICE = ("_call", "_call_output", "tool_use", "tool_result")
"""How the types of parts end that tell of a tool which the service itself has run."""

_Fields = dict[str, Any]
_Json = Mapping[str, Any]


class UnreadReply(ValueError):
    """Raised for what cannot be read. Its words name the form."""

    code = "unread"


@dataclass(frozen=True, slots=True)
class Said:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """What a model thought before it answered."""

    text: str
    field: str = ""
    """Field of the message that held it; empty for a part of its content."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    id: str
    """Empty where the service gave none."""
    name: str
    arguments: str
    """As text: JSON, or what a tool with free input is given. `{}` when there are none."""
    extra: _Json | None = None
    """Field `extra_content` of the call, which some services want back."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool returned."""

    call: str
    """Id of the call; empty where it was left out."""
    text: str
    name: str = ""
    """Name of the tool, where the result says it."""
    failed: bool | None = None
    """Whether it is marked as failed; None when nothing says so."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part without words, such as an image, or a search that the service made itself."""

    kind: str
    """Its type, as it was written."""
    url: str = ""
    """Address or data URL of an image."""


Part = Said | Thought | Call | CallResult | Attachment


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """What was said. Parts of a request stand on lines of their own, and one without words as `[TYPE]`."""
        return said_in(self.parts) if self.role == "assistant" else shown_text(self.parts)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of tools."""
        return tuple(one for one in self.parts if isinstance(one, Call))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service sent as a model's answer."""

    parts: tuple[Part, ...] = ()
    ending: str = ""
    """Why it ended, as the service named it; empty when it named nothing."""
    usage: _Json | None = None
    """Believable numbers of tokens, with the names of Chat Completions; None without any."""
    model: str = ""
    identity: str = ""
    """The service's id of the reply."""
    created: int = 0
    """When it was made, in seconds since 1970; 0 when the service does not say it."""
    cost_usd: float | None = None
    """What it cost, as the service reports it."""
    details: _Json = field(default_factory=dict[str, Any])
    """Exact tokens, where the service sent them: `prompt_token_ids`, `token_ids`, `token_logprobs`."""
    error: str = ""
    """Words of an error that came with the reply or broke it off; empty when there was none."""

    @property
    def message(self) -> DialogueMessage:
        """The reply as a message of a conversation."""
        return DialogueMessage("assistant", self.parts)

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Tokens of the input, those of them that were read from a cache, and tokens of the output."""
        given = self.usage or {}
        cached = (given.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return given.get("prompt_tokens", 0), cached, given.get("completion_tokens", 0)


def said_in(parts: Iterable[Part]) -> str:
    """Return the words of a reply."""
    return "".join(one.text for one in parts if isinstance(one, Said))


def shown_text(parts: Iterable[Part]) -> str:
    """Return the parts of a request, each on lines of its own. One without words stands as `[TYPE]`."""
    shown = (one for one in parts if isinstance(one, Said | Attachment))
    return "\n".join(one.text if isinstance(one, Said) else f"[{one.kind}]" for one in shown)


# Parts, messages and items


def read_parts(content: object) -> tuple[Part, ...]:
    """Return the parts of a content: a text, a part, or a list of them, such as Anthropic's content blocks.

    Raises UnreadReply for a part that is neither a text nor an object with a type or a text.
    """
    blocks = cast("list[object]", content) if isinstance(content, list) else [content]
    read = (_read_part(block) for block in blocks if block is not None)
    return tuple(part for part in read if part is not None)


def _read_part(block: object) -> Part | None:
    """Return one part of a content, or one item of Responses that is no message; None for a thought without words.

    Raises UnreadReply, as `read_parts` does.
    """
    if isinstance(block, str | int | float):
        return Said(written(block))
    fields = fields_of(block)
    if fields is None:
        raise UnreadReply(f"has a part of the type {type(block).__name__}")
    kind = text_of(fields.get("type")).replace("-", "_")
    if kind in _CALLS or (kind.endswith("_call") and "call_id" in fields):  # what the service runs has no call_id
        return _call(fields, kind.removesuffix("_call"))
    if kind == "tool_result" or (kind.endswith("_call_output") and "call_id" in fields):
        return _result(fields)
    words = "" if kind.endswith(_BY_SERVICE) else "".join(words_in(fields))
    if "think" in kind.casefold() or "reason" in kind.casefold():
        return Thought(words) if words else None
    if words or "text" in kind or isinstance(fields.get("text"), str):
        return Said(words)
    if not kind:
        raise UnreadReply("has a part without a type and without a text")
    return Attachment(text_of(fields["type"]), _address(fields) if "image" in kind else "")


def _read_message(message: _Json) -> tuple[Part, ...]:
    """Return the parts of a message of a model: what it thought, said and called. Raises UnreadReply."""
    content = read_parts(message.get("content"))
    if not said_in(content):
        other = "".join(words_in([message.get("refusal"), message.get("audio")]))
        content += (Said(other),) if other or message.get("content") is not None else ()
    thoughts = (Thought(words, name) for name in REASONING if (words := "".join(words_in(message.get(name)))))
    if not any(isinstance(one, Thought) for one in content) and (thought := next(thoughts, None)):
        content = (thought, *content)
    old = fields_of(message.get("function_call")) or {}
    return (*content, *map(_call, _list(message.get("tool_calls"))), *([_call(old)] if old.get("name") else ()))


def read_items(items: Iterable[object]) -> tuple[Part, ...]:
    """Return the parts of the items that a model wrote, as Responses names them. Raises UnreadReply."""
    parts: list[Part | None] = []
    for one in items:
        item = fields_of(one) or {}
        parts += _read_message(item) if item.get("type") == "message" else [_read_part(one)]
    return tuple(part for part in parts if part is not None)


def read_messages(given: Iterable[object]) -> list[DialogueMessage]:
    """Return the messages of a conversation. Results of tools are messages of their own.

    given: messages of any dialect, or the items of Responses; neighbouring items of the model are one message. Raises
    UnreadReply with the place of a message, from 1.
    """
    found: list[DialogueMessage] = []
    after_item = False
    for place, one in enumerate(given, start=1):
        try:
            messages = _messages_in(one)
        except UnreadReply as error:
            raise UnreadReply(f"message {place} {error}") from error
        is_item = isinstance(one, Mapping) and "type" in one
        for message in messages:
            if is_item and after_item and found and message.role == found[-1].role == "assistant":
                found[-1] = replace(found[-1], parts=(*found[-1].parts, *message.parts))
            else:
                found.append(message)
        after_item = is_item
    return found


def _messages_in(given: object) -> list[DialogueMessage]:
    message = fields_of(given)
    if message is None:
        raise UnreadReply(f"is a {type(given).__name__} and no object")
    role, kind = message.get("role"), text_of(message.get("type"))
    if role is None and kind not in {"", "message"}:
        part = _read_part(message)
        if isinstance(part, Said):
            raise UnreadReply(f"has no role, and its type {kind!r} says nothing of who wrote it")
        by = "tool" if isinstance(part, CallResult) else "assistant"
        return [DialogueMessage(by, (part,))] if part is not None and part_says(part) else []
    match role:
        case "assistant" | "model":
            return [DialogueMessage("assistant", _read_message(message))]
        case "system" | "developer":
            return [DialogueMessage("system", read_parts(message.get("content")))]
        case "user" | "tool" | "function":
            content = message.get("content")
            parts = read_parts(content) if role == "user" or isinstance(content, list) else ()
            results = [one for one in parts if isinstance(one, CallResult)] or ([_result(message)] * (role != "user"))
            said = tuple(one for one in parts if not isinstance(one, CallResult))
            own = [DialogueMessage("user", said)] if role == "user" and (said or not results) else []
            return [*(DialogueMessage("tool", (one,)) for one in results), *own]
        case _:
            raise UnreadReply(f"has the role {role!r}; it is system, user, assistant or tool")


def part_says(part: Part) -> bool:
    """Whether a part is more than an attachment or an empty text."""
    return not isinstance(part, Attachment) and (not isinstance(part, Said) or bool(part.text))


def words_in(part: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts of a part of a content, which may hold further parts."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list) and depth < 5:
        for one in cast("list[object]", part):
            yield from words_in(one, depth + 1)
    elif (fields := fields_of(part)) is not None and depth < 5:
        for name in _TEXTS:
            if fields.get(name):
                yield from words_in(fields[name], depth + 1)
                return


def _call(given: object, kind: str = "") -> Call:
    """Read a call. kind: its name where the type of an item is the tool, such as `local_shell`."""
    call = fields_of(given) or {}
    function = fields_of(call.get("function")) or fields_of(call.get("custom")) or call
    name = _first(function, "name", "toolName") or (kind if "action" in call else "")
    if not isinstance(name, str) or not name.strip():
        raise UnreadReply("has a tool call without a name")
    arguments = _first(function, "arguments", "parameters", "input", "args", "action")
    identity = _first(call, "call_id", "id", "toolCallId")
    return Call(text_of(identity), name, written(arguments or {}), call.get("extra_content"))


def written(arguments: object) -> str:
    """Return the arguments of a call as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _result(given: _Json) -> CallResult:
    content = given.get("content", given.get("output"))
    if isinstance(content, Mapping):
        text = "".join(words_in(content)) or written(cast("_Json", content))
    else:
        text = shown_text(read_parts(content))
    identity, failed = _first(given, "tool_call_id", "tool_use_id", "call_id", "toolCallId"), given.get("is_error")
    name = text_of(_first(given, "name", "toolName"))
    return CallResult(text_of(identity), text, name, failed if isinstance(failed, bool) else None)


def _first(fields: _Json, *names: str) -> Any:
    """The first of these fields that says anything."""
    return next((fields[name] for name in names if fields.get(name)), None)


def _address(image: _Json) -> str:
    for name in ("image_url", "source", "image", "url"):
        inner = fields_of(image.get(name)) or {"url": image.get(name)}
        if isinstance(inner.get("url"), str):
            return inner["url"]
        if isinstance(inner.get("data"), str):
            return f"data:{inner.get('media_type') or 'image/png'};base64,{inner['data']}"
    return ""


def distinct_id(identity: str, taken: set[str], *salt: object) -> str:
    """Return the id of a call, or another one where it is missing or taken; it is added to `taken`.

    salt: JSON values that make new ids differ; the same salt gives the same id.
    """
    found = identity if identity and identity not in taken else content_hash(*salt)[:9]
    taken.add(found)  # nine letters and digits suit every service
    return found


# Replies


def read_reply(body: object) -> Reply:
    """Return what the body of a reply says.

    body: the decoded JSON, in any dialect. Raises UnreadReply when it says nothing.
    """
    fields = fields_of(body)
    if fields is None:
        raise UnreadReply(f"the reply is not a JSON object: {service_words(body)}")
    choices = [one for one in map(fields_of, _list(fields.get("choices"))) if one is not None]
    choice = next((one for one in choices if one.get("index") == 0), choices[0] if choices else {})
    error = _error_in(fields) or _error_in(choice)
    try:
        parts, ending = _answer(fields, choice)
    except UnreadReply as unread:
        raise UnreadReply(f"the reply {unread}") from unread
    if not parts:
        what = (
            "neither content nor a tool call" if choice else f"no choices{'' if error else f', only {[*fields]!r:.99}'}"
        )
        raise UnreadReply(f"the reply has {what}{f': {error}' if error else ''}")
    apart = (fields_of(fields.get("x_groq")) or {}).get("usage")
    usages = map(read_usage, (fields.get("usage"), apart, choice.get("usage")))
    created = fields.get("created")
    return Reply(
        parts=parts,
        ending=text_of(ending),
        usage=next((one for one in usages if one and (one["prompt_tokens"] or one["completion_tokens"])), None),
        model=text_of(fields.get("model")),
        identity=text_of(fields.get("id")),
        created=created if is_count(created) and created < 2**33 else 0,
        cost_usd=_cost_in(fields_of(fields.get("usage")) or {}),
        details=_tokens_in(fields, choice),
        error=error,
    )


def _answer(body: _Fields, choice: _Fields) -> tuple[tuple[Part, ...], object]:
    """Return the parts of a reply and how it ended. Raises UnreadReply."""
    if choice:
        said = fields_of(choice.get("message")) or fields_of(choice.get("delta")) or {"content": choice.get("text")}
        return _read_message(said), choice.get("finish_reason")
    if isinstance(body.get("output"), list):
        parts = read_items(body["output"])
        if not any(map(part_says, parts)):
            parts += (Said(text_of(body.get("output_text"))),)
        return parts, (fields_of(body.get("incomplete_details")) or {}).get("reason") or body.get("status")
    if body.get("content") is not None:
        return read_parts(body["content"]) or (Said(""),), body.get("stop_reason")
    return (), ""


def _error_in(fields: _Fields) -> str:
    """Return the words of an error; empty when there is none, or one without a word, as some services always send."""
    error = fields.get("error")
    return service_words(error) if error and (not isinstance(error, dict) or any(error.values())) else ""


def read_usage(usage: object) -> dict[str, Any] | None:
    """Return the believable numbers of a usage, with the names of Chat Completions; None when it has none.

    Numbers may be written as texts. The input includes what was read from a cache or written to it, and the output what
    was thought.
    """
    counts = _counts(fields_of(usage) or {})
    given, read = counts.get("prompt_tokens"), counts.get("cache_read_input_tokens", 0)
    if given is None and "input_tokens" in counts:
        given = counts["input_tokens"] + read + counts.get("cache_creation_input_tokens", 0)
    made = counts.get("completion_tokens", counts.get("output_tokens"))
    if given is None and made is None:
        return None
    given, made = given or 0, made or 0
    thought = counts.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    if counts.get("total_tokens") == given + made + thought:
        made += thought  # some services count what the model thought apart
    known = counts.get("prompt_tokens_details") or counts.get("input_tokens_details") or {}
    if cached := known.get("cached_tokens") or read or _first(counts, "prompt_cache_hit_tokens", "cached_tokens"):
        counts["prompt_tokens_details"] = {**known, "cached_tokens": cached}
    return {**counts, "prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def _counts(fields: _Fields) -> _Fields:
    """Return the fields that are possible numbers of tokens, and of the details one level down the same."""
    kept: _Fields = {}
    for name, value in fields.items():
        if name.endswith("_details"):
            kept[name] = {key: one for key, one in (fields_of(value) or {}).items() if is_count(one)}
            continue
        is_whole = value.is_integer() if isinstance(value, float) else isinstance(value, str) and value.isdecimal()
        if is_count(number := int(value) if is_whole else value):
            kept[name] = number
    return kept


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a possible number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def _cost_in(usage: _Fields) -> float | None:
    reported = dollars_of(usage.get("cost"))
    paid = dollars_of((fields_of(usage.get("cost_details")) or {}).get("upstream_inference_cost"))
    with_own_key = usage.get("is_byok") is True and paid is not None  # then `cost` is only the fee
    return (reported or 0.0) + (paid or 0.0) if with_own_key else reported


def dollars_of(cost: object) -> float | None:
    """Return a cost as a number of dollars; None when it is none."""
    if isinstance(cost, bool) or not isinstance(cost, int | float | str):
        return None
    try:
        dollars = float(cost)
    except ValueError:
        return None
    return dollars if 0 <= dollars < 1e6 else None


def _tokens_in(body: _Fields, choice: _Fields) -> _Fields:
    """Return the exact tokens of a reply, which make it fit for training."""
    found: _Fields = {PROMPT_IDS: body.get(PROMPT_IDS, choice.get(PROMPT_IDS)), IDS: choice.get(IDS)}
    sampled = (fields_of(choice.get("logprobs")) or {}).get("content") if found[IDS] else None
    if isinstance(sampled, list):
        found[LOGPROBS] = [(fields_of(one) or {}).get("logprob") for one in cast("list[object]", sampled)]
    return {name: value for name, value in found.items() if isinstance(value, list)}


def fields_of(value: object) -> _Fields | None:
    """Return the fields of an object; None for anything else."""
    return cast("_Fields", value) if isinstance(value, dict) else None


def text_of(value: object) -> str:
    """Return a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
