"""Which failed requests are sent again, and after how long."""

from random import Random

from pydantic import Field

from agentlearn.types.value import Value


class RetryPolicy(Value):
    """Exponential back-off with full jitter: the wait is uniform in 0..min(cap_s, base_s * 2^attempt)."""

    attempts: int = Field(default=5, ge=1)
    """Largest number of requests, including the first."""
    base_s: float = Field(default=0.5, ge=0)
    """Longest wait after the first failure."""
    cap_s: float = Field(default=30.0, ge=0)
    """Longest wait after any failure."""
    retry_after_cap_s: float = Field(default=120.0, ge=0)
    """A request is not sent again when the service asks for a longer wait than this."""

    def wait_s(self, attempt: int, retry_after_s: float | None, rng: Random) -> float:
        """Return the seconds to wait after a failure. attempt: from 0. retry_after_s: a lower bound."""
        jitter = rng.uniform(0.0, min(self.cap_s, self.base_s * 2**attempt))
        return max(jitter, retry_after_s or 0.0)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: rate limits, 5xx, connections, timeouts, unreadable responses."""
    from pydantic_ai import exceptions as ai

    transient = (
        TimeoutError,
        ai.ModelRateLimitError,
        ai.ModelUnavailableError,
        ai.ModelServerError,
        ai.ModelConnectionError,
        ai.ModelRequestTimeout,
    )
    if isinstance(error, transient):
        return True
    if isinstance(error, ai.ModelHTTPError):
        return error.status_code in {408, 409, 425, 429} or error.status_code >= 500
    return is_garbled(error)


def is_garbled(error: BaseException) -> bool:
    """Whether the response is not a chat completion, or not JSON."""
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return True
    unread = isinstance(error, ModelAPIError) and not isinstance(error, ModelHTTPError)
    return unread and isinstance(error.__cause__, ValueError)  # JSONDecodeError is one


def retry_after_s(error: BaseException) -> float | None:
    """Return the wait in seconds that the service asked for; None when it did not."""
    from pydantic_ai.exceptions import ModelAPIError

    return error.retry_after if isinstance(error, ModelAPIError) else None
