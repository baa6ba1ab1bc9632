"""The numbers of five recordings of docs/evidence_from_recordings.md, computed again from the files with scipy.

AGENTLEARN_RECORDINGS names the folder with the clones (`python -m scripts.bench.recordings --clone-commands`).
Nothing of ours reads the files here, and nothing of ours computes.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

from agentlearn.measure.difference import benjamini_hochberg
from scripts.bench.recordings.recorded import AnsweredQuestion, answer_questions, load_recordings

CLONES = Path(os.environ.get("AGENTLEARN_RECORDINGS", "/nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CLONES.is_dir(), reason="AGENTLEARN_RECORDINGS names no folder with clones"),
]
Scores = Mapping[str, float]
PROGRAMS = "reflexion/programming_runs/root"


@pytest.fixture(scope="module")
def answers() -> tuple[AnsweredQuestion, ...]:
    return answer_questions(load_recordings(), CLONES)


def solved(folder: str) -> Scores:
    (file,) = [one for one in (CLONES / PROGRAMS / folder).glob("*.jsonl") if "gpt-4" in one.name]
    return {row["name"]: float(row["is_solved"]) for row in map(json.loads, file.read_text().splitlines())}


def households(run: str) -> Scores:
    file = CLONES / f"reflexion/alfworld_runs/root/{run}_run_logs/env_results_trial_6.json"
    return {row["name"]: float(row["is_success"]) for row in json.loads(file.read_text())}


def cases(skill: str, kind: str) -> Scores:
    file = CLONES / f"skills/skills/nocodemf/{skill}/evals/results/{kind}_results.json"
    return {row["scenario_id"]: row["weighted_score"] for row in json.loads(file.read_text())["scenario_results"]}


def problems(arm: str) -> Scores:
    file = CLONES / f"dynamic-cheatsheet/results/AIME_2020_2024/claude-3-5-sonnet_{arm}.jsonl"
    found: dict[str, float] = {}
    for row in map(json.loads, file.read_text().splitlines()):
        said = re.findall(r"\d+", str(row["final_answer"]).replace(",", ""))
        if row["target"].isdecimal():
            found[row["raw_input"]] = float(bool(said) and int(said[-1]) == int(row["target"]))
    return found


def tango(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Score interval of a paired difference of proportions, with the likelihood maximised by search."""

    def statistic(mean: float) -> float:
        def unlikely(lost: float) -> float:
            won, same = lost + mean, 1 - 2 * lost - mean
            return -(stats.multinomial.logpmf([wins, losses, n - wins - losses], n, [won, lost, same]))

        edges = (max(0.0, -mean) + 1e-12, (1 - mean) / 2 - 1e-12)
        lost = optimize.minimize_scalar(unlikely, bounds=edges, method="bounded", options={"xatol": 1e-12}).x
        return float((wins - losses - n * mean) / np.sqrt(n * (2 * lost + mean - mean**2)))

    mean, z = (wins - losses) / n, stats.norm.ppf(0.975)
    low = optimize.brentq(lambda one: statistic(one) - z, -0.99, mean)
    return float(low), float(optimize.brentq(lambda one: statistic(one) + z, mean, 0.99))


def detectable_t(error: float, degrees: int) -> float:
    critical = stats.t.ppf(0.975, degrees)
    power = lambda shift: stats.nct.sf(critical, degrees, shift) + stats.nct.cdf(-critical, degrees, shift)  # noqa: E731
    return float(error * optimize.brentq(lambda shift: power(shift) - 0.8, 1, 5))


def questions() -> dict[int, tuple[Scores, Scores]]:
    alone, empty, grown = map(problems, ("Baseline", "EmptyCheatsheet", "DynamicCheatsheet_Cumulative"))
    once, again = solved("simple_mbpp_py"), solved("simple_mbpp_py2")
    skills = ("carrier-relationship-management", "customs-trade-compliance", "production-scheduling",
              "returns-reverse-logistics")  # fmt: skip
    return {
        1: (alone, grown),
        2: (alone, empty),
        3: (empty, grown),
        10: (households("base"), households("reflexion")),
        23: (once, again),
        24: (once, solved("reflexion_mbpp_py")),
        25: (solved("simple_mbpp_rs"), solved("reflexion_mbpp_rs")),
        **{31 + at: (cases(one, "baseline"), cases(one, "eval")) for at, one in enumerate(skills)},
    }


