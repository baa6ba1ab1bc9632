"""Reads the JSON of a chat completion as services really send it, and gives it the form that `openai` documents.

Compatible services differ: content as a list of parts, arguments as an object, calls without ids or types, reasoning in
several fields, usage under other names. What a reply says is kept; what it leaves out stays out. Only a reply that says
nothing at all is refused.

A service can send anything: other types, other encodings, endless nesting, numbers that no column holds. The libraries
that decode a reply raise many kinds of errors on such input, and may pass some of it on.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import AgentlearnError
from agentlearn.models.endings import IDS, LOGPROBS, PROMPT_IDS, tidied, tokens_of
from agentlearn.models.refusal import service_words
from agentlearn.secret_values import without_secrets
from agentlearn.text import storable

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_CHANNEL_CALL = re.compile(r"\bto=functions\.\w")
"""A tool call in the channels of the harmony format, which also hold thoughts."""
COST = "cost_usd"
"""Key of the cost in dollars that a service reported, in the response's `provider_details`."""
_MOST_TOKENS = 2**53
"""Largest number of tokens that is believed. A service that reports more is treated as if it reported none."""

_REASONING = ("reasoning", "reasoning_content", "thinking", "reasoning_text", "reasoning_details")
"""_Fields of a message in which services return what a model thought. pydantic-ai reads the first two."""
_COST_HEADERS = ("x-litellm-response-cost",)
"""Headers in which gateways report the cost of a reply."""

_Fields = dict[str, Any]


def completion_of(body: object, asked: str) -> _Fields:
    """Return a reply in the form of a chat completion, with one choice.

    body: the decoded JSON. asked: name of the model that was asked. Raises UnexpectedModelBehavior when the reply says
    nothing.
    """
    reply = _fields(body)
    if reply is None:
        raise UnexpectedModelBehavior(f"the reply is not a JSON object: {service_words(body)}")
    choice = _choice(reply)
    message = _message(choice)
    if message is None:
        raise UnexpectedModelBehavior("the reply has neither content nor a tool call")
    created, model = reply.get("created"), reply.get("model")
    return {
        "id": _text(reply.get("id")),
        "object": "chat.completion",
        "created": created if _is_count(created) and created < 2**33 else 0,
        "model": model if isinstance(model, str) and model else asked,
        "choices": [{"index": 0, "message": message, "finish_reason": _text(choice.get("finish_reason")) or None}],
        "usage": _usage_of_reply(reply.get("usage")),
    }


def facts_of(body: object, headers: Mapping[str, str]) -> _Fields:
    """Return what a reply says in addition to the completion: its exact tokens and its cost, where they are sent."""
    reply, facts = _fields(body) or {}, _Fields()
    choice = _fields(next(iter(_list(reply.get("choices"))), None)) or {}
    if (prompt := reply.get(PROMPT_IDS)) is not None:
        facts[PROMPT_IDS] = list(prompt)
    if (ids := choice.get(IDS)) is not None:
        facts[IDS] = list(ids)
        content = (_fields(choice.get("logprobs")) or {}).get("content")
        if content is not None:
            facts[LOGPROBS] = [one["logprob"] for one in content]
    usage = _fields(reply.get("usage")) or {}
    upstream = (_fields(usage.get("cost_details")) or {}).get("upstream_inference_cost")
    reported = _dollars(usage.get("cost"))
    if usage.get("is_byok") is True and (paid := _dollars(upstream)) is not None:
        reported = (reported or 0.0) + paid  # with a key of one's own, `cost` is only the fee
    for cost in (reported, *(headers.get(name) for name in _COST_HEADERS)):
        if (dollars := _dollars(cost)) is not None:
            facts[COST] = dollars
            break
    return facts


