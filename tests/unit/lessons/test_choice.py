"""Which version a run selects, and when it is published: never one that the evidence says is worse than the start."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentlearn.config import LearnSettings
from agentlearn.learning.batch_runner import BatchRunner
from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.learning.lessons.selection import (
    VALIDATION_ROUND,
    Choice,
    Validated,
    Validation,
    arms_of,
    shown_better,
)
from agentlearn.learning.report import Delta, SelectedVersion
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.ids import LibraryVersion, TaskId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from tests.support.stages import RUN, trajectory
from tests.support.toy_domain import ToyDomain

GOOD = library_of(["When adding, carry."], kind="add")
BAD = library_of(["When adding, never carry."], kind="add")
TASKS = tuple(Task.of("toy", f"Double {n}.", str(2 * n), family=f"f{n // 3}") for n in range(30))
Rates = Mapping[LibraryVersion, float] | Mapping[LibraryVersion, None]
"""Share of right answers by version; None: no rollout can be judged."""


class Runner:
    """Makes rollouts without a model: one is right when a fixed number of its task and index is below the rate."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.rounds: list[list[str]] = []
        self.made = 0
        self.rollouts = type("Has", (), {"domain": ToyDomain()})()

    async def measure(
        self, phases: Mapping[str, Library], work: Sequence[tuple[Task, int]], *, seeds: str
    ) -> dict[str, list[Trajectory]]:
        assert seeds == "validation"
        self.rounds.append([one.version for one in phases.values()])
        self.made += len(work) * len(phases)
        return {
            phase: [self.one(phase, task, g, self.rates[library.version]) for task, g in work]
            for phase, library in phases.items()
        }

    def one(self, phase: str, task: Task, g: int, rate: float | None) -> Trajectory:
        draw = (TASKS.index(task) * 7 + g * 11) % 30 / 30
        reward = None if rate is None else float(draw < rate)
        answer = task.answer if reward else str(1_000 + TASKS.index(task))
        return trajectory(task, g, reward).model_copy(
            update={"id": rollout_id(RUN, phase, task.id, g, 0), "phase": phase, "answer": answer}
        )


def comparison(candidates: Candidates, runner: Runner, *, rollouts: int = 3, labelled: bool = True) -> Validation:
    batches = cast("BatchRunner", runner)
    return Validation(seed=0, rollouts=rollouts, labelled=labelled, batches=batches, candidates=candidates, tasks=TASKS)


def selected(
    rates: Rates, *libraries: Library, start: Library = EMPTY_LIBRARY, held_out: Delta | None = None, **changes: Any
) -> tuple[Choice, SelectedVersion, Runner]:
    """Validate and choose among these versions, as a run does at its end."""
    settings = LearnSettings(domain="toy", model="sim:novice", **changes)
    candidates, runner = Candidates(start), Runner(rates)
    for library in libraries:
        candidates.add(library)
    learned, validated = candidates.standings(), None
    if settings.validation_rollouts:
        validation = comparison(
            candidates, runner, rollouts=settings.validation_rollouts, labelled=settings.labels == "gold"
        )
        validated = asyncio.run(validation.run(arms_of(candidates, settings.finalists)))
    last = libraries[-1] if libraries else start
    choice = Choice.of(
        candidates, last, select=settings.select, seed=0, learned=learned, validated=validated, learned_from=False
    )
    return choice, choice.decided(held_out, name="toy", store=Path("/s")), runner


def test_a_good_version_is_published_and_a_bad_one_is_not() -> None:
    choice, selection, runner = selected({EMPTY_LIBRARY.version: 0.4, GOOD.version: 0.9, BAD.version: 0.1}, GOOD, BAD)
    assert (selection.selected, selection.last, selection.status) == (GOOD.version, BAD.version, "published")
    assert selection.basis == "validation"
    assert selection.delta is not None
    assert selection.delta.ci is not None
    assert selection.delta.ci[0] > 0
    assert selection.rollouts == runner.made
    roles = {line.version: line.role for line in choice.version_lines({GOOD.version: 1, BAD.version: 2})}
    assert roles == {EMPTY_LIBRARY.version: "start", GOOD.version: "selected", BAD.version: "finalist"}


