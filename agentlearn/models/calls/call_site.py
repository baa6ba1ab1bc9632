"""Where a call is made: its model, the endpoint behind it, and the unit of work that needs the reply."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentlearn.config.endpoint_address import without_credentials
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.work_unit import WorkUnit

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class CallSite:
    """The model, the endpoint and the unit of work of a call."""

    model: "Model"
    state: EndpointState
    unit: WorkUnit

    @property
    def any_answer(self) -> bool:
        """Whether the run has any answer, which a resumed run can use."""
        return bool(self.state.models) or self.unit.call_context.budget.usage.requests > 0

    @property
    def where(self) -> str:
        """Address of the service, without credentials."""
        return without_credentials(self.model.base_url or self.model.system)
