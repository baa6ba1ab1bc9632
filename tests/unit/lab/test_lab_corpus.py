"""The corpus of the math domain's lab model: what it contains, and what it must never contain."""

import json
import re
from itertools import islice

import pytest

from agentlearn.lab.contract import Lab, TrainingExample, announced_lab
from agentlearn.lab.evaluation import ConditionScore
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.tool_text import FAILED, printed_value, render_result
from agentlearn.sim.lessons import experiences_in
from agentlearn_math.answers import boxed
from agentlearn_math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_math.family import printed
from agentlearn_math.lab import lab
from agentlearn_math.lab.control_lessons import GERMAN, MANY, PARAPHRASES
from agentlearn_math.lab.corpus import DIALOGUES, TRAP_MODEL, WARMUP_EXAMPLES, at_temperature_one
from agentlearn_math.lab.evaluation_tasks import SHOWN, condition_lessons, evaluation_tasks
from agentlearn_math.tasks import generated, home
from agentlearn_math.traps import TRAPS


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


def test_every_kind_of_problem_is_schooled(examples: list[TrainingExample]) -> None:
    texts = [dialogue.messages[0].text for example in examples for dialogue in example.dialogues]
    assert all(any(family.recognise(text) is not None for text in texts) for family in FAMILIES)


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


def test_calls_are_written_as_pydantic_ai_sends_them_back(examples: list[TrainingExample]) -> None:
    calls = [
        call
        for example in examples
        for dialogue in example.dialogues
        for message in dialogue.messages
        for call in message.calls
    ]
    for call in calls:
        assert call.arguments == json.dumps(json.loads(call.arguments), ensure_ascii=False, separators=(",", ":"))


def test_comments_name_only_lessons_that_are_shown_and_that_address_the_trap(examples: list[TrainingExample]) -> None:
    named = 0
    for example in examples:
        shown = {one.label: one.text for one in experiences_in(example.system)}
        for dialogue in example.dialogues:
            for call in dialogue.messages[1].calls:
                for phrase, label in re.findall(r"# ([^\n]*) \((G\d+)\)", json.loads(call.arguments)["code"]):
                    (trap,) = (one for one in TRAPS if phrase in one.careful)
                    assert TRAP_MODEL.reader.read(shown[label]).stances[trap.name] == "addresses"
                    named += 1
    assert named > 20


def test_what_is_taken_from_lessons_is_what_the_reader_reads(examples: list[TrainingExample]) -> None:
    for example in examples:
        shown = experiences_in(example.system)
        assert len(example.lessons) == len(shown)
        for one, lesson in zip(shown, example.lessons, strict=True):
            assert example.system[: lesson.end].endswith(one.text)
            assert set(lesson.meanings) <= set(lab.meanings)
            stances = TRAP_MODEL.reader.read(one.text).stances
            assert {f"{stance} {trap}" for trap, stance in stances.items()} == set(lesson.meanings) - {"narrow"}


def test_a_doubt_names_the_lessons_that_speak_of_it(examples: list[TrainingExample]) -> None:
    named = 0
    for example in examples:
        for soft_target in (soft_target for dialogue in example.dialogues for soft_target in dialogue.soft_targets):
            (trap,) = (one for one in TRAPS if soft_target.options[0][0] in one.careless)
            for place in soft_target.lessons:
                assert any(meaning.endswith(f" {trap.name}") for meaning in example.lessons[place].meanings)
                named += 1
    assert named > 50


def test_doubts_sum_to_one_and_stand_in_the_programs_order(examples: list[TrainingExample]) -> None:
    for dialogue in (dialogue for example in examples for dialogue in example.dialogues):
        code = json.loads(dialogue.messages[1].calls[0].arguments)["code"] if dialogue.messages[1].calls else ""
        at = 0
        for soft_target in dialogue.soft_targets:
            assert sum(share for _, share in soft_target.options) == pytest.approx(1)
            places = [code.find(words, at) for words, _ in soft_target.options]
            at = max(places) + 1
            assert at > 0


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
@pytest.mark.parametrize("chance", [0.04, 0.35, 0.8])
def test_sampling_at_the_laws_temperature_gives_back_its_chance(trap: object, chance: float) -> None:
    from agentlearn.sim.skills import Trap
    from agentlearn.sim.trap_model import TEMPERATURE

    assert isinstance(trap, Trap)
    fall = at_temperature_one(trap.name, chance)
    careless = len(trap.careless) * (fall / len(trap.careless)) ** (1 / TEMPERATURE)
    careful = len(trap.careful) * ((1 - fall) / len(trap.careful)) ** (1 / TEMPERATURE)
    assert careless / (careless + careful) == pytest.approx(chance)


def test_libraries_grow_to_their_full_sizes() -> None:
    from random import Random

    from agentlearn_math.lab import corpus

    early = [len(corpus._library(Random(at), 0.0)[0]) for at in range(100)]
    late = [len(corpus._library(Random(at), 1.0)[0]) for at in range(300)]
    assert max(early) == 1
    assert max(late) > 14
    assert 0 in late
    assert WARMUP_EXAMPLES > 0


