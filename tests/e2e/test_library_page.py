"""docs/library.md: its commands, run in order as a reader would, do what the page says."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from inspect_ai.tool import read_skills
from skills_ref import validator

from tests.support.command import agentlearn_here
from tests.support.small_math import few_math_tasks

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
COMMAND = re.compile(r"^agentlearn .*$", re.MULTILINE)
MADE = re.compile(r"(?:added|now|approved) ([0-9a-f]{8,})")
TASK = {"problem": "A shelf holds 14 books and 9 of them are thick. How many books on it are not thick?", "answer": "5"}


@pytest.mark.usefixtures("few_tasks")
def test_every_command_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("- When two events exclude each other, add their probabilities.\n")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK))
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in COMMAND.findall(block)]
    ids, said = dict[str, str](), dict[str, str]()
    for line in commands:
        words = [ids.get(word, word) for word in shlex.split(line)[1:]]
        out = agentlearn_here(*words, cwd=tmp_path).stdout
        said[" ".join(words[:2])] = said.get(" ".join(words[:2]), "") + out
        made = MADE.search(out)
        if made is not None and "FENCE" not in ids:
            ids["FENCE"] = made[1]
        elif made is not None and words[1] == "edit":
            ids["ROW"] = made[1]
        elif words[1] == "pending":
            ids["NOTE"] = pending_id(tmp_path)
    assert ids["FENCE"] != ids["ROW"]
    assert "count one marker more" in said["library blame"]
    assert "count one post more" in said["library blame"], "blame shows what the lesson was before"
    assert "1 lesson" in said["library import"]
    assert "exclude each other" in shown(tmp_path, "copy")
    assert "exclude each other" not in shown(tmp_path, "math"), "the version by hand is current again"
    kinds = [one["kind"] for one in changes(tmp_path)]
    assert {"learn", "add", "edit", "branch", "import", "approve", "rollback"} <= set(kinds)
    assert "score" in said["library audit"]
    assert (tmp_path / "math.md").read_text(encoding="utf-8").startswith("# Library math")
    assert "points" in said["library effects"]
    two_readers_load(tmp_path / "skills" / "math")


@pytest.fixture
def few_tasks() -> Iterator[None]:
    with few_math_tasks():
        yield


def pending_id(folder: Path) -> str:
    """The start of the id of the only lesson that waits."""
    (waiting,) = json.loads(agentlearn_here("library", "show", "math", "--json", cwd=folder).stdout)["withheld"]
    return waiting["experience"]["id"][:12]


def shown(folder: Path, name: str) -> str:
    """The lessons of a library."""
    found = json.loads(agentlearn_here("library", "show", name, "--json", cwd=folder).stdout)
    return "\n".join(one["lesson"] for one in found["experiences"])


def changes(folder: Path) -> list[dict[str, str]]:
    """The changes of the library, as `library log --json` lists them."""
    return json.loads(agentlearn_here("library", "log", "math", "--json", cwd=folder).stdout)["changes"]


def two_readers_load(folder: Path) -> None:
    """The reference validator and another program's reader accept the skill."""
    assert validator.validate(folder) == []
    (skill,) = read_skills([folder])
    assert "exclude each other" in skill.instructions
