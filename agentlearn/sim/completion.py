"""Chat completions as they leave: one JSON object, or a stream of server-sent events."""

import json
import re
import time
from dataclasses import dataclass
from functools import lru_cache

from agentlearn.experience import estimated_tokens
from agentlearn.sim.chat import ChatRequest, Json
from agentlearn.sim.delivering import Answer
from agentlearn.sim.draws import fingerprint

MESSAGE_TOKENS = 4
"""What each message costs beside its words."""
_TOKEN = re.compile(r"\s*(?:\w{1,6}|[^\w\s])")
_PIECE = re.compile(r".{1,24}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer with everything that makes it a service's reply."""

    id: str
    model: str
    text: str
    call: tuple[str, str, str] | None
    """Id, tool and arguments."""
    finish: str
    prompt_tokens: int
    answer_tokens: int
    created: int

    @property
    def usage(self) -> Json:
        """Tokens, estimated without a tokenizer."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.answer_tokens,
            "total_tokens": self.prompt_tokens + self.answer_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }


def completion(answer: Answer, request: ChatRequest, *, request_hash: str, seed: int | str) -> Completion:
    """The completion. Call ids depend on the seed and the place in the conversation: no lesson moves them."""
    text = answer.text
    finish = "tool_calls" if answer.call else "stop"
    if request.max_tokens is not None and answer.call is None and estimated_tokens(text) > request.max_tokens:
        text = "".join(_TOKEN.findall(text)[: request.max_tokens])
        finish = "length"
    call_id = f"call_{fingerprint('call', seed, len(request.messages))}"
    return Completion(
        id=f"chatcmpl-{request_hash}",
        model=request.model,
        text=text,
        call=(call_id, *answer.call) if answer.call else None,
        finish=finish,
        prompt_tokens=_prompt_tokens(request),
        answer_tokens=max(1, estimated_tokens(text) + (estimated_tokens(answer.call[1]) + 4 if answer.call else 0)),
        created=int(time.time()),
    )


def whole(done: Completion) -> bytes:
    """The completion as one JSON body."""
    message: dict[str, object] = {"role": "assistant", "content": done.text or None, "refusal": None}
    if done.call:
        message["tool_calls"] = [_call(done.call)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": done.finish}
    body = {**_head(done, "chat.completion"), "choices": [choice], "usage": done.usage}
    return json.dumps(body).encode()


def events(done: Completion, *, with_usage: bool) -> list[bytes]:
    """The completion as server-sent events, the closing `[DONE]` included."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _PIECE.findall(done.text)]
    if done.call:
        identity, tool, arguments = done.call
        deltas.append({"tool_calls": [{"index": 0, **_call((identity, tool, ""))}]})
        pieces = _PIECE.findall(arguments)
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    head = _head(done, "chat.completion.chunk")
    chunks: list[Json] = [{**head, "choices": [_delta(delta, None)]} for delta in deltas]
    chunks.append({**head, "choices": [_delta({}, done.finish)]})
    if with_usage:
        chunks.append({**head, "choices": [], "usage": done.usage})
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


def _head(done: Completion, kind: str) -> Json:
    return {"id": done.id, "object": kind, "created": done.created, "model": done.model, "system_fingerprint": "sim"}


def _delta(delta: Json, finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _call(call: tuple[str, str, str]) -> Json:
    identity, tool, arguments = call
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": arguments}}


def _prompt_tokens(request: ChatRequest) -> int:
    said = sum(
        MESSAGE_TOKENS + _tokens(message.text) + sum(_tokens(call.arguments) for call in message.calls)
        for message in request.messages
    )
    return said + sum(_tokens(tool.size) for tool in request.tools)


_tokens = lru_cache(maxsize=512)(estimated_tokens)
