"""The math demo: exact answers, wordings that can be read back, traps that show, a solver that is right by its flaws
alone, and tasks without a problem in two splits."""

import re
from collections import Counter
from itertools import product
from random import Random

import pytest

from agentlearn.answers.reply import boxed
from agentlearn.domain.base import load_domain
from agentlearn.sandbox import CodeResult
from agentlearn.sandbox.python_tool import render_result
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_demo.math.novice import TRAPS, skills
from agentlearn_demo.math.problem import Problem, combinations_of, printed
from agentlearn_demo.sim.skills import (
    Conversation,
    FinalMessage,
    FollowedLessons,
    LessonReader,
    Situation,
    ToolExchange,
    ToolUse,
)
from agentlearn_math import domain
from agentlearn_math.verify import answer_key
from tests.support.cases import cases

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
BY_NAME = {trap.name: trap for trap in TRAPS}
PEOPLE_SAY = cases(__file__, "people_say")

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def problems(family: type[Problem], number: int = 30) -> list[Problem]:
    found = [family.generate(Random(seed)) for seed in range(number)]
    assert None not in found
    return [one for one in found if one is not None]


@every_family
def test_only_the_flawless_program_prints_the_answer_and_each_decision_is_code_with_a_comment(
    family: type[Problem],
) -> None:
    drawn = problems(family)
    assert drawn == problems(family)
    assert len(set(drawn)) > 15
    for problem in drawn:
        gold = problem.gold()
        assert printed(problem.program()) == gold
        for flaws in combinations_of(family.traps):
            assert answer_key(printed(problem.program(flaws))) != answer_key(gold), (problem, flaws)
    notes = {trap: f"note on {trap}" for trap in family.traps}
    careful = drawn[0].program(notes=notes)
    imported = [line.split()[1] for line in careful.splitlines() if line.startswith(("from ", "import "))]
    assert set(imported) <= {"math", "itertools", "fractions"}
    for trap in family.traps:
        assert f"# note on {trap}\n" in careful
        flawed = drawn[0].program(frozenset({trap}), notes)
        lines = zip(careful.splitlines(), flawed.splitlines(), strict=True)
        changed = [line for pair in lines for line in pair if pair[0] != pair[1]]
        assert changed
        assert not any("#" in line for line in changed)
    assert family.generate(Random(0), lambda _: False) is None


def test_every_trap_lies_in_a_family_to_learn_from() -> None:
    assert {trap for family in LEARNING for trap in family.traps} == set(BY_NAME) == set(PEOPLE_SAY)
    assert len(TRAPS) == 11
    assert not {family.name for family in LEARNING} & {family.name for family in UNSEEN}
    without = [1.0] * len(FAMILIES)
    for at, family in enumerate(FAMILIES):
        for trap in family.traps:
            without[at] *= 1 - BY_NAME[trap].base
    assert 0.35 <= sum(without) / len(without) <= 0.5, "room to learn"


# The words of traps: general, told apart by their cues, and understood as they are meant.


def addresses(lesson: str, trap: object) -> bool:
    """The cue rule by itself: every group has a stem at the start of a word."""
    cues: tuple[tuple[str, ...], ...] = getattr(trap, "cues")  # noqa: B009
    return all(any(re.search(rf"\b{re.escape(stem)}", lesson.lower()) for stem in group) for group in cues)


def test_each_advice_is_read_as_meant_and_speaks_of_its_own_trap_only() -> None:
    reader = LessonReader(skills)
    for trap in TRAPS:
        for situation, advice in product(trap.situations, trap.advice):
            lesson = f"When {situation}, {advice}."
            read = reader.read(lesson)
            assert (dict(read.stances), read.families) == ({trap.name: "addresses"}, frozenset()), lesson
            assert [other.name for other in TRAPS if addresses(lesson, other)] == [trap.name], lesson
            assert len(lesson.split()) <= 32
            assert not re.search(r"\d", lesson)
            opposite = reader.read(f"When {situation}, do not {advice}.")
            assert opposite.stances.get(trap.name) == "contradicts", (situation, advice)
    for name, lesson in PEOPLE_SAY.items():
        assert dict(reader.read(lesson).stances) == {name: "addresses"}, lesson
    narrow = reader.read("When dice are rolled, include both endpoints of the range.")
    assert narrow.families == {"dice_total"}


# The simulated solver.


def talk(family: type[Problem], *turns: ToolExchange, tools: tuple[str, ...] = ("run_python",)) -> Conversation:
    (problem,) = problems(family, 1)
    return Conversation(instructions="", question=problem.ask(Random(7)), tools=tools, turns=turns)


