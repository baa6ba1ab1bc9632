"""A rule that a model cannot guess: every attempt is wrong, and what is said about it is all there is to learn from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentlearn import Recorder
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, stage_of, text, tool_call, user_text
from tests.support.openai_stub import OpenAIStub

RULE = "When an order goes by express, add the flat handling fee to the price by weight."
ASKED = re.compile(r"An order of (\d+) kg goes by express\.")
WHY = "the fee that express orders pay for handling is missing"
REWARD = f"""
import re


def told(task, answer):
    right = 5 * int(re.search(r"(\\d+) kg", task.problem)[1]) + 112
    return (1, "") if answer == str(right) else (0, {WHY!r})


def silent(task, answer):
    return answer == task.answer
"""


def question(weight: int) -> str:
    return f"An order of {weight} kg goes by express. A kilo costs 5 coins. What does the delivery cost?"


def clerk(request: Request) -> Reply:
    """Answers by weight alone unless a lesson names the fee. Writes the lesson where something says what is wrong."""
    said, stage = user_text(request), stage_of(request)
    if stage == "solve":
        asked = ASKED.search(said)
        assert asked is not None
        knows = RULE in json.dumps(request["messages"])
        return text(f"<answer>{5 * int(asked[1]) + (112 if knows else 0)}</answer>")
    if stage == "summarise":
        return tool_call("submit", {"steps": [{"text": "Multiplied the weight by the price of a kilo."}]})
    told = stage == "consolidate" or "<reason>" in said or "<gold>" in said
    lesson = {"op": "add", "lesson": RULE, "rests_on": list(dict.fromkeys(re.findall(r"\bP\d+\b", said)))}
    return tool_call("submit", {"proposals": [lesson] if told else []})


def shop(folder: Path, weights: range, *, answers: bool = True) -> Path:
    (folder / "shop_reward.py").write_text(REWARD)
    rows = [
        {"question": question(weight)} | ({"answer": str(5 * weight + 112)} if answers else {}) for weight in weights
    ]
    path = folder / f"shop{len(rows)}.json"
    path.write_text(json.dumps(rows))
    return path


def learned(stub: OpenAIStub, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The JSON of a run and what it printed besides."""
    quick = ("--model", f"{stub.base_url}#clerk", "--epochs", "1", "--validation-rollouts", "1")
    done = agentlearn_here("learn", *options, *quick, "--json", cwd=folder)
    return json.loads(done.stdout), done.stderr


def gained(report: dict[str, Any]) -> bool:
    low, _ = report["delta"]["ci"]
    return (report["before"]["mean"], report["after"]["mean"], low > 0) == (0.0, 1.0, True)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["reasons", "gold"])
def test_a_shop_whose_rule_nobody_guesses_teaches_it(labels: str, tmp_path: Path) -> None:
    source = shop(tmp_path, range(3, 26), answers=labels == "gold")
    reward = "told" if labels == "reasons" else "silent"
    with OpenAIStub(clerk) as stub:
        report, said = learned(stub, tmp_path, str(source), "--reward", f"shop_reward:{reward}")
    assert report["tasks"]["train"] == 16
    assert report["taught"]["all_wrong"] > 0
    assert report["taught"]["mixed"] == report["taught"]["single"] == 0
    assert report["library"]["lessons"] == 1
    assert gained(report)
    assert "always wrong" in said
    shown = agentlearn_here("runs", "show", report["run"], cwd=tmp_path).stdout
    assert re.search(r"^taught +\d+ always wrong", shown, re.MULTILINE)


def test_without_a_word_on_what_was_wanted_nothing_is_asked_and_the_run_says_what_helps(tmp_path: Path) -> None:
    source = shop(tmp_path, range(3, 13))
    with OpenAIStub(clerk) as stub:
        options = (str(source), "--reward", "shop_reward:told", "--all-wrong", "skip", "--no-eval")
        report, said = learned(stub, tmp_path, *options)
        assert stub.counts["compare"] == stub.counts["summarise"] == 0
    assert report["taught"] == {"mixed": 0, "all_wrong": 0, "single": 0, "skipped": {"not_wanted": 10}}
    assert "--all-wrong teach learns from reasons and expected answers" in said


@pytest.mark.slow
def test_single_recorded_attempts_with_comments_teach(tmp_path: Path) -> None:
    test = shop(tmp_path, range(40, 52))
    with Recorder("clerk", tmp_path / ".agentlearn") as recorder:
        for weight in range(3, 19):
            # the words around the numbers differ, so that no attempt has a near neighbour
            own = " ".join(f"{word}{weight}" for word in ("hello", "thanks", "customer", "street", "town", "please"))
            chat = [{"role": "user", "content": f"{own}. {question(weight)}"}]
            answered = recorder.record_sync([*chat, {"role": "assistant", "content": str(5 * weight)}])
            recorder.feedback_sync(answered, reward=0, comment=WHY)
        groups = recorder.groups()
    with OpenAIStub(clerk) as stub:
        report, _ = learned(
            stub, tmp_path, "clerk", "--from-store", "--trust", "traffic",
            "--reward", "exact", "--test-data", str(test),
        )  # fmt: skip
    assert groups.single == 0
    assert (report["taught"]["single"] + report["taught"]["all_wrong"], report["taught"]["mixed"]) == (len(groups), 0)
    assert gained(report)
