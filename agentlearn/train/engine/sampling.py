"""Sampling a token from logits: one number in [0, 1) per row decides, so that no row depends on other rows."""

import torch
from torch import Tensor


def sample_tokens(
    logits_B_V: Tensor,
    uniform_B: Tensor,
    temperature_B: Tensor,
    top_p_B: Tensor,
    top_k_B: Tensor,
    min_p_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a token for each row and its log-probability: shapes (B,), int64 and float32.

    logits_B_V: float32. uniform_B: float64 in [0, 1). temperature_B: 0 takes the likeliest token. top_p_B in (0, 1] and
    top_k_B (0: all) exclude the least likely tokens, and min_p_B (0 or None: no limit) before them those below this
    share of the likeliest token's probability. The log-probability is taken at the temperature (1 at temperature
    0) over the whole vocabulary, excluded tokens included.
    """
    greedy_B = temperature_B == 0
    scale_B = torch.where(greedy_B, torch.ones_like(temperature_B), temperature_B)
    logprobs_B_V = torch.log_softmax(logits_B_V / scale_B[:, None], dim=-1)
    probs_B_V = logprobs_B_V.exp().double()
    if min_p_B is not None and bool((min_p_B > 0).any()):
        least_B_1 = min_p_B.double()[:, None] * probs_B_V.amax(dim=-1, keepdim=True)
        probs_B_V = probs_B_V * (probs_B_V >= least_B_1)
    if bool(((top_p_B < 1) | (top_k_B > 0)).any()):
        probs_B_V = probs_B_V * _kept(probs_B_V, top_p_B, top_k_B)
    ids_B = torch.where(greedy_B, logits_B_V.argmax(dim=-1), _inverse(probs_B_V, uniform_B))
    return ids_B, logprobs_B_V.gather(1, ids_B[:, None])[:, 0]


def _inverse(probs_B_V: Tensor, uniform_B: Tensor) -> Tensor:
    """Invert the cumulative distribution at uniform_B; never returns a token of weight 0."""
    weights_B_V = probs_B_V.cumsum(dim=-1)
    whole_B = weights_B_V[:, -1]
    below_B = torch.nextafter(whole_B, torch.zeros_like(whole_B))
    at_B = torch.minimum(uniform_B * whole_B, below_B)
    found_B = torch.searchsorted(weights_B_V, at_B[:, None], right=True)[:, 0]
    return found_B.clamp(max=probs_B_V.shape[1] - 1)


def _kept(probs_B_V: Tensor, top_p_B: Tensor, top_k_B: Tensor) -> Tensor:
    """Mask of the tokens to keep: the k likeliest, and of those the fewest whose weight reaches p (at least one)."""
    sorted_B_V, order_B_V = probs_B_V.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(probs_B_V.shape[1], device=probs_B_V.device)
    limit_B = torch.where(top_k_B > 0, top_k_B, torch.full_like(top_k_B, probs_B_V.shape[1]))
    in_k_B_V = rank_V[None] < limit_B[:, None]
    sorted_B_V = sorted_B_V * in_k_B_V
    before_B_V = sorted_B_V.cumsum(dim=-1) - sorted_B_V
    share_B = top_p_B.double() * sorted_B_V.sum(dim=-1)
    # At p = 1, rounding of the sums must not exclude a token.
    in_p_B_V = (before_B_V < share_B[:, None]) | (top_p_B >= 1)[:, None]
    return torch.zeros_like(in_k_B_V).scatter(1, order_B_V, in_k_B_V & in_p_B_V)
