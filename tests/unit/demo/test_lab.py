"""The lab model's files, its service, its corpus, and what the shipped weights take from lessons."""

import asyncio
import json
import re
import shutil
from itertools import islice
from pathlib import Path

import pytest

from agentlearn.answers.reply import boxed
from agentlearn.domain.demo import lab_model
from agentlearn.errors import ConfigError
from agentlearn.sandbox.protocol import CodeResult
from agentlearn.sandbox.python_tool import FAILED, printed_value, render_result
from agentlearn.serving.chat_request import Message, Tool
from agentlearn.serving.engine import Sampling
from agentlearn_demo.endpoints import lab_endpoint
from agentlearn_demo.lab import lab
from agentlearn_demo.lab.corpus import DIALOGUES, TrainingExample, at_temperature_one, examples, wordings
from agentlearn_demo.lab.engine import LabFormat, open_lab_engine
from agentlearn_demo.lab.evaluation import CONDITIONS, evaluate_lab_model, evaluation_tasks
from agentlearn_demo.lab.files import CARD, TOKENIZER, WEIGHTS, check_present, read_checkpoint
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.problem import Problem, printed
from agentlearn_demo.math.tasks import home, math_tasks
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.lessons import experiences_in
from agentlearn_demo.sim.solver import TEMPERATURE

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
        assert refused.value.code == "bad_weights"


def test_the_shipped_files_are_small_and_the_lab_knows_its_own_problems_only() -> None:
    folder = lab_model("novice").folder
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2_097_152
    assert json.loads((folder / CARD).read_text())["corpus"] == "3", "docs/lab_model.md says what it was trained on"
    assert lab.families == len(FAMILIES)
    assert all(lab.knows(one.problem) for one in math_tasks("test", 0))
    for text in ("What is 2 + 2?", "", "How many ordered pairs of positive integers have a product of 36?", "Hallo"):
        assert not lab.knows(text)


def test_the_shipped_model_writes_a_program_for_a_problem() -> None:
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


# The corpus.


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
        assert home(problem) != "test"
    assert not asked & {task.problem for task in math_tasks("test", 0)}


def test_dialogues_go_as_the_agents_do_and_results_are_what_programs_print(made: list[TrainingExample]) -> None:
    for dialogue in (dialogue for example in made[:40] for dialogue in example.dialogues):
        roles = [message.role for message in dialogue.messages]
        assert (roles[0], roles[-1]) == ("user", "assistant")
        for said, result in zip(dialogue.messages, dialogue.messages[1:], strict=False):
            if result.role == "tool" and not result.text.startswith(FAILED):
                code = json.loads(said.calls[0].arguments)["code"]
                assert result.text == render_result(CodeResult(status="ok", stdout=printed(code)))
        if len(roles) == 4 and (value := printed_value(dialogue.messages[2].text)) is not None:
            assert boxed(dialogue.messages[-1].text) == value


def test_sampling_at_the_solvers_temperature_gives_back_its_chance() -> None:
    for trap in TRAPS:
        for chance in (0.04, 0.35, 0.8):
            fall = at_temperature_one(trap.name, chance)
            careless = len(trap.careless) * (fall / len(trap.careless)) ** (1 / TEMPERATURE)
            careful = len(trap.careful) * ((1 - fall) / len(trap.careful)) ** (1 / TEMPERATURE)
            assert careless / (careless + careful) == pytest.approx(chance)


def test_conditions_change_what_the_teacher_reaches_and_not_the_problems() -> None:
    tasks = {condition: evaluation_tasks(condition, 20, 0) for condition in CONDITIONS}
    reached = {condition: sum(one.expected for one in found) / 20 for condition, found in tasks.items()}
    for found in tasks.values():
        assert [one.question for one in found] == [one.question for one in tasks["none"]]
    for one in tasks["none"]:
        problem = problem_in(one.question)
        assert problem is not None
        assert home(problem) == "test"
    for helpful in ("right", "paraphrase", "sixty"):
        assert reached[helpful] > 0.85 > 0.6 > reached["none"]
    for control in ("negation", "shuffled"):
        assert reached[control] == pytest.approx(reached["none"])
    # Some lessons keep one out of a neighbouring trap, too.
    assert abs(reached["irrelevant"] - reached["none"]) < 0.1
    assert reached["inverted"] < 0.15


def test_the_corpus_has_no_wording_that_is_held_out(made: list[TrainingExample]) -> None:
    choice = re.compile(r"\[[^\[\]]*\]")
    held_out = [
        text.lower()
        for name, lists in wordings().items()
        for key, patterns in lists.items()
        if key.endswith("_held_out") and (name != "frames" or not key.startswith(("sentences", "orders")))
        for pattern in patterns
        for text in [max(choice.split(pattern.replace("{do}", "")), key=len).strip(" .")]
        if len(text) > 12
    ]
    shown = [one.text.lower() for example in made for one in experiences_in(example.system)]
    assert len(shown) > 150
    assert len(held_out) > 100
    # The longest fixed part of a held-out wording may be a phrase of the corpus; whole wordings are not.
    hits = [text for text in held_out for one in shown if text in one]
    assert len(hits) < 0.02 * len(shown), hits[:5]


# What the shipped weights take from lessons: the same on any machine, up to rounding.


@pytest.mark.slow
def test_lessons_move_the_shipped_model_as_the_docs_say() -> None:
    scores = asyncio.run(evaluate_lab_model("novice", lab.folder, 100, 0))
    shares = {one.condition: one.share for one in scores}
    assert shares["right"] - shares["none"] > 0.25
    assert shares["paraphrase"] - shares["none"] > 0.1
    assert shares["sixty"] - shares["none"] > 0.2
    assert shares["inverted"] < shares["none"] - 0.05
    assert shares["negation"] < shares["none"] + 0.25
    assert abs(shares["shuffled"] - shares["none"]) < 0.12
