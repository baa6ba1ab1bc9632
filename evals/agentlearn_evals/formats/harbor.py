"""Reads the folder of a Harbor job, or of several: one `result.json` per trial, with its trajectory in ATIF.

A trial that ended with an exception is undecided, also where its tests gave a reward: what was tested then is what a
broken service, container or time limit left behind.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from agentlearn.data.files import read_text
from agentlearn.errors import DataError
from agentlearn.formats.session_files import Entry, Reading
from agentlearn.models.reply import fields_of
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog, Place, as_text, is_empty, span

RESULT, _CONFIG = "result.json", "config.json"
_INSIDE = ("agent", "verifier", "artifacts")
"""Folders of a trial."""
_COUNTS = {"tokens_in": "n_input_tokens", "tokens_cached": "n_cache_tokens", "tokens_out": "n_output_tokens"}
_TOTALS = {
    "tokens_in": "total_prompt_tokens",
    "tokens_cached": "total_cached_tokens",
    "tokens_out": "total_completion_tokens",
}


def read_jobs(log: LogFile) -> ParsedLog:
    """Read all trials in a folder. Raises DataError or ConfigError that names the trial and the next step."""
    read = [(path, _document(path, log)) for path in _files(log, RESULT)]
    trials = [(path, one) for path, one in read if "trial_name" in one and "task_name" in one]
    if not trials:
        raise DataError(
            f"the folder {str(log.path)!r} holds no trial of Harbor; give a folder of its jobs, in which each trial has"
            f" a {RESULT!r}, or a file with rows"
        )
    names = tuple(dict.fromkeys(name for _, one in trials for name in _rewards(one)))
    reward = log.choose(names) if names else ""
    arm = log.arm or log.path.resolve().name
    left_out = Counter[str]()
    found = [_rollout(log, path.parent, one, arm, reward, left_out) for path, one in trials]
    models = dict.fromkeys(filter(None, (_model(one) for _, one in trials)))
    ran = span(moment for _, one in trials for moment in (one.get("started_at"), one.get("finished_at")))
    graded = sum(bool(_exceptions(one)) and not is_empty(_rewards(one).get(reward)) for _, one in trials)
    notes = [f"{log.path.name}: in trajectories {count:,} {what} were left out" for what, count in left_out.items()]
    if graded:
        ended = "trials that ended with an exception are undecided, although they have a reward"
        notes.append(f"{log.path.name}: {graded:,} {ended}")
    return ParsedLog(
        tuple(found),
        {arm: ", ".join(models)} if models else {},
        notes=tuple(notes),
        warnings=tuple(_about_missing(log, [one for _, one in read], [path.parent for path, _ in trials])),
        times={} if ran is None else {arm: ran},
    )


def _files(log: LogFile, name: str) -> list[Path]:
    """The files of that name of jobs and of trials, in order; what a trial's agent or tests made is not theirs."""

    def is_trial(folder: Path) -> bool:
        is_one = (folder / RESULT).exists() or (folder / _CONFIG).exists()
        return is_one and any((folder / inside).is_dir() for inside in _INSIDE)

    def is_made(path: Path) -> bool:
        return any(one.is_relative_to(log.path) and is_trial(one) for one in path.parent.parents)

    return [path for path in sorted(log.path.rglob(name)) if not is_made(path)]


def _document(path: Path, log: LogFile) -> dict[str, Any]:
    """Return what a file holds; empty for JSON that is no object. Raises DataError."""
    name = f"{log.path.name}/{path.relative_to(log.path).as_posix()}"
    try:
        return fields_of(json.loads(read_text(path, name))) or {}
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{name} line {line} is not JSON ({error}); copy the job again") from error


def _rewards(trial: dict[str, Any]) -> dict[str, Any]:
    return fields_of((fields_of(trial.get("verifier_result")) or {}).get("rewards")) or {}


def _exceptions(trial: dict[str, Any]) -> list[str]:
    """The names of the exceptions of a trial and of its steps."""
    found = (fields_of(one.get("exception_info")) for one in (trial, *_steps(trial)))
    return [as_text(one.get("exception_type")) or "error" for one in found if one]


def _steps(trial: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in map(fields_of, trial.get("step_results") or ()) if one]


