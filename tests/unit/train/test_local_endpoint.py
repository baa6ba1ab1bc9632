"""`local:DIRECTORY` end to end: a typed agent with a tool, exact tokens, weights that a trainer may change."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pydantic_ai.messages import ModelMessage, ModelResponse  # noqa: E402
from pydantic_ai.settings import ModelSettings  # noqa: E402

from agentlearn.config import CallOptions  # noqa: E402
from agentlearn.errors import ConfigError, MissingExtra  # noqa: E402
from agentlearn.models.endings import SampledTokens, tokens_of  # noqa: E402
from agentlearn.models.endpoint import TokenRequest, open_endpoint, open_service, served_model  # noqa: E402
from agentlearn.serving.chat_service import (  # noqa: E402
    ChatService,
    Sampled,
    Sampling,
)
from agentlearn.train.engine.chat_template import TemplateFormat  # noqa: E402
from agentlearn.train.serving import local  # noqa: E402
from agentlearn.train.serving.local import local_endpoint  # noqa: E402
from tests.support.adding import Reciting, Total, adder  # noqa: E402
from tests.support.tiny_model import forward_logprobs, saved, spread, taught, tiny_network, tiny_tokenizer  # noqa: E402


def sampled_tokens(messages: list[ModelMessage]) -> list[SampledTokens]:
    found = [tokens_of(message) for message in messages if isinstance(message, ModelResponse)]
    assert all(found)
    return [one for one in found if one is not None]


@pytest.fixture(scope="module")
def adding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that knows one dialogue by heart: the agent's own, recorded with a scripted engine."""
    reciting = Reciting()

    async def record() -> None:
        service = ChatService(reciting, TemplateFormat(tiny_tokenizer()), model="toy")
        async with service.serve() as url, served_model(url, "toy", None, CallOptions()) as model:
            result = await adder().run("2 + 3?", model=model, model_settings=ModelSettings(seed=1))
            assert result.output == Total(total=5)

    asyncio.run(record())
    torch.manual_seed(0)
    network = taught(tiny_network(hidden=64), reciting.seen)
    return saved(tmp_path_factory.mktemp("model") / "adding", network)


def talk(directory: Path, **settings: Any) -> tuple[Total, list[SampledTokens], list[ModelMessage]]:
    async def once() -> tuple[Total, list[SampledTokens], list[ModelMessage]]:
        async with open_endpoint(f"local:{directory}", CallOptions(), tokens=TokenRequest()) as endpoint:
            assert not endpoint.simulated
            how = ModelSettings(seed=3, **settings)
            result = await adder().run("2 + 3?", model=endpoint.model, model_settings=how)
            return result.output, sampled_tokens(result.all_messages()), result.all_messages()

    return asyncio.run(once())


@pytest.mark.slow
def test_a_typed_agent_calls_its_tool_and_every_token_is_known(adding: Path) -> None:
    total, (first, second), messages = talk(adding, temperature=0.7)
    assert total == Total(total=5)
    network, tokenizer = local.load_for_serving(str(adding)).model, tiny_tokenizer()
    for turn in (first, second):
        assert turn.ids[-1] == tokenizer.eos_token_id
        assert turn.logprobs == pytest.approx(forward_logprobs(network, turn.prompt, turn.ids, 0.7), abs=1e-4)
    so_far = (*first.prompt, *first.ids)
    assert second.prompt[: len(so_far)] == so_far
    # What it drew is not how its text would be encoded: had it been, the turns would not fit together.
    text = tokenizer.decode(list(first.ids[:-1]), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert tokenizer.encode(text, add_special_tokens=False) != list(first.ids[:-1])
    assert messages[-2].usage.cache_read_tokens >= len(first.prompt)  # type: ignore[union-attr]


def test_a_trainer_beside_it_changes_the_weights(adding: Path) -> None:
    async def across() -> tuple[Sampled, Sampled, Any]:
        async with local_endpoint(str(adding)) as service:
            assert service.model == "adding"
            assert not service.simulated
            how = Sampling(seed=1, max_tokens=6)
            async with open_service("local:adding", service, CallOptions(), tokens=TokenRequest()) as endpoint:
                assert (endpoint.name, endpoint.url, endpoint.simulated) == ("local:adding", service.base_url, False)
                assert endpoint.endpoint_state.free
                asked = ModelSettings(seed=3, temperature=0.0)
                assert (await adder().run("2 + 3?", model=endpoint.model, model_settings=asked)).output.total == 5
            before = await service.engine.sample([1, 2, 3], how)
            with service.engine.paused():
                spread(service.network, seed=9)
            return before, await service.engine.sample([1, 2, 3], how), service.network

    before, after, network = asyncio.run(across())
    assert after.logprobs == pytest.approx(forward_logprobs(network, [1, 2, 3], after.ids), abs=1e-4)
    assert before.logprobs != pytest.approx(forward_logprobs(network, [1, 2, 3], before.ids), abs=1e-2)


def refusal(directory: str) -> str:
    async def once() -> None:
        async with local_endpoint(directory):
            raise AssertionError

    with pytest.raises(ConfigError) as refused:
        asyncio.run(once())
    return refused.value.message


def test_what_cannot_be_served_is_said(adding: Path, tmp_path: Path) -> None:
    assert "there is no directory 'nowhere'; name one with a Hugging Face checkpoint" in refusal("nowhere")
    assert f"the directory {str(tmp_path)!r} holds no model" in refusal(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert f"the directory {str(tmp_path)!r} has a config.json but no weights" in refusal(str(tmp_path))
    bare = tmp_path / "bare"
    tiny_network().save_pretrained(bare)
    assert f"the directory {str(bare)!r} has no tokenizer that can be loaded" in refusal(str(bare))
    tiny_tokenizer(None).save_pretrained(bare)
    assert "has no chat template" in refusal(str(bare))


def test_without_torch_the_extra_is_named(adding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None if name == "torch" else sys)

    async def once() -> None:
        async with local_endpoint(str(adding)):
            raise AssertionError

    with pytest.raises(MissingExtra) as missing:
        asyncio.run(once())
    assert missing.value.message == (f"the endpoint 'local:{adding}' needs torch: pip install 'agentlearn-lib[train]'")
