"""The corpus of the math domain's lab model: what it contains, and what it must never contain."""

import json
import re
from itertools import islice
from random import Random

import pytest

from agentlearn.answers.reply import boxed
from agentlearn.lab.contract import Lab, TrainingExample, announced_lab
from agentlearn.lab.evaluation import ConditionScore
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.tool_text import FAILED, printed_value, render_result
from agentlearn.sim.lesson_writer import within_lesson_limits
from agentlearn.sim.lessons import experiences_in
from agentlearn_math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_math.family import printed
from agentlearn_math.lab import lab
from agentlearn_math.lab.control_lessons import SIZES
from agentlearn_math.lab.corpus import DIALOGUES, WARMUP_EXAMPLES
from agentlearn_math.lab.corpus_lessons import KINDS, lesson, random_lesson
from agentlearn_math.lab.evaluation_tasks import SHOWN, condition_lessons, evaluation_tasks
from agentlearn_math.lab.nonsense import HELD_OUT_ABSURDITIES, TRAINED_ABSURDITIES, shuffled
from agentlearn_math.lab.other_languages import GERMAN, TRAINED_LANGUAGES
from agentlearn_math.lab.teacher import at_temperature_one
from agentlearn_math.lab.wordings import (
    HELD_OUT_FRAMES,
    TRAINED_FRAMES,
    Frames,
    Wordings,
    spelled_out,
    spellings,
    wordings,
)
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
        shown = experiences_in(example.system)
        said_by = {one.label: read.meanings for one, read in zip(shown, example.lessons, strict=True)}
        for dialogue in example.dialogues:
            for call in dialogue.messages[1].calls:
                for phrase, label in re.findall(r"# ([^\n]*) \((G\d+)\)", json.loads(call.arguments)["code"]):
                    (trap,) = (one for one in TRAPS if phrase in one.careful)
                    assert f"addresses {trap.name}" in said_by[label]
                    named += 1
    assert named > 20


def test_what_is_taken_from_lessons_is_stated_at_their_ends(examples: list[TrainingExample]) -> None:
    for example in examples:
        shown = experiences_in(example.system)
        assert len(example.lessons) == len(shown)
        for one, read in zip(shown, example.lessons, strict=True):
            assert example.system[: read.end].endswith(one.text)
            assert set(read.meanings) <= set(lab.meanings)


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
    from agentlearn_math.lab import corpus

    early = [len(corpus._library(Random(at), 0.0)[0]) for at in range(100)]
    late = [len(corpus._library(Random(at), 1.0)[0]) for at in range(300)]
    assert max(early) == 1
    assert max(late) > 45
    assert 0.7 < sum(size <= 20 for size in late) / len(late) < 0.97
    assert 0 in late
    assert WARMUP_EXAMPLES > 0


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


def test_answers_are_marked_by_their_box() -> None:
    task = evaluation_tasks("none", 1, 0)[0]
    assert lab.is_right(task, f"It is \\boxed{{{task.answer}}}.")
    assert not lab.is_right(task, f"It is {task.answer}.")
    assert not lab.is_right(task, "\\boxed{-1}")


def test_the_lab_is_announced() -> None:
    found: Lab = announced_lab("novice")
    assert found.version == lab.version
    assert len(condition_lessons("full", FAMILIES[0], Random(0))) == len(TRAPS)


@pytest.mark.parametrize("condition", ["paraphrase", *WITHOUT_EFFECT[:5], *SIZES])
def test_every_control_is_checked_on_the_problems_of_the_other_conditions(condition: str) -> None:
    assert condition in lab.conditions
    tasks, none = evaluation_tasks(condition, 25, 0), evaluation_tasks("none", 25, 0)
    assert [one.question for one in tasks] == [one.question for one in none]
    shown = [experiences_in(one.system) for one in tasks]
    assert {len(one) for one in shown} == {SIZES.get(condition, SHOWN)}
    assert evaluation_tasks(condition, 25, 0) == tasks


@pytest.mark.parametrize("condition", ["paraphrase", "twenty", "sixty"])
def test_the_teacher_follows_advice_in_other_words_and_among_many_lessons(condition: str) -> None:
    assert sum(one.expected for one in evaluation_tasks(condition, 25, 0)) / 25 > 0.88


def _patterns(one: Wordings) -> tuple[str, ...]:
    return (*one.right, *one.wrong, *one.sentences)


@pytest.mark.parametrize("trap", [trap.name for trap in TRAPS])
def test_every_habit_has_many_wordings_and_some_are_held_out(trap: str) -> None:
    trained, held_out = _patterns(wordings(held_out=False)[trap]), _patterns(wordings(held_out=True)[trap])
    assert len(set(trained)) + len(set(held_out)) >= 50
    assert len(set(held_out)) >= 13
    assert len(set(wordings(held_out=False)[trap].wrong)) >= 26
    assert all(within_lesson_limits(text) for pattern in (*trained, *held_out) for text in spellings(pattern))


