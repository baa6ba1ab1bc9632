"""Sampling a token: correct frequencies and log-probabilities, and exactly the tokens that top-k and top-p allow."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentlearn.train.engine.active_batch import sample_tokens  # noqa: E402

GRID = 4_000


def draw(logits, uniforms, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0):
    count = len(uniforms)
    return sample_tokens(
        torch.tensor([logits] * count, dtype=torch.float32),
        torch.tensor(uniforms, dtype=torch.float64),
        torch.full((count,), temperature),
        torch.full((count,), top_p),
        torch.full((count,), top_k, dtype=torch.int64),
        torch.full((count,), min_p),
    )


def frequencies(logits, **how):
    ids, _ = draw(logits, (np.arange(GRID) + 0.5) / GRID, **how)
    return np.bincount(ids.numpy(), minlength=len(logits)) / GRID


LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12)


@given(LOGITS, st.sampled_from([0.3, 0.7, 1.0, 2.0]))
def test_tokens_come_as_often_as_the_model_says(logits, temperature):
    wanted = torch.softmax(torch.tensor(logits, dtype=torch.float64) / temperature, -1).numpy()
    assert np.abs(frequencies(logits, temperature=temperature) - wanted).max() <= 1.5 / GRID


@given(LOGITS, st.integers(1, 13), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_what_is_left_out_is_never_drawn_and_the_rest_keeps_its_proportions(logits, top_k, top_p):
    probs = torch.softmax(torch.tensor(logits), -1).double().numpy()
    order = np.argsort(-probs, kind="stable")
    kept = order[:top_k]
    shares = probs[kept] / probs[kept].sum()
    if top_p < 1:
        kept = kept[: int((np.cumsum(shares) - shares < top_p - 1e-9).sum())]
    wanted = np.zeros_like(probs)
    wanted[kept] = probs[kept] / probs[kept].sum()
    edge = np.abs(np.cumsum(shares) - top_p).min() < 1e-6
    if not edge:
        assert np.abs(frequencies(logits, top_k=top_k, top_p=top_p) - wanted).max() <= 1.5 / GRID


@given(LOGITS, st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([0.5, 1.0, 2.0]))
def test_min_p_leaves_out_tokens_far_below_the_likeliest(logits, min_p, temperature):
    probs = torch.softmax(torch.tensor(logits, dtype=torch.float64) / temperature, -1).numpy()
    wanted = np.where(probs >= min_p * probs.max(), probs, 0)
    if np.abs(probs / probs.max() - min_p).min() > 1e-6 or min_p == 1:
        found = frequencies(logits, min_p=min_p, temperature=temperature)
        if min_p == 1:  # tokens whose probabilities differ by rounding only count as one or two
            assert probs[found > 0].min() >= probs.max() * (1 - 1e-6)
        else:
            assert np.abs(found - wanted / wanted.sum()).max() <= 1.5 / GRID


@given(LOGITS, st.sampled_from([0.0, 0.7, 1.0]), st.integers(0, 3))
def test_the_logprob_is_over_all_of_the_vocabulary_at_the_temperature(logits, temperature, top_k):
    ids, logprobs = draw(logits, [0.0, 0.3, 0.999], temperature=temperature, top_k=top_k)
    wanted = torch.log_softmax(torch.tensor(logits) / (temperature or 1.0), -1)
    assert torch.allclose(logprobs, wanted[ids], atol=1e-6)
    if temperature == 0:
        assert all(logits[one] == max(logits) for one in ids.tolist())
