"""The comparison page shows everything in the comparison, and nothing else."""

import pytest

from agentlearn.measure.contrast import Contrast, Missing
from agentlearn_evals.analysis import worst_first
from agentlearn_evals.comparison import (
    ArmFlag,
    ArmLine,
    Comparison,
    Flip,
    InterimLook,
    MethodLine,
    Reproducibility,
    Slice,
    TaskLine,
    VersionPoint,
)
from agentlearn_evals.page import TRACE, TRACES, comparison_page
from tests.support.comparisons import rich
from tests.support.hostile import HOSTILE
from tests.support.markup import Read
from tests.support.snapshot import assert_snapshot

RICH = rich()
PAGE = comparison_page(RICH)
READ = Read(PAGE)


def headings(read: Read) -> list[str]:
    return read.inside["h2"]


def test_the_rich_page_shows_everything() -> None:
    assert_snapshot(__file__, "rich_page", Read(comparison_page(rich(tasks=9))).lines)
    READ.assert_ours()


def test_a_comparison_of_real_models_is_not_called_simulated() -> None:
    arms = tuple(arm.model_copy(update={"simulated": False}) for arm in RICH.arms)
    real = RICH.model_copy(update={"simulated": False, "arms": arms})
    assert "simulated" not in Read(comparison_page(real)).text


def test_an_assumption_stands_next_to_the_verdict() -> None:
    contrast = RICH.contrasts[0].model_copy(update={"holds_if": "Under an assumption, it holds."})
    seen = Read(comparison_page(RICH.model_copy(update={"contrasts": (contrast, *RICH.contrasts[1:])}))).text
    assert seen.index("Under an assumption, it holds.") < seen.index("At a glance")


def test_a_comparison_without_contrasts_still_has_a_page() -> None:
    alone = Comparison(
        title="a",
        k=1,
        baseline="a",
        arms=(ArmLine(arm="a", label="", tasks=1, rollouts=1, counted=1, score=1.0),),
        contrasts=(),
    )
    assert headings(Read(comparison_page(alone))) == ["Arms"]


def test_transcripts_are_folded_in_and_capped() -> None:
    asked: list[str] = []

    def trace_of(rollout: str) -> str:
        asked.append(rollout)
        return "" if rollout.startswith("r-none") else "</pre>" + "x" * (TRACE * 2)

    read = Read(comparison_page(RICH, trace_of=trace_of))
    read.assert_ours()
    kept = [text for text in read.inside["code"] if text.startswith("</pre>")]
    assert kept
    assert max(map(len, kept)) < TRACE + 60
    assert kept[0].endswith(f"\n… {TRACE + 6:,} more characters")
    assert len(asked) == sum(text.startswith("agentlearn trace") for text in read.inside["code"])


def test_all_transcripts_together_are_capped() -> None:
    page = comparison_page(rich(tasks=400, arms=6), trace_of=lambda rollout: "§" * TRACE)
    assert page.count("§") == TRACES


def hostile(text: str) -> Comparison:
    """The text wherever a comparison takes one."""
    arms = tuple(
        ArmLine(
            arm=f"{text}{n}",
            label=text,
            library=text,
            tasks=1,
            rollouts=1,
            counted=1,
            score=0.5,
            cost_usd=n,
            errors={text: 1},
        )
        for n in (1, 2)
    )
    one, other = (arm.arm for arm in arms)
    return Comparison(
        run=text,
        title=text,
        k=1,
        baseline=one,
        arms=arms,
        contrasts=(
            Contrast(arm=other, baseline=one, mean=0.1, low=0.0, high=0.2, method=text, unsafe=text, sentence=text),
        ),
        looks=(InterimLook(run=text, at=text, pairs=1, p=None),),
        methods=(MethodLine(method=text, arms=(text,), mean=0.1, note=text),),
        slices=tuple(
            Slice(by=by, name=f"{text}{n}", arm=other, score=0.5, mean=0.1) for by in ("domain", "tag") for n in (1, 2)
        ),
        tasks=(TaskLine(task=text, domain=text, cluster=text, problem=text, scores=(0.0, 1.0), rollouts=(1, 1)),),
        flips=(
            Flip(
                task=text,
                problem=text,
                arm=other,
                baseline=one,
                score=1.0,
                baseline_score=0.0,
                rollout=text,
                baseline_rollout=text,
            ),
        ),
        curve=(VersionPoint(arm=other, version=text, step=0, lessons=1, score=0.5),),
        flags=(ArmFlag(arm=text, code=text, words=text),),
        missing=(Missing(arm=text, task=text, reason=text),),
        notes=(text,),
        reproducibility=Reproducibility(
            command=text, data=text, libraries={text: text}, prompts={text: text}, versions={text: text}
        ),
    )


def test_hostile_texts_stay_texts(subtests: pytest.Subtests) -> None:
    for text in HOSTILE:
        with subtests.test(repr(text)):
            page = comparison_page(hostile(text), trace_of=lambda rollout: rollout)
            Read(page).assert_ours()
            assert len(page) < 1_500_000


def test_numbers_that_are_not_finite_are_shown() -> None:
    broken = Contrast(arm="b", baseline="a", mean=float("nan"), low=float("-inf"), high=float("inf"), p=float("nan"))
    arms = tuple(ArmLine(arm=name, label="", tasks=1, rollouts=1, counted=1, score=float("nan")) for name in "ab")
    text = Read(comparison_page(Comparison(title="t", k=1, baseline="a", arms=arms, contrasts=(broken,)))).text
    assert "nan" not in text.lower()
    assert "[−∞, +∞]" in text


def test_what_was_lost_stands_before_the_verdicts_and_examples_of_logs_have_their_place() -> None:
    first, *others = RICH.flips
    placed = first.model_copy(update={"place": "runs.csv line 7", "baseline_place": "runs.csv line 3"})
    found = RICH.model_copy(
        update={"warnings": ("a: 9 of 60 rollouts are undecided",), "flips": (placed,), "looks_note": "not counted"}
    )
    read = Read(comparison_page(found))
    seen = read.text.replace("\u00a0", " ")
    assert seen.index("9 of 60 rollouts") < seen.index(worst_first(RICH.contrasts)[0].sentence)
    assert seen.index("not counted") < seen.index("At a glance")
    assert {"runs.csv line 3", "runs.csv line 7"} <= set(read.inside["code"])
    assert not any(text.startswith("agentlearn trace") for text in read.inside["code"])
    assert others
