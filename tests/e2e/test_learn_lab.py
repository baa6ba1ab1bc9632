"""`learn math` as a newcomer runs it: with the lab model, whose reading of lessons was learned, and no torch."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlearn_demo.lab import lab
from tests.support.command import agentlearn, agentlearn_here, learn
from tests.support.small_math import few_math_tasks

BRIEF = ("--limit", "4", "--epochs", "1", "--batch-size", "4", "--eval-rollouts", "1", "--select", "last")
SMALL = ("--limit", "30", "--epochs", "2", "--eval-rollouts", "2", "--seed", "0")
WEIGHTS = lab.folder / "weights.npz"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A brief run without `--model`: its folder, its report, and what it said."""
    folder = tmp_path_factory.mktemp("lab")
    with few_math_tasks():
        done = agentlearn_here("learn", "math", "--json", *BRIEF, cwd=folder)
    return folder, json.loads(done.stdout), done.stderr


@pytest.mark.slow
def test_lessons_help_a_transformer_that_learned_to_read_them(tmp_path: Path) -> None:
    report = json.loads(agentlearn("learn", "math", "--json", *SMALL, cwd=tmp_path).stdout)
    assert report["model"] == "lab:novice"
    assert report["delta"]["mean"] > 0.1
    assert report["delta"]["ci"][0] > 0
    assert report["rollouts"]["failed"] <= 10


def test_every_output_says_what_is_simulated_and_what_is_not(learned: tuple[Path, dict[str, Any], str]) -> None:
    folder, report, said = learned
    assert report["reflector"] == "sim:reflector"
    assert "lab:novice, a real but tiny transformer" in said
    assert "sim:reflector, a simulated model" in said
    assert any("which wrote its lessons, is simulated" in note for note in report["notes"])
    small = ("--limit", "3", "-k", "1")
    compared = agentlearn_here("compare", "none", "math", *small, cwd=folder).stdout
    assert "Lab models are real but tiny transformers" in compared
    solved = agentlearn_here("solve", "math", "What is 2 + 2?", cwd=folder).stdout
    assert "(a real but tiny transformer)" in solved


def test_its_weights_stay_as_they_are(learned: tuple[Path, dict[str, Any], str]) -> None:
    _, report, _ = learned
    shipped = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    assert report["weights"]["sha256_before"] == report["weights"]["sha256_after"] == shipped


@pytest.mark.slow
def test_lessons_that_say_nothing_do_not_move_it(tmp_path: Path) -> None:
    nothing = {
        "experiences": {
            "G0": "When the day is long, keep a clear head.",
            "G1": "When you feel unsure, aim for quality.",
        }
    }
    (tmp_path / "nothing.json").write_text(json.dumps({**nothing, "next_id": 2}))
    quick = ("--model", "lab:novice", "--limit", "1", "--epochs", "1", "--group-size", "1", "--eval-rollouts", "3")
    bare = learn(tmp_path, *quick, "--store", "bare")["before"]["mean"]
    told = learn(tmp_path, *quick, "--store", "told", "--from", "nothing.json")["before"]["mean"]
    assert abs(told - bare) < 0.15


def test_the_core_alone_runs_it() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'tokenizers', 'jinja2'): sys.modules[name] = None\n"
        "import agentlearn_demo.lab.engine\n"
        "from agentlearn.domain.demo import lab_model\n"
        "from agentlearn_demo.lab.files import read_checkpoint\n"
        "model, tokenizer = read_checkpoint(lab_model('novice').folder, 'novice')\n"
        "assert tokenizer.decode(tokenizer.encode('two words')) == 'two words'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