def situation(conversation: Conversation) -> Situation:
    found = skills.recognise(conversation)
    assert found is not None
    return found


def act(
    of: Situation, flaws: frozenset[str] = frozenset(), seed: int = 0, followed: dict[str, str] | None = None
) -> str:
    """The program that it runs, or what it says."""
    done = of.act(flaws, FollowedLessons(followed or {}), Random(seed))
    if isinstance(done, FinalMessage):
        return done.text
    assert isinstance(done, ToolUse)
    assert done.tool == "run_python"
    assert done.text
    return str(done.arguments["code"])


@every_family
def test_rightness_depends_on_the_flaws_alone_and_every_decision_is_stated(family: type[Problem]) -> None:
    (problem,) = problems(family, 1)
    first, bare = situation(talk(family)), situation(talk(family, tools=("final_result",)))
    assert (first.family, first.traps) == (bare.family, bare.traps) == (family.name, family.traps)
    for seed, flaws in enumerate([frozenset[str](), *combinations_of(family.traps)]):
        code = act(first, flaws, seed)
        result = render_result(CodeResult(status="ok", stdout=printed(code) + "\n"))
        last = situation(talk(family, ToolExchange("run_python", {"code": code}, result)))
        assert last.traps == ()
        in_head = act(bare, flaws, seed)
        for said in (act(last, seed=seed), in_head):
            assert (answer_key(boxed(said) or "") == answer_key(problem.gold())) == (not flaws)
        for name, trap in BY_NAME.items():
            for text in (code.casefold(), in_head.casefold()):
                assert any(phrase.casefold() in text for phrase in trap.careless) == (name in flaws)
                assert any(phrase.casefold() in text for phrase in trap.careful) == (name in set(family.traps) - flaws)
    fallen, *careful = family.traps
    code = act(first, frozenset({fallen}), 2, {trap: f"G{number}" for number, trap in enumerate(family.traps)})
    assert "(G0)" not in code
    for number, trap in enumerate(careful, start=1):
        assert any(f"# {phrase} (G{number})\n" in code for phrase in BY_NAME[trap].careful), (
            "a followed lesson is named"
        )
    programs = {act(first, seed=seed) for seed in range(12)}
    assert len(programs) > 1
    assert len({printed(code) for code in programs}) == 1, "chance varies the words and never the result"


# Tasks.


def problem_of(task: Task) -> Problem:
    """The problem itself, whatever its wording."""
    found = next(family for family in FAMILIES if family.name == task.family).recognise(task.problem)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_reproducible_all_different_and_say_what_they_are(split: Split) -> None:
    assert domain.tasks(split, seed=3) == domain.tasks(split, seed=3)
    assert (
        len({task.id for task in domain.tasks(split, seed=3)} & {task.id for task in domain.tasks(split, seed=4)}) < 20
    )
    longest = domain.tasks(split, seed=1, limit=90)
    assert len({problem_of(task) for task in longest}) == len({task.id for task in longest}) == 90
    for limit in (1, 7, 40):
        assert domain.tasks(split, seed=1, limit=limit) == longest[:limit]
    for task in domain.tasks(split, seed=0):
        assert (task.domain, task.split, task.source) == ("math", split, "generated")
        assert task.answer == problem_of(task).gold()
        assert domain.question(task) == task.problem
        first = situation(Conversation("", load_domain("math").question(task), ("run_python",)))
        assert printed(act(first)) == task.answer


def test_no_problem_stands_in_two_splits_even_for_different_seeds() -> None:
    homes: dict[Problem, set[str]] = {}
    for split in SPLITS:
        for seed in range(2):
            for task in domain.tasks(split, seed=seed, limit=90):
                homes.setdefault(problem_of(task), set()).add(split)
    assert [problem for problem, splits in homes.items() if len(splits) > 1] == []


def test_splits_are_balanced_and_one_test_task_in_three_is_of_an_unseen_family() -> None:
    known, unseen = {one.name for one in LEARNING}, {one.name for one in UNSEEN}
    assert [len(domain.tasks(split, seed=0)) for split in SPLITS] == [60, 40, 60]
    for split in ("train", "validation"):
        counts = Counter(task.family for task in domain.tasks(split, seed=5))
        assert set(counts) == known
        assert max(counts.values()) - min(counts.values()) <= 1
    tested = domain.tasks("test", seed=5)
    assert [task.family in unseen for task in tested] == [False, False, True] * 20
    for names in (known, unseen):
        counts = Counter(task.family for task in tested if task.family in names)
        assert set(counts) == names
        assert max(counts.values()) - min(counts.values()) <= 1
