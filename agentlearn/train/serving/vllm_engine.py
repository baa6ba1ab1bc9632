"""A vLLM server as an `Engine`: token ids in, token ids out, so that no text is tokenized twice."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.serving.http11 import HttpRequest, HttpResponse

BATCHED_TOKENS = 4096
"""Tokens that a server on a CPU computes in one step at most, among all its requests."""
_WAIT_S = 3_600.0
"""Long, because the client of the served endpoint sets the real deadline."""


class VllmEngine:
    """An engine that calls `/v1/completions` with token ids. Created by `open_vllm_engine`.

    On a CPU, vLLM ends with an error when it computes a prompt with a seed in more than one step ("CPU Generator does
    not use offset"). It does so for long prompts, and for short ones when many arrive together. So a server on a CPU
    gets the seed of a request only if nothing else is in progress and the whole request fits into one step. After a
    call was given up, it gets none, because nobody knows when the server stops computing it.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        base_url: str,
        model: str,
        *,
        stop_ids: frozenset[int],
        context: int,
        cpu: bool = False,
    ) -> None:
        self.context = context
        self._http = http
        self._base_url = base_url
        self._model = model
        self._stop_ids = stop_ids
        self._cpu = cpu
        self._in_progress = 0
        self._given_up = False

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. Raises EndpointError when the server cannot be reached or refuses."""
        body: dict[str, object] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "stop_token_ids": sorted(self._stop_ids),
            "logprobs": 0,
            "return_token_ids": True,
        }
        if self._takes_seed(len(prompt) + sampling.max_tokens):
            body["seed"] = sampling.seed
        self._in_progress += 1
        try:
            answer = await self._http.post(f"{self._base_url}/completions", json=body)
        except httpx2.HTTPError as error:
            self._given_up = True
            why = str(error) or type(error).__name__
            raise EndpointError(f"vLLM cannot be reached: {why}", code="endpoint_unreachable") from error
        except asyncio.CancelledError:
            self._given_up = True
            raise
        finally:
            self._in_progress -= 1
        if answer.status_code != 200:
            said = " ".join(answer.text.split())[:300]
            raise EndpointError(f"vLLM refused with status {answer.status_code}: {said}", code="engine_failed")
        return self._sampled(answer)

    async def chat(self, request: HttpRequest) -> HttpResponse:
        """Forward a chat completion that only vLLM itself can answer, and return its response."""
        headers = {"content-type": "application/json"}
        content = _without_seed(request.body) if self._cpu else request.body
        self._in_progress += 1
        try:
            answer = await self._http.post(f"{self._base_url}/chat/completions", content=content, headers=headers)
        except httpx2.HTTPError as error:
            self._given_up = True
            why = str(error) or type(error).__name__
            raise EndpointError(f"vLLM cannot be reached: {why}", code="endpoint_unreachable") from error
        except asyncio.CancelledError:
            self._given_up = True
            raise
        finally:
            self._in_progress -= 1
        kind = str(answer.headers.get("content-type") or "application/json")
        return HttpResponse(answer.status_code, answer.content, content_type=kind)

    def _takes_seed(self, tokens: int) -> bool:
        """Whether the server can be given the seed of a request with this many tokens of prompt and answer."""
        return not self._cpu or (not self._in_progress and not self._given_up and tokens <= BATCHED_TOKENS)

    def _sampled(self, answer: httpx2.Response) -> Sampled:
        try:
            body: Any = answer.json()
            choice = body["choices"][0]
            ids = tuple(int(one) for one in choice["token_ids"])
            logprobs = tuple(float(one) for one in choice["logprobs"]["token_logprobs"])
            finish = "stop" if choice["finish_reason"] == "stop" else "length"
            details = (body.get("usage") or {}).get("prompt_tokens_details") or {}
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EndpointError("vLLM sends no token ids or no log-probabilities", code="no_logprobs") from error
        if not ids or len(ids) != len(logprobs):
            words = f"vLLM sent {len(ids)} tokens and {len(logprobs)} log-probabilities"
            raise EndpointError(words, code="no_logprobs")
        return Sampled(ids, logprobs, finish, cached=int(details.get("cached_tokens") or 0))


def _without_seed(body: bytes) -> bytes:
    """A chat request without its seed."""
    try:
        asked = json.loads(body)
    except ValueError:
        return body
    if not isinstance(asked, dict) or "seed" not in asked:
        return body
    return json.dumps({name: value for name, value in cast("dict[str, Any]", asked).items() if name != "seed"}).encode()


@asynccontextmanager
async def open_vllm_engine(
    base_url: str, model: str, *, stop_ids: frozenset[int], cpu: bool = False
) -> AsyncGenerator[VllmEngine]:
    """Open the engine while the block runs. cpu: whether the server computes on a CPU.

    Raises EndpointError when the server does not report its context length.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    timeout = httpx2.Timeout(_WAIT_S, connect=10)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as http:
        try:
            cards = (await http.get(f"{base_url}/models")).json()["data"]
            context = next(int(card["max_model_len"]) for card in cards if card["id"] == model)
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, StopIteration) as error:
            words = f"the server at {base_url} does not say how long a prompt of {model!r} may be"
            raise EndpointError(words, code="engine_failed") from error
        yield VllmEngine(http, base_url, model, stop_ids=stop_ids, context=context, cpu=cpu)
