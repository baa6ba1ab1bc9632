"""Which failures of a service are worth another try, and how long to wait for it."""

from random import Random

from pydantic import Field

from agentlearn.types.value import Value


class RetryPolicy(Value):
    """Full-jitter exponential back-off: the wait is uniform in 0..min(cap, base * 2^attempt)."""

    attempts: int = Field(default=5, ge=1)
    """Requests in all, the first included."""
    base_s: float = Field(default=0.5, ge=0)
    cap_s: float = Field(default=30.0, ge=0)
    retry_after_cap_s: float = Field(default=120.0, ge=0)
    """A service that asks for a longer wait than this has refused."""

    def wait_s(self, attempt: int, retry_after_s: float | None, rng: Random) -> float:
        """Seconds to wait after the attempt-th failure (from 0). A Retry-After is a lower bound."""
        jitter = rng.uniform(0.0, min(self.cap_s, self.base_s * 2**attempt))
        return max(jitter, retry_after_s or 0.0)


def is_transient(error: BaseException) -> bool:
    """Whether sending the same request again may succeed: rate limits, 5xx, connections, timeouts, garbled bodies."""
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
    """Whether a body came that is no chat completion, or no JSON at all."""
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return True
    unread = isinstance(error, ModelAPIError) and not isinstance(error, ModelHTTPError)
    return unread and isinstance(error.__cause__, ValueError)  # JSONDecodeError is one


def retry_after_s(error: BaseException) -> float | None:
    """Seconds that the service asked us to wait; None when it did not say."""
    from pydantic_ai.exceptions import ModelAPIError

    return error.retry_after if isinstance(error, ModelAPIError) else None
