"""Conversion of pydantic-ai messages to steps, and of steps to the text that the lesson stages read."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from textwrap import indent
from typing import assert_never

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.models.call_context import CallRecord
from agentlearn.models.endings import tokens_of
from agentlearn.text import storable
from agentlearn.types.author import Author
from agentlearn.types.trajectory import PLACE, STATUS, ModelTurn, Step, ToolCall, ToolResult, Usage, UserTurn

_FIXED_RESULTS = frozenset(
    {
        "Final result processed.",
        "Output tool not used - a final result was already processed.",
        "Output tool processed, but its value will not be the final result of the agent run.",
        "Output tool not used - output function execution failed.",
        "Output tool not used - output failed validation.",
        "Tool not executed - a final result was already processed.",
    }
)
"""What pydantic-ai itself writes as the result of an output tool, or of a tool that did not run."""


def steps_of(
    messages: Iterable[ModelMessage],
    calls: Sequence[CallRecord] = (),
    tool_seconds: Mapping[str, float] | None = None,
    diverged: AbstractSet[str] = frozenset(),
    *,
    opening: bool = False,
    author_of: Callable[[str, str], Author] | None = None,
) -> tuple[Step, ...]:
    """Return the steps of a rollout: what the model, its tools and the user said, in order.

    calls: its model calls, in order. tool_seconds: duration by tool call id. diverged: ids of the tool calls whose
    result differed when repeated. opening: also what the user said before the model's first answer, which is the task
    in a rollout that a domain began. author_of: returns who writes the results of a tool, from its name and the place
    that a result is about; None: not known.
    """
    steps: list[Step] = []
    answered = iter(calls)
    asked, before = "", ""
    for message in messages:
        if isinstance(message, ModelResponse):
            steps.append(_turn(message, next(answered, None), asked if asked != before else ""))
            before, opening = asked, True
            continue
        asked = message.instructions or ""
        returned = any(isinstance(part, ToolReturnPart) for part in message.parts)
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                seconds = (tool_seconds or {}).get(part.tool_call_id, 0.0)
                steps.append(_result(part, seconds, part.tool_call_id in diverged, author_of))
            elif opening and isinstance(part, UserPromptPart) and (text := _said(part, returned=returned)):
                steps.append(UserTurn(text=text))
    return tuple(steps)


def _said(part: UserPromptPart, *, returned: bool) -> str:
    """The text of a user's message. Next to results of tools, one of several pieces is what a tool returned."""
    if isinstance(part.content, str):
        return storable(part.content.strip())
    return "" if returned else storable("\n".join(one for one in part.content if isinstance(one, str)).strip())


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


def _result(
    part: ToolReturnPart, seconds: float, diverged: bool, author_of: Callable[[str, str], Author] | None
) -> ToolResult:
    known: dict[str, object] = part.metadata if isinstance(part.metadata, dict) else {}
    status = str(known.get(STATUS, "ok"))
    ok = status == "ok" and part.outcome == "success"
    content = storable(part.model_response_str())
    author = None
    if author_of is not None:
        person = Author(kind="person")
        author = person if content in _FIXED_RESULTS else author_of(part.tool_name, str(known.get(PLACE, "")))
    return ToolResult(
        call=part.tool_call_id,
        tool=part.tool_name,
        content=content,
        ok=ok,
        error="" if ok else status if status != "ok" else part.outcome,
        seconds=seconds,
        diverged=diverged,
        author=author,
    )


def transcript(steps: Sequence[Step], *, max_characters: int = 4_000) -> str:
    """Return the steps as numbered text. A text longer than max_characters keeps its beginning and its end.

    Each line that the user wrote begins with `> ` and closes no tag, so that it cannot look like a step or end the
    record.
    """
    return "\n".join(
        line for number, step in enumerate(steps, start=1) for line in _step_lines(number, step, max_characters)
    )


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
