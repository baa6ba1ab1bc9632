"""Verdicts: claimed is what test and interval say alike, corrected for arms and looks, and nothing where unsafe."""

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, verdicts_over_tables, with_verdicts
from agentlearn.measure.difference import holm
from agentlearn.measure.score_table import Observation, ScoreTable, comparable, tabulate
from tests.support.cases import cases


def rolled(chances: dict[str, float], *, tasks: int = 60, k: int = 4, seed: int = 0) -> ScoreTable:
    """Right and wrong rollouts, each arm with its chance."""
    rng = Random(seed)
    rows = [
        Observation(arm=arm, task=f"t{task}", g=g, score=float(rng.random() < chance))
        for task in range(tasks)
        for g in range(k)
        for arm, chance in chances.items()
    ]
    return tabulate(rows, list(chances))


def verdicts(found: ScoreTable, rules: Rules | None = None, looks: int = 1) -> dict[str, Contrast]:
    rules = rules or Rules()
    drafts = [one.model_copy(update={"look": looks}) for one in estimate_contrasts(found, rules)]
    return {one.arm: one for one in with_verdicts(drafts, found, rules)}


def test_verdicts_are_right() -> None:
    found = verdicts(rolled({"none": 0.5, "good": 0.8, "bad": 0.2, "same": 0.5}))
    assert {arm: one.verdict for arm, one in found.items()} == {"good": "better", "bad": "worse", "same": "cannot_tell"}
    assert found["good"].sentence.startswith("good is better than none: 0.483 → 0.846, +0.362 [")
    assert found["bad"].sentence.startswith("bad is worse than none: 0.483 → ")
    assert found["same"].sentence.startswith("No detectable change from none to same: ")
    assert "could reliably detect only differences of 0." in found["same"].sentence


def lossy(lost: dict[str, float], *, scale: float = 1.0) -> ScoreTable:
    """Equal arms of 60 tasks x 4 rollouts, of which each lost a share."""
    rng = Random(1)
    rows = [
        Observation(arm=arm, task=f"t{task}", g=g, score=score, status="ok" if score is not None else "undecided")
        for task in range(60)
        for g in range(4)
        for arm, share in lost.items()
        for score in [None if rng.random() < share else scale * (rng.random() < 0.5)]
    ]
    return tabulate(rows, list(lost))


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (
            lossy({"none": 0.5, "a": 0.5}),
            "Cannot tell whether a is better or worse than none: 231 of 480 rollouts have",
        ),
        (
            lossy({"none": 0.0, "a": 0.5}),
            "Cannot tell whether a is better or worse than none: 107 of 480 rollouts have",
        ),
        (lossy({"none": 0.01, "a": 0.01}), "No detectable change from none to a: "),
        (lossy({"none": 0.0, "a": 0.0}), "No detectable change from none to a: "),
        (lossy({"none": 0.01, "a": 0.01}, scale=9), "Cannot tell whether a is better or worse than none: "),
    ],
)
def test_lost_rollouts_that_leave_more_open_than_the_interval_are_no_absence_of_a_change(
    found: ScoreTable, start: str
) -> None:
    one = verdicts(found)["a"]
    assert (one.verdict, one.withheld) == ("cannot_tell", "")
    assert one.sentence.startswith(start)
    if one.left_open and one.worst is not None:
        low, high = f"{one.worst.low:+.3f}", f"{one.worst.high:+.3f}"
        assert f", so the difference could be between {low} and {high}. Measured without them, from" in one.sentence
        assert "could reliably detect" not in one.sentence


def test_arms_that_tie_on_every_task_have_no_detectable_difference() -> None:
    rows = [
        Observation(arm=arm, task=f"t{task}", g=0, score=task % 2, cluster=cluster)
        for cluster, tasks in (("x", range(5)), ("y", range(5, 8)))
        for task in tasks
        for arm in ("none", "same")
    ]
    found = verdicts(tabulate(rows, ["none", "same"]))["same"]
    assert found.detectable is None
    assert found.sentence == "Cannot tell same from none: both have the same score on every task (8 tasks x 1 rollout)."


