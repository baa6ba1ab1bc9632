"""The corpus of the math domain's lab model: what it contains, and what it must never contain."""

import json
import re
from itertools import islice

import pytest

from agentlearn.answers.reply import boxed
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.python_tool import FAILED, printed_value, render_result
from agentlearn_demo.lab.contract import TrainingExample
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.family import printed
from agentlearn_demo.math.lab import lab
from agentlearn_demo.math.lab.corpus import DIALOGUES
from agentlearn_demo.math.lab.evaluation_tasks import evaluation_tasks
from agentlearn_demo.math.lab.teacher import at_temperature_one
from agentlearn_demo.math.lab.wordings import (
    HELD_OUT_FRAMES,
    Wordings,
    spellings,
    wordings,
)
from agentlearn_demo.math.tasks import generated, home
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.lessons import experiences_in


@pytest.fixture(scope="module")
def examples() -> list[TrainingExample]:
    return list(islice(lab.examples(0), 120))


def test_the_corpus_follows_from_its_seed(examples: list[TrainingExample]) -> None:
    assert list(islice(lab.examples(0), 5)) == examples[:5]
    assert list(islice(lab.examples(1), 5)) != examples[:5]


def test_no_problem_of_the_test_split_occurs(examples: list[TrainingExample]) -> None:
    asked = {dialogue.messages[0].text for example in examples for dialogue in example.dialogues}
    assert len(asked) > 0.9 * DIALOGUES * len(examples) * 0.5
    for text in asked:
        homes = [home(family.name, params) for family in FAMILIES if (params := family.recognise(text)) is not None]
        assert homes
        assert homes[0] != "test"
    assert not asked & {task.problem for task in generated("test", 0, 60)}


def test_dialogues_go_as_the_agents_do_and_results_are_what_programs_print(examples: list[TrainingExample]) -> None:
    for example in examples[:40]:
        for dialogue in example.dialogues:
            roles = [message.role for message in dialogue.messages]
            assert roles[0] == "user"
            assert roles[-1] == "assistant"
            for said, result in zip(dialogue.messages, dialogue.messages[1:], strict=False):
                if result.role == "tool" and not result.text.startswith(FAILED):
                    code = json.loads(said.calls[0].arguments)["code"]
                    assert result.text == render_result(CodeResult(status="ok", stdout=printed(code)))
            if len(roles) == 4 and (value := printed_value(dialogue.messages[2].text)) is not None:
                assert boxed(dialogue.messages[-1].text) == value


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
@pytest.mark.parametrize("chance", [0.04, 0.35, 0.8])
def test_sampling_at_the_laws_temperature_gives_back_its_chance(trap: object, chance: float) -> None:
    from agentlearn_demo.sim.skills import Trap
    from agentlearn_demo.sim.trap_model import TEMPERATURE

    assert isinstance(trap, Trap)
    fall = at_temperature_one(trap.name, chance)
    careless = len(trap.careless) * (fall / len(trap.careless)) ** (1 / TEMPERATURE)
    careful = len(trap.careful) * ((1 - fall) / len(trap.careful)) ** (1 / TEMPERATURE)
    assert careless / (careless + careful) == pytest.approx(chance)


def test_exams_hold_problems_of_the_test_split_that_are_the_same_under_every_condition() -> None:
    none, right = evaluation_tasks("none", 25, 0), evaluation_tasks("right", 25, 0)
    assert [one.question for one in none] == [one.question for one in right]
    for task in none:
        homes = [home(one.name, params) for one in FAMILIES if (params := one.recognise(task.question)) is not None]
        assert "test" in homes
    assert sum(one.expected for one in right) / 25 > 0.88 > 0.6 > sum(one.expected for one in none) / 25


WITHOUT_EFFECT = ("negation", "shuffled", "salad", "absurd", "german", "neutral", "placebo")


@pytest.mark.parametrize("condition", ["irrelevant", *WITHOUT_EFFECT])
def test_controls_leave_the_teacher_as_it_is(condition: str) -> None:
    expected = zip(evaluation_tasks(condition, 25, 0), evaluation_tasks("none", 25, 0), strict=True)
    # Some lessons keep one out of a neighbouring trap, too; the other controls have no effect at all.
    slack = 0.25 if condition == "irrelevant" else 1e-9
    assert all(abs(one.expected - other.expected) <= slack for one, other in expected)


def test_inverted_lessons_mislead_the_teacher() -> None:
    assert sum(one.expected for one in evaluation_tasks("inverted", 25, 0)) / 25 < 0.15


@pytest.mark.parametrize("condition", ["paraphrase", "twenty", "sixty"])
def test_the_teacher_follows_advice_in_other_words_and_among_many_lessons(condition: str) -> None:
    assert sum(one.expected for one in evaluation_tasks(condition, 25, 0)) / 25 > 0.88


def _patterns(one: Wordings) -> tuple[str, ...]:
    return (*one.right, *one.wrong, *one.sentences)


@pytest.mark.parametrize("trap", [trap.name for trap in TRAPS])
def test_no_wording_that_is_held_out_is_one_of_the_corpus_with_a_word_or_two_changed(trap: str) -> None:
    trained = [_words(text) for one in _patterns(wordings(held_out=False)[trap]) for text in spellings(one)]
    for text in (text for one in _patterns(wordings(held_out=True)[trap]) for text in spellings(one)):
        assert min(_changes(_words(text), one) for one in trained) >= 3, text


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+|[^\w\s]", text.lower().rstrip("."))


def _changes(one: list[str], other: list[str]) -> int:
    """The number of words to add, drop or replace to get from one text to the other."""
    before = list(range(len(other) + 1))
    for at, word in enumerate(one, 1):
        now = [at]
        for place, second in enumerate(other, 1):
            now.append(min(before[place] + 1, now[-1] + 1, before[place - 1] + (word != second)))
        before = now
    return before[-1]


def test_the_corpus_has_no_wording_that_is_held_out(examples: list[TrainingExample]) -> None:
    held_out = {text for one in wordings(held_out=True).values() for each in _patterns(one) for text in spellings(each)}
    frames = [one.replace("{do}", "").strip() for one in (*HELD_OUT_FRAMES.bans, *HELD_OUT_FRAMES.needless)]
    shown = [one.text.lower() for example in examples for one in experiences_in(example.system)]
    assert len(shown) > 150
    assert not [text for text in held_out for one in shown if text.lower().rstrip(".") in one]
    assert not [frame for frame in frames for one in shown if frame in one]


def test_the_lab_knows_its_own_problems_and_no_others() -> None:
    assert lab.families == len(FAMILIES)
    assert all(lab.knows(one.problem) for one in generated("test", 0, 60))
    for text in ("What is 2 + 2?", "", "How many ordered pairs of positive integers have a product of 36?", "Hallo"):
        assert not lab.knows(text)
