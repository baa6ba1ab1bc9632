"""Compares logs of other programs with the same statistics as our own rollouts."""

import platform
import time
from collections.abc import Sequence

from agentlearn.errors import ConfigError
from agentlearn.measure.contrast import Correction
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import ScoreTable, tabulate
from agentlearn.types.ids import content_hash
from agentlearn.version import version
from agentlearn_evals.analysis import assemble
from agentlearn_evals.comparing import Compared
from agentlearn_evals.comparison import Reproducibility
from agentlearn_evals.formats import LogFile, LogSet, read_logs


def compare_logs(
    files: Sequence[str],
    arms: Sequence[str] = (),
    *,
    margin: float | None = None,
    correction: Correction = "holm",
    seed: int = 0,
    allow_missing: bool = False,
) -> Compared:
    """Compare the arms in the logs and return the result with its rollouts.

    files: `FILE`, `ARM=FILE` or `FILE#SCORE`; see docs/other_programs_logs.md. arms: the baseline first; empty: all
    arms, in the order of the logs. seed: of a sampled sign-flip test. allow_missing: compare on the shared tasks.

    Raises ConfigError or DataError for an unreadable file, an unknown arm, or arms that ran on different tasks.
    """
    started, logs = time.perf_counter(), read_logs([LogFile.parse(file) for file in files])
    found = tuple(dict.fromkeys(one.arm for one in logs.observations))
    chosen = _chosen(tuple(arms), found)
    table = tabulate(logs.observations, chosen, allow_missing=allow_missing)
    rules = Rules(correction=correction, margin=margin, seed=seed)
    comparison = assemble(
        table,
        with_verdicts(estimate_contrasts(table, rules), table, rules),
        rules,
        title=f"logs: {', '.join(chosen)}",
        k=max(len(scores) for arm in chosen for scores in table.scores[arm].values()),
        arm_facts={arm: {"label": logs.models.get(arm, arm)} for arm in chosen},
        notes=logs.notes,
        reproducibility=_reproducibility(logs, table, seed),
    )
    kept = tuple(one for one in logs.observations if one.arm in chosen)
    return Compared(comparison.model_copy(update={"wall_s": time.perf_counter() - started}), kept)


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
