"""Compares logs of other programs with the same statistics as our own rollouts.

Every comparison of logs is stored as a run with fingerprints of its data, by which later ones count their looks.
"""

import asyncio
import json
import platform
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Self

from agentlearn.domain.base import Domain, load_domain
from agentlearn.errors import ConfigError, DataError, StoreError, StoreLocked
from agentlearn.measure.contrast import Contrast, Correction
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Observation, ScoreTable, comparable, in_score_range, tabulate
from agentlearn.plugins import version
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import RunRow, open_store, read_store
from agentlearn.types.ids import content_hash, new_run_id
from agentlearn.types.value import Value
from agentlearn_evals.analysis import assemble, demand_decided, lost_rollouts
from agentlearn_evals.arms import baseline_first, named_pairs
from agentlearn_evals.compare_settings import refuse_large_margin
from agentlearn_evals.comparing import Compared
from agentlearn_evals.comparison import Comparison, InterimLook, Reproducibility
from agentlearn_evals.formats import LogFile, LogSet, read_logs
from agentlearn_evals.formats.log_file import Span

_SAMPLE = 4096
"""Largest number of rollouts of an arm in its fingerprint. Of more, the ones with the smallest keys are kept."""
FEW = 10
"""Shared rollouts of an arm from which equal scores are no chance. Below, arms must also have the same name."""
_KEY_BYTES, _SCORE_BYTES = 6, 4


class ArmFingerprint(Value):
    """What an arm's decided rollouts are known by, without their contents."""

    arm: str
    rollouts: int
    """Number of decided rollouts."""
    digest: str
    """Hash of all decided rollouts with their scores, in any order."""
    sample: str
    """Hashes of task and index, each with a hash of the score, in order; base64."""

    @classmethod
    def of(cls, arm: str, observations: Sequence[Observation]) -> Self:
        """Return the fingerprint of one arm. Undecided rollouts are left out, because a later log may decide them."""
        pairs = sorted(
            (_hash(json.dumps([one.task, one.g]), _KEY_BYTES), _hash(f"{one.score:.9g}", _SCORE_BYTES))
            for one in observations
            if one.arm == arm and one.score is not None
        )
        packed = b"".join(key + score for key, score in pairs)
        digest = blake2b(packed, digest_size=16).hexdigest()
        sample = b64encode(packed[: _SAMPLE * (_KEY_BYTES + _SCORE_BYTES)]).decode()
        return cls(arm=arm, rollouts=len(pairs), digest=digest, sample=sample)

    @cached_property
    def scores(self) -> Mapping[bytes, bytes]:
        """Hash of the score by hash of task and index, for the sampled rollouts in order."""
        packed, size = b64decode(self.sample), _KEY_BYTES + _SCORE_BYTES
        pieces = (packed[at : at + size] for at in range(0, len(packed), size))
        return {piece[:_KEY_BYTES]: piece[_KEY_BYTES:] for piece in pieces}

    @property
    def is_whole(self) -> bool:
        """Whether the sample holds all decided rollouts."""
        return len(self.scores) == self.rollouts

    def grows(self, other: "ArmFingerprint") -> bool:
        """Return whether one arm's data are more of the other's.

        Most rollouts of the smaller must be in both, and every rollout in both must have the same score.
        """
        # Both samples, cut to the keys that each would hold if the rollout is in its log.
        limits = [max(each.scores) for each in (self, other) if not each.is_whole]
        mine, theirs = (
            {key: score for key, score in each.scores.items() if not limits or key <= min(limits)}
            for each in (self, other)
        )
        shared = mine.keys() & theirs.keys()
        if not shared or 2 * len(shared) < min(len(mine), len(theirs)):
            return False
        if self.arm != other.arm and len(shared) < FEW:
            return False
        return all(mine[key] == theirs[key] for key in shared)


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


_Sides = tuple[ArmFingerprint, ArmFingerprint]
"""A baseline and the arm that is compared with it."""


_RUNS = 10_000
"""Number of earlier runs that are searched."""
_MARK = '"fingerprints":'
"""Text that the stored settings of a comparison of logs contain, and those of other runs do not."""


class _LogSettings(Value):
    """Settings of a comparison of logs, and fingerprints of its data. They are stored with its run."""

    logs: tuple[str, ...]
    """Log files as the user named them."""
    margin: float | None = None
    cost_margin: float | None = None
    correction: Correction = "holm"
    planned_looks: int = 1
    seed: int = 0
    allow_missing: bool = False
    fingerprints: tuple[ArmFingerprint, ...] = ()
    """Of every arm, the baseline first."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Arms that were compared, as (baseline, arm)."""

    def compared(self) -> Iterator[_Sides]:
        """Yield the fingerprints of each baseline and of the arm compared with it."""
        by_arm = {one.arm: one for one in self.fingerprints}
        return ((by_arm[baseline], by_arm[arm]) for baseline, arm in self.pairs)


