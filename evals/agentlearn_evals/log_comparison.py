"""Compares logs of other programs with the same statistics as our own rollouts."""

import asyncio
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentlearn.errors import ConfigError, DataError
from agentlearn.installed import version
from agentlearn.measure.contrast import Contrast, Correction
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, comparable, in_score_range, tabulate
from agentlearn.types.ids import content_hash
from agentlearn_evals.analysis import assemble, demand_decided, lost_rollouts
from agentlearn_evals.arms import baseline_first, named_pairs
from agentlearn_evals.compare_settings import refuse_large_margin
from agentlearn_evals.comparing import Compared
from agentlearn_evals.comparison import Comparison, Reproducibility
from agentlearn_evals.formats import LogFile, LogSet, read_logs
from agentlearn_evals.formats.log_file import Span
from agentlearn_evals.log_looks import EarlierLogs, LogSettings, compare_and_record, fingerprint, without_store


def compare_logs(
    files: Sequence[str],
    arms: Sequence[str] = (),
    *,
    baseline: str | None = None,
    pairs: Sequence[str] = (),
    score_range: tuple[float, float] | None = None,
    margin: float | None = None,
    correction: Correction = "holm",
    planned_looks: int = 1,
    seed: int = 0,
    allow_missing: bool = False,
    store: Path | None = None,
) -> Compared:
    """Compare the arms in the logs and return the result with its rollouts.

    files: `FILE`, `ARM=FILE` or `FILE#SCORE`; see docs/other_programs_logs.md. arms: the baseline first; empty: all
    arms, in the order of the logs. baseline: an arm to be first instead. pairs: as `CompareSettings.pairs`.
    score_range: lowest and highest possible score; None: 0 to 1 if all scores are between them, otherwise not known,
    and then undecided rollouts withhold every verdict. planned_looks: number of looks at logs of the same arms, fixed
    in advance. seed: of a sampled sign-flip test. allow_missing: compare on the shared tasks. store: directory in which
    earlier comparisons of the same arms are found, and this one is recorded; with it, call from a program without an
    event loop.

    Raises ConfigError or DataError for an unreadable file, an unknown arm, an arm without a decided rollout, arms that
    ran on different tasks, or a score outside the range. A store that cannot be used is no error; the result says so.
    """
    refuse_large_margin(margin, score_range)
    started, logs = time.perf_counter(), read_logs([LogFile.parse(file) for file in files])
    found = tuple(dict.fromkeys(one.arm for one in logs.observations))
    chosen = baseline_first(_chosen(tuple(arms), found), baseline)
    kept = tuple(one for one in logs.observations if one.arm in chosen)
    kept = kept if score_range is None else in_score_range(kept, score_range)
    _demand_comparable(kept, chosen)
    table = tabulate(kept, chosen, allow_missing=allow_missing)
    rules = Rules(
        correction=correction,
        margin=margin,
        planned_looks=planned_looks,
        seed=seed,
        score_range=score_range,
        pairs=named_pairs(pairs, chosen),
    )
    drafts = estimate_contrasts(table, rules)
    settings = LogSettings(
        logs=tuple(files),
        margin=margin,
        correction=correction,
        planned_looks=planned_looks,
        seed=seed,
        allow_missing=allow_missing,
        fingerprints=tuple(fingerprint(arm, kept) for arm in chosen),
        pairs=rules.pairs,
    )

    def with_looks(earlier: EarlierLogs) -> Comparison:
        found = [earlier.looks(draft, settings) for draft in drafts]
        judged = with_verdicts([contrast for contrast, _ in found], table, rules)
        contrasts = [_with_times(one, logs.times) for one in judged]
        compared = _assembled(logs, table, contrasts, rules)
        return compared.model_copy(update={"looks": tuple(look for _, looks in found for look in looks)})

    if store is None:
        comparison = without_store(with_looks, "no store was given")
    else:
        models = dict.fromkeys(logs.models.get(arm, arm) for arm in chosen)
        comparison = asyncio.run(compare_and_record(store, settings, ", ".join(models), with_looks))
    return Compared(comparison.model_copy(update={"wall_s": time.perf_counter() - started}), kept)


def _assembled(logs: LogSet, table: ScoreTable, contrasts: Sequence[Contrast], rules: Rules) -> Comparison:
    return assemble(
        table,
        contrasts,
        rules,
        title=f"logs: {', '.join(table.arms)}",
        k=max(len(scores) for arm in table.arms for scores in table.scores[arm].values()),
        arm_facts={arm: {"label": logs.models.get(arm, arm)} for arm in table.arms},
        warnings=logs.warnings,
        notes=logs.notes,
        reproducibility=_reproducibility(logs, table, rules.seed),
        places=logs.places,
    ).model_copy(update={"cost_usd": None})


def _with_times(contrast: Contrast, times: Mapping[str, Span]) -> Contrast:
    """Return the contrast with a sentence that says so when the logs show that its arms ran at different times."""
    mine, other = times.get(contrast.arm), times.get(contrast.baseline)
    if mine is None or other is None or (mine[0] <= other[1] and other[0] <= mine[1]):
        return contrast
    ran = " and ".join(
        f"{name} from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        for name, (first, last) in ((contrast.baseline, other), (contrast.arm, mine))
    )
    words = f"The arms ran at different times ({ran}), so a service that changed in between would look like this too."
    return contrast.model_copy(update={"sentence": f"{contrast.sentence} {words}"})


def _demand_comparable(observations: Sequence[Observation], arms: Sequence[str]) -> None:
    """Raise DataError when an arm has no decided rollout, or no task is decided in every arm."""
    by_arm = {arm: [one for one in observations if one.arm == arm] for arm in arms}
    demand_decided(by_arm)
    if {one.task for one in observations if one.score is None} and not comparable(observations, arms):
        raise DataError(
            f"no rollout is decided in every arm, so nothing can be compared ({'; '.join(lost_rollouts(by_arm))}); run"
            " the undecided ones again",
            code="nothing_to_compare",
        )


def _chosen(arms: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    named = ", ".join(repr(one) for one in found) or "none"
    for arm in arms:
        if arm not in found:
            raise ConfigError(f"the logs have no arm {arm!r} (found: {named}); name one of these", code="unknown_arm")
    chosen = arms or found
    if len(set(chosen)) < 2:
        raise ConfigError(
            f"a comparison needs two arms, but there is {len(set(chosen))} (found in the logs: {named}); give another"
            " log with --logs",
            code="one_arm",
        )
    return tuple(dict.fromkeys(chosen))


def _reproducibility(logs: LogSet, table: ScoreTable, seed: int) -> Reproducibility:
    return Reproducibility(
        seed=seed,
        data=content_hash("data", sorted(table.tasks)),
        models=logs.models,
        sources=logs.sources,
        versions={"agentlearn-lib": version(), "python": platform.python_version()},
    )
