"""The agent for custom tasks: instructions, an optional Python tool, and an answer between tags."""

import hashlib
from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, TextOutput, Tool

from agentlearn.answers.reply import final_answer_in
from agentlearn.domain.base import Answer
from agentlearn.prompts import load_prompt
from agentlearn.sandbox.python_tool import CodeDeps, code_tool
from agentlearn.types.trajectory import PromptRef


async def tagged_answer(text: str) -> Answer:
    """Return the final text and the answer found in it."""
    return Answer(text=text, answer=final_answer_in(text))


def custom_agent(name: str, words: Sequence[str], *, runs_code: bool) -> Agent[Any, Answer]:
    """Return the agent, without a model and without lessons."""
    tools: list[Tool[CodeDeps]] = [code_tool()] if runs_code else []
    return Agent(
        deps_type=CodeDeps if runs_code else type(None),
        output_type=TextOutput(tagged_answer),
        instructions=list(words),
        name=name,
        tools=tools,
    )


def instructions_with_refs(
    instructions: str | None, form: str, *, runs_code: bool, only: bool = False
) -> list[tuple[PromptRef, str]]:
    """Return the agent's instructions in order, each with its PromptRef. only: those of the user alone."""
    words: list[tuple[PromptRef, str]] = []
    if not only:
        solve = load_prompt("own_solve", 1)
        words.append((solve.ref, solve.fill({"form": form})))
        if runs_code:
            python = load_prompt("own_python", 1)
            words.append((python.ref, python.text))
    if instructions is not None:
        sha256 = hashlib.sha256(instructions.encode()).hexdigest()
        words.append((PromptRef(name="own:instructions", version=1, sha256=sha256), instructions))
    return words
