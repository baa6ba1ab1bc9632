"""What a chat template can hold: a system message, a second turn, tools, calls and results. Tried once, by rendering.

Some templates raise an error for a message that they do not know, others leave it out in silence. Templates also differ
in how they want calls to be given (`CallStyle`). The call that a template writes is parsed as the model's replies will
be, because a model writes calls as its template does.

The form of calls and results is that of Hermes, which `agentlearn.serving.tool_calls` reads.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, Protocol

from agentlearn.errors import ConfigError
from agentlearn.prompts import load_prompt
from agentlearn.serving.chat_request import CallInMessage, Message, ParsedAnswer, RequestRefused, Tool


def tools_in_words(messages: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
    """Return the conversation with its tools, calls and results as text. Results in a row become one user message."""
    made: list[Message] = []
    in_results = False
    for one in messages:
        if one.role != "tool":
            made.append(_call_as_text(one))
        elif in_results:
            made[-1] = replace(made[-1], text=f"{made[-1].text}\n{_result(one)}")
        else:
            made.append(Message("user", _result(one)))
        in_results = one.role == "tool"
    return _with_description(made, tools) if tools else made


def _with_description(messages: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
    """Put the description of the tools behind the instructions."""
    described = load_prompt("tools_in_words", 1).fill({"tools": "\n".join(tool.size for tool in tools)}).strip()
    system = [one.text for one in messages if one.role == "system"]
    rest = [one for one in messages if one.role != "system"]
    return [Message("system", "\n\n".join(filter(None, [*system, described]))), *rest]


def _call_as_text(message: Message) -> Message:
    """The message with its calls written out; what the model itself wrote stays as it is."""
    if not message.calls:
        return message
    text = "\n".join(filter(None, [message.text, *map(_call, message.calls)]))
    return replace(message, text=text, calls=())


def _call(call: CallInMessage) -> str:
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _result(message: Message) -> str:
    return f"<tool_response>\n{message.text}\n</tool_response>"


_SYSTEM, _QUESTION, _RESULT, _NAME, _SAID = "Lore 4711.", "Why 4712?", "Because 4713.", "probe_4714", "Said 4715."
_PARAMETERS = {"type": "object", "properties": {"code": {"type": "string"}, "times": {"type": "integer"}}}
_FUNCTION = {"name": _NAME, "description": "Probe.", "parameters": _PARAMETERS}
_TOOL = Tool(_NAME, _PARAMETERS, json.dumps(_FUNCTION))
_ARGUMENTS = {"code": "if 2 > 1 & 1:\n    print(\"a\\n\", 'é')", "times": 3}
"""With the characters that code is full of. A template that garbles them cannot show a call."""
_NO_TOOLS = "knows no tools"
_CALLED = Message("assistant", "I ask.", (CallInMessage("call_1", _NAME, json.dumps(_ARGUMENTS, ensure_ascii=False)),))
_ANSWERED = Message("tool", _RESULT, answers="call_1")


@dataclass(frozen=True, slots=True)
class CallStyle:
    """How a template wants to be given calls."""

    ids: Literal["own", "nine", "numbered"] = "own"
    """`own`: as they are; `nine`: nine letters and digits (Mistral); `numbered`: `functions.NAME:0` (Kimi)."""
    text_arguments: bool = False
    """Whether arguments are given as JSON text, not as an object."""
    without_text: bool = False
    """Whether a message with calls is given without its text. Some templates leave out the calls of a message with
    text, or put the text behind the calls."""


STYLES = tuple(
    CallStyle(ids, text_arguments, without_text)
    for without_text, ids, text_arguments in product((False, True), ("own", "nine", "numbered"), (False, True))
)
DEFAULT_STYLE = STYLES[0]


class Render(Protocol):
    """Renders a conversation."""

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Tool], style: CallStyle = ..., *, answer: bool = True
    ) -> str:
        """Return the prompt. answer: whether to add the start of an answer. Raises RequestRefused."""
        ...


Parse = Callable[[str, Sequence[Tool], str], ParsedAnswer]
"""Parses an answer, given the tools and the prompt."""


@dataclass(frozen=True, slots=True)
class TemplateAbilities:
    """What a template can hold."""

    fold_system: bool = False
    """Whether the system message must become the start of the first user message."""
    refused: str = ""
    """Why it cannot hold a question at all; empty when it can."""
    calls: CallStyle = DEFAULT_STYLE
    """How it is given calls."""
    tools_as_text: str = ""
    """Why tools, calls and results must become text, as the end of a sentence about the template; empty when they
    need not."""
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
            notes.append(
                f"the chat template of {model!r} {self.tools_as_text}: the tools were described in the instructions"
            )
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


def template_abilities(render: Render, parse: Parse, ends: Sequence[str]) -> TemplateAbilities:
    """Try a template.

    render: renders what it is given, without folding. parse: reads the calls of replies. ends: texts of the tokens that
    end an answer.
    """
    system, user = Message("system", _SYSTEM), Message("user", _QUESTION)
    fold = bool(_problem(render, (system, user), (), _SYSTEM, _QUESTION))
    begun = tuple(folded_system((system, user))) if fold else (system, user)
    if problem := _problem(render, begun, (), _SYSTEM, _QUESTION):
        return TemplateAbilities(refused=f"a question: {problem}")
    if problem := _problem(render, (*begun, Message("assistant", "So."), user), (), _SYSTEM, _QUESTION):
        return TemplateAbilities(fold, refused=f"a second question: {problem}")
    calls = _call_style(render, parse, ends, begun)
    if isinstance(calls, CallStyle):
        return TemplateAbilities(fold, calls=calls)
    described = tools_in_words((system, user, _CALLED, _ANSWERED), (_TOOL,))
    described = folded_system(described) if fold else described
    if problem := _problem(render, described, (), _QUESTION, _RESULT, _NAME):
        return TemplateAbilities(fold, tools_refused=problem if calls == _NO_TOOLS else f"it {calls}; {problem}")
    return TemplateAbilities(fold, tools_as_text=calls)


def _call_style(render: Render, parse: Parse, ends: Sequence[str], begun: Sequence[Message]) -> CallStyle | str:
    """Return how the template is given calls so that its own call can be read, or why it cannot be used for tools."""
    if _problem(render, begun, (_TOOL,), _NAME):
        return _NO_TOOLS
    why = "does not show a tool call with its result"
    for style in STYLES:
        if _problem(render, (*begun, _CALLED, _ANSWERED), (_TOOL,), _QUESTION, _RESULT, style=style):
            continue
        parsed = _own_call(render, parse, ends, begun, style)
        if [(name, json.loads(arguments)) for name, arguments in parsed.calls] == [(_NAME, _ARGUMENTS)]:
            return style
        why = "writes tool calls in a form that agentlearn does not read"
    return why


def _own_call(
    render: Render, parse: Parse, ends: Sequence[str], begun: Sequence[Message], style: CallStyle
) -> ParsedAnswer:
    """Parse the answer that the template writes for an assistant's message with a call."""
    try:
        prompt = render(begun, (_TOOL,), style)
        answered = render((*begun, Message("assistant", _SAID)), (_TOOL,), style, answer=False)
        called = render((*begun, _CALLED), (_TOOL,), style, answer=False)
        before = render(begun, (_TOOL,), style, answer=False)
    except RequestRefused:
        return ParsedAnswer()
    starts = (start for start in (prompt, answered.partition(_SAID)[0], before) if called.startswith(start))
    start = max(starts, key=len, default="")
    answer = called[len(start) :]
    for end in ends:
        answer = answer.partition(end)[0]
    return parse(answer, (_TOOL,), start)


def _problem(
    render: Render,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    *texts: str,
    style: CallStyle = DEFAULT_STYLE,
) -> str:
    """Return why these messages cannot be rendered with all these texts in them; empty when they can."""
    try:
        rendered = render(messages, tools, style)
    except RequestRefused as refused:
        return refused.message.rpartition("conversation: ")[2]
    missing = [text for text in texts if text not in rendered]
    return "it leaves out a part of the conversation" if missing else ""
