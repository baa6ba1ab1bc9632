"""A chat model of any OpenAI-compatible service, and the client through which it sends its requests.

Only public interfaces of `openai` and pydantic-ai are used: the client reads each reply as its service sent it
(`chat_reply`) and hands pydantic-ai a completion in the documented form.
"""

import json
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import httpx2
from openai import AsyncOpenAI, NotGiven, Omit
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.types.chat import ChatCompletion
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings

from agentlearn.models.chat_reply import completion_of, facts_of

_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
"""Names of the arguments that are not part of the body, and of the request options that they set."""
_MOST_REPLIES = 256
"""Number of newest replies that are remembered."""
_FACTS: ContextVar[dict[str, Any] | None] = ContextVar("facts", default=None)
"""Collects what the reply to the current request says in addition to its completion."""


class ChatModel(OpenAIChatModel):
    """A chat model that reads replies of any service.

    Instructions and lessons are sent as one system message: many chat templates read only the first, or refuse more.
    """

    @cached_property
    def profile(self) -> OpenAIModelProfile:
        """What is known of the service."""
        one_system_message = OpenAIModelProfile(openai_chat_supports_multiple_system_messages=False)
        return cast("OpenAIModelProfile", merge_profile(super().profile, one_system_message))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the reply, with its tokens and its cost in `provider_details` where the service sends them."""
        facts: dict[str, Any] = {}
        before = _FACTS.set(facts)
        try:
            response = await super().request(messages, model_settings, model_request_parameters)
        finally:
            _FACTS.reset(before)
        return replace(response, provider_details={**(response.provider_details or {}), **facts} or None)


def token_settings(*, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0) -> OpenAIChatModelSettings:
    """Return settings that ask for the tokens of every answer, from services that know `return_token_ids`.

    top_p, top_k, min_p: sample from the likeliest tokens only; 1, 0 and 0: from all.
    """
    cut = {name: value for name, value in (("top_k", top_k), ("min_p", min_p)) if value}
    body: dict[str, object] = {"return_token_ids": True, **cut}
    wanted = OpenAIChatModelSettings(openai_logprobs=True, extra_body=body)
    if top_p < 1:
        wanted["top_p"] = top_p
    return wanted


class ChatClient(AsyncOpenAI):
    """An OpenAI client that sends chat requests as they are given, and reads their replies with `chat_reply`.

    `openai` rewrites every request before it sends it: it looks up the type of each value in search of fields with
    another name on the wire. A chat request has none, and the search takes a sixth of the CPU time of a call. All other
    requests are those of `openai`.
    """

    @cached_property
    def chat(self) -> AsyncChat:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The chat endpoints."""
        return _Chat(self)

    @cached_property
    def replies(self) -> "OrderedDict[str, tuple[int, int] | None]":
        """The newest replies: hashes of reply and request by the reply's id; None for an id of several replies."""
        return OrderedDict()

    def sent_before(self, body: Any, content: bytes, request: dict[str, Any]) -> bool:
        """Whether a reply was sent for another request before, as by a service that sends a reply twice.

        Nothing is known of a service whose ids do not tell replies apart.
        """
        identity = body.get("id") if isinstance(body, dict) else None
        if not isinstance(identity, str) or not identity:
            return False
        now = hash(content), hash(json.dumps(request.get("messages"), sort_keys=True, default=str))
        before = self.replies.setdefault(identity, now)
        if before is not None and before[0] != now[0]:
            self.replies[identity] = None
        if len(self.replies) > _MOST_REPLIES:
            self.replies.popitem(last=False)
        told_apart = len(self.replies) > 1 and None not in self.replies.values()
        return told_apart and before is not None and before[0] == now[0] and before[1] != now[1]


class _Chat(AsyncChat):
    def __init__(self, client: ChatClient) -> None:
        super().__init__(client)
        self.client = client

    @cached_property
    def completions(self) -> AsyncCompletions:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Completions(self.client)


class _Completions(AsyncCompletions):
    def __init__(self, client: ChatClient) -> None:
        super().__init__(client)
        self.client = client

    async def create(self, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the answer to a chat request. Takes the arguments of the method that it replaces."""
        if given.get("stream"):
            return await super().create(**given)
        sent = {name: value for name, value in given.items() if not isinstance(value, Omit | NotGiven)}
        options: Any = {"security": {"bearer_auth": True}}
        for name in _OPTIONS.keys() & sent.keys():
            value = sent.pop(name)
            if value is not None or name == "timeout":  # a timeout of None is no limit
                options[_OPTIONS[name]] = value
        response = await self.client.post("/chat/completions", cast_to=httpx2.Response, body=sent, options=options)
        try:
            body = json.loads(response.content)
        except ValueError as error:
            raise UnexpectedModelBehavior(f"the reply is not JSON: {response.text[:200]!r}") from error
        if self.client.sent_before(body, response.content, sent):
            response.extensions.get("close", lambda: None)()  # what follows on this connection is late too
            raise UnexpectedModelBehavior("the reply is one that the service has sent for an earlier request")
        completion = completion_of(body, str(sent.get("model", "")))
        if (facts := _FACTS.get()) is not None:
            facts.update(facts_of(body, response.headers))
        return ChatCompletion.model_construct(**completion)
