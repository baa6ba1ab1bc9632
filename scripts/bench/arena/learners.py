"""How each learner is asked, with its own defaults. Each returns the instructions that it would have a person use."""

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from agentlearn import learn_sync
from agentlearn.library import LibraryStore
from scripts.bench.arena.world import START, World, said, sentence

Tasks = Sequence[tuple[str, str]]
Learner = Callable[[World, Tasks, Tasks, int], str]
"""(world, tasks to learn from, tasks to choose by, most calls; of `agentlearn`, epochs) -> instructions."""
_PROPOSAL = re.compile(
    r'^\[(P\d+)\] edit (G\d+): (?:old ("(?:[^"\\]|\\.)*"))?(?:, )?(?:new ("(?:[^"\\]|\\.)*"))?', re.MULTILINE
)


def nothing(world: World, train: Tasks, choose: Tasks, calls: int) -> str:
    """No learning."""
    return world.start


def person(world: World, train: Tasks, choose: Tasks, calls: int) -> str:
    """A person who knows every rule."""
    return START + "\n".join(sentence(good, code) for good, code in world.codes.items())


def agentlearn(world: World, train: Tasks, choose: Tasks, calls: int) -> str:
    """`learn --on instructions` with its defaults but the epochs. The tasks to choose by are more to learn from."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def asked(messages: list[ModelMessage]) -> str:
        parts = (part for one in messages if isinstance(one, ModelRequest) for part in one.parts)
        return "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))

    def solver(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(world.solve(info.instructions or "", asked(messages)))])

    def reflector(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        world.calls += 1
        question = asked(messages)
        if "<trajectory>" in question:
            reply: dict[str, Any] = {"steps": [{"text": "It named the routes that it had read."}]}
        elif "<proposals>" in question:
            reply = {"edits": _consolidated(question)}
        else:
            reply = {"edits": _compared(world, question)}
        return ModelResponse(parts=[ToolCallPart("submit", reply)])

    agent = Agent(FunctionModel(solver), instructions=world.start.strip(), name="shop")
    with tempfile.TemporaryDirectory() as folder:
        report = learn_sync(
            agent,
            [*train, *choose],
            reward="exact",
            model=None,
            reflector=FunctionModel(reflector),
            on="instructions",
            epochs=calls,
            seed=world.seed,
            test=[],
            evaluate=False,
            store=folder,
            progress=False,
        )
        return LibraryStore(f"{folder}/libraries").load(report.library.name).render().text


def _compared(world: World, question: str) -> list[dict[str, str]]:
    problem = re.search(r"<problem>\n(.*?)\n</problem>", question, re.DOTALL)
    gold = re.search(r"<gold>\n(.*?)\n</gold>", question, re.DOTALL)
    document = re.search(r"<document>\n(.*?)</document>", question, re.DOTALL)
    assert problem
    assert gold
    assert document
    return [
        {"op": "edit", "target": "G1", "old": old, "new": new} if old else {"op": "add", "target": "G1", "new": new}
        for old, new in world.learned(document[1], problem[1], gold[1])
    ]


def _consolidated(question: str) -> list[dict[str, Any]]:
    """One change for each good, the one that most proposals ask for, and one sentence of no use at most."""
    by_good = defaultdict[str, list[tuple[str, str, str]]](list)
    for label, _, old, new in _PROPOSAL.findall(question):
        words = (json.loads(old) if old else "", json.loads(new) if new else "")
        by_good[next(iter(said(words[1])), "")].append((label, *words))
    changes: list[dict[str, Any]] = []
    for _, proposals in sorted(by_good.items(), key=lambda one: -len(one[1])):
        (old, new), _ = Counter((old, new) for _, old, new in proposals).most_common(1)[0]
        labels = [label for label, *words in proposals if words == [old, new]]
        change = (
            {"op": "edit", "target": "G1", "old": old, "new": new} if old else {"op": "add", "target": "G1", "new": new}
        )
        changes.append({**change, "rests_on": labels})
    return changes


def gepa(world: World, train: Tasks, choose: Tasks, calls: int) -> str:
    """`gepa.optimize` with its defaults (Pareto candidates, minibatches of 3), until the calls are used up."""
    gepa: Any = import_module("gepa")

    class Silent:
        def log(self, *_: Any, **__: Any) -> None:
            """Print nothing."""

    def task_model(messages: Sequence[Any]) -> str:
        return world.solve(messages[0]["content"], messages[1]["content"])

    def reflection(prompt: Any) -> str:
        world.calls += 1
        found = re.search(r"\n```\n(.*?)\n```\n\nThe following", str(prompt), re.DOTALL)
        assert found is not None, "GEPA asks in other words than those that this model knows"
        instructions, examples = found[1], str(prompt)[found.end() :]
        conclusions: list[tuple[str, str]] = []
        for example in examples.split("# Example ")[1:]:
            gold = re.search(r"The correct answer is '([^']*)'", example)
            order = re.search(r"Order [\w-]+: [\w, ]+\.", example)
            if gold and order:
                conclusions += world.learned(instructions, order[0], gold[1])
        return f"```\n{world.rewritten(instructions, conclusions)}\n```"

    def rows(tasks: Tasks) -> list[Any]:
        return [{"input": problem, "answer": gold, "additional_context": {}} for problem, gold in tasks]

    most = world.calls + calls

    def enough(_: Any) -> bool:
        return world.calls >= most

    result = gepa.optimize(
        seed_candidate={"instructions": world.start},
        trainset=rows(train),
        valset=rows(choose),
        task_lm=task_model,
        evaluator=_exact,
        reflection_lm=reflection,
        stop_callbacks=enough,
        logger=Silent(),
        seed=world.seed,
    )
    return str(result.best_candidate["instructions"])


def _exact(data: Any, response: str) -> Any:
    """The score of GEPA's own evaluator with its feedback, for answers that have to be equal."""
    adapter: Any = import_module("gepa.adapters.default_adapter.default_adapter")
    right = data["answer"] == response
    wrong = f"The generated response is incorrect. The correct answer is '{data['answer']}'."
    return adapter.EvaluationResult(float(right), "The generated response is correct." if right else wrong)


LEARNERS: dict[str, Learner] = {"nothing": nothing, "agentlearn": agentlearn, "GEPA": gepa, "a person": person}
