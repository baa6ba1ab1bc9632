"""The log of a library's changes: what a line holds, what damage and crashes do to it, and how HEAD follows it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.library.history.change_log import NO_LINE

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CARRY = "When adding, carry."
ENDS = "When counting, check the ends."
ZERO = "When dividing, look for zero."


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = LibraryStore(tmp_path / "libraries").history("math")
    made.add(CARRY, who="ann", note="from class ❤", at=AT)
    made.add(ENDS, who="bob", at=AT)
    return made


def log_of(history: History) -> Path:
    return history._files.folder / "history.jsonl"  # pyright: ignore[reportPrivateUsage]


def head_of(history: History) -> Path:
    return log_of(history).with_name("HEAD")


def test_versions_lines_and_the_chain_are_the_same_on_every_machine(history: History) -> None:
    first, second = history.changes
    assert (first.version, second.version) == GOLDEN_VERSIONS
    assert (first.previous, second.previous, history.tip) == (NO_LINE, *GOLDEN_CHAIN)
    assert log_of(history).read_bytes().split(b"\n")[0] == first.line


def test_a_change_says_what_was_done_by_whom_and_when(history: History) -> None:
    change = history.changes[0]
    assert (change.number, change.kind, change.branch, change.who, change.note) == (
        0,
        "add",
        "main",
        "ann",
        "from class ❤",
    )
    assert (change.at, change.before, change.version) == (AT, None, history.changes[1].before)
    assert [(one.op, getattr(one, "lesson", "")) for one in change.operations] == [("add", CARRY)]


DAMAGES: dict[str, tuple[Callable[[bytes, bytes], list[bytes]], int, str]] = {
    "no JSON": (lambda one, two: [b"{" + one, two], 1, "it is not JSON"),
    "another author": (
        lambda one, two: [one.replace(b'"ann"', b'"eve"'), two],
        2,
        "it does not follow the line before it",
    ),
    "a line less": (lambda _, two: [two], 1, "it has the number 1, and 0 was expected"),
    "an empty line": (lambda one, two: [one, b"", two], 2, "it is not JSON"),
    "no fields": (lambda one, _: [one, b"[]"], 2, "its fields cannot be read"),
    "bytes": (lambda one, _: [one, b"\xff"], 2, "it is not JSON"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_other_damage_is_one_sentence_with_the_line(history: History, damage: str) -> None:
    log = log_of(history)
    first, second = log.read_bytes().splitlines()
    change, where, reason = DAMAGES[damage]
    log.write_bytes(b"".join(line + b"\n" for line in change(first, second)))
    before = log.read_bytes()
    for ask in (history.load, lambda: history.add(ZERO)):
        with pytest.raises(LibraryError) as damaged:
            ask()
        assert damaged.value.code == "history_damaged"
        assert str(damaged.value).startswith(f"line {where} of {str(log)!r} is damaged: {reason}; ")
    assert log.read_bytes() == before


def test_a_reader_corrects_head_after_a_crash_between_the_two(history: History) -> None:
    head = head_of(history)
    old = head.read_text().splitlines()[0] + "\n"
    new = head.read_text()
    head.write_text(old)
    assert len(history.load()) == 2
    assert head.read_text() == new
    head.write_bytes(b"\xff")
    assert len(history.load()) == 2
    assert head.read_text() == new
    head.unlink()
    assert LibraryStore(head.parents[1]).names() == ("math",)
    assert len(LibraryStore(head.parents[1]).load("math")) == 2
    assert head.read_text() == new


@pytest.mark.parametrize("kept", [0, 1])
def test_lost_lines_of_the_log_are_noticed_by_head_and_nothing_is_written(history: History, kept: int) -> None:
    log, head = log_of(history), head_of(history)
    log.write_bytes(b"".join(line + b"\n" for line in log.read_bytes().splitlines()[:kept]))
    before = head.read_bytes()
    for use in (lambda: history.changes, lambda: history.add(ZERO)):
        with pytest.raises(LibraryError, match=r"jsonl' is damaged: it lacks changes that HEAD shows; ") as lost:
            use()
        assert lost.value.code == "history_damaged"
    assert len(log.read_bytes().splitlines()) == kept
    assert head.read_bytes() == before


GOLDEN_VERSIONS = ("3368ad9831a23c79874bbd6f367ffd4d", "dd08fd4eeb688a89882044e14d7dc608")
GOLDEN_CHAIN = ("1e89b4b59ec01315d281b9235b18a271", "5361e2112ff2df20ed9009c3e42dc3d4")
