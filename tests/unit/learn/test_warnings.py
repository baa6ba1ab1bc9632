"""Warnings: each names its cause with numbers and a remedy, is reported once, and is in the notes of the report."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.config import LearnSettings
from agentlearn.learning.callbacks import Callbacks, RunWarning
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.report import LearnReport
from agentlearn.learning.run_stats import RunSnapshot, fallen_reward, unprotected
from agentlearn.models.endpoint_state import Limiter
from tests.support.openai_script import Malformed, Script, Solver
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 23)}


def lowered(*, refusals: int) -> Limiter:
    """A limiter of 32 after one round with that many refusals."""
    limiter = Limiter(32)

    async def a_round() -> None:
        for number in range(32):
            async with limiter.slot() as ticket:
                if number < refusals:
                    ticket.refused(None)
                else:
                    ticket.answered(1.0)

    asyncio.run(a_round())
    return limiter


def test_a_warning_names_its_cause_and_a_remedy(subtests: pytest.Subtests) -> None:
    for seen, words in [
        (
            RunSnapshot(groups={"all_right": 41, "mixed": 9}),
            "41 of 50 groups were all right and teach nothing: use harder tasks or a weaker model",
        ),
        (
            RunSnapshot(groups={"all_wrong": 10}),
            "10 of 10 groups were all wrong and teach nothing: use easier tasks or a stronger model",
        ),
        (
            RunSnapshot(groups={"all_wrong": 10}, all_wrong="teach"),
            (
                "10 of 10 groups were all wrong and teach nothing: let the reward give its reason, or give expected"
                " answers (with --labels gold)"
            ),
        ),
        (
            RunSnapshot(groups={"undecided": 9, "mixed": 1}),
            "9 of 10 groups were undecided and teach nothing: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(groups={"all_wrong": 7, "all_right": 2, "mixed": 1}, graded=(0.0, 0.4, 0.9)),
            (
                "9 of 10 groups had equal rewards and teach nothing: all rewards lie between 0.00 and 0.90; use tasks"
                " on which attempts differ more"
            ),
        ),
        (
            RunSnapshot(groups={"all_right": 10}, graded=(5.0,)),
            (
                "10 of 10 groups had equal rewards and teach nothing: every rollout got 5.00; does the reward read the"
                " answer?"
            ),
        ),
        (
            RunSnapshot(groups={"all_wrong": 10}),
            "10 of 10 groups were all wrong and teach nothing: use easier tasks or a stronger model",
        ),
        (
            RunSnapshot(rollouts=30, undecided=12),
            "12 of 30 rollouts are undecided and teach nothing: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(rollouts=40, failures={"too_many_turns": 8, "tool": 1}),
            "8 of 40 rollouts failed with too_many_turns: set a larger max_turns in a recipe",
        ),
        (
            RunSnapshot(rollouts=20, failures={"own_code": 20}),
            "20 of 20 rollouts failed with own_code: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(limiters=(Limiter(64), lowered(refusals=32))),
            ("the service accepted only 16 of 32 calls at once, because it refused more (429): use --concurrency 16"),
        ),
        (
            RunSnapshot(max_cost_usd=5, unpriced_calls=12),
            (
                "12 calls have no known price and do not count towards --max-cost-usd 5:"
                " use --max-tokens, which counts them"
            ),
        ),
        (
            RunSnapshot(replies={"compare": 20, "summarise": 50}, malformed={"compare": 7, "summarise": 15}),
            "7 of 20 replies of the stage compare were malformed: use a stronger --reflector",
        ),
    ]:
        with subtests.test(repr((seen, words))):
            assert [one.words for one in seen.warnings()] == [words]


def test_there_is_no_warning_about_normal_counts_or_too_few(subtests: pytest.Subtests) -> None:
    for seen in [
        RunSnapshot(),
        RunSnapshot(groups={"all_right": 9}),
        RunSnapshot(groups={"all_right": 39, "mixed": 11}),
        RunSnapshot(rollouts=19, undecided=19, failures={"tool": 19}),
        RunSnapshot(rollouts=100, undecided=29, failures={"tool": 19}),
        RunSnapshot(limiters=(Limiter(32), lowered(refusals=8))),
        RunSnapshot(unpriced_calls=12),
        RunSnapshot(max_cost_usd=5),
        RunSnapshot(replies={"compare": 9}, malformed={"compare": 9}),
        RunSnapshot(replies={"compare": 10}, malformed={"compare": 3}),
    ]:
        with subtests.test(repr(seen)):
            assert seen.warnings() == ()


def test_at_the_end_few_groups_count_if_none_was_mixed() -> None:
    assert not RunSnapshot(groups={"all_wrong": 10}, taught_wrong=10).warnings(ended=True)
    few = RunSnapshot(groups={"all_right": 2, "all_wrong": 1})
    assert few.warnings() == ()
    assert [one.subject for one in few.warnings(ended=True)] == ["all_right"]
    assert RunSnapshot(groups={"all_right": 2, "mixed": 1}).warnings(ended=True) == ()


counts = st.integers(min_value=0, max_value=60)


@given(groups=st.dictionaries(st.sampled_from(["mixed", "all_right", "all_wrong", "undecided", "failed"]), counts))
def test_warnings_about_groups_depend_only_on_shares(groups: dict[str, int]) -> None:
    """n groups and twice as many groups in the same shares give the same warnings."""
    twice = {kind: 2 * count for kind, count in groups.items()}
    subjects = [one.subject for one in RunSnapshot(groups=groups).warnings()]
    assert len(subjects) <= 1
    if subjects:
        assert [one.subject for one in RunSnapshot(groups=twice).warnings()] == subjects
        assert groups[subjects[0]] >= 0.8 * sum(groups.values())


class Recorder(Callbacks):
    """Records warnings and kinds of groups."""

    def __init__(self) -> None:
        self.warnings: list[RunWarning] = []
        self.kinds: list[str] = []

    def warned(self, warning: RunWarning) -> None:
        self.warnings.append(warning)

    def group_done(self, kind: str) -> None:
        self.kinds.append(kind)


def learned(script: Script, folder: Path, **changes: Any) -> tuple[LearnReport, Recorder]:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
    recorder = Recorder()
    with OpenAIStub(script) as stub:
        fields: dict[str, Any] = {
            "domain": "math",
            "model": f"{stub.base_url}#any",
            "data": path,
            "evaluate": False,
            "epochs": 1,
            "group_size": 2,
            "validation_rollouts": 1,
            "sandbox": "unsafe-local",
            "store": folder / "store",
        }
        return asyncio.run(run_learning(LearnSettings(**fields | changes), recorder)), recorder


@pytest.mark.slow
def test_tasks_that_are_too_easy_are_reported_once_during_the_run(tmp_path: Path) -> None:
    report, recorder = learned(Solver(answers=PROBLEMS, success_rate=1.0), tmp_path)
    assert recorder.kinds == ["all_right"] * 12
    (warning,) = recorder.warnings
    assert warning.words.startswith("10 of 10 groups were all right"), "as soon as it can be said"
    assert "12 of 12 groups were all right and teach nothing: use harder tasks or a weaker model" in report.notes


@pytest.mark.slow
def test_malformed_replies_are_reported_by_stage(tmp_path: Path) -> None:
    script = Solver(answers=PROBLEMS, success_rate=0.5, malformed={"summarise": Malformed(kinds=("prose",))})
    report, recorder = learned(script, tmp_path, group_size=4)
    warned = [(one.code, one.subject) for one in recorder.warnings]
    assert [one for one in warned if one[0] != "limiter"] == [("malformed", "summarise")]  # a busy machine is slow
    assert any("replies of the stage summarise were malformed" in note for note in report.notes)


def fallen(before: dict[str, float], now: dict[str, float], comparisons: int = 1) -> RunWarning | None:
    return fallen_reward(2, before, now, comparisons=comparisons, seed=0, best="version abc is the best so far")


def test_a_reward_that_falls_on_the_same_tasks_is_a_warning_with_the_best_version() -> None:
    before = {f"t{n}": 0.8 for n in range(20)} | {"other": 0.0}
    warning = fallen(before, {f"t{n}": 0.8 - 0.04 * (n % 5) for n in range(20)} | {"new": 0.0})
    assert warning is not None
    assert warning.words == (
        "the reward on the same 20 tasks fell from 0.80 in epoch 1 to 0.72 in epoch 2, so new lessons may do harm;"
        " version abc is the best so far"
    )
    assert fallen(before, before) is None
    assert fallen({}, before) is None
    assert fallen({"t1": 1.0}, {"t1": 0.0}) is None, "one task shows nothing"


def test_noise_is_a_warning_in_at_most_one_run_of_twenty() -> None:
    """Tasks of all difficulties, G = 5 with an early stop after 3 that agree, 3 epochs in which nothing changes."""
    warned, runs = 0, 400
    for seed in range(runs):
        rng = Random(seed)
        rates = [rng.random() for _ in range(12)]

        def epoch(rng: Random = rng, rates: list[float] = rates) -> dict[str, float]:
            means: dict[str, float] = {}
            for n, rate in enumerate(rates):
                drawn = [float(rng.random() < rate) for _ in range(5)]
                kept = drawn[:3] if len(set(drawn[:3])) == 1 else drawn
                means[f"t{n}"] = sum(kept) / len(kept)
            return means

        epochs = [epoch() for _ in range(3)]
        warned += any(fallen(one, following, comparisons=2) for one, following in pairwise(epochs))
    assert warned <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5


def test_a_setting_as_published_is_named_as_one_without_protection() -> None:
    assert unprotected(one_update=True).words.startswith("the last version is taken, with one update per epoch, as pub")
    assert "nothing protects it" in unprotected(one_update=False).words