class EarlierLogs:
    """Finished comparisons of logs in a store."""

    def __init__(self, runs: Sequence[RunRow] = ()) -> None:
        self._runs: list[tuple[RunRow, _LogSettings]] = []
        self._unread: list[str] = []
        for row in sorted(runs, key=lambda one: (one.started_at, one.run)):
            if row.kind == "eval" and row.report and _MARK in row.settings:
                try:
                    self._runs.append((row, _LogSettings.model_validate_json(row.settings)))
                except ValueError:
                    self._unread.append(row.run)

    @property
    def note(self) -> str:
        """Which earlier comparisons of logs cannot be read, so that their looks are not counted; empty for none."""
        if not self._unread:
            return ""
        runs = ", ".join(self._unread)
        return f"looks of these comparisons of logs are not counted, because this version cannot read them: {runs}"

    def looks(self, contrast: Contrast, settings: _LogSettings) -> tuple[Contrast, tuple[InterimLook, ...]]:
        """Return the contrast with its key and look, and the earlier looks at its question, oldest first.

        That are comparisons of two arms with the same names, or with more or less of the same rollouts. Data that were
        already looked at keep the look that they had then.
        """
        asked = (contrast.baseline, contrast.arm)
        now = next(sides for sides in settings.compared() if tuple(one.arm for one in sides) == asked)
        names, seen, key = {*asked}, dict[str, InterimLook](), ""
        for row, sides in ((row, sides) for row, earlier in self._runs for sides in earlier.compared()):
            again = digests(now) == digests(sides)
            # The two sides may be exchanged, and names may differ.
            grown = any(now[0].grows(one) and now[1].grows(other) for one, other in (sides, sides[::-1]))
            if not (again or names == {one.arm for one in sides} or grown):
                continue
            report = Comparison.model_validate_json(row.report)
            of = [sides[0].arm, sides[1].arm]
            earlier = next(one for one in report.contrasts if [one.baseline, one.arm] == of)
            key = key or earlier.key
            if again:
                break
            seen.setdefault(digests(sides), InterimLook.of(contrast, row, earlier.pairs, earlier.p))
        key = key or content_hash("logs", digests(now))[:24]
        return contrast.model_copy(update={"key": key, "look": len(seen) + 1}), tuple(seen.values())


def digests(sides: _Sides) -> str:
    return " ".join(sorted(one.digest for one in sides))


@dataclass(frozen=True, slots=True)
class _LogComparison:
    """A comparison of logs, which needs nothing more than the looks at the same arms before it."""

    logs: LogSet
    table: ScoreTable
    rules: Rules
    drafts: Sequence[Contrast]
    settings: _LogSettings

    def after(self, earlier: EarlierLogs, **facts: object) -> Comparison:
        """Return the comparison as a further look after the earlier ones. facts: further fields of the result."""
        table, logs = self.table, self.logs
        found = [earlier.looks(draft, self.settings) for draft in self.drafts]
        judged = with_verdicts([contrast for contrast, _ in found], table, self.rules)
        return assemble(
            table,
            [_with_times(one, logs.times) for one in judged],
            self.rules,
            arm_facts={arm: {"label": logs.models.get(arm, arm)} for arm in table.arms},
            places=logs.places,
            warnings=logs.warnings,
            notes=logs.notes,
            title=f"logs: {', '.join(table.arms)}",
            k=max(len(scores) for arm in table.arms for scores in table.scores[arm].values()),
            reproducibility=Reproducibility(
                seed=self.rules.seed,
                data=content_hash("data", sorted(table.tasks)),
                models=logs.models,
                sources=logs.sources,
                versions={"agentlearn-lib": version(), "python": platform.python_version()},
            ),
            cost_usd=None,
            looks=tuple(look for _, looks in found for look in looks),
            **facts,
        )

    def without_store(self, why: str) -> Comparison:
        """Return the comparison as a first look, and say that earlier looks were not counted. why: the reason."""
        note = f"looks cannot be counted, so p is not corrected for earlier ones: {why}"
        return self.after(EarlierLogs(), looks_note=note)

    async def recorded(self, store: Path) -> Comparison:
        """Return the comparison and store it as a run. When the store cannot be used, the result says so."""
        models = dict.fromkeys(self.logs.models.get(arm, arm) for arm in self.table.arms)
        event = started_event(
            new_run_id(),
            "eval",
            domain="logs",
            model=", ".join(models),
            simulated=False,
            seed=self.rules.seed,
            settings=self.settings.model_dump_json(),
        )
        try:
            async with open_store(store) as opened:
                earlier = EarlierLogs(opened.runs(limit=_RUNS))
                async with recorded_run(opened, event) as run:
                    run.report = found = self.after(earlier, run=event.run, looks_note=earlier.note)
                return found
        except StoreLocked:  # the process that has the store open tells the earlier looks
            try:
                with read_store(store) as reader:
                    earlier = EarlierLogs(reader.runs(limit=_RUNS))
            except StoreError as error:
                return self.without_store(_unusable(store, error))
            why = f"another process has the store {str(store)!r} open, so this look is not recorded for later ones"
            return self.after(earlier, looks_note="; ".join(filter(None, (why, earlier.note))))
        except (StoreError, OSError) as error:
            return self.without_store(_unusable(store, error))


