"""Training rows from trajectories: every sampled token once, after exactly the tokens it was sampled after."""

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import RolloutError
from agentlearn.serving.chat_service import ChatService
from agentlearn.train.update.sequences import TrainingRow, overlong, training_rows
from agentlearn.types.trajectory import Failure, ModelTurn, SampledTokens, Trajectory
from tests.support.toy_chat import ScriptedEngine, ToyFormat
from tests.unit.store import nouns

Ids = tuple[int, ...]


def rollout(turns: Sequence[tuple[Ids, Ids]], **changes: Any) -> Trajectory:
    """A rollout whose turns had these prompts and drew these ids."""
    steps = tuple(
        ModelTurn(tokens=SampledTokens(prompt=prompt, ids=ids, logprobs=tuple(-(one % 5) / 4 for one in ids)))
        for prompt, ids in turns
    )
    return nouns.trajectory(steps=steps, **changes)


def rows(turns: Sequence[tuple[Ids, Ids]]) -> tuple[TrainingRow, ...]:
    return training_rows(rollout(turns), advantage=0.5, reward=1.0).rows


def contexts(given_rows: Sequence[TrainingRow]) -> list[tuple[Ids, int, float]]:
    """Of each trained token: what stands before it, itself, and its log-probability."""
    return [
        (tuple(row.ids_T[:t].tolist()), int(row.ids_T[t]), float(row.logprobs_T[t]))
        for row in given_rows
        for t in row.mask_T.nonzero()[0].tolist()
    ]


def drawn(turns: Sequence[tuple[Ids, Ids]]) -> list[tuple[Ids, int, float]]:
    return [(prompt + ids[:t], ids[t], -(ids[t] % 5) / 4) for prompt, ids in turns for t in range(len(ids))]


few = st.lists(st.integers(0, 6), min_size=1, max_size=5).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[Ids, Ids]]:
    """Turns of which some continue what stood before them, and others tell it anew."""
    turns: list[tuple[Ids, Ids]] = []
    for _ in range(draw(st.integers(1, 5))):
        before = turns[-1][0] + turns[-1][1] if turns and draw(st.booleans()) else ()
        turns.append((before + draw(few), draw(few)))
    return turns


@given(conversations())
def test_every_drawn_token_is_trained_once_behind_its_own_context(turns: list[tuple[Ids, Ids]]) -> None:
    assert contexts(rows(turns)) == drawn(turns)


@given(conversations())
def test_clean_and_forked_turns_are_counted(turns: list[tuple[Ids, Ids]]) -> None:
    made = training_rows(rollout(turns), advantage=0.5, reward=1.0)
    assert made.clean + made.forked == len(turns) - 1
    assert len(made.rows) == made.forked + 1


def test_what_the_sampler_was_given_is_not_trained() -> None:
    (row,) = rows([((1, 2), (3, 4)), ((1, 2, 3, 4, 5, 6), (3,))])
    assert row.ids_T.tolist() == [1, 2, 3, 4, 5, 6, 3]
    assert row.mask_T.tolist() == [False, False, True, True, False, False, True]
    assert row.logprobs_T.tolist() == [0.0, 0.0, -0.75, -1.0, 0.0, 0.0, -0.75]
    assert (row.length, row.trained, row.advantage, row.reward) == (7, 3, 0.5, 1.0)


def test_a_history_told_in_other_tokens_begins_another_row() -> None:
    made = training_rows(rollout([((1,), (2, 3)), ((1, 9, 4), (5,))]), advantage=1.0, reward=1.0)
    assert [row.ids_T.tolist() for row in made.rows] == [[1, 2, 3], [1, 9, 4, 5]]
    assert (made.clean, made.forked) == (0, 1)


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (None, "has no token ids and log-probabilities"),
        (SampledTokens(prompt=(1,), ids=(2, 3), logprobs=(-0.1,)), "has 2 tokens and 1 finite log-probabilities"),
        (SampledTokens(prompt=(1,), ids=(2,), logprobs=(float("-inf"),)), "has 1 tokens and 0 finite"),
    ],
)
def test_a_turn_without_whole_tokens_is_refused(tokens: SampledTokens | None, sentence: str) -> None:
    with pytest.raises(RolloutError, match=sentence) as refused:
        training_rows(nouns.trajectory(steps=(ModelTurn(tokens=tokens),)), advantage=1.0, reward=1.0)
    assert refused.value.code == "rollout"


def test_the_model_s_own_failure_is_trained_as_nothing_gained() -> None:
    own = Failure(code="too_many_turns", message="", boundary="output")
    not_its_own = Failure(code="endpoint_503", message="", boundary="endpoint")
    assert nouns.trajectory(failure=own, verdict=None).reward == 0.0
    assert nouns.trajectory(failure=not_its_own, verdict=None).reward is None
    assert nouns.trajectory().reward == 1.0


def test_what_was_cut_at_a_limit_is_overlong() -> None:
    cut = ModelTurn(finish="length", tokens=SampledTokens(prompt=(1,), ids=(2,), logprobs=(0.0,)))
    assert overlong(nouns.trajectory(steps=(cut,)))
    assert overlong(nouns.trajectory(failure=Failure(code="too_many_turns", message="", boundary="output")))
    assert not overlong(nouns.trajectory())


def converse(seed: int, turns: int) -> tuple[list[tuple[Ids, Ids]], ScriptedEngine]:
    """A conversation with a served model that draws tokens in ways in which nobody would encode its words."""
    rng, chat = random.Random(seed), ToyFormat()
    pieces = chat.encode("then the t")
    engine = ScriptedEngine(lambda prompt, sampling: tuple(rng.choices(pieces, k=6)))
    told: list[tuple[Ids, Ids]] = []

    async def talk() -> None:
        service = ChatService(engine, chat, model="toy")
        messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
        async with service.serve() as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
            for _ in range(turns):
                sent = {"model": "toy", "messages": messages, "seed": 1, "return_token_ids": True, "logprobs": True}
                answer = json.loads((await client.post("/chat/completions", json=sent)).content)
                choice = answer["choices"][0]
                told.append((tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"])))
                said = {"role": "assistant", "content": choice["message"]["content"]}
                messages.extend([said, {"role": "user", "content": "and then?"}])

    asyncio.run(talk())
    return told, engine


def test_no_token_is_encoded_again_where_encoding_does_not_undo_decoding(subtests: pytest.Subtests) -> None:
    for seed in range(12):
        with subtests.test(repr(seed)):
            told, engine = converse(seed, turns=4)
            (row,) = rows(told)
            sampled = [one for _, ids in told for one in ids]
            assert row.ids_T[row.mask_T].tolist() == sampled
            assert [prompt for prompt, _ in engine.asked] == [prompt for prompt, _ in told]
