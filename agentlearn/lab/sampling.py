"""Drawing the next token from logits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentlearn.serving.engine import Sampling

Floats = NDArray[np.floating[Any]]


def drawn(logits_NV: Floats, samplings: list[Sampling], chances_N: list[float]) -> tuple[list[int], list[float]]:
    """A token for each row, and its log-probability at the row's temperature over the whole vocabulary.

    chances_N: a number in [0, 1) for each row, which decides alone where the temperature is not 0.
    """
    warmth_N1 = np.array([one.temperature or 1.0 for one in samplings])[:, None]
    scaled = logits_NV.astype(np.float64) / warmth_N1
    scaled -= scaled.max(1, keepdims=True)
    weights = np.exp(scaled)
    totals = weights.sum(1)
    for row, one in enumerate(samplings):
        if one.temperature and (one.top_p < 1 or one.top_k):
            weights[row] = _kept(weights[row], one)
    heaps = np.cumsum(weights, 1)
    aims = np.array(chances_N) * heaps[:, -1]
    picked = (heaps <= aims[:, None]).sum(1)
    coldest = logits_NV.argmax(1)
    ids = [int(coldest[row] if not one.temperature else picked[row]) for row, one in enumerate(samplings)]
    logprobs = scaled[np.arange(len(ids)), ids] - np.log(totals)
    return ids, [float(one) for one in logprobs]


def _kept(weights_V: NDArray[np.float64], sampling: Sampling) -> NDArray[np.float64]:
    """The weights with those outside of top_k and top_p set to 0; the likeliest always stays."""
    order = np.argsort(-weights_V, kind="stable")
    shares = weights_V[order] / weights_V.sum()
    stays = np.cumsum(shares) - shares < sampling.top_p
    if sampling.top_k:
        stays[sampling.top_k :] = False
    kept = np.zeros_like(weights_V)
    kept[order[stays]] = weights_V[order[stays]]
    return kept
