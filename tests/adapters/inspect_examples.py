"""Tasks of inspect_ai for the tests, each with another solver or scorer."""

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, choice, includes, match, mean, model_graded_qa, scorer
from inspect_ai.solver import Generate, TaskState, generate, multiple_choice, prompt_template, system_message, use_tools
from inspect_ai.solver import solver as solver_
from inspect_ai.tool import Tool
from inspect_ai.tool import tool as tool_

SUMS = [
    Sample(id=f"s{n}", input=f"What is {n} + {n}?", target=str(2 * n), metadata={"category": "sum"}) for n in range(10)
]


@tool_
def add() -> Tool:
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: First number.
            y: Second number.
        """
        return x + y

    return execute


@scorer(metrics=[accuracy()])
def raising() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        raise RuntimeError("the scorer broke")

    return score


@scorer(metrics=[mean()])
def scoring(value: object) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=value, explanation="because")  # type: ignore[arg-type]

    return score


@solver_
def breaking():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        raise RuntimeError("the solver broke")

    return solve


@task
def sums() -> Task:
    return Task(dataset=MemoryDataset(SUMS), solver=[system_message("Be brief."), generate()], scorer=match())


@task
def with_tools() -> Task:
    return Task(dataset=SUMS, solver=[use_tools(add()), generate()], scorer=includes())


@task
def agentic() -> Task:
    return Task(dataset=SUMS, solver=react(tools=[add()]), scorer=includes(), message_limit=12)


@task
def choices() -> Task:
    questions = [Sample(id=1, input="Which is red?", choices=["sky", "blood", "leaf"], target="B")]
    return Task(dataset=questions * 2, solver=multiple_choice(), scorer=choice())


@task
def templated() -> Task:
    return Task(dataset=SUMS, solver=[prompt_template("Answer: {prompt}"), generate()], scorer=[match(), includes()])


@task
def graded() -> Task:
    return Task(dataset=SUMS, scorer=model_graded_qa())


@task
def broken_scorer() -> Task:
    return Task(dataset=SUMS, scorer=raising())


@task
def broken_solver() -> Task:
    return Task(dataset=SUMS, solver=breaking(), scorer=match())


@task
def sandboxed() -> Task:
    return Task(dataset=SUMS, scorer=match(), sandbox="docker")