@pytest.mark.parametrize("trap", [trap.name for trap in TRAPS])
def test_no_wording_that_is_held_out_is_one_of_the_corpus_with_a_word_or_two_changed(trap: str) -> None:
    trained = [_words(text) for one in _patterns(wordings(held_out=False)[trap]) for text in spellings(one)]
    for text in (text for one in _patterns(wordings(held_out=True)[trap]) for text in spellings(one)):
        assert min(_changes(_words(text), one) for one in trained) >= 3, text


@pytest.mark.parametrize("frame", [*HELD_OUT_FRAMES.bans, *HELD_OUT_FRAMES.needless])
def test_bans_and_remarks_that_are_held_out_differ_from_those_of_the_corpus_in_more_than_a_small_word(
    frame: str,
) -> None:
    trained = [*TRAINED_FRAMES.bans, *TRAINED_FRAMES.needless]
    close = {one for one in trained if _changes(_words(frame), _words(one)) < 2}
    # Both are older than this rule, and the word that differs is the one to understand.
    assert close <= {"forget the advice to {do}", "it is not important to {do}"}


def test_a_fourth_of_the_lessons_misleads_or_takes_advice_back() -> None:
    rng = Random(0)
    made = [random_lesson(rng) for _ in range(2_000)]
    misleading = [one for one in made if "contradicts" in one.stances.values()]
    taken_back = [one for one in made if one.takes_back]
    assert 0.1 < len(misleading) / len(made) < 0.14
    assert 0.13 < len(taken_back) / len(made) < 0.17
    assert not [one for one in taken_back if one.stances or one.families]


def test_the_corpus_says_which_lessons_take_advice_back_and_which_say_nothing(examples: list[TrainingExample]) -> None:
    said = {meaning for example in examples for one in example.lessons for meaning in one.meanings}
    assert {f"{what} {trap.name}" for what in ("addresses", "contradicts", "takes back") for trap in TRAPS} <= said
    assert any(not one.meanings for example in examples for one in example.lessons)


def test_a_made_up_word_never_hides_that_a_lesson_is_a_ban() -> None:
    starts = [one.partition("{do}")[0].strip() for one in TRAINED_FRAMES.bans]
    rng = Random(0)
    bans = [lesson("warning", rng.choice(TRAPS), rng).text.lower() for _ in range(500)]
    assert not [text for text in bans if not any(start in text for start in starts)]


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


def test_frames_absurdities_and_languages_are_held_out_from_the_corpus() -> None:
    def parts(one: Frames) -> set[str]:
        return {*one.orders, *one.bans, *one.needless, *one.sentences}

    assert parts(TRAINED_FRAMES) & parts(HELD_OUT_FRAMES) == {"{clause}."}
    for name in ("frames", "nouns", "verbs", "adjectives"):
        assert not {*getattr(TRAINED_ABSURDITIES, name)} & {*getattr(HELD_OUT_ABSURDITIES, name)}
    assert set(GERMAN) == {trap.name for trap in TRAPS}
    assert not {*GERMAN.values()} & {*TRAINED_LANGUAGES}


def test_the_corpus_has_no_wording_that_is_held_out(examples: list[TrainingExample]) -> None:
    held_out = {text for one in wordings(held_out=True).values() for each in _patterns(one) for text in spellings(each)}
    frames = [one.replace("{do}", "").strip() for one in (*HELD_OUT_FRAMES.bans, *HELD_OUT_FRAMES.needless)]
    shown = [one.text.lower() for example in examples for one in experiences_in(example.system)]
    assert len(shown) > 150
    assert not [text for text in held_out for one in shown if text.lower().rstrip(".") in one]
    assert not [frame for frame in frames for one in shown if frame in one]


EFFECTS = {
    "reflector": "addresses", "order": "addresses", "warning": "addresses", "sentence": "addresses",
    "narrow": "addresses", "inverted": "contradicts",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held_out", [False, True])
def test_what_a_lesson_does_follows_from_its_kind(kind: str, *, held_out: bool) -> None:
    for trap in TRAPS:
        made = lesson(kind, trap, Random(f"{kind} {trap.name}"), held_out=held_out)
        assert made.stances == ({trap.name: EFFECTS[kind]} if kind in EFFECTS else {})
        assert within_lesson_limits(made.text) or kind in ("absurd", "shuffled")
        assert (kind == "narrow") == bool(made.families)


def test_a_pattern_stands_for_all_its_spellings() -> None:
    assert list(spellings("[a|b] c [d|]")) == ["a c d", "a c", "b c d", "b c"]
    assert {spelled_out("[a|b] c", Random(at)) for at in range(20)} == {"a c", "b c"}


def test_shuffled_words_are_the_same_words_in_another_order() -> None:
    text = "Count both ends of the range, please."
    mixed = shuffled(text, Random(0)).split()
    assert sorted(mixed) == sorted(text.replace(",", "").rstrip(".").split()) != mixed


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
