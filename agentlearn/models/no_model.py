"""The model of a program that calls models of its own."""

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from agentlearn.errors import ConfigError


class NoModel(Model):
    """Stands where a rollout's model would be. It cannot be called."""

    @property
    def model_name(self) -> str:
        """Name for the record."""
        return "own"

    @property
    def system(self) -> str:
        """Name of what calls the models."""
        return "program"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Raise ConfigError."""
        raise ConfigError(
            "the program calls work.model, and no model was given; add model=, such as model='openai:gpt-5-mini'"
        )
