"""What a hybrid run says about its result: numbers with their definition, cautions, and commands that work."""

import io
from typing import Any

from rich.console import Console

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
    print_hybrid,
    sentences,
)
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, hybrid_settings
from tests.support.snapshot import assert_snapshot

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


def test_the_sentences_of_each_kind_of_result() -> None:
    together = contrast("without-proposed", -0.2, "worse")
    same = removal("d4" * 16, "unclear", 20)
    same = same.model_copy(update={"contrast": same.contrast.model_copy(update={"mean": 0.0, "low": 0.0, "high": 0.0})})
    kinds = {
        "proposals that hold together": report(compared=compared(), pruning=pruning()),
        "proposals that back each other up": report(pruning=pruning(together_shown=False)),
        "proposals that are worse together": report(pruning=pruning(together=together, together_shown=False)),
        "a proposal without a verdict": report(
            pruning=pruning(removals=(removal("a1" * 16, "proposed", 20, "25 clusters are few"),))
        ),
        "no proposal": report(pruning=pruning(removals=(removal("c3" * 16, "needed", 20),), together=None)),
        "a lesson that changed no task": report(pruning=pruning(removals=(same,), together=None)),
        "no gain of which a share could be kept": report(compared=compared(None)),
        "lessons by a real model": report(learned={"simulated": False}),
        "weights that are not published": report(
            trained={"published": False, "withheld": "held-out tasks got worse", "after": 0.2}
        ),
        "nothing to distil": report(learned={"published": False}),
    }
    assert_snapshot(__file__, "hybrid_sentences", "\n".join(f"## {name}\n{said(one)}" for name, one in kinds.items()))


def test_the_tables_have_arms_and_lessons_and_texts_stay_on_their_line() -> None:
    found = report(compared=compared(), pruning=pruning())
    out = io.StringIO()
    print_hybrid(found.model_copy(update={"sentences": ()}), settings(), Console(file=out, width=200))
    assert_snapshot(__file__, "hybrid_tables", out.getvalue())
