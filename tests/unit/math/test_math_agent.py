"""The domain as the rollouts meet it: the agent, its tool, and what importing costs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.domain.base import Answer, Domain, RolloutContext, load_domain
from agentlearn.errors import ToolError
from agentlearn.sandbox import CodeResult, CodeStatus, SandboxReport, Session
from agentlearn.sandbox.python_tool import FAILED, CodeDeps, printed_value, render_result
from agentlearn.types.task import Task
from agentlearn_math import boxed_answer, domain, math_agent, solve_prompt

CONTEXT = RolloutContext(task=Task.of("math", "What is 6 times 7?", "42"), seed=9)


@dataclass
class Scripted:
    """A session that gives prepared results and keeps the programs."""

    results: list[CodeResult]
    programs: list[str] = field(default_factory=list[str])

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        self.programs.append(code)
        return self.results[len(self.programs) - 1]


@dataclass
class ScriptedSandbox:
    session: Scripted
    seeds: list[int] = field(default_factory=list[int])
    closed: int = 0

    @property
    def report(self) -> SandboxReport:
        return SandboxReport(name="scripted")

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[Session]:
        self.seeds.append(seed)
        yield self.session
        self.closed += 1


def tool_results(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for message in requests for part in message.parts if isinstance(part, ToolReturnPart)]


def compute_and_answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Runs a program until one works, then puts its output in a box."""
    results = tool_results(messages)
    if results and printed_value(str(results[-1].content)) is not None:
        return ModelResponse(parts=[TextPart(f"Hence \\boxed{{{printed_value(str(results[-1].content))}}}.")])
    return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {"code": "print(6 * 7)"})])


def rollout(*results: CodeResult) -> tuple[Answer, list[ToolReturnPart], ScriptedSandbox]:
    sandbox = ScriptedSandbox(Scripted(list(results)))

    async def run() -> tuple[Answer, list[ToolReturnPart]]:
        bound = domain.with_sandbox(sandbox)
        async with bound.open(CONTEXT) as deps:
            assert isinstance(deps, CodeDeps)
            ran = await bound.agent().run("What is 6 times 7?", model=FunctionModel(compute_and_answer), deps=deps)
        return ran.output, tool_results(ran.all_messages())

    answer, parts = asyncio.run(run())
    return answer, parts, sandbox


def test_the_domain_is_installed_and_whole() -> None:
    assert load_domain("math") is domain
    assert isinstance(domain, Domain)
    assert domain.runs_code
    assert (domain.name, domain.threshold, domain.runs_code) == ("math", 1.0, True)


def test_a_rollout_runs_programs_and_ends_in_a_typed_answer() -> None:
    answer, parts, sandbox = rollout(CodeResult(status="ok", stdout="42\n"))
    assert answer == Answer(text="Hence \\boxed{42}.", answer="42")
    assert (sandbox.session.programs, sandbox.seeds, sandbox.closed) == (["print(6 * 7)"], [9], 1)
    assert [(part.content, part.metadata) for part in parts] == [("42", {"status": "ok"})]


def test_a_failed_program_is_told_to_the_model_and_marked_for_the_record() -> None:
    failed = CodeResult(status="error", error="ZeroDivisionError: division by zero")
    answer, parts, _ = rollout(failed, CodeResult(status="ok", stdout="42\n"))
    assert answer.answer == "42"
    assert [part.metadata for part in parts] == [{"status": "error"}, {"status": "ok"}]
    assert str(parts[0].content).endswith("ZeroDivisionError: division by zero")


def test_the_tool_is_described_and_called_one_at_a_time() -> None:
    seen: list[AgentInfo] = []

    def look(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("nothing to do")])

    deps = CodeDeps(Scripted([]))
    answer = asyncio.run(math_agent().run("?", model=FunctionModel(look), deps=deps)).output
    assert answer == Answer(text="nothing to do", answer=None)
    (tool,) = seen[0].function_tools
    assert (tool.name, tool.sequential) == ("run_python", True)
    assert tool.description == "Run a Python program and return what it printed."
    assert list(tool.parameters_json_schema["properties"]) == ["code"]
    assert seen[0].instructions == solve_prompt().text


def test_the_answer_is_the_last_box() -> None:
    for text, answer in {"so \\boxed{5}": "5", "no box": None, "\\boxed{}": None, "\\boxed{1} \\boxed{2}": "2"}.items():
        assert asyncio.run(boxed_answer(text)) == Answer(text=text, answer=answer)


def test_without_a_sandbox_nothing_opens() -> None:
    async def enter() -> None:
        async with domain.open(CONTEXT):
            pass

    with pytest.raises(
        ToolError, match=r"^the math domain has no sandbox to run code in; bind one with `domain\.with_sandbox"
    ):
        asyncio.run(enter())


def test_every_failure_is_told_apart_from_output() -> None:
    statuses: tuple[CodeStatus, ...] = ("error", "timeout", "oom", "killed", "state_lost")
    for status in statuses:
        text = render_result(CodeResult(status=status, error="why", stdout="41\n"))
        assert text.startswith(FAILED)
        assert text.splitlines()[1:] == ["why", "41"]
        assert printed_value(text) is None
        assert "variables" in text
        assert status == "error" or "lost" in text
    assert render_result(CodeResult(status="ok", stdout="1\n2\n")) == "1\n2"
    assert printed_value("1\n2") == "2"
    assert printed_value(render_result(CodeResult(status="ok"))) is None


def test_importing_and_plain_numbers_need_nothing_heavy_and_the_domain_never_meets_the_simulated_world() -> None:
    program = (
        "import sys\n"
        "import agentlearn_math\n"
        "heavy = {'pydantic_ai', 'sympy', 'mpmath', 'math_verify', 'agentlearn_demo.math.families'}\n"
        "from agentlearn_math.verify import judge_exactly\n"
        "assert judge_exactly('1,204', '1204').status == 'correct'\n"
        "assert judge_exactly('\\\\frac{1}{2}', '3').status == 'incorrect'\n"
        "assert judge_exactly('B', 'C').status == 'incorrect'\n"
        "assert judge_exactly('x', '(1,2)').status == 'undecided'\n"
        "assert judge_exactly('\\\\sqrt{2}', '5') is None\n"
        "assert not heavy & set(sys.modules)\n"
        "agentlearn_math.domain.tasks('train', seed=0, limit=3)\n"
        "agentlearn_math.domain.agent()\n"
        "bad = ('agentlearn_demo.sim', 'agentlearn_demo.math.novice')\n"
        "assert not [name for name in sys.modules if name.startswith(bad)]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