def _usage_of_reply(usage: object) -> _Fields | None:
    """Return the usage of a reply without what cannot be true; None when it has no believable number."""
    fields = _fields(usage)
    if fields is None:
        return None
    counts = _counts(fields)
    given = _first_count(counts, "prompt_tokens", "input_tokens")
    made = _first_count(counts, "completion_tokens", "output_tokens")
    if given is None and made is None:
        return None
    given, made = given or 0, made or 0
    details = counts.get("completion_tokens_details")
    thought = details.get("reasoning_tokens", 0) if isinstance(details, dict) else 0
    if counts.get("total_tokens") == given + made + thought:
        made += thought  # some services count what the model thought apart
    return {**counts, "prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def _is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a possible number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def _choice(reply: _Fields) -> _Fields:
    """Return the first answer of a reply: the one with the index 0, wherever it stands."""
    choices = [one for one in map(_fields, _list(reply.get("choices"))) if one is not None]
    if not choices:
        error = reply.get("error")
        raise UnexpectedModelBehavior(f"the reply has no choices{f': {service_words(error)}' if error else ''}")
    choice = next((one for one in choices if one.get("index") == 0), choices[0])
    if choice.get("error") and not choice.get("message"):
        raise UnexpectedModelBehavior(f"the reply is an error: {service_words(choice['error'])}")
    return choice


def _message(choice: _Fields) -> _Fields | None:
    """Return the message of a choice; None when it says nothing. An empty text is content: the model ended at once."""
    said = _fields(choice.get("message"))
    if said is None:
        return {"role": "assistant", "content": choice["text"]} if isinstance(choice.get("text"), str) else None
    text, thoughts = _words(said.get("content"))
    if text and not _CHANNEL_CALL.search(text) and (spoken := split_thoughts(text)).unfinished:
        text = f"{spoken.said}<think>{spoken.thoughts}</think>"  # pydantic-ai drops a mark that is never closed
    message: _Fields = {"role": "assistant", "content": text}
    old = _fields(said.get("function_call")) or {}
    calls = [*_list(said.get("tool_calls")), *([old] if old.get("name") else [])]
    if calls:
        message["tool_calls"] = [_call(one, index) for index, one in enumerate(calls)]
    if isinstance(refusal := said.get("refusal"), str) and refusal:
        message["refusal"] = refusal
    field = "reasoning_content"
    for name in _REASONING:
        if not thoughts and (thoughts := "".join(_all_words(said.get(name)))) and name in _REASONING[:2]:
            field = name
    if thoughts:
        message[field] = thoughts
    return message if len(message) > 2 or text is not None else None


def _words(content: object) -> tuple[str | None, str]:
    """Return the text and the thoughts of a content; None for no text at all."""
    if content is None or isinstance(content, str):
        return content, ""
    text: list[str] = []
    thoughts: list[str] = []
    for part in _list(content) if isinstance(content, list) else [content]:
        fields = _fields(part) or {}
        kind = _text(fields.get("type")).casefold()
        (thoughts if "think" in kind or "reason" in kind else text).extend(_all_words(part))
    return "".join(text), "".join(thoughts)


def _all_words(part: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts of a part of a content, which may hold further parts."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list) and depth < 5:
        for one in cast("list[object]", part):
            yield from _all_words(one, depth + 1)
    elif (fields := _fields(part)) is not None and depth < 5:
        for name in ("text", "thinking", "reasoning", "content", "summary", "value"):
            if fields.get(name):
                yield from _all_words(fields[name], depth + 1)
                return


def _call(given: object, index: int) -> _Fields:
    """Return a tool call with the id, the type and the arguments that it may have left out."""
    call = _fields(given) or {}
    function = _fields(call.get("function")) or call
    name, arguments = function.get("name"), function.get("arguments", function.get("parameters"))
    if not isinstance(name, str) or not name.strip():
        raise UnexpectedModelBehavior("the reply has a tool call without a name")
    written = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    identity = call.get("id")
    extra = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
    return {
        "id": identity if isinstance(identity, str) and identity else f"call_{index}",
        "type": "function",
        "function": {"name": name, "arguments": written or "{}"},
        **extra,
    }


def _counts(fields: _Fields) -> _Fields:
    """Return the fields that are possible numbers of tokens, and of the details one level down the same."""
    kept: _Fields = {}
    for name, value in fields.items():
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if _is_count(number):
            kept[name] = number
        elif name.endswith("_details") and isinstance(value, dict):
            kept[name] = {key: one for key, one in cast("_Fields", value).items() if _is_count(one)}
    return kept


def _first_count(counts: _Fields, *names: str) -> int | None:
    return next((counts[name] for name in names if isinstance(counts.get(name), int)), None)


def _dollars(cost: object) -> float | None:
    """Return a cost as a number of dollars; None when it is none."""
    if isinstance(cost, bool) or not isinstance(cost, int | float | str):
        return None
    try:
        dollars = float(cost)
    except ValueError:
        return None
    return dollars if 0 <= dollars < 1e6 else None


def _fields(value: object) -> _Fields | None:
    return cast("_Fields", value) if isinstance(value, dict) else None


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_PASSED_ON = (ModelAPIError, UnexpectedModelBehavior, UserError, AgentlearnError, TimeoutError)
"""Errors that say themselves what they are."""


class _GarbledReply(UnexpectedModelBehavior):
    """Raised when a reply cannot be decoded."""


async def ask_once(
    model: "Model",
    messages: Sequence[ModelMessage],
    settings: "ModelSettings",
    parameters: "ModelRequestParameters",
    *,
    salt: str = "",
) -> tuple[ModelResponse, bytes]:
    """Return the reply of a model, safe to store, and its JSON. Raises _GarbledReply when it cannot be decoded.

    salt: makes ids differ that take the place of missing and repeated ids of tool calls.
    """
    try:
        response = await model.request(list(messages), settings, parameters)
        return checked(tidied(response, messages, parameters, salt))
    except _PASSED_ON:
        raise
    except Exception as error:  # a reply can make the libraries raise anything
        words = " ".join(str(error).split())[:200]
        raise _GarbledReply(
            f"the reply cannot be read: {type(error).__name__}{f': {words}' if words else ''}"
        ) from error


def checked(response: ModelResponse) -> tuple[ModelResponse, bytes]:
    """Return a reply that can be stored and read back, and its JSON. Raises an error for one that cannot."""
    whole = replace(
        response,
        parts=[_storable_part(one) for part in response.parts for one in _without_thoughts(part)],
        usage=_believed(response.usage),
        model_name=None if response.model_name is None else without_secrets(storable(response.model_name)),
        provider_url=response.provider_url and without_credentials(response.provider_url),
    )
    written = ModelMessagesTypeAdapter.dump_json([whole])
    (again,) = ModelMessagesTypeAdapter.validate_json(written)
    assert isinstance(again, ModelResponse)
    tokens_of(again)  # a resumed run reads them; a number that is not finite is null there
    return whole, written


def _believed(usage: RequestUsage) -> RequestUsage:
    """Return the reported usage without the numbers that are impossible."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    wrong = {name: 0 for name in names if not _is_count(getattr(usage, name))}
    details = {name: value for name, value in usage.details.items() if _is_count(value)}
    return replace(usage, details=details, **wrong) if wrong or details != usage.details else usage


def _without_thoughts(part: ModelResponsePart) -> tuple[ModelResponsePart, ...]:
    """Return a part; of a text that holds thoughts, what was thought and what was said."""
    if not isinstance(part, TextPart) or _CHANNEL_CALL.search(part.content):
        return (part,)  # a tool call that was left in the text is no thought
    spoken = split_thoughts(part.content)
    if not spoken.thoughts and not spoken.unfinished:
        return (part if spoken.said == part.content else replace(part, content=spoken.said),)
    said = (replace(part, content=spoken.said),) if spoken.said else ()
    return (ThinkingPart(spoken.thoughts), *said)


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    """Return a part without known secrets, and without lone surrogates, which can be neither stored nor sent back."""
    match part:
        case TextPart() | ThinkingPart():
            text = without_secrets(storable(part.content))
            return part if text == part.content else replace(part, content=text)
        case ToolCallPart(args=str(args)):
            text = without_secrets(storable(args))
            return part if text == args else replace(part, args=text)
        case _:
            return part
