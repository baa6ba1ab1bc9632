"""A pydantic-ai model that limits, retries, prices and journals every request.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); the units of an endpoint share its
limiter. The `seed` of a request is derived from the unit's seed and the request's index, so the answer of a seeded
service depends on nothing else. Each response is committed to the journal before it is used. A resumed run takes the
responses of the interrupted run from the journal.
"""

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.models.call_settings import DEFAULT_CALL_SETTINGS, CallSettings
from agentlearn.models.calls.answers import replay
from agentlearn.models.calls.attempts import Attempts
from agentlearn.models.calls.call_site import CallSite
from agentlearn.models.calls.model_call import next_call
from agentlearn.models.calls.sending import Sending
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.shortened_history import shortened
from agentlearn.models.work_unit import WorkUnit


class ModelClient(WrapperModel):
    """`model` for one unit of work. Raises EndpointError when the service fails, BudgetExceeded at a limit."""

    def __init__(
        self,
        model: Model,
        endpoint_state: EndpointState,
        unit: WorkUnit,
        call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
        *,
        history_tokens: int | None = None,
    ) -> None:
        """history_tokens: largest size of a request (estimated); None: no limit."""
        super().__init__(model)
        self.history_tokens = history_tokens
        self.call_settings = call_settings
        self.endpoint_state = endpoint_state
        self.unit = unit

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the committed response, from the journal or from the service."""
        if self.history_tokens is not None:
            messages = shortened(messages, model_request_parameters, self.history_tokens)
        site = CallSite(self.wrapped, self.endpoint_state, self.unit)
        call = next_call(self.unit, self.call_settings, messages, model_settings, model_request_parameters)
        if (past := self.unit.recorded(call.id)) is not None:
            return replay(site, call, past)
        return await Attempts(site, call).until_answered(Sending(site, call).once)
