"""Conversion of pydantic-ai messages to steps, and of steps to the text that the lesson stages read."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from textwrap import indent
from typing import TYPE_CHECKING, assert_never

from pydantic_ai.messages import (
    BaseToolReturnPart,
    ModelMessage,
    ModelResponse,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.library.shown import text_of
from agentlearn.models.call_context import CallRecord
from agentlearn.models.endings import tokens_of
from agentlearn.text import storable
from agentlearn.types.trajectory import STATUS, ModelTurn, Step, ToolCall, ToolResult, Usage, UserTurn
from agentlearn.types.value import strangers

if TYPE_CHECKING:
    from agentlearn.rollout.dialogue import RequestTexts


def steps_of(
    messages: Sequence[ModelMessage],
    calls: Sequence[CallRecord] = (),
    tool_seconds: Mapping[str, float] | None = None,
    diverged: AbstractSet[str] = frozenset(),
    *,
    opening: bool = False,
    texts: "RequestTexts | None" = None,
    answer: str = "",
) -> tuple[Step, ...]:
    """Return the steps of a rollout: what the model, its tools and the user said, in order.

    calls: its model calls, in order. tool_seconds: duration by tool call id. diverged: ids of the tool calls whose
    result differed when repeated. opening: also what the user said before the model's first answer, which is the task
    in a rollout that a domain began. texts: who wrote what; None: not known. answer: what a function returned, which is
    the last step unless the model said it.
    """
    steps: list[Step] = []
    answered = iter(calls)
    asked, before = "", ""
    for message in messages:
        if isinstance(message, ModelResponse):
            steps.append(_turn(message, next(answered, None), asked if asked != before else ""))
            before, opening = asked, True
            steps += (_result(p, 0.0, False, texts) for p in message.parts if isinstance(p, NativeToolReturnPart))
            continue
        asked = message.instructions or ""
        returned = any(isinstance(part, ToolReturnPart) for part in message.parts)
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                seconds = (tool_seconds or {}).get(part.tool_call_id, 0.0)
                steps.append(_result(part, seconds, part.tool_call_id in diverged, texts))
            elif opening and isinstance(
                part, UserPromptPart
            ):  # next to results of tools, pieces are what they returned
                text = "" if returned and not isinstance(part.content, str) else storable(text_of(part.content).strip())
                steps += [UserTurn(text=text, author=texts and texts.written_by(text, "traffic"))] if text else []
    last = max((at for at, one in enumerate(steps) if isinstance(one, ModelTurn)), default=None)
    if texts is not None and last is not None:
        texts.read(messages)
        steps[last] = steps[last].model_copy(update={"strangers": strangers(texts.found)})
    if texts is not None and answer.strip() and not any(answer.strip() in getattr(one, "text", "") for one in steps):
        by = texts.written_by(answer, "function")
        steps.append(ToolResult(call="", tool="function", content=storable(answer), ok=True, author=by))
    return tuple(steps)


def _turn(response: ModelResponse, record: CallRecord | None, instructions: str) -> ModelTurn:
    """instructions: those of the request, if they differ from those of the request before."""
    usage = response.usage
    spoken = split_thoughts("\n".join(part.content for part in response.parts if isinstance(part, TextPart)))
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart)]
    return ModelTurn(
        call=record.id if record else None,
        text=storable(spoken.said),
        thinking=storable("\n".join([*thoughts, spoken.thoughts] if spoken.thoughts else thoughts)),
        tool_calls=tuple(
            ToolCall(id=part.tool_call_id, tool=part.tool_name, arguments=storable(part.args_as_json_str()))
            for part in response.parts
            if isinstance(part, ToolCallPart)
        ),
        usage=Usage(
            requests=1,
            tokens_in=usage.input_tokens,
            tokens_cached=usage.cache_read_tokens,
            tokens_out=usage.output_tokens,
        ),
        seconds=record.seconds if record else 0.0,
        finish=response.finish_reason or "",
        tokens=tokens_of(response, instructions),
    )


def _result(part: BaseToolReturnPart, seconds: float, diverged: bool, texts: "RequestTexts | None") -> ToolResult:
    known: dict[str, object] = part.metadata if isinstance(part.metadata, dict) else {}
    status = str(known.get(STATUS, "ok"))
    ok = status == "ok" and part.outcome == "success"
    content = storable(part.model_response_str())
    return ToolResult(
        call=part.tool_call_id,
        tool=part.tool_name,
        content=content,
        ok=ok,
        error="" if ok else status if status != "ok" else part.outcome,
        seconds=seconds,
        diverged=diverged,
        author=texts.result_by(part) if texts is not None and isinstance(part, ToolReturnPart) else None,
    )


def transcript(steps: Sequence[Step], *, max_characters: int = 4_000) -> str:
    """Return the steps as numbered text. A text longer than max_characters keeps its beginning and its end.

    Each line that the user wrote begins with `> ` and closes no tag, so that it cannot look like a step or end the
    record.
    """
    return "\n".join(step_text(number, step, max_characters) for number, step in enumerate(steps, start=1))


def transcript_ends(steps: Sequence[Step], *, max_characters: int) -> str:
    """Return the first and the last steps, as many as there is room for, and which ones are left out between them."""

    def taken(numbers: Iterable[int]) -> list[str]:
        found, room = list[str](), max_characters // 2
        for number in numbers:
            room -= len(text := step_text(number, steps[number - 1], max_characters // 4))
            if room < 0:
                break
            found.append(text)
        return found

    first = taken(range(1, len(steps) + 1))
    last = taken(range(len(steps), len(first), -1))
    left_out = f"[… steps {len(first) + 1} to {len(steps) - len(last)} of {len(steps)} are left out here …]"
    return "\n".join([*first, *([left_out] if len(first) + len(last) < len(steps) else []), *reversed(last)])


def step_text(number: int, step: Step, max_characters: int = sys.maxsize) -> str:
    """Return a step as text, under a line with its number. Longer texts in it keep their beginning and their end."""
    return "\n".join(_step_lines(number, step, max_characters))


def _step_lines(number: int, step: Step, max_characters: int) -> list[str]:
    match step:
        case ModelTurn():
            called = [f"call {call.tool} {_arguments(call, max_characters)}" for call in step.tool_calls]
            text = [cut(step.text, max_characters)] if step.text else []
            return [f"step {number} · model", *text, *called]
        case ToolResult():
            status = "ok" if step.ok else step.error
            return [f"step {number} · tool {step.tool} · {status}", cut(step.content, max_characters)]
        case UserTurn():
            said = "\n".join(cut(step.text, max_characters).replace("</", "‹/").splitlines())
            return [f"step {number} · user", indent(said, "> ", lambda _: True)]
        case _:
            assert_never(step)


def _arguments(call: ToolCall, max_characters: int) -> str:
    """Return the arguments as text; code is fenced, which is easier to read than a JSON string."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return cut(call.arguments, max_characters)
    if isinstance(arguments, dict) and set(arguments) == {"code"} and isinstance(arguments["code"], str):
        return f"\n```python\n{cut(arguments['code'], max_characters)}\n```"
    return cut(call.arguments, max_characters)


def cut(text: str, max_characters: int) -> str:
    """Return the text; if it is too long, its beginning and its end, with the number of characters left out."""
    if len(text) <= max_characters:
        return text
    head, tail = max_characters * 2 // 3, max_characters // 3
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
