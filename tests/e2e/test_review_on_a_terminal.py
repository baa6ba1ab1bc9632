"""A person decides on 50 waiting things with `agentlearn review`, on a terminal of 80 columns."""

import os
import pty
import random
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from agentlearn.library import LibraryStore
from agentlearn.library.import_lessons import import_lessons
from tests.support.command import AGENTLEARN
from tests.support.snapshot import assert_snapshot

pytestmark = pytest.mark.slow

THINGS = 50
COLUMNS = 80
WORDS = re.findall(
    "[a-z]+",
    """apple bread cloud drift eagle field grape house island jacket kettle lemon mango night ocean paper quilt river
    stone table uncle valley water yellow zebra anchor basket candle desert engine forest garden hammer iron jungle
    ladder market needle orange pencil queen ribbon silver ticket umbrella velvet window button carpet dragon""",
)


class Person:
    """Presses keys when the command asks."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self.command = subprocess.Popen(
            [str(AGENTLEARN), *arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}, close_fds=True,
        )  # fmt: skip
        os.close(theirs)
        self.screen, self.text, self.keys = ours, "", 0

    def sees(self, words: str) -> str:
        """Wait until the screen shows these words; return what came until then."""
        ends = time.monotonic() + 120
        while words not in self.text:
            assert time.monotonic() < ends, self.text[-1_000:]
            assert select.select([self.screen], [], [], 60)[0], self.text[-1_000:]
            try:
                self.text += os.read(self.screen, 65_536).decode()
            except OSError:
                break
        before, _, self.text = self.text.partition(words)
        return before

    def presses(self, keys: str) -> None:
        self.keys += len(keys)
        os.write(self.screen, keys.encode())


def waiting_lessons(store: Path) -> None:
    """Fifty lessons of a file that wait in a library."""
    libraries = LibraryStore(store / "libraries")
    history = libraries.history("desk")
    history.add("Say what you checked, and what you could not check, before you give the customer an answer.")
    lines: list[str] = []
    for n in range(THINGS):
        one, two, three, four, five, six = random.Random(n).sample(WORDS, 6)
        lines.append(
            f"- When the {one} meets a {two}, count every {three} twice, weigh the {four} next to the {five}, and"
        )
        lines[-1] += f" note the {six}."
    (store.parent / "lessons.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = import_lessons(store.parent / "lessons.md", into=history.load(), name="desk", store=libraries)
    history.update(found.added_to, kind="import")


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """A person in front of the first of fifty things."""
    waiting_lessons(tmp_path / ".agentlearn")
    found = Person("review", cwd=tmp_path)
    yield found
    found.command.kill()
    found.command.wait(60)
    os.close(found.screen)


def test_fifty_things_take_at_most_two_keys_each(tmp_path: Path, person: Person) -> None:
    pages = list[str]()
    for number in range(THINGS):
        pages.append(person.sees("q quit\n"))
        if number % 5 == 4:
            person.presses("r")
            person.sees("no reason)")
            person.presses("\n")
        else:
            person.presses("a")
    end = person.sees("decisions made")
    assert person.command.wait(60) == 0
    assert person.keys <= 2 * THINGS
    assert "50 " in end[-6:]
    history = LibraryStore(tmp_path / ".agentlearn" / "libraries").history("desk")
    assert (len(history.load()), history.load().withheld) == (1 + 40, ())
    assert len(history.refused_words()) == 10
    too_wide = [line for page in pages for line in page.splitlines() if len(line) > COLUMNS]
    assert too_wide == []
    first = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-02 03:04", pages[0].replace("\r", ""))
    assert_snapshot(__file__, "review", re.sub(r"\b[0-9a-f]{12}\b", "0123456789ab", first))


def test_other_keys_put_off_change_take_back_and_approve_all_of_a_source(tmp_path: Path, person: Person) -> None:
    libraries = LibraryStore(tmp_path / ".agentlearn" / "libraries")
    person.sees("q quit\n")
    person.presses("l")
    assert "it goes on waiting, and comes last" in person.sees("q quit\n")
    person.presses("a")
    person.sees("q quit\n")
    person.presses("u")
    assert "undone: " in person.sees("q quit\n")
    person.presses("e")
    person.sees("New words:")
    person.sees("and note")  # the words as they are
    person.presses("\x15When in doubt, ask the customer for the number.\n")  # Ctrl-U removes what is there
    assert "edited: " in person.sees("q quit\n")
    person.presses("s")
    person.sees("n no\n")
    person.presses("y")
    person.sees("decisions made")
    assert person.command.wait(60) == 0
    shown = [one.lesson for one in libraries.load("desk").experiences]
    assert shown[1] == "When in doubt, ask the customer for the number."
    assert (len(shown), libraries.load("desk").withheld) == (1 + THINGS, ())