def test_the_start_is_selected_when_every_version_is_worse() -> None:
    _, selection, runner = selected({EMPTY_LIBRARY.version: 0.6, GOOD.version: 0.1, BAD.version: 0.1}, GOOD, BAD)
    assert (selection.selected, selection.status, selection.command) == (EMPTY_LIBRARY.version, "unchanged", "")
    assert runner.made < 3 * 3 * len(TASKS), "when only the start is left, nothing more is measured"


def test_a_version_below_the_start_on_validation_tasks_stays_pending() -> None:
    """Only when other evidence speaks for it can it be selected at all."""
    candidates = Candidates(EMPTY_LIBRARY)
    candidates.add(GOOD)
    validation = comparison(candidates, Runner({EMPTY_LIBRARY.version: 0.6, GOOD.version: 0.2}))
    validated = asyncio.run(validation.run((EMPTY_LIBRARY, GOOD)))
    delta = validated.against_start(GOOD.version, 0)
    choice = Choice(EMPTY_LIBRARY, GOOD, GOOD, "validation", 2, "has it", validated=validated, delta=delta)
    selection = choice.decided(None, name="toy", store=Path("/s"))
    assert selection.status == "pending"
    assert selection.reason.startswith("it is below the library at the start on 20 validation tasks: -0.")
    assert selection.command == f"agentlearn library approve toy@{GOOD.version[:12]} --store /s"


def test_held_out_tasks_that_got_worse_keep_a_version_pending() -> None:
    worse = Delta(mean=-0.3, ci=(-0.4, -0.2), p=0.001, n=30, verdict="worse")
    settings: list[dict[str, Any]] = [{}, {"select": "last"}, {"validation_rollouts": 0}]
    for changes in settings:
        _, selection, _ = selected({EMPTY_LIBRARY.version: 0.4, GOOD.version: 0.9}, GOOD, held_out=worse, **changes)
        assert (selection.status, selection.reason) == ("pending", "held-out tasks got worse: -0.30 [-0.40, -0.20]")


def test_a_version_replaces_no_lessons_only_if_it_is_shown_to_be_better() -> None:
    unclear = Delta(mean=0.02, ci=(-0.1, 0.14), p=0.7, n=30, verdict="cannot_tell")
    better = unclear.model_copy(update={"verdict": "better"})
    rates: Rates = {EMPTY_LIBRARY.version: 0.4, GOOD.version: 0.7}
    choice, _, _ = selected(rates, GOOD)
    assert choice.changed
    choice = replace(choice, delta=None)
    for held_out, at_stake, waits in ((unclear, True, True), (unclear, False, False), (better, True, False)):
        found = choice.decided(held_out, name="toy", store=Path("/s"), at_stake=at_stake)
        assert (found.status, bool(found.command)) == ("pending" if waits else "published", waits)
    assert choice.decided(unclear, name="toy", store=Path("/s"), at_stake=True).reason == (
        "it is not shown to be better than no lessons: +0.02 [-0.10, +0.14] on held-out tasks"
    )
    last, _, _ = selected(rates, GOOD, select="last")
    assert last.decided(unclear, name="toy", store=Path("/s"), at_stake=True).status == "published"


@given(st.floats(-1, 1), st.floats(0.01, 1), st.floats(-1, 1), st.floats(0.01, 1))
def test_evidence_against_a_version_never_makes_it_shown_to_be_better(
    mean: float, half: float, other: float, other_half: float
) -> None:
    def delta(mean: float, half: float) -> Delta:
        return Delta(mean=mean, ci=(mean - half, mean + half), p=0.5, n=30, verdict="cannot_tell")

    held_out, validation = delta(mean, half), delta(other, other_half)
    assume(abs(mean / half - 1.644854 / 1.959964) > 1e-9)
    assert shown_better(held_out, None) == (mean / half > 1.644854 / 1.959964)
    if max(mean, other) <= 0:
        assert not shown_better(held_out, validation)
    if shown_better(held_out, validation):
        assert shown_better(delta(mean + 0.1, half), validation)


