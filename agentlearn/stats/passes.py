"""pass@k: the chance that at least one of k rollouts is right."""

import math

from agentlearn.errors import ConfigError


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of pass@k from n rollouts of which c are right; None when n < k.

    1 - C(n-c, k) / C(n, k), in whole numbers up to the last division. Average it over tasks.
    Raises ConfigError unless 0 <= c <= n and k >= 1. Source: arXiv:2107.03374.
    """
    if k < 1 or not 0 <= c <= n:
        raise ConfigError(f"pass@k of n={n!r}, c={c!r}, k={k!r} means nothing; it needs 0 <= c <= n and k >= 1")
    if n < k:
        return None
    every = math.comb(n, k)
    return (every - math.comb(n - c, k)) / every
