"""Chat completion responses: one JSON object, or a stream of server-sent events."""

import json
import re
from dataclasses import dataclass

from agentlearn.serving.chat_request import ChatRequest, JsonObject
from agentlearn.serving.http11 import HttpResponse

_PIECE = re.compile(r".{1,24}", re.DOTALL)


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
    prompt_ids: tuple[int, ...] | None = None
    """Tokens of the prompt, if they were asked for."""
    ids: tuple[int, ...] | None = None
    """Tokens of the answer, if they were asked for."""
    token_logprobs: tuple[tuple[str, float], ...] | None = None
    """Text and log-probability of each answer token, if they were asked for."""

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
        if self.token_logprobs is None:
            return None
        content = [
            {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
            for text, logprob in self.token_logprobs
        ]
        return {"content": content, "refusal": None}

    def body(self) -> bytes:
        """Return the completion as one JSON body."""
        message: dict[str, object] = {"role": "assistant", "content": self.text or None, "refusal": None}
        if self.calls:
            message["tool_calls"] = [_call(*call) for call in self.calls]
        choice = {"index": 0, "message": message, **self._end}
        body = {**self._head("chat.completion"), "choices": [choice], "usage": self.usage, **self._prompt}
        return json.dumps(body).encode()

    def events(self, *, with_usage: bool) -> list[bytes]:
        """Return the completion as server-sent events, the final `[DONE]` included."""
        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _PIECE.findall(self.text)]
        for index, (identity, tool, arguments) in enumerate(self.calls):
            deltas.append({"tool_calls": [{"index": index, **_call(identity, tool, "")}]})
            pieces = _PIECE.findall(arguments)
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
        head, choice = self._head("chat.completion.chunk"), {"index": 0, "logprobs": None, "finish_reason": None}
        chunks: list[JsonObject] = [{**head, "choices": [{**choice, "delta": delta}]} for delta in deltas]
        chunks[0] = {**chunks[0], **self._prompt}
        # The chunks above are pieces of text, so the tokens are all sent at the end.
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, **self._end}]})
        if with_usage:
            chunks.append({**head, "choices": [], "usage": self.usage})
        return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]

    def response(self, request: ChatRequest) -> HttpResponse:
        """Return the completion as it was asked for: whole, or as a stream."""
        if not request.stream:
            return HttpResponse(200, self.body())
        events = self.events(with_usage=request.stream_usage)
        return HttpResponse(200, pieces=events, content_type="text/event-stream")

    def _head(self, kind: str) -> JsonObject:
        named = {"id": self.id, "object": kind, "created": self.created}
        return {**named, "model": self.model, "system_fingerprint": self.served_by}

    @property
    def _end(self) -> JsonObject:
        ids = {} if self.ids is None else {"token_ids": list(self.ids)}
        return {"logprobs": self.logprobs, "finish_reason": self.finish, **ids}

    @property
    def _prompt(self) -> JsonObject:
        return {} if self.prompt_ids is None else {"prompt_token_ids": list(self.prompt_ids)}


def _call(identity: str, tool: str, arguments: str) -> JsonObject:
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": arguments}}
