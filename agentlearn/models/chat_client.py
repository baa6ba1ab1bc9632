"""A client of OpenAI-compatible services that sends chat requests as they are given.

The `openai` package rewrites every request before it sends it: it looks up the type of each value in search of fields
with another name on the wire. A chat request has none, and the search takes a sixth of the CPU time of a call.
"""

from functools import cached_property
from typing import Any

from openai import AsyncOpenAI, NotGiven, Omit
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.types.chat import ChatCompletion

_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
"""Names of the arguments that are not part of the body, and of the request options that they set."""


class ChatClient(AsyncOpenAI):
    """An OpenAI client whose chat requests take less CPU time. All other requests are those of `openai`."""

    @cached_property
    def chat(self) -> AsyncChat:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The chat endpoints."""
        return _Chat(self)


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Completions(self._client)


class _Completions(AsyncCompletions):
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
        return await self._client.post("/chat/completions", cast_to=ChatCompletion, body=sent, options=options)