def _unusable(store: Path, error: Exception) -> str:
    why = " ".join(str(error).split()).partition(";")[0]
    return f"the store {str(store)!r} cannot be used ({why})"


def compare_logs(
    files: Sequence[str],
    arms: Sequence[str] = (),
    *,
    baseline: str | None = None,
    pairs: Sequence[str] = (),
    score_range: tuple[float, float] | None = None,
    margin: float | None = None,
    cost_margin: float | None = None,
    correction: Correction = "holm",
    planned_looks: int = 1,
    seed: int = 0,
    allow_missing: bool = False,
    store: Path | None = None,
    domains: Sequence[str] = (),
) -> Compared:
    """Compare the arms in the logs and return the result with its rollouts.

    files: `FILE`, `ARM=FILE` or `FILE#SCORE`; see docs/other_programs_logs.md. arms: the baseline first; empty: all
    arms, in the order of the logs. baseline: an arm to be first instead. pairs: as `CompareSettings.pairs`.
    score_range: lowest and highest possible score; None: 0 to 1 if all scores are between them, otherwise not known,
    and then undecided rollouts withhold every verdict. planned_looks: number of looks at logs of the same arms, fixed
    in advance. seed: of a sampled sign-flip test. allow_missing: compare on the shared tasks. store: directory in which
    earlier comparisons of the same arms are found, and this one is recorded; with it, call from a program without an
    event loop. domains: the domain that reads records of its tasks by another program, see `Domain.recordings`.

    Raises ConfigError or DataError for an unreadable file, an unknown arm, an arm without a decided rollout, arms that
    ran on different tasks, or a score outside the range. A store that cannot be used is no error; the result says so.
    """
    refuse_large_margin(margin, score_range)
    started, logs = time.perf_counter(), read_logs([LogFile.parse(file) for file in files], domain=_domain(domains))
    found = tuple(dict.fromkeys(one.arm for one in logs.observations))
    chosen = baseline_first(_chosen(tuple(arms), found), baseline)
    kept = tuple(one for one in logs.observations if one.arm in chosen)
    kept = kept if score_range is None else in_score_range(kept, score_range)
    by_arm = {arm: [one for one in kept if one.arm == arm] for arm in chosen}
    demand_decided(by_arm)
    if not comparable(kept, chosen) and any(one.score is None for one in kept):
        raise DataError(
            f"no rollout is decided in every arm, so nothing can be compared ({'; '.join(lost_rollouts(by_arm))}); run"
            " the undecided ones again"
        )
    table = tabulate(kept, chosen, allow_missing=allow_missing)
    rules = Rules(
        correction=correction,
        margin=margin,
        cost_margin=cost_margin,
        planned_looks=planned_looks,
        seed=seed,
        score_range=score_range,
        pairs=named_pairs(pairs, chosen),
    )
    settings = _LogSettings(
        logs=tuple(files),
        margin=margin,
        cost_margin=cost_margin,
        correction=correction,
        planned_looks=planned_looks,
        seed=seed,
        allow_missing=allow_missing,
        fingerprints=tuple(ArmFingerprint.of(arm, kept) for arm in chosen),
        pairs=rules.pairs,
    )
    compared = _LogComparison(logs, table, rules, estimate_contrasts(table, rules), settings)
    if store is None:
        comparison = compared.without_store("no store was given")
    else:
        comparison = asyncio.run(compared.recorded(store))
    return Compared(comparison.model_copy(update={"wall_s": time.perf_counter() - started}), kept)


def _domain(names: Sequence[str]) -> Domain | None:
    """Return the domain that reads records. Raises ConfigError for several."""
    if len(names) > 1:
        raise ConfigError(
            f"with --logs, one --domain can read records, and {len(names)} are given ({', '.join(names)}); give one"
        )
    return load_domain(names[0]) if names else None


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


def _chosen(arms: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    named = ", ".join(repr(one) for one in found) or "none"
    for arm in arms:
        if arm not in found:
            raise ConfigError(f"the logs have no arm {arm!r} (found: {named}); name one of these")
    chosen = arms or found
    if len(set(chosen)) < 2:
        raise ConfigError(
            f"a comparison needs two arms, but there is {len(set(chosen))} (found in the logs: {named}); give another"
            " log with --logs"
        )
    return tuple(dict.fromkeys(chosen))