def test_the_empty_library_replaces_lessons_only_when_they_are_shown_to_do_harm() -> None:
    _, harm, _ = selected({EMPTY_LIBRARY.version: 0.8, BAD.version: 0.1, GOOD.version: 0.1}, GOOD, start=BAD)
    assert (harm.selected, harm.status) == (EMPTY_LIBRARY.version, "published")
    choice = Choice(GOOD, EMPTY_LIBRARY, BAD, "rollouts", 3, "has it")
    assert choice.decided(None, name="toy", store=Path("/s")).status == "pending"


def test_a_broken_service_is_said_and_nothing_unknown_is_published() -> None:
    nothing = {EMPTY_LIBRARY.version: None, GOOD.version: None}
    _, selection, runner = selected(nothing, GOOD)
    assert (selection.status, selection.tasks, len(runner.rounds)) == ("pending", 0, 1)
    assert "no rollout on validation tasks could be judged" in selection.reason


def test_after_a_broken_validation_the_rollouts_to_learn_from_decide() -> None:
    candidates = Candidates(EMPTY_LIBRARY)
    candidates.add(GOOD)
    for n, task in enumerate(TASKS):
        candidates.observe("epoch-1", task.id, task.family, 0, EMPTY_LIBRARY.version, float(n % 3 == 0))
        candidates.observe("epoch-2", task.id, task.family, 0, GOOD.version, 1.0)
    nothing = Validated(TASKS, (EMPTY_LIBRARY, GOOD), (EMPTY_LIBRARY, GOOD), {}, judged=False)
    learned = candidates.standings()
    choice = Choice.of(candidates, GOOD, select="best", seed=0, learned=learned, validated=nothing, learned_from=False)
    selection = choice.decided(None, name="toy", store=Path("/s"))
    assert (selection.basis, selection.status, selection.selected) == ("rollouts", "published", GOOD.version)
    assert "no rollout on validation tasks could be judged" in selection.reason


def test_select_last_takes_the_last_version_and_nothing_learned_changes_nothing() -> None:
    choice, selection, runner = selected({EMPTY_LIBRARY.version: 0.4}, GOOD, BAD, select="last", validation_rollouts=0)
    assert (selection.selected, selection.basis, selection.status) == (BAD.version, "last", "published")
    assert (choice.validated, runner.rounds) == (None, [])
    _, nothing, _ = selected({EMPTY_LIBRARY.version: 0.4}, validation_rollouts=0)
    assert (nothing.status, nothing.reason) == ("unchanged", "it is the only version: learning changed nothing")


def test_more_undecided_rollouts_than_the_start_keep_a_version_pending() -> None:
    """A version whose failures end as timeouts must not look good because they are left out."""
    candidates = Candidates(EMPTY_LIBRARY)
    candidates.add(GOOD)
    runner = Runner({EMPTY_LIBRARY.version: 0.6, GOOD.version: 0.3})
    usual = runner.one

    def half_lost(phase: str, task: Task, g: int, rate: float | None) -> Trajectory:
        one = usual(phase, task, g, rate)
        lost = GOOD.version[:12] in phase and not one.reward
        return one.model_copy(update={"verdict": Verdict(status="undecided", reason="")}) if lost else one

    runner.one = half_lost
    validation = comparison(candidates, runner)
    validated = asyncio.run(validation.run((EMPTY_LIBRARY, GOOD)))
    delta = validated.against_start(GOOD.version, 0)
    choice = Choice(EMPTY_LIBRARY, GOOD, GOOD, "validation", 2, "has it", validated=validated, delta=delta)
    selection = choice.decided(None, name="toy", store=Path("/s"))
    assert selection.status == "pending"
    assert "more of its rollouts than of the start's" in selection.reason


def test_without_labels_one_answer_is_right_for_all_versions() -> None:
    """BAD gives the same wrong answer in every rollout of a task; alone it would win every vote."""
    rates = {EMPTY_LIBRARY.version: 0.7, GOOD.version: 1.0, BAD.version: 0.0}
    _, selection, _ = selected(rates, GOOD, BAD, labels="none")
    assert selection.selected != BAD.version
    rates = {EMPTY_LIBRARY.version: 0.9, BAD.version: 0.0}
    _, selection, _ = selected(rates, BAD, labels="none")
    assert selection.status != "published", "two answers that differ are no majority, so nothing speaks for it"