def test_tasks_of_one_cluster_are_compared_one_by_one_and_it_is_said() -> None:
    rows = [
        Observation(arm=arm, task=f"t{task}", g=0, score=float(arm == "a" and task > 2), cluster="x")
        for task in range(6)
        for arm in ("none", "a")
    ]
    found = verdicts(tabulate(rows, ["none", "a"]))["a"]
    assert found.verdict == "cannot_tell"
    assert (found.clusters, found.only_cluster) == (6, "x")
    assert ", all of 'x' and therefore about such tasks only" in found.sentence


def test_any_pairs_are_compared_and_the_correction_covers_these() -> None:
    table = rolled({"none": 0.5, "a": 0.6, "b": 0.62, "c": 0.85})
    pairs = (("a", "c"), ("none", "b"), ("a", "b"))
    rules = Rules(pairs=pairs)
    found = with_verdicts(estimate_contrasts(table, rules), table, rules)
    assert [(one.baseline, one.arm) for one in found] == list(pairs)
    assert found[0].verdict == "better"
    assert found[0].sentence.startswith("c is better than a: ")
    assert [one.p_adjusted for one in found] == pytest.approx(holm([one.p or 0.0 for one in found]))
    one_by_one = [
        estimate_contrasts(tabulate([*table.all[first], *table.all[second]], [first, second]), Rules())[0]
        for first, second in pairs
    ]
    assert [one.p for one in found] == [one.p for one in one_by_one]
    assert [(one.low, one.high) for one in found] == [(one.low, one.high) for one in one_by_one]


def test_p_is_corrected_for_the_number_of_arms() -> None:
    alone = verdicts(rolled({"none": 0.5, "a": 0.6}))["a"]
    among = verdicts(rolled({"none": 0.5, "a": 0.6, "b": 0.6, "c": 0.6}))
    assert alone.p is not None
    assert alone.p_adjusted == alone.p
    ps = [one.p for one in among.values()]
    adjusted = [one.p_adjusted for one in among.values()]
    assert all(p is not None and late is not None and late >= p for p, late in zip(ps, adjusted, strict=True))
    least = min(range(3), key=lambda place: ps[place] or 0)
    assert adjusted[least] == pytest.approx(min(1.0, 3 * (ps[least] or 0)))


def test_p_is_corrected_for_unplanned_looks() -> None:
    found = rolled({"none": 0.5, "a": 0.57}, seed=3)
    first, third = verdicts(found)["a"], verdicts(found, looks=3)["a"]
    assert first.p is not None
    assert third.p_adjusted == pytest.approx(min(1.0, 24 * first.p)), "4 m (m + 1) for the second unplanned look"
    planned = verdicts(found, Rules(planned_looks=3), looks=3)["a"]
    assert planned.p_adjusted == pytest.approx(min(1.0, 3 * first.p))


def test_no_worse_needs_a_margin() -> None:
    found = rolled({"none": 0.5, "same": 0.5}, tasks=200, k=8)
    assert verdicts(found)["same"].verdict == "cannot_tell"
    one = verdicts(found, Rules(margin=0.1))["same"]
    assert one.verdict == "no_worse"
    assert one.margin is not None
    assert one.margin.bound is not None
    assert -0.1 < one.margin.bound < 0.05
    assert verdicts(found, Rules(margin=0.001))["same"].verdict == "cannot_tell"


def test_an_untrusted_arm_gets_no_verdict() -> None:
    rules = Rules(untrusted={"good": "2 of its lessons hold an expected answer"})
    found = verdicts(rolled({"none": 0.2, "good": 0.9}), rules)["good"]
    assert found.verdict == "cannot_tell"
    assert "hold an expected answer" in found.sentence
    assert found.mean is not None
    assert found.mean > 0.5, "the measured difference is still reported"


def test_too_few_tasks_get_no_verdict() -> None:
    found = verdicts(rolled({"none": 0.0, "good": 1.0}, tasks=4))["good"]
    assert found.verdict == "cannot_tell"
    mixed = verdicts(rolled({"none": 0.3, "good": 0.9}, tasks=5))["good"]
    assert mixed.verdict == "cannot_tell"
    assert "5 tasks" in mixed.caution
    assert "the interval may be too narrow" in mixed.sentence


