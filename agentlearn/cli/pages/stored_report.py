"""The report of a stored learn run, also of one that an earlier version of agentlearn wrote."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agentlearn.config import result_names
from agentlearn.learning.report import LearnReport, LibraryLine, Proposals, WeightsRecord
from agentlearn.store import RunRow
from agentlearn.types.ids import LibraryVersion


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report, and what could not be read of it."""

    report: LearnReport
    unread: tuple[str, ...]
    """Fields that are absent, or that an earlier version wrote in another form. They have empty values."""

    @classmethod
    def of(cls, row: RunRow) -> "StoredReport":
        """Read the report of a run. A field that cannot be read is left empty, and the others are kept."""
        empty, loaded = _empty(row), _object(row.report)
        given = {name: loaded[name] for name in LearnReport.model_fields if name in loaded}
        bad = _bad_fields(empty | given)
        fields = empty | {name: value for name, value in given.items() if name not in bad}
        return cls(LearnReport.model_validate(fields), tuple(sorted({*bad, *(empty.keys() - given.keys())})))


def _bad_fields(fields: dict[str, Any]) -> set[str]:
    try:
        LearnReport.model_validate(fields)
    except ValidationError as error:
        return {str(one["loc"][0]) for one in error.errors()}
    return set()


def _empty(row: RunRow) -> dict[str, Any]:
    """A report that says nothing beyond what the run's row says."""
    settings = _object(row.settings)
    name = str(settings.get("name") or result_names.name_of_result(row.domain))
    absent = ("before", "after", "delta", "known_families", "unseen_families", "cost_usd")
    return {
        **dict.fromkeys(absent),
        "run": row.run,
        "domain": row.domain,
        "model": row.model,
        "reflector": str(settings.get("reflector") or row.model),
        "simulated": row.simulated,
        "seed": row.seed,
        "tasks": {},
        "library": LibraryLine(name=name, version=LibraryVersion(""), parent=None, lessons=0, tokens=0),
        "proposals": Proposals(),
        "groups": {},
        "rollouts": {},
        "stages": {},
        "failed_requests": {},
        "epochs": (),
        "weights": WeightsRecord(identity=row.model),
        "wall_s": max(0.0, (row.at - row.started_at).total_seconds()),
        "notes": (),
    }


def _object(text: str) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        loaded = json.loads(text or "{}")
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}
