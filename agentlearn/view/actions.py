"""What the forms of the web app do. Each is what a command or `Recorder` does, under the account's name."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.learning.lessons.pending_versions import Decider
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.library.history.change_log import account_name
from agentlearn.recorder import Recorder
from agentlearn.store import open_store, read_store
from agentlearn.store.queries import Query

Fields = Mapping[str, str]
"""What a form sent."""
MAX_NOTE = 2_000


def done(store: Path, fields: Fields) -> str:
    """Do what a form asks, and say in a sentence what was done. Raises AgentlearnError. Blocks."""
    act = _ACTS.get(fields.get("act", ""))
    if act is None:
        raise ConfigError(f"{fields.get('act', '')[:40]!r} is no action of a form", code="bad_form")
    return act(store, fields)


def _history(store: Path, fields: Fields) -> History:
    return LibraryStore(store / "libraries").history(fields.get("library", ""))


def _note(fields: Fields) -> str:
    return fields.get("note", "").strip()[:MAX_NOTE]


def _add(store: Path, fields: Fields) -> str:
    change = _history(store, fields).add(fields.get("lesson", "").strip(), note=_note(fields))
    return f"The lesson was added; the library is at version {change.version[:12]}."


def _edit(store: Path, fields: Fields) -> str:
    history, words = _history(store, fields), fields.get("words", "").strip()
    change = history.edit(fields.get("lesson", ""), words, note=_note(fields))
    return (
        f"The lesson was edited; the library is at version {change.version[:12]}, and the old words stay in older ones."
    )


def _park(store: Path, fields: Fields) -> str:
    _history(store, fields).park(fields.get("lesson", ""), reason=_note(fields))
    return "The lesson was parked. It stays in the library, and no agent sees it."


def _unpark(store: Path, fields: Fields) -> str:
    _history(store, fields).unpark(fields.get("lesson", ""), note=_note(fields))
    return "The lesson is shown to agents again."


def _approve_held(store: Path, fields: Fields) -> str:
    _history(store, fields).approve(fields.get("lesson", ""), note=_note(fields))
    return "The lesson was approved. Agents see it from now on."


def _reject_held(store: Path, fields: Fields) -> str:
    _history(store, fields).reject(fields.get("lesson", ""), note=_note(fields))
    return "The lesson was refused. Later runs refuse the same words."


def _decide(store: Path, fields: Fields) -> str:
    """Approve or refuse a version or a quarantined lesson. It needs the store, so no run may have it open."""
    waiting = fields.get("waiting", "")
    if not waiting:
        raise ConfigError("the form names nothing that waits; load the page again", code="bad_form")

    async def decide() -> str:
        async with open_store(store, create=False) as opened:
            libraries, at = LibraryStore(store / "libraries"), datetime.now(UTC)
            person = Decider(opened, libraries, account_name(), _note(fields), at)
            if fields["act"] == "approve":
                approved = await person.approve(waiting)
                return f"Published as {approved.decision.library}@{approved.library.version[:12]}."
            decided = await person.reject(waiting)
            if decided.of_version:
                return f"Version {waiting} was refused. It stays in the store."
            return "The lesson was refused. Later runs refuse the same words."

    return asyncio.run(decide())


def _feedback(store: Path, fields: Fields) -> str:
    """Say whether a recorded answer was right, or what the right one is."""
    rollout = fields.get("rollout", "")
    with read_store(store) as reader:
        found = reader.rows(Query.RECORDER_OF, rollout)
    if not found:
        raise ConfigError(f"{rollout[:40]!r} is no answer of live traffic", code="unknown_rollout")
    right, reward = fields.get("demonstration", "").strip(), fields.get("reward")
    with Recorder(found[0]["name"], store) as recorder:
        if fields["act"] == "demonstrate":
            recorder.feedback_sync(rollout, demonstration=right, by=account_name())
            return "The right answer was saved. It becomes an attempt of the same task with reward 1."
        given = (1.0 if reward == "1" else 0.0, fields.get("why", "").strip()[:MAX_NOTE])
        recorder.feedback_sync(rollout, reward=given, by=account_name())
        return f"Saved: the answer was {'right' if reward == '1' else 'wrong'}."


_ACTS: dict[str, Callable[[Path, Fields], str]] = {
    "add": _add,
    "edit": _edit,
    "park": _park,
    "unpark": _unpark,
    "approve-held": _approve_held,
    "reject-held": _reject_held,
    "approve": _decide,
    "reject": _decide,
    "thumb": _feedback,
    "demonstrate": _feedback,
}
