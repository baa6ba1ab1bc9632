"""`learn math` as a newcomer runs it: with the lab model, whose reading of lessons was learned, and no torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import agentlearn_here

BRIEF = ("--limit", "3", "--epochs", "1", "--no-eval", "--validation-rollouts", "0", "--select", "last")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A brief run without `--model`: its folder, its report, and what it said."""
    folder = tmp_path_factory.mktemp("lab")
    done = agentlearn_here("learn", "math", "--json", *BRIEF, cwd=folder)
    return folder, json.loads(done.stdout), done.stderr


@pytest.mark.slow
def test_every_output_says_what_is_simulated_and_what_is_not(learned: tuple[Path, dict[str, Any], str]) -> None:
    folder, report, said = learned
    assert report["reflector"] == "sim:reflector"
    assert "lab:novice, a real but tiny transformer" in said
    assert "sim:reflector, a simulated model" in said
    assert any("which wrote its lessons, is simulated" in note for note in report["notes"])
    small = ("--limit", "1", "-k", "1")
    compared = agentlearn_here("compare", "none", "math", *small, cwd=folder).stdout
    assert "Lab models are real but tiny transformers" in compared
    solved = agentlearn_here("solve", "math", "What is 2 + 2?", cwd=folder).stdout
    assert "(a real but tiny transformer)" in solved


def test_the_core_alone_runs_it() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'tokenizers', 'jinja2'): sys.modules[name] = None\n"
        "import agentlearn_demo.lab.engine\n"
        "from agentlearn.domain.demo import lab_model\n"
        "from agentlearn_demo.lab.transformer import read_checkpoint\n"
        "model, tokenizer = read_checkpoint(lab_model('novice').folder, 'novice')\n"
        "assert tokenizer.decode(tokenizer.encode('two words')) == 'two words'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
