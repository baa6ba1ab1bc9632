"""The simulated solver's turns: a program, the answer it printed, and honesty where there is none."""

from random import Random
from typing import Any

import pytest

from agentlearn.answers.reply import boxed
from agentlearn.domain.base import load_domain
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.python_tool import render_result
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.family import Family, combinations_of, printed
from agentlearn_demo.math.novice import skills
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.skills import Conversation, FinalMessage, FollowedLessons, Situation, ToolExchange, ToolUse
from agentlearn_math.answers import answer_key
from agentlearn_math.verify import judge_exactly

BY_NAME = {trap.name: trap for trap in TRAPS}
ERROR = render_result(CodeResult(status="error", error="ZeroDivisionError: division by zero", stdout="17\n"))

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def conversation(family: Family[Any], *turns: ToolExchange, tools: tuple[str, ...] = ("run_python",)) -> Conversation:
    question = family.ask(family.generate(Random(7)), Random(7))
    return Conversation(instructions="", question=question, tools=tools, turns=turns)


def situation(talk: Conversation) -> Situation:
    found = skills.recognise(talk)
    assert found is not None
    return found


def program(use: object) -> str:
    assert isinstance(use, ToolUse)
    assert use.tool == "run_python"
    assert use.text
    return str(use.arguments["code"])


def said(act: object) -> str:
    assert isinstance(act, FinalMessage)
    return act.text


@every_family
def test_rightness_depends_on_the_flaws_alone(family: Family[Any]) -> None:
    talk = conversation(family)
    first = situation(talk)
    assert (first.family, first.traps) == (family.name, family.traps)
    gold = family.gold(family.recognise(talk.question))
    for seed, flaws in enumerate([frozenset[str](), *combinations_of(family.traps)]):
        code = program(first.act(flaws, FollowedLessons(), Random(seed)))
        result = render_result(CodeResult(status="ok", stdout=printed(code) + "\n"))
        last = situation(conversation(family, ToolExchange("run_python", {"code": code}, result)))
        assert last.traps == ()
        answer = boxed(said(last.act(frozenset(), FollowedLessons(), Random(seed))))
        verdict = judge_exactly(answer, gold)
        assert verdict is not None
        assert verdict.status == ("incorrect" if flaws else "correct")


@every_family
def test_every_decision_is_stated_in_the_words_of_its_trap(family: Family[Any]) -> None:
    first = situation(conversation(family))
    for seed, flaws in enumerate([frozenset[str](), *combinations_of(family.traps)]):
        code = program(first.act(flaws, FollowedLessons(), Random(seed)))
        for name, trap in BY_NAME.items():
            assert any(f"# {phrase}\n" in code for phrase in trap.careless) == (name in flaws)
            assert any(f"# {phrase}\n" in code for phrase in trap.careful) == (name in set(family.traps) - flaws)


@every_family
def test_a_heeded_lesson_is_named_where_it_was_heeded(family: Family[Any]) -> None:
    followed = FollowedLessons({trap: f"G{number}" for number, trap in enumerate(family.traps)})
    fallen = family.traps[0]
    code = program(situation(conversation(family)).act(frozenset({fallen}), followed, Random(2)))
    for number, trap in enumerate(family.traps[1:], start=1):
        assert any(f"# {phrase} (G{number})\n" in code for phrase in BY_NAME[trap].careful)
    assert "(G0)" not in code


def test_chance_varies_the_words_and_never_the_result() -> None:
    for family in FAMILIES:
        first = situation(conversation(family))
        programs = {program(first.act(frozenset(), FollowedLessons(), Random(seed))) for seed in range(12)}
        assert len(programs) > 1
        assert len({printed(code) for code in programs}) == 1


def test_the_answer_is_what_the_tool_printed() -> None:
    use = ToolExchange("run_python", {"code": "print(1)"}, "checking\n  41 \n")
    answers = {
        said(situation(conversation(FAMILIES[0], use)).act(frozenset(), FollowedLessons(), Random(s)))
        for s in range(20)
    }
    assert len(answers) > 2
    assert {boxed(answer) for answer in answers} == {"41"}