def test_without_labels_a_rollout_counts_only_as_it_is_judged_last() -> None:
    """In the first round both versions agree; in later ones each repeats an answer of its own."""
    candidates, runner = Candidates(EMPTY_LIBRARY), Runner({EMPTY_LIBRARY.version: 1.0, GOOD.version: 1.0})
    candidates.add(GOOD)
    usual = runner.one

    def parting(phase: str, task: Task, g: int, rate: float | None) -> Trajectory:
        one = usual(phase, task, g, rate)
        return one if g == 0 else one.model_copy(update={"answer": phase.rpartition(":")[2]})

    runner.one = parting
    validation = comparison(candidates, runner, labelled=False)
    validated = asyncio.run(validation.run((EMPTY_LIBRARY, GOOD)))
    judged = sum(one.score is not None for one in validated.scores[GOOD.version].observations)
    (counted,) = (one.rollouts for one in candidates.standings() if one.library == GOOD)
    assert counted <= judged


@pytest.mark.parametrize("start", [EMPTY_LIBRARY, BAD])
def test_the_start_is_in_the_first_round_and_compared_on_what_both_have(start: Library) -> None:
    other = library_of(["When subtracting, borrow."])
    rates = {EMPTY_LIBRARY.version: 0.2, start.version: 0.2, GOOD.version: 0.8, other.version: 0.8}
    _, selection, runner = selected(rates, GOOD, other, start=start)
    assert start.version in runner.rounds[0]
    assert len(runner.rounds) > sum(start.version in one for one in runner.rounds), "a hopeless start is left out"
    assert selection.delta is not None
    assert selection.delta.n >= VALIDATION_ROUND


def test_versions_with_equal_lessons_are_compared_once() -> None:
    candidates = Candidates(EMPTY_LIBRARY)
    again = Library(parent=GOOD.version, experiences=GOOD.experiences)
    emptied = Library(parent=GOOD.version)
    for one in (GOOD, again, emptied, BAD):
        candidates.add(one)
    arms = arms_of(candidates, 3)
    assert arms[0] == EMPTY_LIBRARY
    assert len(arms) == 3
    assert emptied not in arms


SHOWN = st.lists(
    st.tuples(st.sampled_from([EMPTY_LIBRARY, GOOD, BAD]), st.integers(0, 5), st.booleans()), min_size=1, max_size=20
)


@given(SHOWN, st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_the_rollouts(
    shown: list[tuple[Library, int, bool]], random: Any
) -> None:
    def candidates(order: Sequence[tuple[int, tuple[Library, int, bool]]]) -> Candidates:
        made = Candidates(EMPTY_LIBRARY)
        made.add(GOOD)
        made.add(BAD)
        for g, (library, task, right) in order:
            made.observe("epoch-1", TaskId(str(task)), "f", g, library.version, float(right))
        return made

    numbered = list(enumerate(shown))
    mixed = random.sample(numbered, len(numbered))
    one, other = candidates(numbered), candidates(mixed)
    arms = (EMPTY_LIBRARY, GOOD, BAD)
    assert one.to_continue(BAD) == other.to_continue(BAD)
    assert one.contenders(arms) == other.contenders(arms)
    left = one.contenders(arms)
    assert one.best() in left
    assert one.to_continue(one.best()) == one.best()


def test_a_run_goes_back_only_when_an_earlier_version_is_clearly_better() -> None:
    made = Candidates(EMPTY_LIBRARY)
    made.add(BAD)
    assert made.to_continue(BAD) == BAD, "nothing is known, so nothing is undone"
    for n, task in enumerate(TASKS):
        made.observe("epoch-1", task.id, task.family, 0, EMPTY_LIBRARY.version, float(n % 3 > 0))
        made.observe("epoch-1", task.id, task.family, 1, BAD.version, 0.0)
    assert made.to_continue(BAD) == EMPTY_LIBRARY
