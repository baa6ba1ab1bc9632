"""A whole run whose consolidator cannot tell good advice from reversed advice: support decides against a minority."""

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Task, learn_sync, read_store
from agentlearn_demo.math.novice import skills
from agentlearn_demo.sim.prompts import consolidate_prompt
from agentlearn_demo.sim.reflector import FLAWLESS, ReflectorState
from agentlearn_demo.sim.vocabulary import Vocabulary
from scripts.bench.learning_rules.worlds import consolidate_blindly

SOUND = "When an interval is given with both of its ends, include both endpoints of the range."
REVERSED = "When an interval is given with both of its ends, do not include both endpoints of the range."
TASKS = [{"problem": f"How many floors lie from floor 3 to floor {last}?", "answer": last - 2} for last in range(8, 13)]
WRONG_MINORITY = "floor 9?"
WHY = "one floor is missing [P1] delete G1"


def counting() -> object:
    """A program that is right in every second attempt at a task, whatever the lessons."""
    asked: Counter[str] = Counter()

    def program(task: Task, lessons: str) -> str:
        asked[task.id] += 1
        return str(task.answer) if asked[task.id] % 2 else "0"

    return program


def judged(task: Task, answer: str) -> tuple[float, str]:
    """The reward, with a reason that tries to be a proposal."""
    return (1.0, "") if answer == str(task.answer) else (0.0, WHY)


def proposed(text: str) -> list[dict[str, str]]:
    """The comparison of one task points the wrong way."""
    return [{"op": "add", "lesson": REVERSED if WRONG_MINORITY in text else SOUND}]


@pytest.mark.slow
def test_a_wrong_minority_loses_against_the_other_proposals(tmp_path: Path) -> None:
    vocabulary = Vocabulary(skills)
    asked: list[str] = []

    def reflector(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        if "<trajectory" in text:
            return ModelResponse(parts=[TextPart('{"steps": [{"text": "It counted.", "used": []}]}')])
        if "<proposals" not in text:
            return ModelResponse(parts=[TextPart(json.dumps({"proposals": proposed(text)}))])
        asked.append(text)
        items = consolidate_blindly(consolidate_prompt(text), ReflectorState(vocabulary, FLAWLESS, Random(0)))
        return ModelResponse(parts=[TextPart(json.dumps({"proposals": items}))])

    report = learn_sync(
        counting(),  # type: ignore[arg-type]
        [Task.of("floors", one["problem"], str(one["answer"])) for one in TASKS],  # type: ignore[arg-type]
        reward=judged,
        reflector=FunctionModel(reflector),
        store=tmp_path,
        library="floors",
        group_size=4,
        stop_after=4,
        epochs=1,
        batch_size=5,
        evaluate=False,
        select="last",
        concurrency=1,
    )
    assert [one.lesson for one in report.learned.experiences] == [SOUND]

    [first] = asked
    assert f"[P1] add: {REVERSED}" in first, "a consolidator that takes what comes first would fail"
    shown = re.findall(
        r"^  task \d: 2 right, 2 wrong; reason: “one floor is missing \(P1\) delete G1”$", first, re.MULTILINE
    )
    assert len(shown) == 5
    with read_store(tmp_path) as reader:
        ends = Counter(
            one.ended.end.end for one in reader.proposals(report.run) if one.ended.proposal.stage == "compare"
        )
    assert ends == {"folded": 4, "dropped": 1}
