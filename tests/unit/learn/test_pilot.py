"""A pilot: a few sampled tasks, no library published, and the whole run extrapolated from what was measured."""

import json
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.config import LearnSettings
from agentlearn.learning.costs import Course, StageEstimate, estimate
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.plan import PilotReport
from agentlearn.store import StageTotals
from agentlearn.types.task import Task
from tests.support.shared_options import AS_PUBLISHED

SETTINGS = LearnSettings(
    domain="math", pilot=4, model="openai:gpt-5-mini", group_size=5, batch_size=2, epochs=1, **AS_PUBLISHED
)


def sets(train: int, test: int = 0) -> TaskSets:
    tasks = [Task.of("math", f"What is {n} + {n}?", str(2 * n)) for n in range(train + test)]
    return TaskSets(tuple(tasks[:train]), tuple(tasks[train:]))


def totals(stage: str, calls: int, tokens_in: int, tokens_out: int, cost_usd: float = 0.0) -> StageTotals:
    return StageTotals(
        stage=stage,
        calls=calls,
        tokens_in=tokens_in,
        tokens_cached=0,
        tokens_out=tokens_out,
        cost_usd=cost_usd,
        unpriced=0,
        seconds=1.0,
        retried=0,
    )


MEASURED = (
    totals("rollout", 40, 40_000, 8_000, 0.02),
    totals("summarise", 10, 9_000, 2_000, 0.01),
    totals("compare", 2, 3_000, 400, 0.005),
    totals("consolidate", 2, 1_000, 200, 0.001),
    totals("judge", 20, 18_000, 1_800, 0.004),
)
GROUPS = {"mixed": 2, "all_wrong": 2}


def reported(
    settings: LearnSettings = SETTINGS,
    *,
    whole: TaskSets,
    groups: dict[str, int] = GROUPS,
    stages: tuple[StageTotals, ...] = MEASURED,
    library: int | None = None,
    drawn: int = 20,
) -> PilotReport:
    """A pilot of four tasks; library None: its rollouts read as many lessons as the whole run's are assumed to."""
    read = Course(settings, len(whole.train)).average_library() if library is None else library
    return PilotReport.of(settings, tasks=4, whole=whole, groups=groups, drawn=drawn, stages=stages, library=read)


def by_stage(report: PilotReport) -> dict[str, StageEstimate]:
    return {one.stage: one for one in report.whole.stages}


def test_a_pilot_of_all_tasks_extrapolates_to_itself() -> None:
    found = by_stage(reported(whole=sets(4)))
    assert set(found) == {one.stage for one in MEASURED}
    for one in MEASURED:
        stage = found[one.stage]
        assert (stage.calls, stage.tokens_in, stage.tokens_out) == (one.calls, one.tokens_in, one.tokens_out)
        assert stage.cost_usd == pytest.approx(one.cost_usd)


def test_a_pilots_saved_rollouts_and_settled_tasks_are_saved_in_the_whole_run() -> None:
    saving = SETTINGS.model_copy(update={"stop_after": 3, "revisit_every": 4, "epochs": 2})
    groups = {"mixed": 2, "all_right": 1, "all_wrong": 1}
    report = reported(saving, whole=sets(40), groups=groups, drawn=2 * 5 + 2 * 3)
    # A quarter of the tasks are settled; a quarter of these are visited in the second epoch.
    visits = 40 * (1 + 3 / 4 + 1 / 16)
    assert report.whole.rollouts == round(visits * 4)
    assert by_stage(report)["compare"].calls == round(2 * visits / 4)


def test_lessons_to_come_are_read_in_every_call_but_a_judges() -> None:
    whole = sets(4)
    without, found = by_stage(reported(whole=whole)), by_stage(reported(whole=whole, library=0))
    for one in MEASURED:
        more = 0 if one.stage == "judge" else one.calls * Course(SETTINGS, 4).average_library()
        assert found[one.stage].tokens_in == one.tokens_in + more
        cost, other = found[one.stage].cost_usd, without[one.stage].cost_usd
        assert cost is not None
        assert other is not None
        assert (cost > other) == (more > 0)


def test_measuring_is_counted_before_and_after() -> None:
    settings = SETTINGS.model_copy(update={"eval_rollouts": 2})
    report = reported(settings, whole=sets(4, test=10))
    found = by_stage(report)
    # 2 x 10 x 2 rollouts measure, the pilot had 20.
    assert report.whole.rollouts == 20 + 40
    assert (found["held out"].calls, found["held out"].tokens_out) == (80, 16_000)
    assert found["judge held out"].tokens_out == 3_600


def test_an_unknown_price_stays_unknown() -> None:
    unpriced = StageTotals(
        stage="rollout",
        calls=40,
        tokens_in=40_000,
        tokens_cached=0,
        tokens_out=8_000,
        cost_usd=0.0,
        unpriced=40,
        seconds=1.0,
        retried=0,
    )
    assert reported(whole=sets(8), stages=(unpriced,)).whole.cost_usd is None


def test_the_tasks_are_drawn_by_the_seed() -> None:
    whole = sets(50, test=5)
    drawn = {seed: whole.sample(4, seed) for seed in range(5)}
    assert drawn[0] == whole.sample(4, 0)
    assert len({one.train for one in drawn.values()}) == 5
    assert all(len(set(one.train)) == 4 and one.test == () for one in drawn.values())
    assert set(sets(3).sample(4, 0).train) == set(sets(3).train)


def test_the_estimate_of_a_pilot_is_the_pilots_own() -> None:
    fields = {"domain": "math", "model": "openai:gpt-5-mini", "pilot": 4, "epochs": 3, "group_size": 5}
    settings = LearnSettings.model_validate(fields | AS_PUBLISHED)
    found = estimate(settings, train=60, test=60)
    assert found.rollouts == 4 * 5
    assert found == estimate(settings.model_copy(update={"pilot": 100}), train=4)
    assert estimate(settings.model_copy(update={"pilot": None}), train=60, test=60).rollouts == 60 * 5 * 3 + 2 * 60 * 4


@pytest.mark.slow
def test_a_pilot_publishes_nothing_and_can_be_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    assert run(["learn", "math", "--pilot", "5", "--group-size", "4", "--store", str(store), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tasks"] == {"train": 5, "test": 0}
    made = report["rollouts"]["ok"]
    assert 15 <= made <= 20
    assert (report["allocated"]["planned"], report["allocated"]["drawn"]) == (20, made)
    assert (len(report["epochs"]), report["delta"]) == (1, None)
    found = PilotReport.model_validate(report["pilot"])
    assert (found.tasks, found.of_tasks, found.rollouts, found.groups) == (5, 60, made, 5)
    assert found.mixed == report["groups"]["mixed"]
    assert found.turns == report["stages"]["rollout"]["calls"] / made
    assert found.whole.rollouts > 60 * 3 + 2 * 60 * 4
    assert not [one for one in (store / "libraries").rglob("*") if one.is_file()], "no library"
    assert run(["runs", "list", "--store", str(store)]) == 0
    listed = capsys.readouterr().out
    assert "learn" in listed
    assert "pilot of 5 tasks" in listed
    assert run(["runs", "show", report["run"], "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert f"pilot      {found.lines()[0]}" in shown
    assert f"whole run, measured: about {found.whole.rollouts:,} rollouts" in shown
    assert "\nlibrary    " not in shown
    assert run(["library", "list", "--store", str(store)]) == 0
    assert "start with" in capsys.readouterr().out
