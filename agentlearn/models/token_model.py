"""A chat model that keeps the exact tokens of its answers."""

from collections.abc import Mapping
from typing import Any, cast

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from pydantic_ai.models.openai import OpenAIChatModelSettings
from pydantic_ai.providers import Provider

from agentlearn.models.chat_model import ChatModel
from agentlearn.models.tokens import IDS, LOGPROBS, PROMPT_IDS


class TokenModel(ChatModel):
    """A chat model that keeps the tokens of its answers, for services that know `return_token_ids`."""

    @classmethod
    def with_tokens(
        cls, name: str, provider: Provider[AsyncOpenAI], *, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0
    ) -> "TokenModel":
        """Return the model of that name, set to ask for tokens and log-probabilities in every request."""
        cut = {name: value for name, value in (("top_k", top_k), ("min_p", min_p)) if value}
        body: dict[str, object] = {"return_token_ids": True, **cut}
        wanted = OpenAIChatModelSettings(openai_logprobs=True, extra_body=body)
        if top_p < 1:
            wanted["top_p"] = top_p
        return cls(name, provider=provider, settings=wanted)

    def _process_provider_details(self, response: ChatCompletion) -> dict[str, Any] | None:
        details = dict(super()._process_provider_details(response) or {})
        choice = response.choices[0]
        extra = cast("Mapping[str, Any]", response.model_extra or {})
        of_choice = cast("Mapping[str, Any]", choice.model_extra or {})
        details.pop("logprobs", None)  # texts and numbers of every token, of which only the numbers are needed
        if (prompt := extra.get(PROMPT_IDS)) is not None:
            details[PROMPT_IDS] = list(prompt)
        if (ids := of_choice.get(IDS)) is not None:
            details[IDS] = list(ids)
        if choice.logprobs is not None and choice.logprobs.content is not None:
            details[LOGPROBS] = [one.logprob for one in choice.logprobs.content]
        return details
