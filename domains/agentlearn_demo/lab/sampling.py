"""Sampling the next token from logits, in numpy."""

import numpy as np
from numpy.typing import NDArray

from agentlearn.serving.engine import Sampling
from agentlearn_demo.lab.transformer import Floats


def sample_next_tokens(
    logits_NV: Floats, samplings: list[Sampling], uniform_N: list[float]
) -> tuple[list[int], list[float]]:
    """Return a token for each row, and its log-probability at the row's temperature over the whole vocabulary.

    uniform_N: a number in [0, 1) per row, which alone decides the token unless the temperature is 0.
    """
    temperature_N1 = np.array([one.temperature or 1.0 for one in samplings])[:, None]
    scaled = logits_NV.astype(np.float64) / temperature_N1
    scaled -= scaled.max(1, keepdims=True)
    weights = np.exp(scaled)
    totals = weights.sum(1)
    for row, one in enumerate(samplings):
        if one.temperature and (one.top_p < 1 or one.top_k or one.min_p):
            weights[row] = _kept(weights[row], one)
    cumulative = np.cumsum(weights, 1)
    thresholds = np.array(uniform_N) * cumulative[:, -1]
    picked = (cumulative <= thresholds[:, None]).sum(1)
    likeliest = logits_NV.argmax(1)
    ids = [int(likeliest[row] if not one.temperature else picked[row]) for row, one in enumerate(samplings)]
    logprobs = scaled[np.arange(len(ids)), ids] - np.log(totals)
    return ids, [float(one) for one in logprobs]


def _kept(weights_V: NDArray[np.float64], sampling: Sampling) -> NDArray[np.float64]:
    """Set weights outside min_p, top_k and top_p to 0. The likeliest token always stays."""
    weights_V = np.where(weights_V >= sampling.min_p * weights_V.max(), weights_V, 0)
    order = np.argsort(-weights_V, kind="stable")
    shares = weights_V[order] / weights_V.sum()
    stays = np.cumsum(shares) - shares < sampling.top_p
    if sampling.top_k:
        stays[sampling.top_k :] = False
    kept = np.zeros_like(weights_V)
    kept[order[stays]] = weights_V[order[stays]]
    return kept
