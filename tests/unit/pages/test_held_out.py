"""The result of a run in lines: the verdict first, cautions on the line of their number, nothing left unsaid."""

from dataclasses import dataclass, field

from agentlearn.learning.report import Delta, HeldOut, HeldOutScore
from agentlearn.measure.contrast import Pass, Worst
from agentlearn.pages.runs import held_out_lines
from tests.support.snapshot import assert_snapshot


@dataclass
class Report:
    """The parts of a report that the lines are made from."""

    before: HeldOutScore | None
    after: HeldOutScore | None
    delta: Delta | None
    known_families: HeldOut | None = None
    unseen_families: HeldOut | None = None
    test_sets: tuple[HeldOut, ...] = field(default=())


def score(mean: float | None, **fields: object) -> HeldOutScore:
    return HeldOutScore.model_validate({"mean": mean, "ci": (0.4, 0.8), "n": 60, "k": 4, "rollouts": 240, **fields})


def delta(mean: float, **fields: object) -> Delta:
    given = {"mean": mean, "ci": (mean - 0.1, mean + 0.1), "p": 0.01, "n": 60, "clusters": 25, "sentence": "S."}
    return Delta.model_validate(given | fields)


def test_every_kind_of_result_has_its_lines() -> None:
    better = delta(0.2, verdict="better")
    withheld = delta(0.2, withheld="90 of 240 rollouts could not be judged.", worst=Worst(low=-0.2, high=0.4))
    unjudged = score(0.7, undecided=90, errors={"endpoint_503": 90})
    words = "240 of 480 rollouts have no score, so the difference could be between -0.51 and +0.49"
    left_open = delta(0.0, left_open=words, worst=Worst(low=-0.51, high=0.49))
    half = score(0.5, undecided=120)
    passes = [tuple(Pass(k=k, at_least_one=at + k / 100, all_of_them=None) for k in (1, 2, 4)) for at in (0.5, 0.9)]
    sets = tuple(
        HeldOut(name=name, before=score(0.5), after=score(0.6), delta=delta(0.1, n=30, clusters=30), families=1)
        for name in ("hf:aime24", "hf:aime25")
    )
    once = Delta(mean=0.0, ci=None, p=None, n=60, sentence="learning changed nothing", compared=False)
    reports = {
        **{one: Report(score(0.5), score(0.7), delta(0.2, verdict=one)) for one in ("better", "worse", "cannot_tell")},
        "a caution": Report(score(0.5), score(0.7), delta(0.2, verdict="better", caution="few")),
        "withheld": Report(score(0.5), unjudged, withheld),
        "left open": Report(half, half, left_open),
        "failed": Report(score(0.5), score(0.7, failed=3, errors={"too_many_turns": 3}), better),
        "passes": Report(score(0.5, passes=passes[0]), score(0.7, passes=passes[1]), better),
        "test sets": Report(score(0.5), score(0.6), delta(0.1), test_sets=sets),
        "one measurement": Report(score(0.5), score(0.5), once),
        "not measured": Report(None, None, None),
    }
    shown = [line for name, one in reports.items() for line in (f"# {name}", *held_out_lines(one))]  # type: ignore[arg-type]
    assert_snapshot(__file__, "held_out", "\n".join(shown))
