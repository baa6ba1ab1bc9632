"""Each architecture is sampled and trained with its own probabilities, or refused before anything is sampled."""

import asyncio
from typing import Any

import pytest

torch = pytest.importorskip("torch")


from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.serving.chat_service import Sampled, Sampling  # noqa: E402
from agentlearn.train.engine import active_batch  # noqa: E402
from agentlearn.train.engine.torch_engine import TorchEngine, context_limit  # noqa: E402
from agentlearn.train.serving.local import serve_model  # noqa: E402
from agentlearn.train.update.logprob_model import LogprobModel, check_head  # noqa: E402
from agentlearn.train.weights.loading import LoadedModel  # noqa: E402
from tests.support.families import FAMILIES, REFUSED, family_model  # noqa: E402
from tests.support.tiny_model import forward_logprobs, spread, tiny_tokenizer  # noqa: E402

LONG = [(7 * at) % 250 for at in range(61)]
PROMPTS = [[5], [*LONG, 3], LONG[:40], [*LONG[:40], 9], [*LONG[:30], *LONG]]
"""Prompts much longer than the windows, with shared beginnings."""


async def _sampled(engine: TorchEngine) -> list[Sampled]:
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(engine.sample(one, Sampling(seed=at, max_tokens=20))) for at, one in enumerate(PROMPTS)
        ]
    return [one.result() for one in running]


def served(model: Any) -> None:
    async def once() -> None:
        async with serve_model(LoadedModel(model, tiny_tokenizer(), "tiny")):
            pass

    asyncio.run(once())


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_engine_samples_from_the_model_s_own_distribution(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Token by token, with prompts computed in parts, shared prefixes, and contexts much longer than a window."""
    monkeypatch.setattr(active_batch, "PREFILL_TOKENS", 16)
    model = family_model(family)
    engine = TorchEngine(model, stop_ids=frozenset(), context=512, max_batch=3)
    with engine.running():
        answers = asyncio.run(_sampled(engine))
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        assert len(answer.ids) == 20
        assert answer.logprobs == pytest.approx(forward_logprobs(model, prompt, answer.ids), abs=1e-4)


def test_the_trainer_scores_with_the_model_s_own_distribution(subtests: pytest.Subtests) -> None:
    """In a padded batch, with rows longer than a window, forward and backward."""
    for family in FAMILIES:
        with subtests.test(repr(family)):
            model = family_model(family)
            check_head(model)
            rows = [LONG, LONG[:23]]
            ids_B_T = torch.tensor([LONG, LONG[:23] + [0] * (len(LONG) - 23)])
            places = [row * len(LONG) + at for row, one in enumerate(rows) for at in range(len(one) - 1)]
            targets_N = torch.tensor([token for one in rows for token in one[1:]])
            ours_N, _ = LogprobModel(model, logits_mib=1)(ids_B_T, torch.tensor(places), targets_N)
            ours_N.sum().backward()
            gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
            model.zero_grad()
            theirs = []
            for one in rows:
                logits = model(input_ids=torch.tensor([one])).logits[0, :-1].float()
                theirs.append(logits.log_softmax(-1).gather(1, torch.tensor(one[1:])[:, None])[:, 0])
            theirs_N = torch.cat(theirs)
            assert float((ours_N - theirs_N).detach().abs().max()) < 1e-4
            theirs_N.sum().backward()
            for name, one in model.named_parameters():
                if one.grad is not None:
                    assert torch.allclose(
                        gradients[name], one.grad, rtol=1e-3, atol=1e-3 * float(one.grad.abs().max() + 1e-6)
                    )


@pytest.mark.parametrize("family", REFUSED)
def test_other_kinds_of_attention_are_refused_before_anything_is_sampled(family: str) -> None:
    with pytest.raises(ConfigError, match=r"local: cannot sample from a .* exactly .*; use a vLLM server") as refused:
        served(family_model(family))
    assert refused.value.code == "bad_config"


EXTENDED = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0, 8.0, 16.0, 32.0],
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize("family", ["llama", "phi 3 with a window"])
def test_a_model_whose_rows_change_each_other_is_used_up_to_where_that_begins(family: str) -> None:
    """Longrope: one long row changes the frequencies of all rows of a forward pass."""
    lengths = {"max_position_embeddings": 256, "original_max_position_embeddings": 64}
    model = family_model(family, **lengths, sliding_window=None, rope_parameters=EXTENDED)
    prompts = [LONG[:5], LONG[:43], LONG[:12]]

    async def sampled() -> tuple[int, list[Sampled], tuple[str, ...]]:
        async with serve_model(LoadedModel(model, tiny_tokenizer(), "tiny")) as service:
            async with asyncio.TaskGroup() as tasks:
                how = [Sampling(seed=at, max_tokens=20) for at in range(len(prompts))]
                running = [tasks.create_task(service.engine.sample(*one)) for one in zip(prompts, how, strict=True)]
            return service.context, [one.result() for one in running], service.check_chat(tools=False)

    context, answers, notes = asyncio.run(sampled())
    assert context == 64
    assert notes[-1].startswith("'tiny' is used with a context of 64 tokens instead of 256")
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.logprobs == pytest.approx(forward_logprobs(model, prompt, answer.ids), abs=1e-4)
    assert context_limit(model) == 64
    assert context_limit(family_model("llama")) is None


@pytest.mark.parametrize("kind", ["Phimoe", "Mixtral"])
def test_experts_chosen_with_noise_in_training_are_chosen_as_in_sampling(kind: str) -> None:
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        num_local_experts=4,
        router_jitter_noise=0.3,
    )
    network = getattr(transformers, f"{kind}ForCausalLM")(config)
    spread(network, 0, width=0.5)
    scorer, ids = LogprobModel(network), torch.arange(20)[None]
    asked = ids, torch.arange(19), ids[0, 1:]
    with torch.no_grad():
        sampled, trained = scorer.eval()(*asked)[0], scorer.train()(*asked)[0]
    assert torch.equal(sampled, trained)
    assert network.training
