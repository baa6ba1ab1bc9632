"""The chat format of a checkpoint, from its tokenizer and chat template.

What a template can hold (a system message, a second turn, tools, calls and results) is tried once, by rendering. Some
templates raise an error for a message that they do not know, others leave it out in silence. Templates also differ in
how they want calls to be given (`CallStyle`). The call that a template writes is parsed as the model's replies will be,
because a model writes calls as its template does. Calls and results in words have the form of Hermes, which
`agentlearn.serving.tool_calls` reads.
"""

import hashlib
import json
import re
import string
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from jinja2 import TemplateError

from agentlearn.errors import ConfigError
from agentlearn.prompts import load_prompt
from agentlearn.serving.chat_request import CallInMessage, Message, ParsedAnswer, RequestRefused, Tool
from agentlearn.serving.tool_calls import parse_calls


def _tools_in_words(messages: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
    """Return the conversation with its tools, calls and results as text. Results in a row become one user message.

    What the model itself wrote stays as it is. The description of the tools is put behind the instructions.
    """
    made: list[Message] = []
    in_results = False
    for one in messages:
        if one.role == "tool":
            result = f"<tool_response>\n{one.text}\n</tool_response>"
            if in_results:
                made[-1] = replace(made[-1], text=f"{made[-1].text}\n{result}")
            else:
                made.append(Message("user", result))
        elif one.calls:
            bodies = ({"name": call.name, "arguments": _arguments(call.arguments)} for call in one.calls)
            calls = [f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>" for body in bodies]
            made.append(replace(one, text="\n".join(filter(None, [one.text, *calls])), calls=()))
        else:
            made.append(one)
        in_results = one.role == "tool"
    if not tools:
        return made
    described = load_prompt("tools_in_words", 1).fill({"tools": "\n".join(tool.size for tool in tools)}).strip()
    system = [one.text for one in made if one.role == "system"]
    rest = [one for one in made if one.role != "system"]
    return [Message("system", "\n\n".join(filter(None, [*system, described]))), *rest]


def _arguments(written: str) -> object:
    """Arguments as a JSON value; as text if they are none."""
    try:
        return json.loads(written)
    except ValueError:
        return written


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
class _CallStyle:
    """How a template wants to be given calls."""

    ids: Literal["own", "nine", "numbered"] = "own"
    """`own`: as they are; `nine`: nine letters and digits (Mistral); `numbered`: `functions.NAME:0` (Kimi)."""
    text_arguments: bool = False
    """Whether arguments are given as JSON text, not as an object."""
    without_text: bool = False
    """Whether a message with calls is given without its text. Some templates leave out the calls of a message with
    text, or put the text behind the calls."""


STYLES = tuple(
    _CallStyle(ids, text_arguments, without_text)
    for without_text, ids, text_arguments in product((False, True), ("own", "nine", "numbered"), (False, True))
)
DEFAULT_STYLE = STYLES[0]


@dataclass(frozen=True, slots=True)
class TemplateAbilities:
    """What a template can hold."""

    fold_system: bool = False
    """Whether the system message must become the start of the first user message."""
    refused: str = ""
    """Why it cannot hold a question at all; empty when it can."""
    calls: _CallStyle = DEFAULT_STYLE
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


def _with_one_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with its system messages as one at the start: many templates read only the first."""
    system = [one.text for one in messages if one.role == "system"]
    if len(system) < 2:
        return messages
    rest = [one for one in messages if one.role != "system"]
    return [Message("system", "\n\n".join(filter(None, system))), *rest]


def _folded_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with its system messages at the start of the first user message."""
    system = "\n\n".join(one.text for one in messages if one.role == "system")
    rest = [one for one in messages if one.role != "system"]
    at = next((at for at, one in enumerate(rest) if one.role == "user"), None)
    if not system or at is None:
        return messages
    rest[at] = replace(rest[at], text=f"{system}\n\n{rest[at].text}")
    return rest


_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
"""Marks around the number of a message whose exact text is inserted after rendering (Unicode private use)."""


class TemplateFormat:
    """Renders prompts with the tokenizer's jinja template, and parses tool calls as the template writes them."""

    def __init__(self, tokenizer: Any, *, stop_ids: frozenset[int] = frozenset()) -> None:
        """tokenizer: of transformers, with a chat template. stop_ids: in addition to those of tokenizer and template.

        Raises ConfigError when the tokenizer has no chat template, or when no token ends an answer.
        """
        self._tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                f"the tokenizer in {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, or"
                " add a chat_template.jinja"
            )
        self.stop_ids = stop_ids | self._stop_ids()
        """Tokens that end an answer."""
        ends = [end for one in sorted(self.stop_ids) if (end := self.decode([one]))]
        self._with_transformers = False
        self.abilities = self._tried(ends)
        """What the template can hold. A system message that it cannot hold is put before the first question;
        tools that it does not know, or whose calls cannot be read, become text."""
        if self.abilities.tools_as_text and getattr(tokenizer, "response_template", None):
            self._with_transformers = True
            abilities = self._tried(ends)
            self._with_transformers = not abilities.tools_as_text
            self.abilities = abilities if self._with_transformers else self.abilities
        self._turn_end = re.compile("|".join(re.escape(end) for end in (*ends, *self._end_of_turn())) or "(?!)")
        self._splices = self._needs_splicing()
        if not self.stop_ids:
            raise ConfigError(
                f"no token ends an answer of the model in {tokenizer.name_or_path!r};"
                " set eos_token_id in its generation_config.json"
            )

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt as text. Raises RequestRefused (400) with the template's error message."""
        if self.abilities.tools_as_text:
            messages, tools = _tools_in_words(messages, tools), ()
        messages = _folded_system(messages) if self.abilities.fold_system else _with_one_system(messages)
        marks = {f"{_OPEN}{at}{_CLOSE}": one.verbatim for at, one in enumerate(messages) if one.verbatim}
        style = self.abilities.calls
        if not marks:
            return self._rendered(messages, tools, style)
        if self._splices and (spliced := self._spliced(messages, tools)) is not None:
            return spliced
        prompt = self._rendered(
            [_without_words(one, at, keeps_calls=False) for at, one in enumerate(messages)], tools, style
        )
        if any(prompt.count(mark) != 1 for mark in marks):  # the template changes message texts
            return self._rendered(messages, tools, style)
        for mark, text in marks.items():
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
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        """Split an answer into text and tool calls."""
        if not self._with_transformers:
            return parse_calls(text, tools, prompt=prompt)
        try:
            message = self._tokenizer.parse_response(text, prefix=prompt, tools=_definitions(tools))
            called = [one["function"] for one in message.get("tool_calls") or []]
            calls = [(str(one["name"]), json.dumps(dict(one["arguments"]), ensure_ascii=False)) for one in called]
        except (ValueError, TypeError, KeyError, RecursionError):  # no valid call
            return ParsedAnswer(text)
        return ParsedAnswer(str(message.get("content") or ""), tuple(calls)) if calls else ParsedAnswer(text)

    def _spliced(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | None:
        """Return the prompt with each exact text between the prompt that it answered and the token that ended it.

        See `_needs_splicing`. None when an answer's place cannot be found.
        """
        style = self.abilities.calls
        plain = [_without_words(one, at) for at, one in enumerate(messages)]
        prompt = self._rendered(plain, tools, style)
        for at, one in reversed([*enumerate(messages)]):
            if not one.verbatim:
                continue
            answered = self._rendered(plain[:at], tools, style)
            before = self._rendered(plain[:at], tools, style, answer=False)
            end = self._turn_end.search(prompt, len(before))
            if end is None or not prompt.startswith(before) or not answered.startswith(before):
                return None
            prompt = answered + one.verbatim + prompt[end.start() :]
        return prompt

    def _rendered(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        style: _CallStyle = DEFAULT_STYLE,
        *,
        answer: bool = True,
    ) -> str:
        numbered = [call for message in messages for call in message.calls]
        names = {call.id: call.name for call in numbered}
        ids = {call.id: call.id for call in numbered}
        if style.ids == "nine":
            ids = {one: hashlib.sha256(one.encode()).hexdigest()[:9] for one in ids}
        elif style.ids == "numbered":
            ids = {call.id: f"functions.{call.name}:{at}" for at, call in enumerate(numbered)}
        plain: list[dict[str, object]] = []
        for one in messages:
            plain.append({"role": one.role, "content": None if one.calls and style.without_text else one.text})
            if one.role == "tool":
                plain[-1] |= {"tool_call_id": ids.get(one.answers, one.answers), "name": names.get(one.answers, "")}
            if one.calls:
                calls: list[object] = []
                for call in one.calls:
                    # Most templates expect an object.
                    value = call.arguments if style.text_arguments else _arguments(call.arguments)
                    function = {"name": call.name, "arguments": value if isinstance(value, dict) else call.arguments}
                    calls.append({"type": "function", "id": ids[call.id], "function": function})
                plain[-1]["tool_calls"] = calls
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    plain, tools=_definitions(tools) or None, tokenize=False, add_generation_prompt=answer
                )
            )
        except (TemplateError, TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
            message = f"The model's chat template cannot take this conversation: {error}"
            raise RequestRefused(400, message, code="chat_template_error") from None

    def _tried(self, ends: Sequence[str]) -> TemplateAbilities:
        """Try the template. ends: texts of the tokens that end an answer."""
        system, user = Message("system", _SYSTEM), Message("user", _QUESTION)
        fold = bool(self._problem((system, user), (), _SYSTEM, _QUESTION))
        begun = tuple(_folded_system((system, user))) if fold else (system, user)
        if problem := self._problem(begun, (), _SYSTEM, _QUESTION):
            return TemplateAbilities(refused=f"a question: {problem}")
        if problem := self._problem((*begun, Message("assistant", "So."), user), (), _SYSTEM, _QUESTION):
            return TemplateAbilities(fold, refused=f"a second question: {problem}")
        why = "knows no tools"
        if not self._problem(begun, (_TOOL,), _NAME):
            why = "does not show a tool call with its result"
            for style in STYLES:  # how it is given calls so that its own call can be read
                if self._problem((*begun, _CALLED, _ANSWERED), (_TOOL,), _QUESTION, _RESULT, style=style):
                    continue
                parsed = self._own_call(ends, begun, style)
                if [(name, json.loads(arguments)) for name, arguments in parsed.calls] == [(_NAME, _ARGUMENTS)]:
                    return TemplateAbilities(fold, calls=style)
                why = "writes tool calls in a form that agentlearn does not read"
        described = _tools_in_words((system, user, _CALLED, _ANSWERED), (_TOOL,))
        described = _folded_system(described) if fold else described
        if problem := self._problem(described, (), _QUESTION, _RESULT, _NAME):
            return TemplateAbilities(fold, tools_refused=problem if why == "knows no tools" else f"it {why}; {problem}")
        return TemplateAbilities(fold, tools_as_text=why)

    def _own_call(self, ends: Sequence[str], begun: Sequence[Message], style: _CallStyle) -> ParsedAnswer:
        """Parse the answer that the template writes for an assistant's message with a call."""
        try:
            prompt = self._rendered(begun, (_TOOL,), style)
            answered, called, before = (
                self._rendered((*begun, *more), (_TOOL,), style, answer=False)
                for more in ((Message("assistant", _SAID),), (_CALLED,), ())
            )
        except RequestRefused:
            return ParsedAnswer()
        starts = (start for start in (prompt, answered.partition(_SAID)[0], before) if called.startswith(start))
        start = max(starts, key=len, default="")
        answer = called[len(start) :]
        for end in ends:
            answer = answer.partition(end)[0]
        return self.parse(answer, (_TOOL,), prompt=start)

    def _problem(
        self, messages: Sequence[Message], tools: Sequence[Tool], *texts: str, style: _CallStyle = DEFAULT_STYLE
    ) -> str:
        """Return why these messages cannot be rendered with all these texts in them; empty when they can."""
        try:
            rendered = self._rendered(messages, tools, style)
        except RequestRefused as refused:
            return refused.message.rpartition("conversation: ")[2]
        return "" if all(text in rendered for text in texts) else "it leaves out a part of the conversation"

    def _needs_splicing(self) -> bool:
        """Whether an answer's exact text cannot stand in the place of its words.

        So it is when the template puts words before an answer that the prompt did not have, and when it refuses or
        leaves out the result of a call that is only text.
        """
        style = self.abilities.calls
        asked, answered, again = Message("user", "a"), Message("assistant", f"{_OPEN}1{_CLOSE}"), Message("user", "b")
        result = Message("tool", f"{_OPEN}2{_CLOSE}", answers="call_1")
        try:
            if not self._rendered((asked, answered, again), (), style).startswith(
                self._rendered((asked,), (), style) + answered.text
            ):
                return True
        except RequestRefused:
            return False
        if self.abilities.tools_as_text:
            return False
        try:
            rendered = self._rendered((asked, answered, result, answered, result), (), style)
        except RequestRefused:
            return True
        return rendered.count(result.text) != 2

    def _end_of_turn(self) -> list[str]:
        """The token that ends an answer in mid-conversation, which need not be the one that ends the last answer."""
        asked, answered = Message("user", "a"), Message("assistant", f"{_OPEN}1{_CLOSE}")
        try:
            return [
                self.decode([one])
                for one in self._special_after(self._rendered((asked, answered, asked), ()), answered.text)
            ]
        except RequestRefused:
            return []

    def _special_after(self, text: str, words: str) -> set[int]:
        """The special token that follows these words; empty when another token does."""
        after = self.encode(text.rpartition(words)[2])
        return set(after[:1]) & (set(self._tokenizer.get_added_vocab().values()) | set(self._tokenizer.all_special_ids))

    def _stop_ids(self) -> frozenset[int]:
        """The tokenizer's end-of-text token, and the special token that the template puts after an answer."""
        ends = {self._tokenizer.eos_token_id} - {None}
        chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _OPEN}]
        try:
            text = str(self._tokenizer.apply_chat_template(chat, tokenize=False))
        except TemplateError:
            return frozenset(ends)
        return frozenset(ends | self._special_after(text, _OPEN))


def _without_words(message: Message, at: int, *, keeps_calls: bool = True) -> Message:
    """The message without what the model wrote, if its exact text is known: with its calls, or a mark in its place."""
    if not message.verbatim:
        return message
    if not (keeps_calls and message.calls):
        return replace(message, text=f"{_OPEN}{at}{_CLOSE}", calls=())
    return replace(message, text="", calls=tuple(replace(call, arguments="{}") for call in message.calls))


def _definitions(tools: Sequence[Tool]) -> list[dict[str, object]]:
    return [{"type": "function", "function": json.loads(tool.size)} for tool in tools]
