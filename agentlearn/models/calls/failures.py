"""When failed calls end the run: the service is gone, refuses the key, or never answered a kind of call."""

from agentlearn.errors import EndpointError, EndpointGone, NeverAnswered
from agentlearn.models.calls.call_errors import GARBLED, cause_words, endpoint_error
from agentlearn.models.calls.call_site import CallSite
from agentlearn.models.endings import fault_remedy
from agentlearn.models.first_calls import KindOfCall, unanswered
from agentlearn.models.outage import duration_words

_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_402", "endpoint_403", "endpoint_quota"})
"""Error codes that concern the API key or its account, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""

GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""
GARBLED_GONE_AFTER = 100
"""The same number for calls whose replies cannot be decoded. Such a service is there and may read other requests."""


def failure_of(site: CallSite, error: Exception, attempts: int, sent: frozenset[str]) -> EndpointError:
    """Return the error of a call that failed in all attempts. sent: what the request has and a service may refuse."""
    return endpoint_error(error, where=site.where, deadline_s=site.state.deadline_s, attempts=attempts, sent=sent)


def count_failure(
    site: CallSite, failure: EndpointError, kind: KindOfCall, number: int, *, answers_before: int
) -> None:
    """Count a call that failed in all attempts, and stop the run when the service does not do what the run needs.

    number: of the call among those of its kind. answers_before: answers of the endpoint when the call began.
    """
    unused = fault_remedy(failure.code) is not None
    if site.state.first_calls.fail(kind, number, failure, permanent=bool(failure.refused) or unused):
        site.unit.call_context.stop(unanswered(kind, any_answer=site.any_answer))
    _count_in_a_row(site, failure, in_a_row=site.state.answers == answers_before)


def silent_for_too_long(site: CallSite, error: Exception) -> EndpointGone:
    """Return the error that ends a run whose service has been silent for too long."""
    outage = site.state.outage
    silent, limit = duration_words(outage.silent_s), f"{outage.limit_s / 60:g}"
    return EndpointGone(
        f"{site.where} has not answered for {silent} ({cause_words(error)}), longer than --max-outage-minutes"
        f" {limit} allows: {failure_of(site, error, 1, frozenset()).message}"
    )


def _count_in_a_row(site: CallSite, failure: EndpointError, *, in_a_row: bool) -> None:
    """Count failures without an answer between them. Stop the run after too many, or when the key is refused."""
    state, garbled = site.state, failure.code == GARBLED
    state.garbled_in_a_row += garbled and in_a_row
    state.failed_in_a_row += failure.code not in _REQUEST_REFUSED and in_a_row and not (garbled and site.any_answer)
    gone = state.failed_in_a_row >= GONE_AFTER or state.garbled_in_a_row >= GARBLED_GONE_AFTER
    if gone or (failure.code in _KEY_REFUSED and not state.models):
        failed = max(state.failed_in_a_row, state.garbled_in_a_row if garbled else 0)
        site.unit.call_context.stop(
            EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
            if site.any_answer
            else NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")
        )
