"""The exact tokens behind an answer: asked for, and read back from what a service sends beside its completion.

vLLM and our own local servers give them with `return_token_ids`; they are kept in the response's `provider_details`,
and so in the journal and in the stored messages.
"""

from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import ModelResponse

from agentlearn.types.trajectory import SampledTokens

PROMPT_IDS = "prompt_token_ids"
IDS = "token_ids"
LOGPROBS = "token_logprobs"


def without_tokens(response: ModelResponse) -> ModelResponse:
    """The answer without its tokens, for whoever keeps them elsewhere."""
    details = response.provider_details
    if not details or not any(key in details for key in (PROMPT_IDS, IDS, LOGPROBS)):
        return response
    kept = {key: value for key, value in details.items() if key not in {PROMPT_IDS, IDS, LOGPROBS}}
    return replace(response, provider_details=kept or None)


def tokens_of(response: ModelResponse) -> SampledTokens | None:
    """The tokens of an answer; None where the service sent none, or only a part of them."""
    details = response.provider_details or {}
    prompt, ids, logprobs = (cast("list[Any] | None", details.get(key)) for key in (PROMPT_IDS, IDS, LOGPROBS))
    if prompt is None or ids is None or logprobs is None or len(ids) != len(logprobs):
        return None
    return SampledTokens(prompt=tuple(prompt), ids=tuple(ids), logprobs=tuple(logprobs))
