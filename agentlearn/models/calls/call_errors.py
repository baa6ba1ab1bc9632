"""A failed request in words and codes: its kind for the counts, its cause for people, and the error that is raised."""

from collections.abc import Collection

from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior

from agentlearn.errors import EndpointError
from agentlearn.models.endings import FAULT_REMEDIES, UnusedReply
from agentlearn.models.refusal import error_code, refused_settings, remedy, service_words
from agentlearn.models.retry import is_garbled
from agentlearn.text import visible

GARBLED = "endpoint_garbled"
"""Error code of a call whose replies cannot be decoded."""


def kind_of_failure(error: Exception) -> str:
    """Return the kind of a failed request, under which it is counted."""
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if isinstance(error, UnusedReply):
        return error.fault.code
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def cause_words(error: Exception) -> str:
    """Return in a few words what a request met instead of an answer."""
    if isinstance(error, ModelHTTPError):
        return f"HTTP {error.status_code}"
    return "no answer in time" if isinstance(error, TimeoutError) else "no connection"


def endpoint_error(
    error: Exception, *, where: str, deadline_s: float, attempts: int, sent: Collection[str]
) -> EndpointError:
    """Return the error of a call that failed in all attempts.

    where: address of the service. deadline_s: time limit of a request. sent: names of what the request has and a
    service may refuse.
    """
    tries = "once" if attempts == 1 else f"{attempts} times"
    if isinstance(error, TimeoutError):
        return EndpointError(f"{where} did not answer within {deadline_s:g} s (asked {tries})", code="endpoint_timeout")
    if isinstance(error, ModelHTTPError):
        refused = refused_settings(error.status_code, error.body, sent)
        step = remedy(error.status_code, error.body, refused)
        failure = EndpointError(
            f"{where} refused with status {error.status_code} (asked {tries}): {service_words(error.body)}"
            f"{f'; {step}' if step else ''}",
            code=error_code(error),
        )
        failure.refused = refused
        return failure
    if isinstance(error, UnusedReply):
        fault = error.fault
        words = f"{where} {fault.words} (asked {tries}); {FAULT_REMEDIES[fault.code]}"
        return EndpointError(words, code=f"endpoint_{fault.code}")
    if is_garbled(error):
        words = _short(error if isinstance(error, UnexpectedModelBehavior) else error.__cause__ or error)
        return EndpointError(f"{where} sent a reply that cannot be read (asked {tries}): {words}", code=GARBLED)
    cause = error.__cause__ or error
    return EndpointError(f"{where} could not be used (asked {tries}): {_short(cause)}", code="endpoint_broken")


def _short(value: object) -> str:
    text = visible(" ".join(str(value).split())) or type(value).__name__
    return text if len(text) <= 300 else text[:297] + "..."