def test_few_clusters_get_a_verdict_from_the_sign_flip_test_but_not_from_the_interval() -> None:
    """The test by signs holds at any size; no margin may rest on an interval over few clusters."""
    rng = Random(3)
    rows = [
        Observation(arm=arm, task=f"t{c}-{n}", score=base + 0.1 * rng.random(), cluster=f"c{c}")
        for c in range(12)
        for n in range(5)
        for arm, base in (("none", 0.5), ("good", 0.7), ("same", 0.5))
    ]
    found = verdicts(tabulate(rows, ["none", "good", "same"]), Rules(margin=0.05))
    assert found["good"].verdict == "better"
    assert "12 clusters" in found["good"].caution
    assert found["same"].margin is not None
    assert found["same"].margin.holds
    assert found["same"].verdict == "cannot_tell"


def test_clusters_widen_the_interval_and_are_in_the_sentence() -> None:
    rng = Random(1)
    shifts = [rng.choice([-0.4, 0.0, 0.6]) for _ in range(12)]
    rows = [
        Observation(
            arm=arm, task=f"t{c}-{n}", score=0.5 + (shifts[c] if arm == "b" else 0.0), cluster=f"c{c}" * grouped
        )
        for grouped in (1,)
        for c in range(12)
        for n in range(6)
        for arm in "ab"
    ]
    clustered = verdicts(tabulate(rows, ["a", "b"]))["b"]
    alone = verdicts(tabulate([one.model_copy(update={"cluster": ""}) for one in rows], ["a", "b"]))["b"]
    assert (clustered.clusters, alone.clusters) == (12, 72)
    assert clustered.standard_error is not None
    assert alone.standard_error is not None
    assert clustered.standard_error > 2 * alone.standard_error
    assert "in 12 clusters" in clustered.sentence


def test_mcnemar_only_for_one_rollout_of_right_or_wrong() -> None:
    assert verdicts(rolled({"none": 0.4, "a": 0.7}, k=1))["a"].mcnemar_p is not None
    assert verdicts(rolled({"none": 0.4, "a": 0.7}, k=2))["a"].mcnemar_p is None


def test_undecided_rollouts_are_bounded_both_ways() -> None:
    rows = [Observation(arm=arm, task=f"t{n}", score=1.0) for arm in "ab" for n in range(20)]
    rows[25] = Observation(arm="b", task="t5", score=None, status="undecided")
    one = verdicts(tabulate([*rows, *(row.model_copy(update={"g": 1}) for row in rows)], ["a", "b"]))["b"]
    assert one.worst is not None
    assert one.worst.low == pytest.approx(-1 / 20)
    assert one.worst.high == pytest.approx(0)
    assert one.mean == 0
    assert one.tasks == 19


def changed(
    lost: Callable[[Observation], bool],
    *,
    missing: bool = False,
    chances: tuple[float, float] = (0.5, 0.5),
    seed: int = 0,
) -> ScoreTable:
    """Rollouts of `a` and `b` on 60 tasks, of which some are undecided or missing."""
    rng = Random(0)
    rows = [
        Observation(arm=arm, task=f"t{task}", g=g, score=float(rng.random() < chance))
        for task in range(60)
        for g in range(4)
        for arm, chance in zip("ab", chances, strict=True)
    ]
    if missing:
        return tabulate([one for one in rows if not lost(one)], ["a", "b"], allow_missing=True)
    gone = {"score": None, "status": "undecided", "error": "timeout"}
    return tabulate([one.model_copy(update=gone) if lost(one) else one for one in rows], ["a", "b"])


@pytest.mark.parametrize("missing", [False, True])
def test_lost_wrong_rollouts_of_one_arm_withhold_the_verdict(missing: bool) -> None:
    rng = Random(5)
    table = changed(lambda one: one.arm == "b" and one.score == 0 and rng.random() < 0.4, missing=missing)
    found = verdicts(table, Rules(undecided_hint="repeat them with --retry-failed"))["b"]
    assert (found.verdict, found.withheld_code) == ("cannot_tell", "bounds")
    code = "missing" if missing else "timeout"
    assert found.sentence.startswith(f"No verdict: {found.undecided.arm} rollouts of b ({code} {found.undecided.arm})")
    assert "; repeat them with --retry-failed. Measured from a to b: 0." in found.sentence
    assert found.worst is not None
    assert found.worst.low < found.worst.high


@pytest.mark.parametrize("arm", ["a", "b"])
def test_rollouts_that_one_arm_loses_at_random_leave_the_verdict(arm: str) -> None:
    """Only one arm has lost rollouts, but too few to change anything."""
    rng = Random(4)
    table = changed(lambda one: one.arm == arm and rng.random() < 0.03, chances=(0.4, 0.6))
    assert verdicts(table)["b"].verdict == "better"