def test_a_failed_run_is_tried_once_more_with_the_same_program() -> None:
    use = ToolExchange("run_python", {"code": "print(1 / 0)"}, ERROR)
    again = situation(conversation(FAMILIES[0], use))
    assert again.traps == ()
    assert program(again.act(frozenset(), FollowedLessons(), Random(0))) == "print(1 / 0)"


def test_after_two_failures_it_says_so_and_leaves_the_box_out() -> None:
    use = ToolExchange("run_python", {"code": "print(1 / 0)"}, ERROR)
    text = said(situation(conversation(FAMILIES[0], use, use)).act(frozenset(), FollowedLessons(), Random(0)))
    assert "could not compute" in text
    assert boxed(text) is None


def test_a_second_run_that_works_gives_the_answer() -> None:
    turns = (ToolExchange("run_python", {"code": "x"}, ERROR), ToolExchange("run_python", {"code": "x"}, "12"))
    text = said(situation(conversation(FAMILIES[0], *turns)).act(frozenset(), FollowedLessons(), Random(0)))
    assert boxed(text) == "12"


@every_family
def test_without_a_tool_the_decisions_are_said_and_decide_the_answer(family: Family[Any]) -> None:
    first = situation(conversation(family, tools=("final_result",)))
    assert (first.family, first.traps) == (family.name, family.traps)
    gold = family.gold(family.recognise(conversation(family).question))
    for seed, flaws in enumerate([frozenset[str](), *combinations_of(family.traps)]):
        text = said(first.act(flaws, FollowedLessons(), Random(seed))).casefold()
        verdict = judge_exactly(boxed(text), gold)
        assert verdict is not None
        assert verdict.status == ("incorrect" if flaws else "correct")
        for name, trap in BY_NAME.items():
            assert any(phrase.casefold() in text for phrase in trap.careless) == (name in flaws)
            assert any(phrase.casefold() in text for phrase in trap.careful) == (name in set(family.traps) - flaws)


def test_numbers_too_large_to_be_python_integers_are_not_recognised() -> None:
    question = f"Find the number of integers from 1 to {'9' * 5_000}, inclusive, that are divisible by 3 or by 5."
    assert skills.recognise(Conversation(instructions="", question=question, tools=("run_python",))) is None


def test_numbers_that_are_too_large_for_its_head_need_a_tool() -> None:
    question = "Find the number of integers from 1 to 100000000000000000, inclusive, that are divisible by 3 or by 5."
    first = situation(Conversation(instructions="", question=question, tools=("final_result",)))
    assert first.traps == ()
    assert "tool" in said(first.act(frozenset(), FollowedLessons(), Random(0)))


def test_an_unknown_problem_is_not_recognised() -> None:
    talk = Conversation(instructions="", question="What is the capital of France?", tools=("run_python",))
    assert skills.recognise(talk) is None


def test_every_generated_task_is_recognised_as_what_it_is() -> None:
    domain = load_domain("math")
    for split in ("train", "validation", "test"):
        for task in domain.tasks(split, seed=4):
            talk = Conversation(instructions="", question=domain.question(task), tools=("run_python",))
            first = situation(talk)
            assert first.family == task.family
            code = program(first.act(frozenset(), FollowedLessons(), Random(0)))
            assert answer_key(printed(code)) == task.answer


def test_success_without_lessons_leaves_room_and_all_lessons_nearly_close_it() -> None:
    residual = 0.04
    without, with_all = [], []
    for family in FAMILIES:
        chance, followed = 1.0, 1.0
        for trap in family.traps:
            chance *= 1 - BY_NAME[trap].base
            followed *= 1 - residual
        without.append(chance)
        with_all.append(followed)
    assert 0.35 <= sum(without) / len(without) <= 0.5
    assert min(with_all) >= 0.85
