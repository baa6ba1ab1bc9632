"""What is asked of a log, what a format makes of it, and what comes of all logs together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from agentlearn.types.value import Value
from agentlearn_evals.observation import Observation


class LogFile(Value):
    """A file to be read as a log, what its arm is to be called, and which of its scores counts."""

    path: Path
    arm: str = ""
    """Empty: as the log calls it."""
    score: str = ""
    """Scorer, metric or reward column; needed only where the log holds several."""

    @classmethod
    def parse(cls, text: str) -> "LogFile":
        """From `FILE`, `FILE#SCORE`, `ARM=FILE` or `ARM=FILE#SCORE`; the first reading whose file exists is meant."""
        arm, equals, named = text.partition("=")
        readings = [LogFile(path=Path(text)), *_scored(LogFile(path=Path(text)))]
        if equals and arm:
            with_arm = LogFile(path=Path(named), arm=arm)
            readings += [with_arm, *_scored(with_arm)]
        return next((reading for reading in readings if reading.path.exists()), readings[-1])


def _scored(log: LogFile) -> list[LogFile]:
    file, mark, score = str(log.path).rpartition("#")
    return [log.model_copy(update={"path": Path(file), "score": score})] if mark and file and score else []


class LogSet(Value):
    """Everything that was found in the logs."""

    observations: tuple[Observation, ...]
    """In the order of the files, and within a file in its order."""
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by file: by its name, or by its path where two names are equal."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """By arm, where a log tells it; several with a comma between them."""
    notes: tuple[str, ...] = ()
    """What a reader of the result has to know: failures, what was not read, logs that were not finished."""


@dataclass(frozen=True, slots=True)
class LoggedRollout:
    """One rollout in a log."""

    place: str
    """For messages: `runs.csv line 7`."""
    observation: Observation
    numbered: bool
    """Whether the log itself says which of the task's rollouts it is; else it is numbered in file order."""


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """What a format made of one file."""

    found: tuple[LoggedRollout, ...]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
