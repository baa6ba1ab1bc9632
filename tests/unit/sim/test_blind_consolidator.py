"""A simulated consolidator that cannot tell good advice from reversed advice: it goes by support, or by order."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.sim.consolidating import reflector_consolidate
from agentlearn.sim.habits import Vocabulary
from agentlearn.sim.lesson_writer import LessonWriter
from agentlearn.sim.lessons import ShownLesson, stance
from agentlearn.sim.malformed import Item
from agentlearn.sim.reflector import Reflector, ReflectorRequest
from agentlearn.sim.reflector_state import FLAWLESS, ReflectorState
from agentlearn.sim.stage_text import ConsolidatePrompt, Suggestion, SuggestionEvidence
from tests.unit.sim.toy import ENDPOINTS, REDUCTION, ToySkills

VOCABULARY = Vocabulary(ToySkills())
GOOD = f"When a loop runs over an interval, {ENDPOINTS.advice[0]}."
BETTER = f"When bounds are given in words, {ENDPOINTS.advice[2]}."
BAD = f"When a loop runs over an interval, do not {ENDPOINTS.advice[0]}."
WORSE = f"When bounds are given in words, never {ENDPOINTS.advice[1]}."
OTHER = f"When a ratio is reported, {REDUCTION.advice[1]}."


def add(label: str, lesson: str, task: int | None) -> Suggestion:
    return Suggestion(label, "add", (), lesson, None if task is None else SuggestionEvidence(task))


def delete(label: str, target: str, task: int) -> Suggestion:
    return Suggestion(label, "delete", (target,), "", SuggestionEvidence(task))


def prompt(*suggestions: Suggestion, library: tuple[str, ...] = ()) -> ConsolidatePrompt:
    return ConsolidatePrompt(tuple(ShownLesson(f"G{n}", lesson) for n, lesson in enumerate(library, 1)), suggestions)


def consolidated(asked: ConsolidatePrompt, seed: int = 0, *, blind: bool = True) -> list[Item]:
    state = ReflectorState(VOCABULARY, LessonWriter(VOCABULARY), replace(FLAWLESS, blind=blind), Random(seed))
    return reflector_consolidate(asked, state)


def stances(items: list[Item]) -> list[str]:
    return [stance(str(item["lesson"]), ENDPOINTS) for item in items if "lesson" in item]


@pytest.mark.parametrize("seed", range(4))
def test_the_direction_that_more_tasks_support_stays(seed: int) -> None:
    minority = prompt(add("P1", BAD, 1), add("P2", GOOD, 2), add("P3", BETTER, 3))
    [item] = consolidated(minority, seed)
    assert (stances([item]), item["rests_on"]) == (["addresses"], ["P2", "P3"])
    [item] = consolidated(prompt(add("P1", GOOD, 1), add("P2", BAD, 2), add("P3", WORSE, 3)), seed)
    assert (item["lesson"], item["rests_on"]) == (min(BAD, WORSE, key=len), ["P2", "P3"])


def test_tasks_are_counted_and_not_proposals() -> None:
    [item] = consolidated(prompt(add("P1", BAD, 1), add("P2", WORSE, 1), add("P3", GOOD, 2), add("P4", BETTER, 3)))
    assert item["rests_on"] == ["P3", "P4"]


def test_with_equal_support_the_first_proposal_decides() -> None:
    first, other = consolidated(prompt(add("P1", BAD, 1), add("P2", GOOD, 2), add("P3", OTHER, 1)))
    assert (first["rests_on"], other["rests_on"]) == (["P1"], ["P3"])
    [item] = consolidated(prompt(add("P1", GOOD, 1), add("P2", BAD, 2)))
    assert item["rests_on"] == ["P1"]


def test_a_lesson_that_the_attempts_had_read_is_turned_round() -> None:
    [item] = consolidated(prompt(add("P1", GOOD, 1), library=(BAD,)))
    assert (item["op"], item["target"], stances([item])) == ("modify", "G1", ["addresses"])


def test_a_proposal_to_delete_speaks_for_the_other_direction() -> None:
    [item] = consolidated(prompt(delete("P1", "G1", 1), library=(BAD,)))
    assert item == {"op": "delete", "target": "G1", "rests_on": ["P1"]}
    [item] = consolidated(prompt(delete("P1", "G1", 1), add("P2", GOOD, 2), library=(BAD,)))
    assert (item["op"], item["rests_on"]) == ("modify", ["P1", "P2"])


def test_a_better_wording_does_not_count_for_its_side() -> None:
    reworded = Suggestion("P1", "modify", ("G1",), WORSE, SuggestionEvidence(1))
    [item] = consolidated(prompt(reworded, add("P2", GOOD, 2), library=(BAD,)))
    assert (item["op"], item["target"], stances([item])) == ("modify", "G1", ["addresses"])
    [item] = consolidated(prompt(reworded, library=(BAD,)))
    assert (item["lesson"], item["rests_on"]) == (WORSE, ["P1"])


def test_where_the_library_has_both_directions_the_losing_one_is_deleted() -> None:
    [item] = consolidated(prompt(add("P1", BETTER, 1), library=(BAD, GOOD)))
    assert item == {"op": "delete", "target": "G1", "rests_on": ["P1"]}


@pytest.mark.parametrize("seed", range(4))
def test_without_evidence_the_first_proposal_decides(seed: int) -> None:
    bare = prompt(add("P1", BAD, None), add("P2", GOOD, None), add("P3", BETTER, None), add("P4", OTHER, None))
    first, second = consolidated(bare, seed)
    assert (first["lesson"], first["rests_on"], second["rests_on"]) == (BAD, ["P1"], ["P4"])


def test_a_consolidator_that_sees_prefers_sound_lessons_whatever_their_support() -> None:
    minority = prompt(add("P1", BAD, 1), add("P2", WORSE, 2), add("P3", GOOD, 3))
    [item] = consolidated(minority, blind=False)
    assert (stances([item]), item["rests_on"]) == (["addresses"], ["P3"])


@given(st.permutations([add("P1", BAD, 1), add("P2", GOOD, 2), add("P3", BETTER, 3), add("P4", WORSE, 1)]))
def test_the_order_of_proposals_does_not_decide(suggestions: list[Suggestion]) -> None:
    assert stances(consolidated(prompt(*suggestions))) == ["addresses"]


def test_a_reason_changes_no_draw() -> None:
    shown = f"<proposals>\n[P1] add: {GOOD}\n  task 1: 2 right, 3 wrong%s\n</proposals>"
    reflector = Reflector([ToySkills()], parameters=replace(FLAWLESS, blind=True))
    answers = {
        reflector.answer(ReflectorRequest("consolidate", shown % said)).text
        for said in ("", "; reason: “The end is missing.”", "; reason: “Something else (P2).”")
    }
    assert len(answers) == 1