def test_a_second_line_says_under_which_assumption_the_verdict_would_hold() -> None:
    rng = Random(5)
    table = changed(lambda one: one.arm == "b" and rng.random() < 0.3, chances=(0.4, 0.55))
    found = verdicts(table)["b"]
    assert (found.verdict, found.withheld_code) == ("cannot_tell", "bounds")
    assert found.sensitivity is not None
    assert 1 < found.sensitivity < 2.5, "at 2.5 times as often, all lost rollouts would be wrong"
    assert found.holds_if == (
        f"Under an assumption, b is better than a: as long as the {found.undecided.arm} lost rollouts of b are not"
        f" wrong more than {math.floor(10 * found.sensitivity) / 10:g} times as often as its others."
    )


def test_all_rollouts_of_an_arm_with_more_of_every_task_count() -> None:
    table = changed(lambda one: one.arm == "a" and one.g >= 1, missing=True, chances=(0.3, 0.8))
    found = verdicts(table)["b"]
    assert found.verdict == "better"
    assert {len(scores) for scores in table.scores["b"].values()} == {4}
    assert "60 tasks x 1 rollout of a and 4 of b" in found.sentence


@pytest.mark.parametrize("text", ["What is 2 + 2?", " what is\t2 + 2? ", "Ｗhat is 2 + 2?"])
def test_tasks_with_the_same_text_are_one_cluster(text: str) -> None:
    rows = [
        Observation(arm=arm, task=f"t{n}", score=float(arm == "b" and n > 2), problem=text if n % 8 == 1 else f"q{n}")
        for arm in "ab"
        for n in range(40)
    ]
    rows = [one.model_copy(update={"problem": "What is 2 + 2?"}) if one.task == "t1" else one for one in rows]
    table = tabulate(rows, ["a", "b"])
    assert table.alike == ("t9", "t17", "t25", "t33")
    assert verdicts(table)["b"].clusters == 36


def test_a_text_joins_the_clusters_of_its_tasks_unless_all_tasks_have_it() -> None:
    rows = [
        Observation(
            arm=arm, task=f"t{n}", score=n % 2, cluster=f"c{n // 3}", problem="same" if n in {1, 5} else f"q{n}"
        )
        for arm in "ab"
        for n in range(12)
    ]
    assert len(set(tabulate(rows, ["a", "b"]).clusters())) == 3
    constant = [one.model_copy(update={"problem": "Solve the task."}) for one in rows]
    assert len(set(tabulate(constant, ["a", "b"]).clusters())) == 4


def test_undecided_rollouts_of_both_arms_that_could_change_the_result_withhold_it() -> None:
    """As many are undecided on both sides, but the wrong ones of b and the right ones of a."""
    rng = Random(2)
    table = changed(lambda one: one.score == (one.arm == "a") and rng.random() < 0.25)
    found = verdicts(table)["b"]
    assert found.low is not None
    assert found.low > 0, "the decided rollouts alone would say better"
    assert (found.verdict, found.withheld_code) == ("cannot_tell", "bounds")
    assert "their true scores could change the result" in found.sentence


def test_a_few_undecided_rollouts_do_not_withhold_a_large_difference() -> None:
    table = changed(lambda one: int(one.task[1:]) % 20 == 0 and one.g == 1, chances=(0.3, 0.8))
    found = verdicts(table)["b"]
    assert found.verdict == "better"
    assert "6 rollouts have no score, and with them it is between +0." in found.sentence
    one = verdicts(changed(lambda one: one.task == "t3" and one.arm == "a" and one.g == 1, chances=(0.3, 0.8)))["b"]
    assert "1 rollout has no score, and with it the difference is between +0." in one.sentence


def test_verdicts_of_several_tables_are_corrected_for_all_of_their_contrasts() -> None:
    table = changed(lambda _: False, chances=(0.3, 0.8))
    drafts = [(draft, table) for draft in estimate_contrasts(table, Rules())]
    alone, together = with_verdicts([drafts[0][0]], table, Rules()), verdicts_over_tables(drafts * 3, Rules())
    assert alone[0].p is not None
    assert [one.p_adjusted for one in together] == pytest.approx([3 * alone[0].p] * 3)
    assert alone[0].p_adjusted == pytest.approx(alone[0].p)


