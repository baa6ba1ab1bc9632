"""A log file as the user names it, and what is read from one file and from all files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from agentlearn.measure.observation import Observation
from agentlearn.types.value import Value


class LogFile(Value):
    """A log file to read, the name of its arm, and which of its scores to use."""

    path: Path
    arm: str = ""
    """Name of the arm; empty: use the name in the log."""
    score: str = ""
    """Scorer, metric or reward column to use; needed only when the log holds several."""

    @classmethod
    def parse(cls, text: str) -> "LogFile":
        """Parse `FILE`, `FILE#SCORE`, `ARM=FILE` or `ARM=FILE#SCORE`. The first reading whose file exists is used."""
        arm, equals, named = text.partition("=")
        readings = [LogFile(path=Path(text)), *_with_score(LogFile(path=Path(text)))]
        if equals and arm:
            with_arm = LogFile(path=Path(named), arm=arm)
            readings += [with_arm, *_with_score(with_arm)]
        return next((reading for reading in readings if reading.path.exists()), readings[-1])


def _with_score(log: LogFile) -> list[LogFile]:
    file, mark, score = str(log.path).rpartition("#")
    return [log.model_copy(update={"path": Path(file), "score": score})] if mark and file and score else []


Span = tuple[datetime, datetime]
"""The first and the last moment of something, with a time zone."""


def span(moments: Iterable[Any]) -> Span | None:
    """Return the span of moments: ISO 8601 texts, seconds since 1970, or datetimes; UTC where they have no time zone.

    What is none of these is left out; None when nothing is left.
    """
    found: list[datetime] = []
    for one in moments:
        try:
            moment = datetime.fromtimestamp(one, UTC) if isinstance(one, int | float) else one
            moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except (ValueError, OverflowError, OSError):
            continue
        if isinstance(moment, datetime):
            found.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return (min(found), max(found)) if found else None


class LogSet(Value):
    """Everything that was read from the logs."""

    observations: tuple[Observation, ...]
    """All rollouts, in the order of the files, and within a file in its order."""
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by file name; by path where two files have the same name."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Model by arm, where the log holds it; several models are joined by commas."""
    warnings: tuple[str, ...] = ()
    """Why the logs may say too little: unfinished logs, samples that are not in the log, empty responses."""
    outcomes: tuple[str, ...] = ()
    """How many rollouts of each file failed or are undecided, by code."""
    notes: tuple[str, ...] = ()
    """What else a reader of the result should know, such as unread columns."""
    times: dict[str, Span] = Field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, by arm, where the logs say it."""
    places: dict[tuple[str, str, int], str] = Field(default_factory=dict[tuple[str, str, int], str])
    """Where each rollout is in the logs, by arm, task and index: `runs.csv line 7`."""


@dataclass(frozen=True, slots=True)
class LoggedRollout:
    """One rollout in a log."""

    place: str
    """Where it is in the file, for messages: `runs.csv line 7`."""
    observation: Observation
    numbered: bool
    """Whether the log itself numbers the rollouts of a task; otherwise they are numbered in file order."""
    empty: bool = False
    """Whether the response of the agent is recorded and empty, although the rollout has a score."""


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """Everything that was read from one file."""

    rollouts: tuple[LoggedRollout, ...]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model by arm."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know about this file."""
    warnings: tuple[str, ...] = ()
    """Why this file may say too little, such as a run that did not finish."""
    times: Mapping[str, Span] = field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, where the log says it."""
