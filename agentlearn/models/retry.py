"""Which failed requests are sent again, and after how long."""

from collections.abc import Iterator
from math import isfinite
from random import Random

from pydantic import Field

from agentlearn.models.refusal import is_accident, is_out_of_quota
from agentlearn.types.value import Value

LATER = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say that the same request may succeed later."""


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
    """Whether the same request may succeed later: rate limits, 5xx, connections, timeouts, replies of no use."""
    from pydantic_ai import exceptions as ai

    from agentlearn.models.endings import UnusedReply

    if isinstance(error, UnusedReply):
        return error.fault.asked_again
    transient = (
        TimeoutError,
        ai.ModelRateLimitError,
        ai.ModelUnavailableError,
        ai.ModelServerError,
        ai.ModelConnectionError,
        ai.ModelRequestTimeout,
    )
    if isinstance(error, ai.ModelHTTPError) and (is_out_of_quota(error) or is_accident(error)):
        return is_accident(error)
    if isinstance(error, transient):
        return True
    if isinstance(error, ai.ModelHTTPError):
        return error.status_code in LATER or error.status_code >= 500
    return is_garbled(error)


def is_garbled(error: BaseException) -> bool:
    """Whether a response came that is not a chat completion: not JSON, not HTTP, or a redirection."""
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return True
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelHTTPError):
        return False
    return any(isinstance(one, ValueError) or _is_bad_http(one) for one in _causes(error))  # JSONDecodeError is one


def is_silence(error: BaseException) -> bool:
    """Whether the service is not there at the moment: no connection, no answer in time, or a status for "later"."""
    from pydantic_ai.exceptions import ModelHTTPError

    from agentlearn.models.endings import UnusedReply

    if isinstance(error, ModelHTTPError):
        return (error.status_code in LATER or error.status_code >= 500) and not is_out_of_quota(error)
    return is_transient(error) and not is_garbled(error) and not isinstance(error, UnusedReply)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, without the error itself."""
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _is_bad_http(error: BaseException) -> bool:
    """Whether an error says that bytes came which are no HTTP response, or a redirection."""
    import httpx2
    from openai import APIStatusError

    if isinstance(error, APIStatusError):
        return error.status_code < 400
    if isinstance(error, httpx2.RemoteProtocolError):
        return "without sending a response" not in str(error)  # a closed connection is silence
    return isinstance(error, httpx2.DecodingError | httpx2.TooManyRedirects)


def retry_after_s(error: BaseException) -> float | None:
    """Return the wait in seconds that the service asked for; None when it did not."""
    from pydantic_ai.exceptions import ModelAPIError

    wanted_s = error.retry_after if isinstance(error, ModelAPIError) else None
    return wanted_s if wanted_s is not None and isfinite(wanted_s) and wanted_s >= 0 else None
