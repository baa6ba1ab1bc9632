"""The log of a library's changes: what a line holds, what damage and crashes do to it, and how HEAD follows it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.library.history.change_log import NO_LINE, Change, ChangeLog, LibraryState, locked
from agentlearn.pages.lesson_origins import change_lines
from agentlearn.types.ids import content_hash

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


def test_a_torn_last_line_is_no_change_and_the_next_append_removes_it(history: History) -> None:
    log, whole = log_of(history), log_of(history).read_bytes()
    line = whole.split(b"\n")[1]
    for torn in (b"{", line[:40], line, b"\0" * 9):
        log.write_bytes(whole + torn)
        assert [one.number for one in history.changes] == [0, 1]
        assert len(history.load()) == 2
    history.add(ZERO)
    assert log.read_bytes().startswith(whole)
    assert [one.number for one in history.changes] == [0, 1, 2]


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
        assert damaged.value.code == "bad_library"
        assert str(damaged.value).startswith(f"line {where} of {str(log)!r} is damaged: {reason}; ")
    assert log.read_bytes() == before


def test_a_line_of_a_newer_agentlearn_says_to_upgrade(history: History) -> None:
    log = log_of(history)
    log.write_bytes(log.read_bytes().replace(b'"format":1', b'"format":2'))
    with pytest.raises(LibraryError, match="was written by a newer agentlearn; pip install --upgrade"):
        history.load()


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


def test_a_reader_does_not_wait_for_a_writer(history: History) -> None:
    head = head_of(history)
    head.write_text(head.read_text().splitlines()[0] + "\n")
    behind = head.read_text()
    log, lock = ChangeLog(head.parent), head.parent / "history.lock"
    with locked(lock):
        assert len(history.load()) == 2
    assert head.read_text() == behind
    with pytest.raises(LibraryError) as refused, log.writing(), locked(lock, wait_s=0.0):
        pass
    assert refused.value.code == "bad_library"


@pytest.mark.parametrize("kept", [0, 1])
def test_lost_lines_of_the_log_are_noticed_by_head_and_nothing_is_written(history: History, kept: int) -> None:
    log, head = log_of(history), head_of(history)
    log.write_bytes(b"".join(line + b"\n" for line in log.read_bytes().splitlines()[:kept]))
    before = head.read_bytes()
    for use in (lambda: history.changes, lambda: history.add(ZERO)):
        with pytest.raises(LibraryError, match=r"jsonl' is damaged: it lacks changes that HEAD shows; ") as lost:
            use()
        assert lost.value.code == "bad_library"
    assert len(log.read_bytes().splitlines()) == kept
    assert head.read_bytes() == before


def test_a_full_disk_leaves_the_log_as_it_was(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = log_of(history).read_bytes(), __import__("os").write

    def half(fd: int, content: bytes) -> int:
        real(fd, bytes(content)[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agentlearn.library.history.change_log.os.write", half)
        with pytest.raises(LibraryError, match=r"library 'math' could not be changed: .*No space left"):
            history.add(ZERO)
    assert log_of(history).read_bytes() == before
    assert len(history.load()) == 2


EVERY = 4
"""Number of changes after which the cache is written, in these tests."""


@pytest.fixture
def cached(history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    """A library with branches and edits, and a cache that covers all of its log but the last changes."""
    monkeypatch.setattr("agentlearn.library.history.change_log.CACHED_EVERY", EVERY)
    history.branch("v-1", at=AT)
    history.branch("try-2", at=AT)
    history.add(ZERO, branch="try-2", at=AT.replace(year=2020))  # the clock went back
    history.rollback(history.changes[0].version)
    history.add(ZERO, at=AT)
    return history


def sealed(cache: bytes, old: str, new: str) -> bytes:
    """The cache with another text, and the hash that fits it."""
    text = cache.decode().partition("\n")[2].replace(old, new)
    return f"{content_hash(text)}\n{text}".encode()


CACHES: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda cache: cache[:70],
    "empty": lambda _: b"",
    "zeros": lambda cache: b"\0" * len(cache),
    "edited": lambda cache: cache.replace(b'"try-2"', b'"try-3"'),
    "of a newer agentlearn": lambda cache: sealed(cache, '"format":1', '"format":2'),
    "of other lines": lambda cache: sealed(cache, '"covers":"', '"covers":"0'),
    "with a negative size": lambda cache: sealed(cache, '"size":', '"size":-'),
    "larger than the log": lambda cache: sealed(cache, '"size":', '"size":9'),
}


@pytest.mark.parametrize("name", CACHES)
def test_a_wrong_cache_is_ignored_and_written_anew(cached: History, name: str) -> None:
    cache = log_of(cached).with_name("history.cache")
    right, state = cache.read_bytes(), cached.state
    wrong = CACHES[name](right)
    assert wrong != right
    cache.write_bytes(wrong)
    assert cached.state == state == LibraryState.of(cached.changes)
    assert wrong != cache.read_bytes()
    assert cached.state == state


def test_an_older_cache_and_times_of_files_change_nothing(cached: History, tmp_path: Path) -> None:
    folder, old = log_of(cached).parent, tmp_path / "old"
    shutil.copytree(folder, old)
    for _ in range(EVERY + 1):  # each is a change of HEAD
        cached.rollback("try-2")
        cached.rollback("v-1")
    state, heads = cached.state, cached.heads
    assert len(heads) > EVERY
    for name in ("history.cache", "HEAD"):  # a crash between the log and these two
        shutil.copy(old / name, folder / name)
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    assert (cached.state, cached.heads) == (state, heads)
    assert head_of(cached).read_bytes() != (old / "HEAD").read_bytes()


def test_the_cache_of_another_library_is_not_believed(cached: History) -> None:
    other = LibraryStore(log_of(cached).parents[1]).history("other")
    other.add(ENDS, who="ann", at=AT)
    shutil.copy(log_of(cached).with_name("history.cache"), log_of(other).with_name("history.cache"))
    assert (other.state, len(other.heads)) == (LibraryState.of(other.changes), 1)


def test_a_line_that_the_cache_covers_is_still_checked(cached: History) -> None:
    log = log_of(cached)
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"who":"ann"', b'"who":"eve"'))
    for ask in (cached.load, lambda: cached.state, lambda: cached.add(CARRY)):
        with pytest.raises(LibraryError, match=r"line 2 of .* is damaged: it does not follow the line before it"):
            ask()
    log.write_bytes(b"".join(line + b"\n" for line in whole.splitlines()[:1]))
    with pytest.raises(LibraryError, match="it lacks changes that HEAD shows"):
        cached.load()
    head_of(cached).unlink()  # nothing shows then that lines are lost
    assert (cached.state, len(cached.changes)) == (LibraryState.of(cached.changes), 1)


def test_a_load_parses_no_line_that_the_cache_covers(cached: History, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, parse = list[int](), Change.parse
    for _ in range(3 * EVERY):
        cached.rollback("try-2")
        cached.rollback("v-1")
    changes = cached.changes

    def counted(line: bytes, number: int, previous: str, source: str) -> Change:
        parsed.append(number)
        return parse(line, number, previous, source)

    monkeypatch.setattr(Change, "parse", counted)
    cached.load()
    cached.state  # noqa: B018 - it reads the files
    assert len(parsed) < 2 * EVERY < len(changes)
    assert min(parsed, default=len(changes)) > len(changes) - EVERY


def test_pins_and_tags_of_an_older_agentlearn_are_shown_and_do_nothing(history: History) -> None:
    first, second = (one.version for one in history.changes)
    head = head_of(history).read_bytes()
    made = {"branch": "main", "version": first, "before": second, "who": "ann", "at": AT}
    with ChangeLog(log_of(history).parent).writing() as writer:
        writer.append(kind="tag", label="v-1", **made)
        writer.append(kind="pin", **made)
    head_of(history).write_bytes(head + f"{first} {AT.isoformat()}\n".encode())  # as it was written then
    assert (history.load().version, history.resolve()) == (second, second)
    assert [one.kind for one in history.changes] == ["add", "add", "tag", "pin"]
    assert [words.split("  ")[-1] for words in change_lines(history, None)][:2] == ["pin by ann", "tag v-1 by ann"]
    with pytest.raises(LibraryError, match="no version starting with 'v-1'"):
        history.load("v-1")
    history.add(ZERO)
    assert [version for version, _ in history.heads] == [first, second, second, history.resolve()]


@pytest.mark.slow
def test_several_processes_append_without_losing_a_change(tmp_path: Path) -> None:
    program = """
import sys
from agentlearn.library import LibraryStore
from agentlearn.types.experience import library_of
history = LibraryStore(sys.argv[1]).history("math")
for number in range(25):
    history.publish(library_of([f"When case {sys.argv[2]} {number} comes, think."]), who=sys.argv[2])
"""
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(one)]) for one in range(3)]
    assert [one.wait(100) for one in running] == [0, 0, 0]
    changes = LibraryStore(tmp_path).history("math").changes
    assert len(changes) == 75
    assert LibraryStore(tmp_path).history("math").state == LibraryState.of(changes)
    assert (tmp_path / "math" / "history.cache").is_file()
    for before, after in pairwise(changes):
        assert after.before == before.version
    assert len((tmp_path / "math" / "HEAD").read_text().splitlines()) == 75


GOLDEN_VERSIONS = ("3368ad9831a23c79874bbd6f367ffd4d", "dd08fd4eeb688a89882044e14d7dc608")
GOLDEN_CHAIN = ("1e89b4b59ec01315d281b9235b18a271", "5361e2112ff2df20ed9009c3e42dc3d4")
