"""A vLLM server as an `Engine`: token ids in, token ids out, so that no text is tokenized twice."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.serving.http11 import HttpRequest, HttpResponse

_WAIT_S = 3_600.0
"""Long, because the client of the served endpoint sets the real deadline."""


class VllmEngine:
    """An engine that calls `/v1/completions` with token ids. Created by `open_vllm_engine`."""

    def __init__(
        self, http: httpx2.AsyncClient, base_url: str, model: str, *, stop_ids: frozenset[int], context: int
    ) -> None:
        self.context = context
        self._http = http
        self._base_url = base_url
        self._model = model
        self._stop_ids = stop_ids

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. Raises EndpointError when the server cannot be reached or refuses."""
        body: dict[str, object] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "seed": sampling.seed,
            "stop_token_ids": sorted(self._stop_ids),
            "logprobs": 0,
            "return_token_ids": True,
        }
        try:
            answer = await self._http.post(f"{self._base_url}/completions", json=body)
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise EndpointError(f"vLLM cannot be reached: {why}", code="endpoint_unreachable") from error
        if answer.status_code != 200:
            said = " ".join(answer.text.split())[:300]
            raise EndpointError(f"vLLM refused with status {answer.status_code}: {said}", code="engine_failed")
        return self._sampled(answer.json())

    async def chat(self, request: HttpRequest) -> HttpResponse:
        """Forward a chat completion that only vLLM itself can answer, and return its response."""
        headers = {"content-type": "application/json"}
        try:
            answer = await self._http.post(f"{self._base_url}/chat/completions", content=request.body, headers=headers)
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise EndpointError(f"vLLM cannot be reached: {why}", code="endpoint_unreachable") from error
        kind = str(answer.headers.get("content-type") or "application/json")
        return HttpResponse(answer.status_code, answer.content, content_type=kind)

    def _sampled(self, body: Any) -> Sampled:
        try:
            choice = body["choices"][0]
            ids = tuple(int(one) for one in choice["token_ids"])
            logprobs = tuple(float(one) for one in choice["logprobs"]["token_logprobs"])
            details = body["usage"].get("prompt_tokens_details") or {}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EndpointError("vLLM sends no token ids or no log-probabilities", code="no_logprobs") from error
        if not ids or len(ids) != len(logprobs):
            words = f"vLLM sent {len(ids)} tokens and {len(logprobs)} log-probabilities"
            raise EndpointError(words, code="no_logprobs")
        finish = "stop" if choice["finish_reason"] == "stop" else "length"
        return Sampled(ids, logprobs, finish, cached=int(details.get("cached_tokens") or 0))


@asynccontextmanager
async def open_vllm_engine(base_url: str, model: str, *, stop_ids: frozenset[int]) -> AsyncGenerator[VllmEngine]:
    """Open the engine while the block runs. Raises EndpointError when the server does not report its context length."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    timeout = httpx2.Timeout(_WAIT_S, connect=10)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as http:
        try:
            cards = (await http.get(f"{base_url}/models")).json()["data"]
            context = next(int(card["max_model_len"]) for card in cards if card["id"] == model)
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, StopIteration) as error:
            words = f"the server at {base_url} does not say how long a prompt of {model!r} may be"
            raise EndpointError(words, code="engine_failed") from error
        yield VllmEngine(http, base_url, model, stop_ids=stop_ids, context=context)
