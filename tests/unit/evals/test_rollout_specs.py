"""Rollout specs: interleaved, with the same seeds in all arms, stored under everything that determines them."""

from collections import Counter
from pathlib import Path

import pytest

from agentlearn.library.formats import write_form
from agentlearn.types.experience import EMPTY_LIBRARY, library_of
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparing import schedule
from agentlearn_evals.plan import plan_comparison

TASKS = [Task.of("math", f"What is {n} + 1?", str(n + 1), split="test") for n in range(6)]


def arm(name: str, lessons: tuple[str, ...] = ()) -> Arm:
    library = library_of(lessons) if lessons else EMPTY_LIBRARY
    return Arm(name=name, model="sim:novice", reference=name, library=library, temperature=0.3)


ARMS = [arm("none"), arm("a", ("Count both ends.",)), arm("b", ("Start at zero.",))]


def test_every_rollout_is_scheduled_once() -> None:
    specs = list(schedule(TASKS, ARMS, 4, 0))
    places = Counter((spec.arm.name, spec.task.id, spec.g) for spec in specs)
    assert len(places) == len(specs) == 3 * 6 * 4


def test_arms_share_seeds_and_are_interleaved() -> None:
    specs = list(schedule(TASKS, ARMS, 4, 0))
    for at in range(0, len(specs), 3):
        three = specs[at : at + 3]
        assert {spec.arm.name for spec in three} == {"none", "a", "b"}
        assert len({(spec.task.id, spec.g, spec.seed) for spec in three}) == 1
    assert Counter(spec.arm.name for spec in specs[::3]) == {"none": 8, "a": 8, "b": 8}, "each is first as often"


def test_more_rollouts_only_add_to_those_before() -> None:
    few, many = (list(schedule(TASKS, ARMS, k, 0)) for k in (2, 5))
    assert many[: len(few)] == few
    assert [spec.seed for spec in few] != [spec.seed for spec in schedule(TASKS, ARMS, 2, 1)]


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.7},
        {"max_turns": 3},
        {"rollout_deadline_s": 5.0},
        {"sandbox": "unsafe-local"},
        {"models": ("sim:other",)},
    ],
)
def test_what_determines_a_rollout_names_it(change: dict[str, object], tmp_path: Path) -> None:
    lessons = tmp_path / "lessons.json"
    lessons.write_text('{"experiences": {"G0": "Count both ends of a range."}, "next_id": 1}')
    given: dict[str, object] = {"arms": ("none", str(lessons)), "domains": ("math",), "limit": 2, "store": tmp_path}
    before, after = (plan_comparison(CompareSettings.model_validate(given | more)) for more in ({}, change))
    for place in (0, 1):
        names = {plan.conditions(plan.arms[place], plan.task_sets[0]).phase for plan in (before, after)}
        assert len(names) == 2
    own = {before.conditions(one, before.task_sets[0]).phase for one in before.arms}
    assert len(own) == 2, "a library is another condition"


@pytest.mark.parametrize("change", [{"k": 20}, {"concurrency": 1}, {"margin": 0.1}, {"correction": "bh"}, {"seed": 3}])
def test_what_does_not_determine_a_rollout_does_not(change: dict[str, object], tmp_path: Path) -> None:
    """The seed is held against each rollout's own."""
    given: dict[str, object] = {"arms": ("none", "x=none,temperature=1"), "domains": ("math",), "limit": 2}
    given["store"] = tmp_path
    before, after = (plan_comparison(CompareSettings.model_validate(given | more)) for more in ({}, change))
    assert before.conditions(before.arms[1], before.task_sets[0]) == after.conditions(after.arms[1], after.task_sets[0])


def test_how_lessons_are_chosen_names_a_rollout_only_where_they_are_chosen(tmp_path: Path) -> None:
    library = library_of([f"When numbers are odd, use approach {n}." for n in range(40)])
    write_form(library, tmp_path / "lessons.json", "agentlearn")
    given = {"arms": (f"some={tmp_path / 'lessons.json'}", "none"), "domains": ("math",), "limit": 2, "store": tmp_path}

    def phases(**more: object) -> list[str]:
        plan = plan_comparison(CompareSettings.model_validate(given | more))
        return [plan.conditions(one, plan.task_sets[0]).phase for one in plan.arms]

    usual = phases()
    assert phases(max_shown_tokens=3_000, embedder="openai:any") == usual
    chosen = phases(max_shown_tokens=50)
    assert (chosen[0] == usual[0], chosen[1] == usual[1]) == (False, True)
    assert phases(max_shown_tokens=50, shown_lessons=3)[0] not in {usual[0], chosen[0]}
