"""Your own tasks without a package: the example of docs/learn.md, run literally against a scripted server."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from tests.support.command import agentlearn_here
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/learn.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "http://127.0.0.1:8000/v1"


def walk_through() -> dict[str, list[str]]:
    """The fenced blocks of the section, by language."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Your own tasks\n")[2].partition("\n## ")[0]
    blocks: dict[str, list[str]] = {}
    for language, code in FENCE.findall(section):
        blocks.setdefault(language, []).append(code)
    return blocks


def labels(said: str) -> list[str]:
    """What stands in front of each line of progress, notes aside: they depend on how the figures turn out."""
    return [line[:13] for line in said.splitlines() if not line.startswith("  note")]


def test_the_example_of_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = walk_through()
    make_rows, reward, _ = blocks["python"]
    check, learn, show = [shlex.split(line)[1:] for line in blocks["sh"][0].splitlines()]
    (printed,) = blocks[""]
    monkeypatch.chdir(tmp_path)
    exec(compile(make_rows, "docs/learn.md", "exec"), {})
    Path("my_reward.py").write_text(reward)
    rows = list(csv.DictReader(Path("prices.csv").read_text().splitlines()))
    assert len(rows) == 50

    assert "50 usable" in agentlearn_here(*check, cwd=tmp_path).stdout

    answers = {row["question"]: row["answer"] for row in rows}
    script = Solver(answers=answers, with_lessons=0.9, final="<answer>{0}</answer>".format)
    with OpenAIStub(script) as stub:
        said = agentlearn_here(*[word.replace(SERVED, stub.base_url) for word in learn], cwd=tmp_path).stdout
        said = said.replace(stub.base_url, SERVED)
    left = iter(labels(said))
    assert all(label in left for label in labels(printed)), "the page leaves lines out, and keeps the others in order"
    for line in printed.splitlines():
        if line.startswith(("agentlearn", "  model", "  tasks", "  weights")):
            assert line in said.splitlines()

    assert run(show) == 0
    lessons = capsys.readouterr().out
    assert "[G1] When" in lessons


def test_the_file_that_the_simulated_model_can_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Without a model\n")[2].partition("\n## ")[0]
    blocks = dict(FENCE.findall(section))
    learn, show = [shlex.split(line)[1:] for line in blocks["sh"].splitlines()]
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], "docs/learn.md", "exec"), {})

    said = agentlearn_here(*learn, cwd=tmp_path).stdout

    assert "held out   better: " in said
    assert "[G1]" in agentlearn_here(*show, cwd=tmp_path).stdout