def _model(trial: dict[str, Any]) -> str:
    agent = fields_of(trial.get("agent_info")) or {}
    named = fields_of(agent.get("model_info")) or {}
    model = "/".join(filter(None, (as_text(named.get("provider")), as_text(named.get("name")))))
    return " with ".join(filter(None, (as_text(agent.get("name")), model)))


def _rollout(
    log: LogFile, folder: Path, trial: dict[str, Any], arm: str, reward: str, left_out: Counter[str]
) -> LoggedRollout:
    """left_out: counts what its trajectories hold that cannot be read."""
    place = Place(f"{log.path.name} trial {as_text(trial['trial_name'])!r}")
    broken, given = _exceptions(trial), _rewards(trial).get(reward)
    score = None if broken or is_empty(given) else place.number(given, f"reward {reward!r}")
    spent = [one for one in (fields_of(part.get("agent_result")) for part in (trial, *_steps(trial))) if one]
    entries, totals = _trajectory(folder, left_out)
    counts = {name: _sum(place, spent, field) for name, field in _COUNTS.items()}
    counts = {
        name: place.optional_count(totals.get(_TOTALS[name]), _TOTALS[name]) if count is None else int(count)
        for name, count in counts.items()
    }
    cost = _sum(place, spent, "cost_usd")
    parts = [one for one in (trial, *_steps(trial)) if "agent_execution" in one]  # null: the agent was never started
    timed = [fields_of(one["agent_execution"]) or {} for one in parts] or [trial]
    spans = [found for one in timed if (found := span((one.get("started_at"), one.get("finished_at"))))]
    observation = place.observation(
        arm=arm,
        task=as_text(trial["task_name"]),
        score=score,
        status="undecided" if score is None else "ok",
        error=broken[0] if broken else "no_reward" if score is None else "",
        domain=as_text(trial.get("source")),
        problem=next((one.text for one in entries if one.kind == "user"), ""),
        rollout=as_text(trial.get("id")) or as_text(trial["trial_name"]),
        cost_usd=place.optional_number(totals.get("total_cost_usd"), "cost") if cost is None else cost,
        tool_calls=sum(one.kind == "call" for one in entries) if entries else None,
        seconds=sum((end - begin).total_seconds() for begin, end in spans) if spans else None,
        **counts,
    )
    return LoggedRollout(place, observation, numbered=False)


def _sum(place: Place, spent: list[dict[str, Any]], field: str) -> float | None:
    """The sum of a number over the steps of a trial; None where no step has it."""
    numbers = [place.number(one[field], field) for one in spent if not is_empty(one.get(field))]
    return sum(numbers) if numbers else None


def _trajectory(folder: Path, left_out: Counter[str]) -> tuple[list[Entry], dict[str, Any]]:
    """What was said and done in a trial, and the totals of `trajectory.json`; empty where none can be read."""
    files = sorted(path for path in folder.rglob("trajectory*.json") if path.parent.name == "agent")
    entries = list[Entry]()
    for path in files:
        reading = Reading(path)
        entries += [entry for session in reading for entry in session.entries]
        left_out.update(reading.left_out)
    files.sort(key=lambda one: one.name != "trajectory.json")
    try:
        whole = json.loads(read_text(files[0], files[0].name)) if entries else None
    except ValueError:  # it was cut off: what it holds before that is read
        whole = None
    return entries, fields_of((fields_of(whole) or {}).get("final_metrics")) or {}


def _about_missing(log: LogFile, documents: list[dict[str, Any]], trials: list[Path]) -> list[str]:
    """Return warnings about trials that are planned and not there."""
    warnings: list[str] = []
    planned = sum(total for one in documents if isinstance(total := one.get("n_total_trials"), int))
    if planned > len(trials):
        warnings.append(f"{log.path.name}: only {len(trials):,} of {planned:,} trials have a {RESULT!r}")
    folders = {path.parent for path in _files(log, _CONFIG)}
    jobs = Counter(folder.parent for folder in trials)
    if not planned and (unended := folders - set(trials) - set(jobs)):
        warnings.append(f"{log.path.name}: {len(unended):,} trials did not end and have no {RESULT!r}")
    return warnings