def test_exams_hold_problems_of_the_test_split_that_are_the_same_under_every_condition() -> None:
    none, right = evaluation_tasks("none", 25, 0), evaluation_tasks("right", 25, 0)
    assert [one.question for one in none] == [one.question for one in right]
    for task in none:
        homes = [home(one.name, params) for one in FAMILIES if (params := one.recognise(task.question)) is not None]
        assert "test" in homes
    assert sum(one.expected for one in right) / 25 > 0.88 > 0.6 > sum(one.expected for one in none) / 25


@pytest.mark.parametrize("condition", ["irrelevant", "neutral", "placebo"])
def test_controls_leave_the_teacher_as_it_is(condition: str) -> None:
    expected = zip(evaluation_tasks(condition, 25, 0), evaluation_tasks("none", 25, 0), strict=True)
    # Some lessons keep one out of a neighbouring trap, too; without sense there is no effect at all.
    slack = 0.25 if condition == "irrelevant" else 1e-9
    assert all(abs(one.expected - other.expected) <= slack for one, other in expected)


def test_inverted_lessons_mislead_the_teacher() -> None:
    assert sum(one.expected for one in evaluation_tasks("inverted", 25, 0)) / 25 < 0.15


def test_answers_are_marked_by_their_box() -> None:
    task = evaluation_tasks("none", 1, 0)[0]
    assert lab.is_right(task, f"It is \\boxed{{{task.answer}}}.")
    assert not lab.is_right(task, f"It is {task.answer}.")
    assert not lab.is_right(task, "\\boxed{-1}")


def test_the_lab_is_announced() -> None:
    found: Lab = announced_lab("novice")
    assert found.version == lab.version
    from random import Random

    assert len(condition_lessons("full", FAMILIES[0], Random(0))) == len(TRAPS)


CONTROLS = ("paraphrase", "german", "shuffled", "stems", "salad", "negation", "many")


@pytest.mark.parametrize("condition", CONTROLS)
def test_every_control_is_checked_on_the_problems_of_the_other_conditions(condition: str) -> None:
    assert condition in lab.conditions
    tasks, none = evaluation_tasks(condition, 25, 0), evaluation_tasks("none", 25, 0)
    assert [one.question for one in tasks] == [one.question for one in none]
    shown = [experiences_in(one.system) for one in tasks]
    assert {len(one) for one in shown} == {MANY if condition == "many" else SHOWN}
    assert evaluation_tasks(condition, 25, 0) == tasks


def test_paraphrases_say_nothing_to_the_teacher_and_cover_every_trap() -> None:
    for advice in (PARAPHRASES, GERMAN):
        assert set(advice) == {trap.name for trap in TRAPS}
        for text in advice.values():
            read = TRAP_MODEL.reader.read(text)
            assert (read.stances, read.families) == ({}, frozenset()), text


def test_stems_and_salad_hold_the_key_words_and_no_sense() -> None:
    for condition in ("stems", "salad"):
        tasks, none = evaluation_tasks(condition, 25, 0), evaluation_tasks("none", 25, 0)
        assert sum(one.expected for one in tasks) > sum(one.expected for one in none) + 25 * 0.2


def test_the_right_lessons_are_among_the_many() -> None:
    assert sum(one.expected for one in evaluation_tasks("many", 25, 0)) / 25 > 0.7


def test_the_lab_knows_its_own_problems_and_no_others() -> None:
    assert lab.families == len(FAMILIES)
    assert all(lab.knows(one.problem) for one in generated("test", 0, 60))
    for text in ("What is 2 + 2?", "", "How many ordered pairs of positive integers have a product of 36?", "Hallo"):
        assert not lab.knows(text)


def test_the_standard_error_is_never_zero() -> None:
    assert ConditionScore("none", 200, 100, 0.5).standard_error == pytest.approx(0.0352, abs=1e-4)
    for right in (0, 20):
        assert 0 < ConditionScore("none", 20, right, 0.5).standard_error < 0.06


def test_what_the_documentation_says_of_families_habits_and_wordings() -> None:
    def wording(problem: str) -> tuple[str, int]:
        patterns = [(family.name, at, one) for family in FAMILIES for at, one in enumerate(family._patterns)]
        return next((name, at) for name, at, one in patterns if one.search(problem))

    learned = {wording(one.problem) for one in generated("train", 0)}
    held_out = [wording(one.problem) for one in generated("test", 0)]
    assert (len(held_out), sum(one in learned for one in held_out)) == (60, 24)
    habits = [{trap for family in families for trap in family.traps} for families in (LEARNING, UNSEEN)]
    assert habits[0] == habits[1] == {trap.name for trap in TRAPS}
    assert (len(TRAPS), len(FAMILIES)) == (11, 25)
