"""What a chat template can hold: a system message, a second turn, tools and their results. Tried once, by rendering.

Some templates raise an error for a message that they do not know, others leave it out in silence.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import CallInMessage, Message, RequestRefused, Tool
from agentlearn.train.engine.tools_in_words import tools_in_words

_SYSTEM, _QUESTION, _RESULT, _NAME = "Lore 4711.", "Why 4712?", "Because 4713.", "probe_4714"
_FUNCTION = {"name": _NAME, "description": "Probe.", "parameters": {"type": "object", "properties": {}}}
_TOOL = Tool(_NAME, {"type": "object", "properties": {}}, json.dumps(_FUNCTION))
_CALLED = Message("assistant", "I ask.", (CallInMessage("call_1", _NAME, "{}"),))
_ANSWERED = Message("tool", _RESULT, answers="call_1")

Render = Callable[[Sequence[Message], Sequence[Tool]], str]
"""Renders a conversation. Raises RequestRefused."""


@dataclass(frozen=True, slots=True)
class TemplateAbilities:
    """What a template can hold."""

    fold_system: bool = False
    """Whether the system message must become the start of the first user message."""
    refused: str = ""
    """Why it cannot hold a question at all; empty when it can."""
    tools_as_text: bool = False
    """Whether tools, calls and results must become text, because the template knows none."""
    tools_refused: str = ""
    """Why it cannot hold tools, their calls and their results; empty when it can."""

    def check(self, model: str, *, tools: bool) -> tuple[str, ...]:
        """Return notes for the report. tools: whether they are needed. Raises ConfigError."""
        if self.refused or (tools and self.tools_refused):
            needed = f"tools, which these tasks need: {self.tools_refused}" if not self.refused else self.refused
            raise ConfigError(
                f"the chat template of {model!r} cannot hold {needed}; use an instruction-tuned model whose template"
                f" {'knows tools' if not self.refused else 'takes a conversation'}, or give it another"
                " chat_template.jinja",
                code="chat_template",
            )
        notes: list[str] = []
        if self.fold_system:
            notes.append(
                f"the chat template of {model!r} takes no system message: it was put before the first question"
            )
        if tools and self.tools_as_text:
            notes.append(f"the chat template of {model!r} knows no tools: they were described in the instructions")
        return tuple(notes)


def with_one_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with its system messages as one at the start: many templates read only the first."""
    system = [one.text for one in messages if one.role == "system"]
    if len(system) < 2:
        return messages
    rest = [one for one in messages if one.role != "system"]
    return [Message("system", "\n\n".join(filter(None, system))), *rest]


def folded_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with its system messages at the start of the first user message."""
    system = "\n\n".join(one.text for one in messages if one.role == "system")
    rest = [one for one in messages if one.role != "system"]
    at = next((at for at, one in enumerate(rest) if one.role == "user"), None)
    if not system or at is None:
        return messages
    rest[at] = replace(rest[at], text=f"{system}\n\n{rest[at].text}")
    return rest


def template_abilities(render: Render) -> TemplateAbilities:
    """Try a template that renders what it is given, without folding."""
    system, user = Message("system", _SYSTEM), Message("user", _QUESTION)
    fold = bool(_problem(render, (system, user), (), _SYSTEM, _QUESTION))
    begun = tuple(folded_system((system, user))) if fold else (system, user)
    if problem := _problem(render, begun, (), _SYSTEM, _QUESTION):
        return TemplateAbilities(refused=f"a question: {problem}")
    if problem := _problem(render, (*begun, Message("assistant", "So."), user), (), _SYSTEM, _QUESTION):
        return TemplateAbilities(fold, refused=f"a second question: {problem}")
    if not _problem(render, (*begun, _CALLED, _ANSWERED), (_TOOL,), _QUESTION, _RESULT, _NAME):
        return TemplateAbilities(fold)
    described = tools_in_words((system, user, _CALLED, _ANSWERED), (_TOOL,))
    described = folded_system(described) if fold else described
    tools = _problem(render, described, (), _QUESTION, _RESULT, _NAME)
    return TemplateAbilities(fold, tools_as_text=not tools, tools_refused=tools)


def _problem(render: Render, messages: Sequence[Message], tools: Sequence[Tool], *texts: str) -> str:
    """Return why these messages cannot be rendered with all these texts in them; empty when they can."""
    try:
        rendered = render(messages, tools)
    except RequestRefused as refused:
        return refused.message.rpartition("conversation: ")[2]
    missing = [text for text in texts if text not in rendered]
    return "it leaves out a part of the conversation" if missing else ""
