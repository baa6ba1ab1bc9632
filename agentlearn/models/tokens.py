"""The exact tokens of an answer, read from the fields that a service adds to its completion.

vLLM and our local servers add them with `return_token_ids`. They are kept in the response's `provider_details`, and so
in the journal.
"""

from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import ModelResponse

from agentlearn.text import storable
from agentlearn.types.trajectory import SampledTokens

PROMPT_IDS = "prompt_token_ids"
IDS = "token_ids"
LOGPROBS = "token_logprobs"


def without_tokens(response: ModelResponse) -> ModelResponse:
    """Return the answer without its tokens."""
    details = response.provider_details
    if not details or not any(key in details for key in (PROMPT_IDS, IDS, LOGPROBS)):
        return response
    kept = {key: value for key, value in details.items() if key not in {PROMPT_IDS, IDS, LOGPROBS}}
    return replace(response, provider_details=kept or None)


def tokens_of(response: ModelResponse, instructions: str = "") -> SampledTokens | None:
    """Return the tokens of an answer; None when the service did not send all of them.

    instructions: those of the request, if they differ from those of the request before.
    """
    details = response.provider_details or {}
    prompt, ids, logprobs = (cast("list[Any] | None", details.get(key)) for key in (PROMPT_IDS, IDS, LOGPROBS))
    if prompt is None or ids is None or logprobs is None or len(ids) != len(logprobs):
        return None
    return SampledTokens(
        prompt=tuple(prompt), ids=tuple(ids), logprobs=tuple(logprobs), instructions=storable(instructions)
    )
