"""Your own tasks without a package: fifty rows of a made-up currency, a reward of one line, learned end to end."""

from pathlib import Path

from tests.support.command import agentlearn
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

ROWS = {f"A zork is 7 plims and a fnord is 13. How many plims are {n} zorks and {n % 5} fnords?": 7 * n + 13 * (n % 5)
        for n in range(50)}  # fmt: skip
REWARD = "def score(task, answer):\n    return float(answer is not None and answer.strip() == task.answer)\n"


def test_fifty_rows_and_a_reward_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "zorks.csv").write_text("\n".join(["question,answer", *(f'"{q}",{a}' for q, a in ROWS.items())]))
    (tmp_path / "my_reward.py").write_text(REWARD)
    script = Solver(answers={q: str(a) for q, a in ROWS.items()}, final="<answer>{0}</answer>".format)
    with OpenAIStub(script) as stub:
        command = ["learn", "zorks.csv", "--reward", "my_reward:score", "--model", f"{stub.base_url}#any"]
        said = agentlearn(*command, "--epochs", "1", "--eval-rollouts", "2", cwd=tmp_path).stdout
    assert "agentlearn learn zorks" in said
    assert "35 to learn from, 15 held out" in said
    shown = agentlearn("library", "show", "zorks", cwd=tmp_path).stdout
    assert "[G1] When" in shown
