"""`lab:novice` as people use it: a child process, a typed agent with its tool, exact tokens."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import Message, Tool
from agentlearn_demo.lab.checkpoint import CARD, TOKENIZER, WEIGHTS, check_present, read_checkpoint
from agentlearn_demo.lab.contract import announced_lab
from agentlearn_demo.lab.lab_endpoint import lab_endpoint
from agentlearn_demo.lab.lab_format import LabFormat
from agentlearn_demo.math.lab import lab

TOOL = Tool("run_python", {}, "{}")


def test_an_unknown_name_is_refused_in_a_sentence() -> None:
    async def opened() -> None:
        async with lab_endpoint("expert"):
            pass

    with pytest.raises(ConfigError) as refused:
        asyncio.run(opened())
    assert str(refused.value) == "there is no lab model 'expert' (installed: 'lab:novice')"
    assert (refused.value.code, refused.value.exit_status) == ("unknown_model", 2)


def test_a_package_without_weights_says_how_to_build_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check_present(tmp_path, "novice")
    assert str(refused.value) == ("the lab model 'novice' has no weights here; build them with `agentlearn lab build`")
    assert refused.value.code == "no_weights"


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER])
def test_files_that_are_not_those_that_were_built_are_refused(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "novice"
    shutil.copytree(lab.folder, folder)
    with (folder / file).open("ab") as out:
        out.write(b" ")
    with pytest.raises(ConfigError) as refused:
        read_checkpoint(folder, "novice")
    assert str(refused.value) == (
        f"the weights of the lab model 'novice' cannot be used: {file} is not the file that was built; reinstall the"
        " package"
    )
    assert refused.value.code == "bad_weights"


def test_the_shipped_files_are_small_and_come_from_the_stated_command() -> None:
    folder = announced_lab("novice").folder
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2_097_152
    card = json.loads((folder / CARD).read_text())
    assert card["command"] == f"agentlearn lab build novice --tokens {card['recipe']['tokens']} --seed 0"
    assert card["corpus"] == lab.version


def test_the_shipped_model_writes_a_program_for_a_problem_and_reads_its_result() -> None:
    from agentlearn.serving.engine import Sampling
    from agentlearn_demo.lab.engine import open_lab_engine
    from agentlearn_demo.math.lab.evaluation_tasks import evaluation_tasks

    model, tokenizer = read_checkpoint(lab.folder, "novice")
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids

    async def run() -> int:
        right = 0
        async with open_lab_engine(model, end) as engine:
            for task in evaluation_tasks("right", 10, 5):
                messages = [Message("system", task.system), Message("user", task.question)]
                prompt = chat.encode(chat.render(messages, [TOOL]))
                drawn = await engine.sample(prompt, Sampling(seed=1, max_tokens=300, temperature=0.0))
                spoken = chat.parse(chat.decode(drawn.ids[:-1]), [TOOL], prompt="")
                assert [name for name, _ in spoken.calls] == ["run_python"]
                right += "print(" in json.loads(spoken.calls[0][1])["code"]
        return right

    assert asyncio.run(run()) == 10


def test_a_served_answer_has_text_a_tool_call_and_its_tokens() -> None:
    import httpx2

    from agentlearn_demo.math.lab.evaluation_tasks import evaluation_tasks

    task = evaluation_tasks("none", 1, 0)[0]

    async def run() -> None:
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

    asyncio.run(run())
