"""What a user begins with: a recipe, a domain of their own, a look at their data, a plan before anything is spent."""

import json
import sys
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.config import learn_settings, read_recipe


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_written_recipe_can_be_run() -> None:
    assert run(["init", "math", "--out", "recipe.yaml"]) == 0
    assert learn_settings(read_recipe(Path("recipe.yaml"))).domain == "math"
    assert run(["init", "math", "--out", "recipe.yaml"]) == 2, "nothing is overwritten"


def test_a_new_domain_keeps_its_promises_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["domain", "new", "zorks"]) == 0
    monkeypatch.syspath_prepend(str(Path("zorks").resolve()))
    assert run(["domain", "check", "zorks_domain:domain"]) == 0
    assert "BROKEN" not in capsys.readouterr().out
    assert run(["domain", "new", "zorks"]) == 2, "nothing is overwritten"
    for name in [one for one in sys.modules if one.startswith("zorks_domain")]:
        del sys.modules[name]


def test_a_broken_domain_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("crooked_domain.py").write_text(
        "from agentlearn_math import MathDomain\n"
        "from agentlearn.types.trajectory import Verdict\n"
        "class Bent(MathDomain):\n"
        "    def with_sandbox(self, sandbox):\n"
        "        return Bent(sandbox)\n"
        "    def verify(self, task, trajectory):\n"
        "        return Verdict(status='correct', reward=1.0)\n"
        "domain = Bent()\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert run(["domain", "check", "crooked_domain:domain"]) == 1
    said = capsys.readouterr()
    assert "BROKEN" in said.out
    assert "promises are broken" in said.err


def test_a_plan_spends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "math/published", "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["train"] == 100
    assert run(["learn", "math/laptop", "--dry-run"]) == 0
    assert "http://127.0.0.1:8000/v1#local" in capsys.readouterr().out
    assert not Path(".agentlearn").exists()
    assert run(["learn", "math/none", "--dry-run"]) == 2
