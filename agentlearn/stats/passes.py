"""pass@k and pass^k: the probabilities that at least one of k rollouts is right, and that all are."""

import math

from agentlearn.errors import ConfigError


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of pass@k from n rollouts of which c are right; None when n < k.

    Computes 1 - C(n-c, k) / C(n, k) with integers up to the last division. Average the result over tasks.
    Raises ConfigError unless 0 <= c <= n and k >= 1. Source: arXiv:2107.03374.
    """
    if not _countable("pass@k", n, c, k):
        return None
    every = math.comb(n, k)
    return (every - math.comb(n - c, k)) / every


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of pass^k from n rollouts of which c are right; None when n < k.

    Computes C(c, k) / C(n, k) with integers up to the last division. Average the result over tasks.
    Raises ConfigError unless 0 <= c <= n and k >= 1. Source: arXiv:2406.12045.
    """
    if not _countable("pass^k", n, c, k):
        return None
    return math.comb(c, k) / math.comb(n, k)


def _countable(name: str, n: int, c: int, k: int) -> bool:
    """Whether there are enough rollouts. Raises ConfigError for impossible counts."""
    if k < 1 or not 0 <= c <= n:
        raise ConfigError(f"{name} of n={n!r}, c={c!r}, k={k!r} is not defined; it needs 0 <= c <= n and k >= 1")
    return n >= k
