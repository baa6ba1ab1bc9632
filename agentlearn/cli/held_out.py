"""The result of a run on held-out tasks, as lines of text: the verdict first, and every caution next to its number."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentlearn.cli.output import change_words, count_words, score_words
from agentlearn.learning.report import Delta, HeldOutScore
from agentlearn.measure.contrast import ContrastVerdict

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport
    from agentlearn.train.report import TrainReport

_VERDICTS: dict[ContrastVerdict, str] = {
    "better": "better",
    "worse": "WORSE than before",
    "no_worse": "not worse",
    "cannot_tell": "no detectable change",
}


def verdict_words(
    verdict: ContrastVerdict, *, withheld: str = "", left_open: str = "", ci: Sequence[float] | None = None
) -> str:
    """Return a result as people read it: its verdict, or how little is known without one. Fields of `Delta`."""
    if withheld:
        return "no verdict"
    if left_open:
        return "cannot tell"
    return "not certain" if verdict == "cannot_tell" and ci and (ci[0] > 0 or ci[1] < 0) else _VERDICTS[verdict]


def held_out_lines(report: "LearnReport | TrainReport") -> Iterator[str]:
    """Yield the lines of a run that measured before and after. The first holds the verdict."""
    before, after, delta = report.before, report.after, report.delta
    if before is None or after is None or delta is None:
        return
    if not delta.compared:
        yield f"{score_words(before.mean)}   {delta.sentence}"
        yield from _not_counted([("", before)])
        return
    verdict = verdict_words(delta.verdict, withheld=delta.withheld, left_open=delta.left_open, ci=delta.ci)
    if delta.withheld:
        yield delta.withheld
    if delta.left_open:
        yield f"{verdict}: {delta.left_open}"
        verdict = "without them"
    yield f"{verdict}: {_change(before, after, delta)}   {_size(delta)} x {after.k}{_caution(delta)}"
    if delta.worst is not None and (before.undecided or after.undecided) and not delta.left_open:
        low, high = delta.worst.low, delta.worst.high
        yield f"bounds {low:+.2f} to {high:+.2f}, whatever the undecided rollouts would have been"
    yield from _not_counted([(" before", before), (" after", after)])
    yield from _passes(before, after)
    for part in (report.known_families, report.unseen_families, *report.test_sets):
        if part is not None:
            size = f"{_size(part.delta)}{_caution(part.delta)}"
            yield f"{part.name} {_change(part.before, part.after, part.delta, with_p=False)}   {size}"


def _change(before: HeldOutScore, after: HeldOutScore, delta: Delta, *, with_p: bool = True) -> str:
    scores = f"{score_words(before.mean)} → {score_words(after.mean)}"
    return f"{scores}   {change_words(delta.mean, delta.ci, delta.p if with_p else None)}"


def _size(delta: Delta) -> str:
    families = f" in {count_words(delta.clusters, 'family')}" if delta.clusters < delta.n else ""
    if delta.only_family:
        families = f", all of {delta.only_family!r}"
    return count_words(delta.n, "task") + families


def _caution(delta: Delta) -> str:
    """The cautions in short; the report has them in full."""
    units = count_words(delta.clusters, "family" if delta.clusters < delta.n else "task")
    said = [f"with {units} the interval may be too narrow"] if delta.caution and delta.ci is not None else []
    said += [delta.carried] if delta.carried else []
    return f"   caution: {'; '.join(said)}" if said and not delta.withheld else ""


def _passes(before: HeldOutScore, after: HeldOutScore) -> Iterator[str]:
    """Yield pass@k for the largest k that both sides have, if there are several rollouts."""
    shared = {one.k: one.at_least_one for one in before.passes}
    largest = max((one for one in after.passes if one.k in shared and one.k > 1), key=lambda one: one.k, default=None)
    if largest is not None:
        yield f"pass@{largest.k} {score_words(shared[largest.k])} → {score_words(largest.at_least_one)}"


def _not_counted(sides: Sequence[tuple[str, HeldOutScore]]) -> Iterator[str]:
    """Yield the counts of undecided and of failed rollouts, where there are any."""
    counts = {
        "undecided (left out)": [(side, one.undecided, one.rollouts) for side, one in sides],
        "failed to answer (counted as 0)": [(side, one.failed, one.rollouts) for side, one in sides],
    }
    codes = sorted({code for _, one in sides for code in one.errors})
    for words, found in counts.items():
        if any(count for _, count, _ in found):
            yield f"{words}: {', '.join(f'{n} of {all_}{side}' for side, n, all_ in found)}   {', '.join(codes)}"
