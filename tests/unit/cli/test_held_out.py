"""The result of a run in lines: the verdict first, cautions on the line of their number, nothing left unsaid."""

from dataclasses import dataclass, field

from agentlearn.cli.held_out import held_out_lines
from agentlearn.learning.report import Delta, HeldOut, HeldOutScore
from agentlearn.measure.contrast import Pass, Worst


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


def lines(report: Report) -> list[str]:
    return list(held_out_lines(report))  # type: ignore[arg-type]


def test_the_verdict_is_the_first_word() -> None:
    verdicts = {"better": "better: ", "worse": "WORSE than before: ", "cannot_tell": "not certain: "}
    for verdict, words in verdicts.items():
        [line] = lines(Report(score(0.5), score(0.7), delta(0.2, verdict=verdict)))
        assert line == f"{words}0.50 → 0.70   +0.20 [+0.10, +0.30]   p = 0.010   60 tasks in 25 families x 4"


def test_a_caution_is_on_the_line_of_its_number() -> None:
    [line] = lines(Report(score(0.5), score(0.7), delta(0.2, verdict="better", caution="few")))
    assert line.endswith("   caution: with 25 families the interval may be too narrow")


def test_a_withheld_verdict_starts_with_its_reason() -> None:
    before = score(0.5)
    after = score(0.7, undecided=90, errors={"endpoint_503": 90})
    withheld = delta(0.2, withheld="90 of 240 rollouts could not be judged.", worst=Worst(low=-0.2, high=0.4))
    found = lines(Report(before, after, withheld))
    assert found[0] == "90 of 240 rollouts could not be judged."
    assert found[1].startswith("no verdict: 0.50 → 0.70")
    assert found[2] == "bounds -0.20 to +0.40, whatever the undecided rollouts would have been"
    assert found[3] == "undecided (left out): 0 of 240 before, 90 of 240 after   endpoint_503"


def test_what_undecided_rollouts_leave_open_comes_before_the_numbers() -> None:
    words = "240 of 480 rollouts have no score, so the difference could be between -0.51 and +0.49"
    left_open = delta(0.0, left_open=words, worst=Worst(low=-0.51, high=0.49))
    found = lines(Report(score(0.5, undecided=120), score(0.5, undecided=120), left_open))
    assert found[:2] == [
        f"cannot tell: {words}",
        "without them: 0.50 → 0.50   +0.00 [-0.10, +0.10]   p = 0.010   60 tasks in 25 families x 4",
    ]
    assert not any("no detectable change" in line or line.startswith("bounds") for line in found)


def test_failed_rollouts_are_counted() -> None:
    after = score(0.7, failed=3, errors={"too_many_turns": 3})
    found = lines(Report(score(0.5), after, delta(0.2, verdict="better")))
    assert found[1] == "failed to answer (counted as 0): 0 of 240 before, 3 of 240 after   too_many_turns"


def test_pass_at_k_is_shown_for_the_largest_k_of_both() -> None:
    passes = [tuple(Pass(k=k, at_least_one=at + k / 100, all_of_them=None) for k in (1, 2, 4)) for at in (0.5, 0.9)]
    found = lines(Report(score(0.5, passes=passes[0]), score(0.7, passes=passes[1]), delta(0.2, verdict="better")))
    assert found[1] == "pass@4 0.54 → 0.94"


def test_every_test_set_has_its_line() -> None:
    sets = tuple(
        HeldOut(name=name, before=score(0.5), after=score(0.6), delta=delta(0.1, n=30, clusters=30), families=1)
        for name in ("hf:aime24", "hf:aime25")
    )
    found = lines(Report(score(0.5), score(0.6), delta(0.1), test_sets=sets))
    assert [line.split("   ")[0] for line in found[1:]] == ["hf:aime24 0.50 → 0.60", "hf:aime25 0.50 → 0.60"]


def test_one_measurement_is_not_shown_as_a_comparison() -> None:
    once = Delta(mean=0.0, ci=None, p=None, n=60, sentence="learning changed nothing", compared=False)
    assert lines(Report(score(0.5), score(0.5), once)) == ["0.50   learning changed nothing"]


def test_a_run_that_was_not_measured_has_no_lines() -> None:
    assert lines(Report(None, None, None)) == []
