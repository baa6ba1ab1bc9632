"""The example package of a researcher: its prompt, rule, reward, loss and advantages, found by its entry points."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.command import agentlearn_here, learn

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "docs/examples/own_parts"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, folder / "source")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    subprocess.run([*pip, "--target", str(folder / "packages"), str(source)], check=True, timeout=300)
    return folder / "packages"


def test_learn_uses_its_prompt_and_its_rule_and_resumes_with_the_stored_text(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = shutil.copy(installed / "own_parts/compare.md", tmp_path / "compare.md")
    own = ("--prompt", "compare=compare.md", "--rule", "names-a-situation", "--store", "s", "--no-eval")
    few = ("learn", "math", "--model", "sim:novice", "--limit", "8", "--epochs", "1", "--group-size", "3")
    with monkeypatch.context() as here:
        here.syspath_prepend(str(installed))
        plan = agentlearn_here(*few, *own, "--dry-run", cwd=tmp_path).stdout
        assert "prompt of compare: compare.md (sha256 " in plan
        assert "rule: names-a-situation" in plan
        stopped = agentlearn_here(*few, *own, "--max-tokens", "9000", cwd=tmp_path, expect=3)
    Path(prompt).unlink()
    with read_store(tmp_path / "s") as reader:
        (row,) = reader.runs()
    assert row.run in stopped.stdout + stopped.stderr
    resume = ("learn", "--resume", row.run, "--max-tokens", "9000000", "--store", "s")
    without = agentlearn_here(*resume, cwd=tmp_path, expect=2).stderr
    assert "there is no rule 'names-a-situation'" in without
    monkeypatch.syspath_prepend(str(installed))
    report = json.loads(agentlearn_here(*resume, "--json", cwd=tmp_path).stdout)
    with read_store(tmp_path / "s") as reader:
        refs = {ref.name for one in reader.proposals(row.run) for ref in one.ended.proposal.prompts}
        stored = reader.run(row.run).settings
    assert "own:compare" in refs
    assert '"rule":["names-a-situation"]' in stored.replace(" ", "")
    assert "Prompt own:compare/v1" in (tmp_path / report["page"]).read_text()


def test_a_rule_refuses_what_it_is_written_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text("def nothing(operation, library):\n    return 'no lesson is good enough'\n")
    report = learn(tmp_path, "--rule", "strict:nothing", "--limit", "6", "--epochs", "1", "--no-eval", here=True)
    assert report["proposals"]["applied"] == 0
    assert report["proposals"]["rejected"]["own_rule"] > 0


def test_train_uses_its_loss_advantages_and_reward(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from tests.support.letters_training import one_word_tasks
    from tests.support.tiny_model import saved, tiny_network

    weights = saved(tmp_path / "tiny", tiny_network(context=1024))
    tasks = one_word_tasks(tmp_path / "letters.jsonl", "cat", "dog")
    command = ("train", str(tasks), "--reward", "brief", "--model", str(weights), "--loss", "reinforce", "--set")
    options = ("advantages=ranks", "--learning-rate", "0.01", "--epochs", "1", "--group-size", "4", "--store", "s")
    sizes = ("--max-output-tokens", "40", "--no-eval", "--test-share", "0")
    refused = agentlearn_here(*command, *options, cwd=tmp_path, expect=2).stderr
    assert "there is no loss 'reinforce'; give one of grpo" in refused
    monkeypatch.syspath_prepend(str(installed))
    agentlearn_here(*command, *options, *sizes, cwd=tmp_path)
    with read_store(tmp_path / "s") as reader:
        (row,) = reader.runs()
        (figures,) = reader.metrics(row.run).values()
    assert figures["grad_norm"] > 0
    assert '"advantages":"ranks"' in row.settings.replace(" ", "")
