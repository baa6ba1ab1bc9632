"""The corpus of the math domain's lab model: what it teaches, and what it must never show."""

import json
import re
from itertools import islice

import pytest

from agentlearn.lab.contract import Lab, Scene, announced_lab
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.tool_text import FAILED, printed_value, render_result
from agentlearn.sim.lessons import experiences_in
from agentlearn_math.answers import boxed
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import printed
from agentlearn_math.lab import lab
from agentlearn_math.lab.corpus import GROWN, LAW, TALKS, at_one
from agentlearn_math.lab.evaluation_tasks import exams, lessons_for
from agentlearn_math.tasks import generated, home
from agentlearn_math.traps import TRAPS


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return list(islice(lab.scenes(0), 120))


def test_the_corpus_follows_from_its_seed(scenes: list[Scene]) -> None:
    assert list(islice(lab.scenes(0), 5)) == scenes[:5]
    assert list(islice(lab.scenes(1), 5)) != scenes[:5]


def test_no_problem_of_the_test_split_occurs(scenes: list[Scene]) -> None:
    asked = {talk.messages[0].text for scene in scenes for talk in scene.talks}
    assert len(asked) > 0.9 * TALKS * len(scenes) * 0.5
    for text in asked:
        homes = [home(family.name, params) for family in FAMILIES if (params := family.recognise(text)) is not None]
        assert homes
        assert homes[0] != "test"
    assert not asked & {task.problem for task in generated("test", 0, 60)}


def test_every_kind_of_problem_is_schooled(scenes: list[Scene]) -> None:
    texts = [talk.messages[0].text for scene in scenes for talk in scene.talks]
    assert all(any(family.recognise(text) is not None for text in texts) for family in FAMILIES)


def test_dialogues_go_as_the_agents_do_and_results_are_what_programs_print(scenes: list[Scene]) -> None:
    for scene in scenes[:40]:
        for talk in scene.talks:
            roles = [message.role for message in talk.messages]
            assert roles[0] == "user"
            assert roles[-1] == "assistant"
            for said, result in zip(talk.messages, talk.messages[1:], strict=False):
                if result.role == "tool" and not result.text.startswith(FAILED):
                    code = json.loads(said.calls[0].arguments)["code"]
                    assert result.text == render_result(CodeResult(status="ok", stdout=printed(code)))
            if len(roles) == 4 and (value := printed_value(talk.messages[2].text)) is not None:
                assert boxed(talk.messages[-1].text) == value


def test_calls_are_written_as_pydantic_ai_sends_them_back(scenes: list[Scene]) -> None:
    calls = [call for scene in scenes for talk in scene.talks for message in talk.messages for call in message.calls]
    for call in calls:
        assert call.arguments == json.dumps(json.loads(call.arguments), ensure_ascii=False, separators=(",", ":"))


def test_comments_name_only_lessons_that_are_shown_and_that_address_the_trap(scenes: list[Scene]) -> None:
    named = 0
    for scene in scenes:
        shown = {one.label: one.text for one in experiences_in(scene.system)}
        for talk in scene.talks:
            for call in talk.messages[1].calls:
                for phrase, label in re.findall(r"# ([^\n]*) \((G\d+)\)", json.loads(call.arguments)["code"]):
                    (trap,) = (one for one in TRAPS if phrase in one.careful)
                    assert LAW.reader.read(shown[label]).stances[trap.name] == "addresses"
                    named += 1
    assert named > 20


def test_what_is_taken_from_lessons_is_what_the_reader_reads(scenes: list[Scene]) -> None:
    for scene in scenes:
        shown = experiences_in(scene.system)
        assert len(scene.heard) == len(shown)
        for one, heard in zip(shown, scene.heard, strict=True):
            assert scene.system[: heard.end].endswith(one.text)
            assert set(heard.sayings) <= set(lab.sayings)
            stances = LAW.reader.read(one.text).stances
            assert {f"{stance} {trap}" for trap, stance in stances.items()} == set(heard.sayings) - {"narrow"}


def test_a_doubt_names_the_lessons_that_speak_of_it(scenes: list[Scene]) -> None:
    named = 0
    for scene in scenes:
        for doubt in (doubt for talk in scene.talks for doubt in talk.doubts):
            (trap,) = (one for one in TRAPS if doubt.options[0][0] in one.careless)
            for place in doubt.lessons:
                assert any(saying.endswith(f" {trap.name}") for saying in scene.heard[place].sayings)
                named += 1
    assert named > 50


def test_doubts_sum_to_one_and_stand_in_the_programs_order(scenes: list[Scene]) -> None:
    for talk in (talk for scene in scenes for talk in scene.talks):
        code = json.loads(talk.messages[1].calls[0].arguments)["code"] if talk.messages[1].calls else ""
        at = 0
        for doubt in talk.doubts:
            assert sum(share for _, share in doubt.options) == pytest.approx(1)
            places = [code.find(words, at) for words, _ in doubt.options]
            at = max(places) + 1
            assert at > 0


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
@pytest.mark.parametrize("chance", [0.04, 0.35, 0.8])
def test_sampling_at_the_laws_temperature_gives_back_its_chance(trap: object, chance: float) -> None:
    from agentlearn.sim.skills import Trap
    from agentlearn.sim.trap_model import TEMPERATURE

    assert isinstance(trap, Trap)
    fall = at_one(trap.name, chance)
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
    assert GROWN > 0


def test_exams_hold_problems_of_the_test_split_that_are_the_same_under_every_condition() -> None:
    none, right = exams("none", 25, 0), exams("right", 25, 0)
    assert [one.question for one in none] == [one.question for one in right]
    for exam in none:
        homes = [home(one.name, params) for one in FAMILIES if (params := one.recognise(exam.question)) is not None]
        assert "test" in homes
    assert sum(one.expected for one in right) / 25 > 0.88 > 0.6 > sum(one.expected for one in none) / 25


@pytest.mark.parametrize("condition", ["irrelevant", "neutral", "placebo"])
def test_controls_leave_the_teacher_as_it_is(condition: str) -> None:
    expected = zip(exams(condition, 25, 0), exams("none", 25, 0), strict=True)
    # Some lessons keep one out of a neighbouring trap, too; without sense there is no effect at all.
    slack = 0.25 if condition == "irrelevant" else 1e-9
    assert all(abs(one.expected - other.expected) <= slack for one, other in expected)


def test_inverted_lessons_mislead_the_teacher() -> None:
    assert sum(one.expected for one in exams("inverted", 25, 0)) / 25 < 0.15


def test_answers_are_marked_by_their_box() -> None:
    exam = exams("none", 1, 0)[0]
    assert lab.is_right(exam, f"It is \\boxed{{{exam.answer}}}.")
    assert not lab.is_right(exam, f"It is {exam.answer}.")
    assert not lab.is_right(exam, "\\boxed{-1}")


def test_the_lab_is_announced() -> None:
    found: Lab = announced_lab("novice")
    assert found.version == lab.version
    from random import Random

    assert len(lessons_for("full", FAMILIES[0], Random(0))) == len(TRAPS)