def test_undecided_rollouts_with_scores_of_an_unknown_range_withhold_the_verdict() -> None:
    rows = [Observation(arm=arm, task=f"t{n}", score=100.0 * (arm == "b") + n) for arm in "ab" for n in range(40)]
    rows = [one.model_copy(update={"score": None, "status": "undecided"}) if one.task == "t7" else one for one in rows]
    found = verdicts(tabulate(rows, ["a", "b"]))["b"]
    assert found.worst is None
    assert found.withheld_code == "bounds"
    assert "the range of the scores is not known" in found.withheld
    known = verdicts(tabulate(rows, ["a", "b"]), Rules(score_range=(0, 140)))["b"]
    assert known.verdict == "better"


def test_small_gains_everywhere_do_not_hide_a_rare_large_loss() -> None:
    """2 % of tasks lose 0.9 and the others gain 0.018: a sample without a loss looks best of all."""
    rng = Random(4)
    scores = [(0.94, 0.94 + 0.018 + 0.004 * rng.random()) for _ in range(60)]
    rows = [
        Observation(arm=arm, task=f"t{n}", score=score)
        for n, pair in enumerate(scores)
        for arm, score in zip("ab", pair, strict=True)
    ]
    found = verdicts(tabulate(rows, ["a", "b"]))["b"]
    assert found.p is not None
    assert found.p < 0.001
    assert found.withheld_code == "unseen"
    assert found.sentence.startswith(
        "No verdict: if 2 of 100 tasks lost all that they have, the arms would be equal, and a sample of 60 tasks can"
        " easily miss those (one of 143 would not). Measured from a to b: 0.940 → 0.960, +0.020 ["
    )


def test_small_gains_do_not_show_that_no_task_loses_more_than_the_margin() -> None:
    """If 4 % of tasks lose 0.9, the arm is worse by 0.018, but most samples of 30 tasks hold none of them."""
    rng = Random(4)
    rows = [
        Observation(arm=arm, task=f"t{n}", score=0.94 + (arm == "b") * rng.uniform(-0.01, 0.02))
        for n in range(30)
        for arm in "ab"
    ]
    found = verdicts(tabulate(rows, ["a", "b"]), Rules(margin=0.018))["b"]
    assert found.margin is not None
    assert found.margin.holds, "the interval alone would say no worse"
    assert (found.verdict, found.withheld_code) == ("cannot_tell", "unseen")
    assert "lost all that they have, b would be worse by 0.018, and a sample of 30 tasks" in found.sentence


@given(st.lists(st.tuples(st.sampled_from([None, 0.0, 0.5, 1.0]), st.sampled_from([None, 0.0, 0.5, 1.0])), min_size=4))
def test_filled_in_scores_stay_within_the_bounds(pairs: list[tuple[float | None, float | None]]) -> None:
    rows = [
        Observation(arm=arm, task=f"t{n // 2}", g=n % 2, score=score, status="ok" if score is not None else "undecided")
        for n, pair in enumerate(pairs)
        for arm, score in zip("ab", pair, strict=True)
    ]
    assume(comparable(rows, ["a", "b"]))
    found = verdicts(tabulate(rows, ["a", "b"]))["b"]
    assert found.worst is not None
    for fill in (0.0, 0.3, 1.0):
        full = [
            one if one.score is not None else one.model_copy(update={"score": fill, "status": "ok"}) for one in rows
        ]
        mean = verdicts(tabulate(full, ["a", "b"]))["b"].mean
        assert mean is not None
        assert found.worst.low - 1e-9 <= mean <= found.worst.high + 1e-9
    if found.verdict == "better":
        assert found.worst.low > 0
    if found.verdict == "worse":
        assert found.worst.high < 0


@pytest.mark.slow
def test_the_named_number_of_tasks_detects_the_difference() -> None:
    """The number of tasks that is named finds an effect of that size in about four of five repetitions."""
    pilot = verdicts(rolled({"none": 0.5, "a": 0.6}, tasks=30, k=4, seed=11))["a"]
    assert pilot.verdict == "cannot_tell"
    assert pilot.tasks_needed is not None
    gain = abs(pilot.mean or 0)
    found = [
        verdicts(rolled({"none": 0.5, "a": 0.5 + gain}, tasks=pilot.tasks_needed, k=4, seed=seed))["a"].verdict
        for seed in range(24)
    ]
    assert 14 <= found.count("better") <= 23, found.count("better")


