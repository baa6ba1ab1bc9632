"""The chat format of a checkpoint, from its tokenizer and chat template."""

import json
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from jinja2 import TemplateError

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_format import ParsedAnswer
from agentlearn.serving.chat_request import CallInMessage, Message, RequestRefused, Tool
from agentlearn.serving.hermes import parse_hermes
from agentlearn.train.engine.template_abilities import folded_system, template_abilities, with_one_system
from agentlearn.train.engine.tools_in_words import tools_in_words

_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
"""Marks around the number of a message whose exact text is inserted after rendering (Unicode private use)."""


class TemplateFormat:
    """Renders prompts with the tokenizer's jinja template, and parses tool calls in Hermes' form."""

    def __init__(self, tokenizer: Any, *, stop_ids: frozenset[int] = frozenset()) -> None:
        """tokenizer: of transformers, with a chat template. stop_ids: in addition to those of tokenizer and template.

        Raises ConfigError when the tokenizer has no chat template, or when no token ends an answer.
        """
        self._tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                f"the tokenizer in {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, or"
                " add a chat_template.jinja",
                code="no_chat_template",
            )
        self.stop_ids = stop_ids | self._stop_ids()
        """Tokens that end an answer."""
        self.abilities = template_abilities(lambda messages, tools: self._rendered(messages, tools, False))
        """What the template can hold. A system message that it cannot hold is put before the first question;
        tools that it does not know become text."""
        if not self.stop_ids:
            raise ConfigError(
                f"no token ends an answer of the model in {tokenizer.name_or_path!r};"
                " set eos_token_id in its generation_config.json",
                code="no_stop_token",
            )

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt as text. Raises RequestRefused (400) with the template's error message."""
        if self.abilities.tools_as_text:
            messages, tools = tools_in_words(messages, tools), ()
        messages = folded_system(messages) if self.abilities.fold_system else with_one_system(messages)
        verbatim = {f"{_OPEN}{at}{_CLOSE}": one.verbatim for at, one in enumerate(messages) if one.verbatim}
        prompt = self._rendered(messages, tools, bool(verbatim))
        if any(prompt.count(mark) != 1 for mark in verbatim):  # the template changes message texts
            return self._rendered(messages, tools, False)
        for mark, text in verbatim.items():
            prompt = prompt.replace(mark, text)
        return prompt

    def probe_text(self) -> str:
        """Return a short conversation as the template renders it, with all printable characters of ASCII."""
        with suppress(RequestRefused):
            return string.printable + self.render((Message("system", "a"), Message("user", "b")), ())
        return string.printable

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special tokens included."""
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False),
        )

    def parse(self, text: str) -> ParsedAnswer:
        """Split an answer into text and tool calls."""
        return parse_hermes(text)

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool], marked: bool) -> str:
        names = {call.id: call.name for message in messages for call in message.calls}
        chat = [_message(one, names, f"{_OPEN}{at}{_CLOSE}" if marked else "") for at, one in enumerate(messages)]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    chat,
                    tools=[{"type": "function", "function": json.loads(tool.size)} for tool in tools] or None,
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
        except (TemplateError, TypeError, KeyError, AttributeError, ValueError) as error:
            message = f"The model's chat template cannot take this conversation: {error}"
            raise RequestRefused(400, message, code="chat_template_error") from None

    def _stop_ids(self) -> frozenset[int]:
        """The tokenizer's end-of-text token, and the special token that the template puts after an answer."""
        ends = {self._tokenizer.eos_token_id} - {None}
        chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _OPEN}]
        try:
            text = str(self._tokenizer.apply_chat_template(chat, tokenize=False))
        except TemplateError:
            return frozenset(ends)
        after = self.encode(text.rpartition(_OPEN)[2])
        added = set(self._tokenizer.get_added_vocab().values()) | set(self._tokenizer.all_special_ids)
        return frozenset(ends | (set(after[:1]) & added))


def _message(message: Message, names: Mapping[str, str], mark: str) -> Mapping[str, object]:
    """A message as templates need it. mark: placeholder for the exact text, if it is known."""
    if message.verbatim and mark:
        return {"role": message.role, "content": mark}
    plain: dict[str, object] = {"role": message.role, "content": message.text}
    if message.calls:
        plain["tool_calls"] = [_call(call) for call in message.calls]
    if message.role == "tool":
        plain |= {"tool_call_id": message.answers, "name": names.get(message.answers, "")}
    return plain


def _call(call: CallInMessage) -> Mapping[str, object]:
    return {
        "type": "function",
        "id": call.id,
        "function": {"name": call.name, "arguments": _arguments(call.arguments)},
    }


def _arguments(written: str) -> object:
    """Arguments as an object, as templates expect; as text if they are not an object."""
    try:
        value: object = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, dict) else written
