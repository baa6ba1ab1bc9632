"""Own tasks as the rollouts meet them: the file, the agent, the tool, and what importing costs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.domain.base import Answer, Domain, RolloutContext
from agentlearn.domain.custom import CustomTasks, custom_tasks, name_for
from agentlearn.domain.custom.judge import judge_rubric
from agentlearn.errors import ConfigError, DataError, ToolError
from agentlearn.prompts import load_prompt
from agentlearn.sandbox import CodeResult, SandboxReport, Session
from agentlearn.types.trajectory import Verdict
from tests.support.cases import cases
from tests.unit.domain.rollouts import own_task, rollout

CONTEXT = RolloutContext(task=own_task(), seed=9)


@dataclass
class Printing:
    """A sandbox whose programs all print 12."""

    programs: list[str] = field(default_factory=list[str])
    seeds: list[int] = field(default_factory=list[int])

    @property
    def report(self) -> SandboxReport:
        return SandboxReport(name="printing")

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[Session]:
        self.seeds.append(seed)
        yield self

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        self.programs.append(code)
        return CodeResult(status="ok", stdout="12\n")


def answered(domain: Domain, script: FunctionModel) -> Answer:
    async def run() -> Answer:
        async with domain.open(CONTEXT) as deps:
            return (await domain.agent().run(domain.question(CONTEXT.task), model=script, deps=deps)).output

    return asyncio.run(run())


def test_it_is_a_whole_domain() -> None:
    domain = custom_tasks("prices", "number")
    assert isinstance(domain, Domain)
    assert (domain.name, domain.description, domain.threshold) == ("prices", "own tasks, judged by number", 1.0)
    assert not domain.runs_code
    assert domain.verify(own_task(), rollout(own_task(), "12 zorks")) == Verdict(status="correct", reward=1.0)
    assert domain.answer_key("12 zorks") == "12"


def test_only_a_judged_domain_asks_for_a_judge() -> None:
    assert not custom_tasks("prices", "number").uses_judge
    judged = custom_tasks("prices", "judge")
    assert judged.uses_judge
    assert judge_rubric().ref in judged.prompts()
    bound = judged.with_judge(lambda name: FunctionModel(lambda messages, info: ModelResponse(parts=[])))
    assert bound is not judged
    assert isinstance(bound, CustomTasks)


def test_an_answer_that_the_reward_cannot_judge_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("question,answer\nHow many?,12\nHow much?,many\n")
    with pytest.raises(DataError) as caught:
        custom_tasks("prices", "number").read(path)
    assert str(caught.value) == (
        "prices.csv line 3 has the answer 'many', which holds no single number; write one, or choose another --reward"
    )


def test_only_a_function_can_do_without_expected_answers(tmp_path: Path) -> None:
    path = tmp_path / "prices.jsonl"
    path.write_text('{"problem": "Write a haiku."}\n')
    with pytest.raises(DataError, match="line 1 has no answer"):
        custom_tasks("prices", "judge").read(path)
    (task,) = custom_tasks("prices", "tests.unit.domain.rollouts:rollout").read(path)
    assert task.answer is None


def test_the_agent_is_told_the_form_the_tool_and_the_users_own_words() -> None:
    seen: list[AgentInfo] = []

    def look(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("It is <answer>12 zorks</answer>.")])

    domain = custom_tasks("prices", "number", instructions="A zork is 7 plims.")
    assert answered(domain, FunctionModel(look)) == Answer(text="It is <answer>12 zorks</answer>.", answer="12 zorks")
    words = seen[0].instructions or ""
    assert words.startswith("You solve one task at a time.")
    assert "The answer is a single number in digits" in words
    assert words.endswith("A zork is 7 plims.")
    assert seen[0].function_tools == []
    assert [ref.name for ref in domain.prompts()] == ["agentlearn.prompts:own_solve", "own:instructions"]
    other = custom_tasks("prices", "number", instructions="A zork is 8 plims.")
    assert other.prompts()[0] == domain.prompts()[0]
    assert other.prompts()[1] != domain.prompts()[1]
    assert domain.agent() is domain.agent()


def test_the_agent_can_have_the_users_own_words_alone() -> None:
    domain = custom_tasks(
        "prices", "number", tools="python", instructions="A zork is 7 plims.", only_instructions=True
    ).with_sandbox(Printing())
    seen: list[AgentInfo] = []

    def look(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("12 zorks")])

    assert answered(domain, FunctionModel(look)).answer == "12 zorks"
    assert seen[0].instructions == "A zork is 7 plims."
    assert [tool.name for tool in seen[0].function_tools] == ["run_python"]
    assert [ref.name for ref in domain.prompts()] == ["own:instructions"]
    for nothing in (None, " "):
        with pytest.raises(ConfigError, match=r"^only_instructions is set, but there are no instructions; give the"):
            custom_tasks("prices", "number", instructions=nothing, only_instructions=True)


def test_with_tools_python_programs_run_in_the_sandbox() -> None:
    def compute(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            (tool,) = info.function_tools
            assert (tool.name, tool.sequential) == ("run_python", True)
            return ModelResponse(parts=[ToolCallPart("run_python", {"code": "print(12)"})])
        return ModelResponse(parts=[TextPart("Answer: 12")])

    sandbox, domain = Printing(), custom_tasks("prices", "number", tools="python")
    assert domain.runs_code
    assert domain.runs_code
    assert answered(domain.with_sandbox(sandbox), FunctionModel(compute)).answer == "12"
    assert (sandbox.programs, sandbox.seeds) == (["print(12)"], [9])
    assert load_prompt("own_python", 1).ref in domain.prompts()
    with pytest.raises(ToolError, match=r"^'prices' has no sandbox to run code in; bind one with"):
        answered(domain, FunctionModel(compute))


@pytest.mark.parametrize("name", ["", "Prices", "my prices", "none", "../x", "x" * 65])
def test_a_name_must_name_a_library_too(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a name of tasks and their library"):
        custom_tasks(name, "exact")


def test_a_file_gives_a_name_that_is_not_taken(subtests: pytest.Subtests) -> None:
    for source, name in cases(__file__, "a_file_gives_a_name_that_is_not_taken"):
        with subtests.test(repr((source, name))):
            assert name_for(source) == name
            assert custom_tasks(name, "exact").name == name


def test_importing_is_cheap() -> None:
    program = (
        "import sys\n"
        "from agentlearn.domain.custom import custom_tasks\n"
        "custom_tasks('prices', 'judge', tools='python')\n"
        "assert not {'pydantic_ai', 'sympy', 'numpy', 'duckdb'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