def test_the_interval_of_an_arm_stays_between_0_and_1() -> None:
    found = rolled({"none": 0.02, "good": 0.97}, tasks=12, k=4)
    low, high = found.score("none", 0.95), found.score("good", 0.95)
    assert low.low is not None
    assert high.high is not None
    assert 0 <= low.low <= low.mean
    assert high.mean <= high.high <= 1


def test_the_interval_of_an_arm_that_is_always_right_has_a_width() -> None:
    always = rolled({"always": 1.0}, tasks=12, k=4).score("always", 0.95)
    assert (always.mean, always.high) == (1.0, 1.0)
    assert always.low == pytest.approx(0.7575, abs=1e-4)  # Wilson's, for 12 of 12


def test_wins_losses_and_ties_are_counted_by_task() -> None:
    scores = {"a": [0.0, 1.0, 0.5, 0.5], "b": [1.0, 0.0, 0.5, 1.0]}
    rows = [Observation(arm=arm, task=f"t{n}", score=score) for arm in "ab" for n, score in enumerate(scores[arm])]
    one = verdicts(tabulate(rows, ["a", "b"]))["b"]
    assert (one.wins, one.losses, one.ties) == (2, 1, 1)


def texts_of(kinds: int, each: int, form: str) -> list[str]:
    words = ("ant", "bee", "cod", "doe", "elk", "fox", "gnu", "hen", "ibis", "jay")
    return [
        f"the {' '.join(words[(kind + step * (kind + 1)) % 10] for step in range(8))} number {kind * 'so '}"
        + form.format(n)
        for kind in range(kinds)
        for n in range(each)
    ]


def test_texts_of_one_template_are_one_cluster(subtests: pytest.Subtests) -> None:
    for name, texts, clusters in cases(__file__, "templates"):
        with subtests.test(case=name):
            given = texts if isinstance(texts, list) else texts_of(**texts)
            rows = [
                Observation(arm=arm, task=f"t{n}", score=0, problem=text)
                for arm in "ab"
                for n, text in enumerate(given)
            ]
            assert len(set(tabulate(rows, ["a", "b"]).clusters())) == clusters


def test_a_family_that_was_given_is_not_joined_by_a_template() -> None:
    rows = [
        Observation(arm=arm, task=f"t{n}", score=0, cluster=f"c{n}", problem=text)
        for arm in "ab"
        for n, text in enumerate(texts_of(3, 4, "{} of them"))
    ]
    assert len(set(tabulate(rows, ["a", "b"]).clusters())) == 12


def test_few_large_scores_on_the_other_side_withhold_a_verdict_unless_the_range_is_stated() -> None:
    after = [3.0 + n % 3 for n in range(56)] + [30.0, 34.0, 38.0, 42.0]
    rows = [
        Observation(arm=arm, task=f"t{n}", score=score)
        for n, two in enumerate(after)
        for arm, score in (("a", 14.0), ("b", two))
    ]
    table = tabulate(rows, ["a", "b"])
    found = verdicts(table)["b"]
    assert (found.verdict, found.withheld_code) == ("cannot_tell", "unseen")
    assert "the range of the scores is not known" in found.sentence
    [stated] = with_verdicts(estimate_contrasts(table, Rules(score_range=(0, 50))), table, Rules(score_range=(0, 50)))
    assert stated.verdict == "worse"


@pytest.mark.parametrize(("allowed", "verdict"), [(None, "better"), (0.5, "better"), (0.1, "cannot_tell")])
def test_better_must_also_pay_where_that_is_asked(allowed: float | None, verdict: str) -> None:
    prices = {"none": 0.01, "good": 0.012}
    rows = [
        one.model_copy(update={"cost_usd": prices[name]})
        for name, all_of in rolled({"none": 0.5, "good": 0.8}).all.items()
        for one in all_of
    ]
    found = verdicts(tabulate(rows, list(prices)), Rules(cost_margin=allowed))["good"]
    assert found.verdict == verdict
    assert "at +20 % of cost" in found.sentence
    withheld = verdict == "cannot_tell"
    assert found.sentence.startswith("No verdict: the score of good is better, but a rollout costs +20 %") == withheld
