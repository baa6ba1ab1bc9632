"""The torch engine: exact log-probabilities, answers that depend only on their request, weights changed in a pause."""

import asyncio

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.errors import EndpointError  # noqa: E402
from agentlearn.serving.chat_service import Sampling  # noqa: E402
from agentlearn.train.engine.torch_engine import TorchEngine  # noqa: E402
from tests.support.tiny_model import forward_logprobs, spread, tiny_network  # noqa: E402

SHARED = [(7 * at) % 200 for at in range(60)]
PROMPTS = [[5], [*SHARED, 3], [*SHARED, 4, 9], SHARED[:45], list(range(30)), [*SHARED, 3], [*SHARED, *range(50)]]


def engine_of(network, **how):
    return TorchEngine(network, stop_ids=how.pop("stop_ids", frozenset()), context=how.pop("context", 512), **how)


async def sampled(engine, prompts, **how):
    async with asyncio.TaskGroup() as tasks:
        how = {"max_tokens": 12, **how}
        running = [tasks.create_task(engine.sample(one, Sampling(seed=at, **how))) for at, one in enumerate(prompts)]
    return [one.result() for one in running]


def draw(network, prompts, *, engine=None, **how):
    engine = engine or engine_of(network)
    with engine.running():
        return asyncio.run(sampled(engine, prompts, **how))


def test_logprobs_are_those_of_a_plain_forward_pass(subtests: pytest.Subtests):
    for temperature in [0.0, 0.7, 1.0]:
        for batch in [1, 3, 64]:
            with subtests.test(repr((temperature, batch))):
                network = tiny_network()
                engine = engine_of(network, max_batch=batch)
                for prompt, one in zip(
                    PROMPTS, draw(network, PROMPTS, engine=engine, temperature=temperature), strict=True
                ):
                    wanted = forward_logprobs(network, prompt, one.ids, temperature or 1.0)
                    assert one.logprobs == pytest.approx(wanted, abs=1e-4)
                    assert (len(one.ids), one.finish) == (12, "length")


def test_greedy_answers_are_those_of_generate():
    network = tiny_network()
    for prompt, one in zip(PROMPTS, draw(network, PROMPTS, temperature=0.0), strict=True):
        wanted = network.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), do_sample=False, max_new_tokens=12,
            min_new_tokens=12,
        )  # fmt: skip
        ended = network.config.eos_token_id
        if ended not in one.ids:
            assert list(one.ids) == wanted[0, len(prompt) :].tolist()


def test_an_answer_depends_on_its_request_alone():
    network = tiny_network()
    together = draw(network, PROMPTS, temperature=0.9)

    async def alone(engine):
        return [
            await engine.sample(prompt, Sampling(seed=at, max_tokens=12, temperature=0.9))
            for at, prompt in reversed(list(enumerate(PROMPTS)))
        ]

    engine = engine_of(network)
    with engine.running():
        apart = asyncio.run(alone(engine))
    assert [one.ids for one in reversed(apart)] == [one.ids for one in together]
    assert PROMPTS[1] == PROMPTS[5]
    assert together[1].ids != together[5].ids  # the seed is another


def test_an_answer_ends_at_a_stop_token_and_at_the_context():
    network = tiny_network()
    (free,) = draw(network, [SHARED])
    stop = free.ids[4]
    (ended,) = draw(network, [SHARED], engine=engine_of(network, stop_ids=frozenset({stop})))
    assert ended.ids == free.ids[: free.ids.index(stop) + 1]
    assert ended.finish == "stop"
    (cut,) = draw(network, [SHARED], engine=engine_of(network, context=len(SHARED) + 3))
    assert (cut.ids, cut.finish) == (free.ids[:3], "length")


def test_requests_may_want_different_draws():
    network = tiny_network()
    engine = engine_of(network)

    async def mixed():
        ways = [Sampling(seed=3, max_tokens=4, top_k=1), Sampling(seed=3, max_tokens=9, temperature=0.0)]
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(engine.sample(SHARED, way)) for way in ways]
        return [one.result() for one in running]

    with engine.running():
        one_of_one, greedy = asyncio.run(mixed())
    assert one_of_one.ids == greedy.ids[:4]
    assert one_of_one.logprobs == pytest.approx(greedy.logprobs[:4])


def test_changed_weights_are_used_from_the_next_token_on():
    network = tiny_network()
    engine = engine_of(network)

    async def across():
        first = await engine.sample(SHARED, Sampling(seed=1, max_tokens=8))
        with engine.paused():
            spread(network, seed=5)
        return first, await engine.sample(SHARED, Sampling(seed=1, max_tokens=8))

    with engine.running():
        first, second = asyncio.run(across())
    assert second.cached == 0
    assert second.logprobs == pytest.approx(forward_logprobs(network, SHARED, second.ids), abs=1e-4)
    assert second.ids != first.ids


def test_no_forward_pass_runs_inside_a_pause_and_answers_under_way_go_on():
    network = tiny_network()
    engine = engine_of(network)
    passes = []
    network.register_forward_hook(lambda *_: passes.append(1))

    async def across():
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(engine.sample(SHARED, Sampling(seed=1, max_tokens=300)))
            while len(passes) < 20:
                await asyncio.sleep(0.005)
            with engine.paused():
                before = len(passes)
                await asyncio.sleep(0.05)
                assert len(passes) == before
                spread(network, seed=5)
                drawn = before
        return drawn, running.result()

    with engine.running():
        drawn, answer = asyncio.run(across())
    assert len(answer.ids) == 300
    wanted = forward_logprobs(network, SHARED, answer.ids)
    assert answer.logprobs[drawn:] == pytest.approx(wanted[drawn:], abs=1e-4)
    assert answer.logprobs[: drawn - 1] != pytest.approx(wanted[: drawn - 1], abs=1e-2)


def test_who_is_cancelled_leaves_the_batch():
    network = tiny_network()
    engine = engine_of(network, max_batch=1)

    async def cancelled():
        async with asyncio.TaskGroup() as tasks:
            endless = tasks.create_task(engine.sample(SHARED, Sampling(seed=1, max_tokens=400)))
            await asyncio.sleep(0.05)
            endless.cancel()
            return await engine.sample([5], Sampling(seed=1, max_tokens=3))

    with engine.running():
        assert len(asyncio.run(cancelled()).ids) == 3
        assert engine._batch.requests == []


def test_a_model_that_fails_is_said_and_the_next_request_is_served():
    network = tiny_network()
    engine = engine_of(network)
    with engine.running():
        with engine.paused():
            kept = network.lm_head.weight.data.clone()
            network.lm_head.weight.data[0] = float("nan")
        with pytest.raises(EndpointError, match="the model failed: its logits are not finite"):
            asyncio.run(engine.sample([5], Sampling(seed=1, max_tokens=3)))
        with engine.paused():
            network.lm_head.weight.data.copy_(kept)
        assert len(asyncio.run(engine.sample([5], Sampling(seed=1, max_tokens=3))).ids) == 3
