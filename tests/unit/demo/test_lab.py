"""The lab model's files, its service, its corpus, and what the shipped weights take from lessons."""

import asyncio
import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import Message, Tool
from agentlearn.serving.chat_service import Sampling
from agentlearn_demo.demos import math_tasks
from agentlearn_demo.endpoints import lab_endpoint
from agentlearn_demo.lab import lab
from agentlearn_demo.lab.corpus import DIALOGUES, TrainingExample, examples
from agentlearn_demo.lab.engine import LabFormat, open_lab_engine
from agentlearn_demo.lab.evaluation import evaluate_lab_model, evaluation_tasks
from agentlearn_demo.lab.transformer import TOKENIZER, WEIGHTS, check_present, read_checkpoint
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.problem import Problem

TOOL = Tool("run_python", {}, "{}")


def problem_in(text: str) -> Problem | None:
    return next(filter(None, (family.recognise(text) for family in FAMILIES)), None)


def test_an_unknown_name_is_refused_in_a_sentence() -> None:
    async def opened() -> None:
        async with lab_endpoint("expert"):
            pass

    with pytest.raises(ConfigError) as refused:
        asyncio.run(opened())
    assert str(refused.value) == "there is no lab model 'expert' (installed: 'lab:novice')"
    assert (refused.value.code, refused.value.exit_status) == ("unknown_model", 2)


def test_missing_and_changed_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check_present(tmp_path, "novice")
    assert str(refused.value) == "the lab model 'novice' has no weights here; build them with `agentlearn lab build`"
    for file in (WEIGHTS, TOKENIZER):
        folder = tmp_path / file
        shutil.copytree(lab.folder, folder)
        with (folder / file).open("ab") as out:
            out.write(b" ")
        with pytest.raises(ConfigError) as refused:
            read_checkpoint(folder, "novice")
        why = f"{file} is not the file that was built; reinstall the package"
        assert str(refused.value) == f"the weights of the lab model 'novice' cannot be used: {why}"
        assert refused.value.code == "bad_config"


def test_the_shipped_model_writes_a_program_for_a_problem() -> None:
    model, tokenizer = read_checkpoint(lab.folder, "novice")
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids

    async def run() -> int:
        right = 0
        async with open_lab_engine(model, end) as engine:
            for task in evaluation_tasks("right", 4, 5):
                messages = [Message("system", task.system), Message("user", task.question)]
                prompt = chat.encode(chat.render(messages, [TOOL]))
                drawn = await engine.sample(prompt, Sampling(seed=1, max_tokens=300, temperature=0.0))
                spoken = chat.parse(chat.decode(drawn.ids[:-1]), [TOOL], prompt="")
                assert [name for name, _ in spoken.calls] == ["run_python"]
                right += "print(" in json.loads(spoken.calls[0][1])["code"]
        return right

    assert asyncio.run(run()) == 4


async def test_a_served_answer_has_text_a_tool_call_and_its_tokens() -> None:
    import httpx2

    task = evaluation_tasks("none", 1, 0)[0]

    async with lab_endpoint("novice") as service, httpx2.AsyncClient(timeout=60) as client:
        assert (service.model, service.simulated) == ("novice", False)
        body = {
            "model": "novice",
            "messages": [{"role": "system", "content": task.system}, {"role": "user", "content": task.question}],
            "tools": [{"type": "function", "function": {"name": "run_python", "parameters": {}}}],
            "temperature": 0,
            "seed": 1,
            "logprobs": True,
            "return_token_ids": True,
        }
        answers = [(await client.post(f"{service.base_url}/chat/completions", json=body)).json() for _ in range(2)]
        choice = answers[0]["choices"][0]
        call = choice["message"]["tool_calls"][0]["function"]
        assert call["name"] == "run_python"
        assert "print" in json.loads(call["arguments"])["code"]
        assert choice["finish_reason"] == "tool_calls"
        assert len(choice["token_ids"]) == len(choice["logprobs"]["content"])
        assert answers[0]["prompt_token_ids"]
        assert choice["token_ids"] == answers[1]["choices"][0]["token_ids"]
        assert answers[0]["system_fingerprint"] == "lab"


@pytest.fixture(scope="module")
def made() -> list[TrainingExample]:
    return list(islice(examples(0), 100))


def test_the_corpus_follows_from_its_seed_and_has_no_problem_of_the_test_split(made: list[TrainingExample]) -> None:
    assert list(islice(examples(0), 5)) == made[:5] != list(islice(examples(1), 5))
    asked = {dialogue.messages[0].text for example in made for dialogue in example.dialogues}
    assert len(asked) > 0.4 * DIALOGUES * len(made)
    for text in asked:
        problem = problem_in(text)
        assert problem is not None
        assert problem.home != "test"
    assert not asked & {task.problem for task in math_tasks("test", 0)}


# What the shipped weights take from lessons: the same on any machine, up to rounding.


@pytest.mark.slow
def test_lessons_move_the_shipped_model_as_the_docs_say() -> None:
    scores = asyncio.run(evaluate_lab_model("novice", lab.folder, 30, 0))
    shares = {one.condition: one.share for one in scores}
    assert shares["right"] - shares["none"] > 0.25
    assert shares["paraphrase"] - shares["none"] > 0.1
    assert shares["sixty"] - shares["none"] > 0.2
    assert shares["inverted"] < shares["none"] - 0.05
    assert shares["negation"] < shares["none"] + 0.25
    assert abs(shares["shuffled"] - shares["none"]) < 0.12
