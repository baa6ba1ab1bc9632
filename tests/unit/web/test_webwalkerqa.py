"""WebWalkerQA and plain rows as tasks: both layouts, every kind of file, and what is refused."""

import json
from pathlib import Path

import pytest

from agentlearn.data.hub import published
from agentlearn.errors import DataError
from agentlearn.types.task import Task
from agentlearn_web.task_reader import read_walk_tasks
from tests.support.hub_stub import COMMIT, hub_stub, json_lines

SMALL = Path(__file__).parent / "webwalkerqa" / "small.jsonl"
ROWS = [json.loads(line) for line in SMALL.read_text(encoding="utf-8").splitlines()]


def told(task: Task) -> tuple[str | None, str, tuple[str, ...], str]:
    return task.answer, task.start, task.path, task.family


TOLD = [
    (
        "15 January 2025",
        "https://conf.example.org/",
        ("https://conf.example.org/calls/workshops/",),
        "conf.example.org",
    ),
    (
        "Ada Byron; Room 12",
        "https://uni.example.edu",
        ("https://uni.example.edu/people", "https://uni.example.edu/people/byron"),
        "uni.example.edu",
    ),
    ("1 March 2025", "https://other.example.org/", (), "other.example.org"),
]


def test_both_layouts_give_start_and_known_path() -> None:
    tasks = read_walk_tasks(SMALL, split="test")
    assert [told(task) for task in tasks] == [*TOLD, ("1,240 EUR", "http://school.example/", (), "school.example")]
    assert {(task.domain, task.split) for task in tasks} == {("web", "test")}
    assert tasks[1].source == "small.jsonl:2"
    assert tasks[0].problem == tasks[2].problem
    assert tasks[0].id != tasks[2].id


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"data/main-00000-of-00001.jsonl": json_lines(*ROWS[:3])}
    with hub_stub({"callanwu/WebWalkerQA": files}, tmp_path, monkeypatch) as hub:
        tasks = read_walk_tasks("hf:webwalkerqa", split="test")
    assert [told(task) for task in tasks] == TOLD
    assert tasks[2].source == "hf:webwalkerqa#2"
    assert hub.listed == [("callanwu/WebWalkerQA", COMMIT)]
    assert published("hf:webwalkerqa")[1].rows == 680


NO_ADDRESS = "which is not a web address; write one that begins with http:// or https://"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "has no start address; put one such as https://example.org/ into the column 'root_url' or 'start'"),
        ({"root_url": "www.example.org"}, f"starts at 'www.example.org', {NO_ADDRESS}"),
        (
            {"url": "http://example.org/", "info": "{'domain': 'game'}"},
            "has a text in 'info' that is not a JSON object; write one, or remove the column",
        ),
        ({"url": 5, "info": None}, f"starts at '5', {NO_ADDRESS}"),
        (
            {"url": ["http://example.org/"]},
            "has a list of 1, which is neither text nor a number, in 'url'; write it as text",
        ),
    ],
)
def test_a_row_without_a_valid_start_is_refused(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Q?", "answer": "A", **fields}) + "\n")
    with pytest.raises(DataError) as caught:
        read_walk_tasks(path, split="train")
    assert str(caught.value).startswith(f"mine.jsonl line 1 {words}")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "http://[::1", "javascript:alert(1)", "http://a b/"])
def test_a_start_that_is_not_a_web_address_is_refused(tmp_path: Path, url: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Q?", "answer": "A", "url": url}) + "\n")
    with pytest.raises(DataError, match=r"line 1 starts at '.*', which is not a web address"):
        read_walk_tasks(path, split="train")


def test_a_question_with_two_answers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"question": "Q?", "answer": answer, "url": "http://a.example/"} for answer in ("1,240", "1240", "7")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    assert len(read_walk_tasks(path, split="train")) == 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"mine.jsonl lines 1 and 3 have the same problem"):
        read_walk_tasks(path, split="train")


def test_type_difficulty_and_language_become_tags() -> None:
    tasks = read_walk_tasks(SMALL, split="test")
    assert [task.tags for task in tasks] == [
        ("type=single", "difficulty=easy", "lang=en", "type=single difficulty=easy"),
        ("type=multi_source", "difficulty=medium", "lang=english", "type=multi_source difficulty=medium"),
        (),
        (),
    ]
