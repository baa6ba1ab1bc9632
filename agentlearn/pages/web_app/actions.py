"""What the forms of the web app do. Each is what a command or `Recorder` does, under the account's name."""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.history.change_log import account_name
from agentlearn.library.shown import share_of
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget
from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.recorder import Recorder
from agentlearn.pages.figure import count_words
from agentlearn.pages.lesson_origins import version_to_try
from agentlearn.pages.web_app.page import checked_version
from agentlearn.store import read_store
from agentlearn.store.erasure_intent import LessonChoice
from agentlearn.store.page_queries import PageQuery
from agentlearn.text.secret_values import key_caution
from agentlearn.types.rendering import is_section

Fields = Mapping[str, str]
"""What a form sent."""
_MAX_NOTE = 2_000


def done(store: Path, inbox: Inbox, fields: Fields) -> str:
    """Do what a form asks, and say in a sentence what was done. Raises AgentlearnError. Blocks."""
    match fields.get("act", ""):
        case "approve" | "approve-source" | "reject" | "later" | "undo" as act:
            return _decide(inbox, fields, act)
        case "thumb" | "demonstrate":
            return _feedback(store, fields)
        case "add" | "edit" | "park" | "unpark" as act:
            return _change(store, fields, act)
        case "rollback" | "canary" | "canary-decide" | "canary-promote" | "canary-end" as act:
            return _move(store, fields, act)
        case "erase":
            known: Mapping[str, LessonChoice] = {one: one for one in get_args(LessonChoice)}
            erased = forget(store, user=fields.get("user", ""), lessons=known.get(fields.get("lessons", ""), "list"))
            return f"Erased: {count_words(len(erased.rollouts), 'answer')}. The receipt is {erased.file}."
        case act:
            raise ConfigError(f"{act[:40]!r} is no action of a form")


def _note(fields: Fields) -> str:
    return fields.get("note", "").strip()[:_MAX_NOTE]


def _change(store: Path, fields: Fields, act: str) -> str:
    """Change one lesson of a library, or add one."""
    history = LibraryStore(store / "libraries").history(fields.get("library", ""))
    lesson, note = fields.get("lesson", "").strip(), _note(fields)
    match act:
        case "add":
            change = history.add(lesson, note=note)
            more = key_caution(lesson) and f" Caution: {key_caution(lesson)}; edit it, and revoke the key."
            return f"The lesson was added; the library is at version {change.version[:12]}.{more}"
        case "edit":
            version = history.edit(lesson, _typed(fields.get("words", "")), note=note).version[:12]
            return f"The lesson was edited; the library is at version {version}, and the old words stay in older ones."
        case "park":
            history.park(lesson, reason=note)
            return "The lesson was parked. It stays in the library, and no agent sees it."
        case _:
            history.unpark(lesson, note=note)
            return "The lesson is shown to agents again."


def _move(store: Path, fields: Fields, act: str) -> str:
    """Make another version of a library current, or start or end a canary."""
    libraries, name, note = LibraryStore(store / "libraries"), fields.get("library", ""), _note(fields)
    history, at = libraries.history(name), checked_version(fields.get("at", ""))
    match act:
        case "rollback":
            return f"Version {history.rollback(at, note=note).version[:12]} is the current one again."
        case "canary":
            if not (share := share_of(fields.get("share", "").strip(), "share", "read the version")):
                raise ConfigError("a canary with the share 0 is none; give one above 0, such as 1/10")
            history.start_canary(version_to_try(store, f"{name}@{at}"), share=share, note=note)
        case "canary-decide":
            return step_canary(libraries, store, name, who=None).sentence
        case _:
            ended = history.end_canary(promote=act == "canary-promote", note=note).version[:12]
            return f"The canary {ended} {'is the current version' if act == 'canary-promote' else 'has ended'}."
    return step_canary(libraries, store, name, who=None, dry_run=True).sentence


def _decide(inbox: Inbox, fields: Fields, act: str) -> str:
    """Decide on something that waits, or take a decision back, as `agentlearn review` does, also during a run."""
    if act == "undo":
        return f"The last decision was taken back. {_now(inbox.undo())}"
    waiting, note = fields.get("waiting", ""), _note(fields)
    if not waiting:
        raise ConfigError("the form names nothing that waits; load the page again")
    match act:
        case "reject":
            item = inbox.reject(waiting, note).item
            stays = f"The version {item[:40]} was refused. It stays in the store."
            return stays if "@" in item else "The lesson was refused. Later runs refuse the same words."
        case "later":
            inbox.later(waiting)
            return "It goes on waiting, and comes last."
        case "approve-source":
            made = inbox.approve_source(waiting, note=note)
            failed = [f" Not approved: {one.item[:40]}: {one.problem}." for one in made if one.verdict == "failed"]
            return f"Approved: {len(made) - len(failed)} of {len(made)}.{''.join(failed)}"
        case _:
            given = {name[6:]: _typed(text) for name, text in fields.items() if name.startswith("words-")}
            without = [lesson for lesson in given if f"take-{lesson}" not in fields]
            same = [of for of, text in given.items() if text.split() == fields.get(f"old-{of}", "").split()]
            words = {of: text for of, text in given.items() if of not in {*without, *same}}
            done = inbox.approve(waiting, without=without, words=words, note=note)
            return f"{done.verdict.capitalize()}. {_now(done)}"


def _typed(words: str) -> str:
    """What a person typed: a lesson, or a section, whose lines end as everywhere else."""
    text = words.replace("\r\n", "\n").strip()
    return f"{text}\n" if is_section(text) else text


def _now(made: ReviewDecision) -> str:
    return f"The library {made.library} is at version {(made.version or '')[:12]}."


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
        given = (reward == "1", fields.get("why", "").strip()[:_MAX_NOTE])
        recorder.feedback_sync(rollout, reward=given, by=account_name())
        return f"Saved: the answer was {'right' if reward == '1' else 'wrong'}."
