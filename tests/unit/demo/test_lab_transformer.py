"""The numpy runtime: computing a text at once or in parts, alone or in a batch, gives the same result."""

import asyncio
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn_demo.lab.engine import LabEngine, open_lab_engine, sample_next_tokens
from agentlearn_demo.lab.transformer import Layout, Transformer

END = 2
LAYOUT = Layout(
    vocabulary=19, hidden=8, layers=2, heads=4, groups=2, head=4, inner=12, context=64, theta=10_000.0, epsilon=1e-6
)


def random_model(layout: Layout = LAYOUT, seed: int = 0) -> Transformer:
    rng = np.random.default_rng(seed)
    weights = {"model.embed_tokens.weight": rng.normal(size=(layout.vocabulary, layout.hidden))}
    weights["lm_head.weight"] = rng.normal(size=(layout.vocabulary, layout.hidden))
    weights["model.norm.weight"] = np.ones(layout.hidden)
    widths = {"q": layout.heads * layout.head, "k": layout.groups * layout.head, "v": layout.groups * layout.head}
    for number in range(layout.layers):
        start = f"model.layers.{number}."
        for name, width in widths.items():
            weights[f"{start}self_attn.{name}_proj.weight"] = rng.normal(size=(width, layout.hidden))
        weights[f"{start}self_attn.o_proj.weight"] = rng.normal(size=(layout.hidden, widths["q"]))
        weights[f"{start}self_attn.q_norm.weight"] = rng.uniform(0.5, 2, layout.head)
        weights[f"{start}self_attn.k_norm.weight"] = rng.uniform(0.5, 2, layout.head)
        weights[f"{start}input_layernorm.weight"] = rng.uniform(0.5, 2, layout.hidden)
        weights[f"{start}post_attention_layernorm.weight"] = rng.uniform(0.5, 2, layout.hidden)
        weights[f"{start}mlp.gate_proj.weight"] = rng.normal(size=(layout.inner, layout.hidden))
        weights[f"{start}mlp.up_proj.weight"] = rng.normal(size=(layout.inner, layout.hidden))
        weights[f"{start}mlp.down_proj.weight"] = rng.normal(size=(layout.hidden, layout.inner))
    return Transformer(layout, weights)


MODEL = random_model()
texts = st.lists(st.integers(0, LAYOUT.vocabulary - 1), min_size=2, max_size=20)


@given(ids=texts, cut=st.integers(1, 19))
def test_reading_on_gives_what_reading_at_once_gives(ids: list[int], cut: int) -> None:
    cut = min(cut, len(ids) - 1)
    _, whole = MODEL.prefill(ids, MODEL.empty())
    before, _ = MODEL.prefill(ids[:cut], MODEL.empty())
    after, rest = MODEL.prefill(ids[cut:], before)
    assert after.length == len(ids)
    np.testing.assert_allclose(rest, whole, atol=1e-4)


LOGITS = np.array([[0.0, 1.0, 2.0, -1.0]], np.float32)


def test_the_coldest_draw_is_the_likeliest_token_and_its_logprob_is_that_of_temperature_one() -> None:
    ids, logprobs = sample_next_tokens(LOGITS, [Sampling(seed=0, max_tokens=1, temperature=0)], [0.99])
    assert ids == [2]
    assert math.isclose(logprobs[0], 2 - math.log(sum(math.exp(one) for one in LOGITS[0])), rel_tol=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_they_are_probable(temperature: float) -> None:
    n = 2_000
    chances = [(at + 0.5) / n for at in range(n)]
    ids, logprobs = sample_next_tokens(
        np.repeat(LOGITS, n, 0), [Sampling(seed=0, max_tokens=1, temperature=temperature)] * n, chances
    )
    weights = np.exp(LOGITS[0].astype(float) / temperature)
    probabilities = weights / weights.sum()
    for token in range(4):
        assert abs(ids.count(token) / n - probabilities[token]) < 2 / n
    assert all(
        math.isclose(math.exp(one), probabilities[token], rel_tol=1e-6)
        for token, one in zip(ids, logprobs, strict=True)
    )


def sampled(
    prompts: list[list[int]], *, max_batch: int, together: bool, sampling: Sampling | None = None, share_from: int = 96
) -> list[Sampled]:
    async def run() -> list[Sampled]:
        async with open_lab_engine(MODEL, END, max_batch=max_batch, share_from=share_from) as engine:

            async def one(at: int) -> Sampled:
                return await engine.sample(prompts[at], sampling or Sampling(seed=at, max_tokens=12))

            if not together:
                return [await one(at) for at in range(len(prompts))]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(at)) for at in range(len(prompts))]
            return [task.result() for task in tasks]

    return asyncio.run(run())


PROMPTS = [[3, 4, END, 5, 6], [3, 4, END, 7], [8], [3, 4, END, 5, 6], [9, 10, 11, 12, 13, 14, 15, 16], [7, END, 5]]


@pytest.mark.parametrize("share_from", [1, 3, 96])
@pytest.mark.parametrize("max_batch", [1, 2, 8])
def test_an_answer_depends_on_its_prompt_and_seed_alone(max_batch: int, share_from: int) -> None:
    alone = sampled(PROMPTS, max_batch=max_batch, together=False)
    batched = sampled(PROMPTS, max_batch=max_batch, together=True, share_from=share_from)
    assert [one.ids for one in alone] == [one.ids for one in batched]
    for one, other in zip(alone, batched, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
        assert len(one.ids) == len(one.logprobs) <= 12
        assert (one.finish == "stop") == (one.ids[-1] == END)


def test_logprobs_are_those_of_a_fresh_reading() -> None:
    (one,) = sampled(
        [PROMPTS[0]], max_batch=1, together=False, sampling=Sampling(seed=5, max_tokens=6, temperature=0.7)
    )
    ids = list(PROMPTS[0])
    for token, logprob in zip(one.ids, one.logprobs, strict=True):
        scaled = MODEL.prefill(ids, MODEL.empty())[1].astype(float) / 0.7
        assert math.isclose(logprob, scaled[token] - np.logaddexp.reduce(scaled), abs_tol=1e-4)
        ids.append(token)


async def ended(engine: LabEngine) -> Sampled:
    """An answer that came to its end, and not at once."""
    while True:
        one = await engine.sample(PROMPTS[0], Sampling(seed=engine.sampled_tokens, max_tokens=40))
        if one.finish == "stop" and len(one.ids) > 1:
            return one


def test_a_conversation_that_goes_on_reads_only_what_is_new() -> None:
    async def run() -> tuple[list[int], Sampled]:
        async with open_lab_engine(MODEL, END) as engine:
            first = await ended(engine)
            before = engine.prefilled_tokens
            longer = [*PROMPTS[0], *first.ids, 7, 8]
            second = await engine.sample(longer, Sampling(seed=0, max_tokens=5))
            assert engine.prefilled_tokens - before == 3  # the token that ended the answer, and the two new ones
            return longer, second

    longer, second = asyncio.run(run())
    assert second.cached == len(longer) - 3
    (again,) = sampled([longer], max_batch=1, together=False, sampling=Sampling(seed=0, max_tokens=5))
    assert (again.ids, again.cached) == (second.ids, 0)
