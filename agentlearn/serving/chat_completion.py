"""Chat completion responses: one JSON object, or a stream of server-sent events."""

import json
import re
import time
from dataclasses import dataclass
from functools import lru_cache

from agentlearn.serving.chat_request import ChatRequest, JsonObject
from agentlearn.types.experience import estimated_tokens

MESSAGE_TOKENS = 4
"""Estimated tokens of each message besides its text."""
_TOKEN = re.compile(r"\s*(?:\w{1,6}|[^\w\s])")
_PIECE = re.compile(r".{1,24}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """An answer of the assistant: text or one tool call."""

    text: str = ""
    call: tuple[str, str] | None = None
    """Tool name, and arguments as JSON."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids and log-probabilities of an answer, as far as requested."""

    prompt: tuple[int, ...] | None = None
    ids: tuple[int, ...] | None = None
    logprobs: tuple[tuple[str, float], ...] | None = None
    """Text and log-probability of each answer token."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer with all fields of a chat completion response."""

    id: str
    model: str
    text: str
    calls: tuple[tuple[str, str, str], ...]
    """Id, tool name and arguments of each tool call."""
    finish: str
    prompt_tokens: int
    answer_tokens: int
    created: int
    served_by: str
    cached_tokens: int = 0
    """Number of prompt tokens that did not have to be computed."""
    tokens: Tokens = Tokens()

    @property
    def usage(self) -> JsonObject:
        """Token counts in OpenAI's form."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.answer_tokens,
            "total_tokens": self.prompt_tokens + self.answer_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    @property
    def logprobs(self) -> JsonObject | None:
        """Log-probabilities in OpenAI's form."""
        if self.tokens.logprobs is None:
            return None
        content = [
            {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
            for text, logprob in self.tokens.logprobs
        ]
        return {"content": content, "refusal": None}


def completion(
    answer: AssistantMessage, request: ChatRequest, *, request_hash: str, call_id: str, served_by: str
) -> Completion:
    """Return the completion of a model without a tokenizer. Token counts, and the limit `max_tokens`, are estimates.

    served_by: system fingerprint of the response.
    """
    text = answer.text
    finish = "tool_calls" if answer.call else "stop"
    if request.max_tokens is not None and answer.call is None and estimated_tokens(text) > request.max_tokens:
        text = "".join(_TOKEN.findall(text)[: request.max_tokens])
        finish = "length"
    return Completion(
        id=f"chatcmpl-{request_hash}",
        model=request.model,
        text=text,
        calls=((call_id, *answer.call),) if answer.call else (),
        finish=finish,
        prompt_tokens=sum(_tokens(tool.size) for tool in request.tools)
        + sum(
            MESSAGE_TOKENS + _tokens(message.text) + sum(_tokens(call.arguments) for call in message.calls)
            for message in request.messages
        ),
        answer_tokens=max(1, estimated_tokens(text) + (estimated_tokens(answer.call[1]) + 4 if answer.call else 0)),
        created=int(time.time()),
        served_by=served_by,
    )


def completion_body(done: Completion) -> bytes:
    """Return the completion as one JSON body."""
    message: dict[str, object] = {"role": "assistant", "content": done.text or None, "refusal": None}
    if done.calls:
        message["tool_calls"] = [_call(call) for call in done.calls]
    choice = {"index": 0, "message": message, "logprobs": done.logprobs, "finish_reason": done.finish, **_ids(done)}
    body = {**_head(done, "chat.completion"), "choices": [choice], "usage": done.usage, **_prompt_ids(done)}
    return json.dumps(body).encode()


def completion_events(done: Completion, *, with_usage: bool) -> list[bytes]:
    """Return the completion as server-sent events, the final `[DONE]` included."""
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _PIECE.findall(done.text)]
    for index, (identity, tool, arguments) in enumerate(done.calls):
        deltas.append({"tool_calls": [{"index": index, **_call((identity, tool, ""))}]})
        pieces = _PIECE.findall(arguments)
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    head = _head(done, "chat.completion.chunk")
    chunks: list[JsonObject] = [{**head, "choices": [_delta(delta)]} for delta in deltas]
    chunks[0] = {**chunks[0], **_prompt_ids(done)}
    # The chunks above are pieces of text, so the tokens are all sent at the end.
    last = {**_delta({}), "finish_reason": done.finish, "logprobs": done.logprobs, **_ids(done)}
    chunks.append({**head, "choices": [last]})
    if with_usage:
        chunks.append({**head, "choices": [], "usage": done.usage})
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


def _prompt_ids(done: Completion) -> JsonObject:
    return {} if done.tokens.prompt is None else {"prompt_token_ids": list(done.tokens.prompt)}


def _ids(done: Completion) -> JsonObject:
    return {} if done.tokens.ids is None else {"token_ids": list(done.tokens.ids)}


def _head(done: Completion, kind: str) -> JsonObject:
    named = {"id": done.id, "object": kind, "created": done.created}
    return {**named, "model": done.model, "system_fingerprint": done.served_by}


def _delta(delta: JsonObject) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


def _call(call: tuple[str, str, str]) -> JsonObject:
    identity, tool, arguments = call
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": arguments}}


_tokens = lru_cache(maxsize=512)(estimated_tokens)
