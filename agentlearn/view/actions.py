"""What the forms of the web app do. Each is what a command or `Recorder` does, under the account's name."""

from collections.abc import Mapping
from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.history.change_log import account_name
from agentlearn.live import Inbox
from agentlearn.recorder import Recorder
from agentlearn.store import read_store
from agentlearn.store.page_queries import PageQuery

Fields = Mapping[str, str]
"""What a form sent."""
_MAX_NOTE = 2_000


def done(store: Path, fields: Fields) -> str:
    """Do what a form asks, and say in a sentence what was done. Raises AgentlearnError. Blocks."""
    match fields.get("act", ""):
        case "approve" | "reject" | "edit-waiting" as act:
            return _decide(store, fields, act)
        case "thumb" | "demonstrate":
            return _feedback(store, fields)
        case "add" | "edit" | "park" | "unpark" as act:
            return _change(store, fields, act)
        case act:
            raise ConfigError(f"{act[:40]!r} is no action of a form", code="bad_form")


def _note(fields: Fields) -> str:
    return fields.get("note", "").strip()[:_MAX_NOTE]


def _change(store: Path, fields: Fields, act: str) -> str:
    """Change one lesson of a library, or add one."""
    history = LibraryStore(store / "libraries").history(fields.get("library", ""))
    lesson, note = fields.get("lesson", "").strip(), _note(fields)
    match act:
        case "add":
            change = history.add(lesson, note=note)
            return f"The lesson was added; the library is at version {change.version[:12]}."
        case "edit":
            version = history.edit(lesson, fields.get("words", "").strip(), note=note).version[:12]
            return f"The lesson was edited; the library is at version {version}, and the old words stay in older ones."
        case "park":
            history.park(lesson, reason=note)
            return "The lesson was parked. It stays in the library, and no agent sees it."
        case _:
            history.unpark(lesson, note=note)
            return "The lesson is shown to agents again."


def _decide(store: Path, fields: Fields, act: str) -> str:
    """Approve, change or refuse something that waits, as `agentlearn review` does, also during a run."""
    waiting, inbox = fields.get("waiting", ""), Inbox(store / "libraries", store)
    if not waiting:
        raise ConfigError("the form names nothing that waits; load the page again", code="bad_form")
    if act == "reject":
        rejected = inbox.reject(waiting, _note(fields))
        if "@" in rejected.item:
            return f"The version {rejected.item[:40]} was refused. It stays in the store."
        return "The lesson was refused. Later runs refuse the same words."
    if act == "approve":
        made = inbox.approve(waiting, note=_note(fields))
    else:
        made = inbox.edit(waiting, fields.get("words", ""), note=_note(fields))
    return f"{made.verdict.capitalize()}. The library {made.library} is at version {(made.version or '')[:12]}."


def _feedback(store: Path, fields: Fields) -> str:
    """Say whether a recorded answer was right, or what the right one is."""
    rollout = fields.get("rollout", "")
    with read_store(store) as reader:
        found = reader.rows(PageQuery.RECORDER_OF, rollout)
    if not found:
        raise ConfigError(f"{rollout[:40]!r} is no answer of live traffic", code="unknown_rollout")
    right, reward = fields.get("demonstration", "").strip(), fields.get("reward")
    with Recorder(found[0]["name"], store) as recorder:
        if fields["act"] == "demonstrate":
            recorder.feedback_sync(rollout, demonstration=right, by=account_name())
            return "The right answer was saved. It becomes an attempt of the same task with reward 1."
        given = (1.0 if reward == "1" else 0.0, fields.get("why", "").strip()[:_MAX_NOTE])
        recorder.feedback_sync(rollout, reward=given, by=account_name())
        return f"Saved: the answer was {'right' if reward == '1' else 'wrong'}."
