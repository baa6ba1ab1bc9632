"""Prompts that a model cannot read: tokens that it lacks, and a context that is too small."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pydantic_ai.direct import model_request  # noqa: E402
from pydantic_ai.exceptions import ModelHTTPError  # noqa: E402
from pydantic_ai.messages import ModelRequest  # noqa: E402
from pydantic_ai.settings import ModelSettings  # noqa: E402

from agentlearn.config import CallOptions  # noqa: E402
from agentlearn.errors import AgentlearnError, ConfigError  # noqa: E402
from agentlearn.models.endpoint import Endpoint, TokenRequest, open_service  # noqa: E402
from agentlearn.train.engine.attention import PromptTokens  # noqa: E402
from agentlearn.train.serving.local import local_endpoint  # noqa: E402
from agentlearn.train.settings import train_settings  # noqa: E402
from agentlearn.train.training_plan import plan_training  # noqa: E402
from tests.support.letters_training import letters_fields, one_word_tasks  # noqa: E402
from tests.support.tiny_model import saved, tiny_network, tiny_tokenizer  # noqa: E402


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer has two tokens more than it knows."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<fresh1>", "<fresh2>"])
    return saved(tmp_path_factory.mktemp("model") / "fresh", tiny_network(), tokenizer)


def in_files(folder: Path, **config: Any) -> PromptTokens:
    file = folder / "config.json"
    kept = file.read_text()
    file.write_text(json.dumps(json.loads(kept) | config))
    found = PromptTokens.of_files(str(folder))
    file.write_text(kept)
    assert found is not None
    return found


def test_tokens_that_the_model_lacks_are_noted_and_refused_where_a_text_has_one(fresh: Path) -> None:
    tokens = in_files(fresh)
    assert tokens.note == (
        f"the tokenizer of {str(fresh)!r} has 2 tokens that the model does not know (first: '<fresh1>'); a prompt with"
        " one is refused"
    )
    tokens.refuse_unreadable("Answer.", {"1": "Say plum."}, {"lesson 'G1'": "Count first."})
    for texts in (("Answer <fresh2>.", {}, {}), ("", {"1": "Say <fresh2>."}, {}), ("", {}, {"G1": "<fresh2>"})):
        with pytest.raises(ConfigError, match=r"has the token '<fresh2>', which the tokenizer of") as refused:
            tokens.refuse_unreadable(*texts)
        assert refused.value.code == "unknown_token"
    whole = saved(fresh.parent / "whole", tiny_network())
    assert in_files(whole).note == ""
    in_files(whole).refuse_unreadable("", {"1": "Say <fresh2>."}, {})


def test_a_context_that_holds_no_prompt_is_refused(fresh: Path) -> None:
    longrope = {"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 64}}
    assert in_files(fresh, **longrope).context == 64
    older = {"rope_parameters": None, "rope_scaling": {"type": "su"}, "original_max_position_embeddings": 32}
    assert in_files(fresh, **older).context == 32
    assert in_files(fresh, rope_parameters={"rope_type": "yarn", "original_max_position_embeddings": 64}).context == 512
    tokens, long = in_files(fresh, **longrope), "word " * 40
    tokens.refuse_unreadable("", {"1": long, "2": "short"}, {})  # one of them can be answered
    with pytest.raises(ConfigError, match=r"the context of .* is 64 tokens") as refused:
        tokens.refuse_unreadable(long, {"1": "a", "2": "b"}, {})
    assert refused.value.code == "bad_config"


def test_the_plan_refuses_both(fresh: Path, tmp_path: Path) -> None:
    tasks = one_word_tasks(tmp_path / "tasks.jsonl", "plum", "<fresh1>")
    plan = plan_training(train_settings(letters_fields(fresh, tasks, tmp_path / "store")))
    (refused,) = plan.refusals
    assert refused.startswith("task 'tasks.jsonl:2' has the token '<fresh1>'")
    assert any("2 tokens that the model does not know" in one for one in plan.notes)
    small, fine = saved(tmp_path / "small", tiny_network(context=64)), one_word_tasks(tmp_path / "fine.jsonl", "plum")
    plan = plan_training(train_settings(letters_fields(small, fine, tmp_path / "store")))
    (refused,) = plan.refusals
    assert "is 64 tokens, and the prompt of the shortest task has more than" in refused


def test_a_request_with_such_a_token_is_refused_alone(fresh: Path) -> None:
    """The others of its batch are answered, and the run goes on."""

    async def ask(endpoint: Endpoint, text: str) -> str:
        asked = [ModelRequest.user_text_prompt(text)]
        try:
            await model_request(endpoint.model, asked, model_settings=ModelSettings(max_tokens=4, seed=1))
        except (AgentlearnError, ModelHTTPError) as error:
            return str(error)
        return "answered"

    async def both() -> list[str]:
        async with local_endpoint(str(fresh)) as service:
            assert service.check_chat(tools=False)[-1].startswith("the tokenizer of 'fresh' has 2 tokens")
            async with open_service("local:x", service, CallOptions(), tokens=TokenRequest()) as endpoint:
                texts = ("Say plum.", "Say <fresh1>.", "Say fig.")
                return await asyncio.gather(*(ask(endpoint, one) for one in texts))

    first, refused, last = asyncio.run(both())
    assert first == last == "answered"
    assert "400" in refused
    assert "'<fresh1>', which the model does not know" in refused