@pytest.mark.parametrize("number", [1, 2, 3, 10, 23, 24, 25, 31, 32, 33, 34])
def test_a_question_has_the_numbers_that_scipy_computes(number: int, answers: tuple[AnsweredQuestion, ...]) -> None:
    before, after = questions()[number]
    found = answers[number - 1].contrast
    differences = np.array([after[task] - before[task] for task in before if task in after])
    n, moved = len(differences), differences[differences != 0]
    wins, losses = int(sum(moved > 0)), int(sum(moved < 0))
    assert (found.tasks, found.wins, found.losses) == (n, wins, losses)
    assert found.baseline_score == pytest.approx(np.mean(list(before.values())))
    assert found.score == pytest.approx(np.mean(list(after.values())))
    assert found.mean == pytest.approx(differences.mean())
    error = stats.sem(differences)
    if found.method == "t":
        low, high = stats.t.interval(0.95, n - 1, differences.mean(), error)
        assert found.detectable == pytest.approx(detectable_t(error, n - 1), rel=1e-3)
    else:
        assert {*moved} <= {-1.0, 1.0} or number == 31
        # Of values that are not 0 or 1 there is no such interval in scipy.
        low, high = tango(wins, losses, n) if number != 31 else (found.low, found.high)
        ratio = 1 + stats.norm.ppf(0.8) / stats.norm.ppf(0.975)
        assert found.detectable == pytest.approx((high - low) / 2 * ratio, rel=1e-4)
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-6)
    if {*moved} == {-1.0, 1.0}:
        p = stats.binomtest(wins, wins + losses).pvalue
    else:
        p = stats.permutation_test((moved,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    if 6 <= len(moved) < 20:
        # Random signs come in coarse steps: the p of the interval's method decides, or half of p if that is larger.
        normal = 2 * stats.norm.sf(abs(wins - losses) / np.sqrt(wins + losses)) if number != 31 else found.p
        p = max(p / 2, 2 * stats.t.sf(abs(differences.mean()) / error, n - 1) if found.method == "t" else normal)
    sampled = 4 * np.sqrt(p * (1 - p) / 20_000) + 1 / 20_001 if len(moved) > 20 else 1e-9
    assert found.p == pytest.approx(p, abs=sampled)


def support(state: str) -> Mapping[tuple[str, int, str], float]:
    """Score of each task by template, set of tasks and id; seeds 2 and 3 share one set."""
    found: defaultdict[tuple[str, int, str], list[bool]] = defaultdict(list)
    for seed in (1, 2, 3):
        (file,) = (CLONES / "areev").rglob(f"seed{seed}.transcripts-eval-{state}.jsonl")
        for row in map(json.loads, file.read_text().splitlines()):
            if row.get("kind") == "task_outcome":
                found[row["template"], min(seed, 2), row["task_id"]].append(row["success"])
    return {task: float(np.mean(scores)) for task, scores in found.items()}


@pytest.mark.parametrize(
    ("number", "arms"), [(15, ("A0", "B")), (16, ("A0", "A1")), (17, ("A0", "M-all")), (18, ("M-all", "B"))]
)
def test_a_template_is_a_unit(number: int, arms: tuple[str, str], answers: tuple[AnsweredQuestion, ...]) -> None:
    before, after = map(support, arms)
    found, families = answers[number - 1].contrast, defaultdict[str, list[float]](list)
    for task, score in after.items():
        families[task[0]].append(score - before[task])
    assert sorted(map(len, families.values())) == [50, 50, 50, 50]
    means = np.array([np.mean(one) for one in families.values()])
    assert (found.tasks, found.clusters) == (200, 4)
    assert (found.baseline_score, found.score) == pytest.approx(
        tuple(np.mean(list(one.values())) for one in (before, after))
    )
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 3, means.mean(), stats.sem(means)))
    moved = means[means != 0]
    p = stats.permutation_test((moved,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert found.p == pytest.approx(p)


def test_the_corrections_are_those_of_statsmodels(answers: tuple[AnsweredQuestion, ...]) -> None:
    ps = [one.contrast.p for one in answers]
    assert [one.contrast.p_adjusted for one in answers] == pytest.approx(list(multipletests(ps, method="holm")[1]))
    assert benjamini_hochberg(ps) == pytest.approx(list(multipletests(ps, method="fdr_bh")[1]))
