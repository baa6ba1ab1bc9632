"""What a hybrid run says about its result: numbers with their definition, cautions, and commands that work."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from agentlearn_evals.hybrid.hybrid_lines import print_hybrid
from agentlearn_evals.hybrid.hybrid_report import (
    ComparedStage,
    HybridArm,
    HybridReport,
    HybridRound,
    LearnedStage,
    LessonRemoval,
    PruningStage,
    RemovalState,
    StageContrast,
    TrainedStage,
)
from agentlearn_evals.hybrid.hybrid_sentences import sentences
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, hybrid_settings

LESSONS = {"a1" * 16: "proposed", "b2" * 16: "proposed", "c3" * 16: "needed", "d4" * 16: "unclear"}


def settings(**changes: Any) -> HybridSettings:
    return hybrid_settings({"domain": "math", "model": "lab:novice", "margin": 0.1, **changes})


def contrast(arm: str, mean: float, verdict: str = "cannot_tell", baseline: str = "both") -> StageContrast:
    sentence = f"{arm} {mean} {baseline}"
    given = {"arm": arm, "baseline": baseline, "run": "r", "mean": mean, "low": mean - 0.05, "high": mean + 0.05}
    return StageContrast.model_validate({**given, "verdict": verdict, "sentence": sentence})


def removal(lesson: str, state: RemovalState, tokens: int, caution: str = "") -> LessonRemoval:
    found = contrast(f"without-{lesson}", -0.01)
    given = {"lesson": lesson, "text": f"Lesson {lesson[:2]}.", "tokens": tokens, "state": state, "caution": caution}
    return LessonRemoval.model_validate({**given, "contrast": found})


def pruning(**changes: Any) -> PruningStage:
    removals = tuple(removal(one, state, 20 + n) for n, (one, state) in enumerate(LESSONS.items()))  # type: ignore[arg-type]
    given: dict[str, Any] = {"runs": ("r",), "removals": removals, "not_measured": 0, "tokens_saved": 41}
    given |= {"together": contrast("without-proposed", -0.02), "together_shown": True}
    return PruningStage.model_validate(given | changes)


def arm(name: str, score: float, tokens: float | None) -> HybridArm:
    given = {"arm": name, "score": score, "low": score - 0.1, "high": score + 0.1, "rollouts": 8, "failed": 0}
    return HybridArm.model_validate(
        {**given, "undecided": 1, "calls": 16, "tokens_in_per_call": tokens, "tokens_out_per_call": 5}
    )


def compared(kept: float | None = 0.8) -> ComparedStage:
    return ComparedStage.model_validate(
        {
            "runs": ("r", "s"),
            "arms": (arm("none", 0.4, 42), arm("lessons", 0.9, 372), arm("distilled", 0.8, 44), arm("both", 0.9, 372)),
            "contrasts": (
                contrast("lessons", 0.5, "better", "none"),
                contrast("distilled", 0.4, "better", "none"),
                contrast("distilled", -0.1, "worse", "lessons"),
            ),
            "kept": kept,
        }
    )


def report(**stages: Any) -> HybridReport:
    learned = LearnedStage.model_validate(
        {"run": "l", "reference": "math@abc", "version": "abc", "lessons": 4, "tokens": 90}
        | {"simulated": True, "published": True, "reason": "why"}
        | stages.pop("learned", {})
    )
    trained = TrainedStage.model_validate(
        {"run": "t", "weights": "w/math-1", "sha256": "f", "published": True, "before": 0.4, "after": 0.8}
        | stages.pop("trained", {})
    )
    one = HybridRound.model_validate(
        {"number": 1, "model": "lab:novice", "start": None, "learned": learned, "trained": trained, **stages}
    )
    given = {"run": "h", "domain": "math", "model": "lab:novice", "margin": 0.1, "seed": 0}
    return HybridReport.model_validate({**given, "rounds": (one,), "ended": "done"})


def said(found: HybridReport, **changes: Any) -> str:
    return "\n".join(sentences(found, settings(**changes)))


def test_proposals_that_hold_together_come_with_the_command_that_parks_them() -> None:
    words = said(report(compared=compared(), pruning=pruning()))
    assert "2 of 4 measured lessons proposed for parking" in words
    assert "shown to be below 0.1; parking all of them saves about 41 tokens per call" in words
    assert "removing all of them at once is shown to lose less than 0.1: -0.02 [-0.07, +0.03]" in words
    assert "nothing was parked; park them with: agentlearn library park math a1a1a1a1a1a1 b2b2b2b2b2b2" in words


def test_proposals_that_back_each_other_up_name_one_lesson_to_begin_with(tmp_path: Path) -> None:
    words = said(report(pruning=pruning(together_shown=False)), store=tmp_path)
    assert "removing all of them at once is not shown to lose less than 0.1: -0.02" in words
    assert "the lessons may back each other up" in words
    assert f"agentlearn library park math b2b2b2b2b2b2 --store {tmp_path}" in words
    assert "a1a1a1a1a1a1" not in words
    worse = pruning(together=contrast("without-proposed", -0.2, "worse"), together_shown=False)
    assert "removing all of them at once is shown to be worse: -0.20" in said(report(pruning=worse))


def test_a_proposal_without_a_verdict_says_what_is_missing() -> None:
    careful = pruning(removals=(removal("a1" * 16, "proposed", 20, "25 clusters are few"),))
    words = said(report(pruning=careful))
    assert "these proposals rest on the margin test alone, because there is no verdict: 25 clusters are few" in words


def test_without_a_proposal_no_command_is_printed() -> None:
    words = said(report(pruning=pruning(removals=(removal("c3" * 16, "needed", 20),), together=None)))
    assert "no lesson is proposed for parking: of 1 measured" in words
    assert "library park" not in words


def test_a_lesson_that_changed_no_task_is_explained() -> None:
    same = removal("d4" * 16, "unclear", 20)
    same = same.model_copy(update={"contrast": same.contrast.model_copy(update={"mean": 0.0, "low": 0.0, "high": 0.0})})
    words = said(report(pruning=pruning(removals=(same,), together=None)))
    assert "the removal of 1 lesson changed the score of no task" in words


def test_the_share_kept_is_defined_and_left_out_without_a_gain() -> None:
    words = said(report(compared=compared()))
    assert (
        "the weights keep 80% of the lessons' gain without reading them (gain of distilled over none, divided" in words
    )
    assert "input tokens per call: 372 with the lessons, 44 without" in words
    assert "no gain of the lessons is shown, so no share of it is given" in said(report(compared=compared(None)))


def test_simulated_lessons_are_called_simulated_in_the_same_sentence() -> None:
    assert "learned math@abc: 4 lessons with 90 tokens (written by a simulated model)" in said(report())
    assert "simulated" not in said(report(learned={"simulated": False}))


def test_a_run_that_ends_early_says_why_and_what_is_kept() -> None:
    words = said(report(trained={"published": False, "after": 0.2}))
    assert "0.40 → 0.20; the lessons are kept: agentlearn library show math" in words
    ended = said(report(learned={"published": False}))
    assert "nothing to distil, so the run ends here: no new version of the library was published: why" in ended


def test_the_tables_have_arms_and_lessons_and_texts_stay_on_their_line() -> None:
    found = report(compared=compared(), pruning=pruning())
    given = settings()
    out = io.StringIO()
    print_hybrid(found.model_copy(update={"sentences": sentences(found, given)}), given, Console(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("simulated or lab models took part")
    row = next(line.split() for line in lines if line.startswith("  lessons "))
    assert row[:2] == ["lessons", "0.90"]
    assert row[-4:] == ["372", "5", "8", "1"], "input and output tokens per call, rollouts, undecided"
    assert any(line.split()[:3] == ["a1a1a1a1a1a1", "20", "-0.01"] and line.endswith("proposed") for line in lines)
    assert any(line == "  c3c3c3c3c3c3  Lesson c3." for line in lines)
    assert "agentlearn runs show h --short" in lines[-1]
