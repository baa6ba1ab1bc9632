"""Endpoints by name: what the user writes after `--model`, opened as one model behind one gate and one HTTP client.

sim:novice, local:DIR, …      a plug-in's own service (entry-point group `agentlearn.endpoints`)
http://host:port/v1#model     any OpenAI-compatible service
openai:gpt-5-mini             any model id of pydantic-ai
"""

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import Field

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.models.limiter import Limiter
from agentlearn.models.retry import RetryPolicy
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from agentlearn.models.client import EndpointState, ModelClient, WorkUnit

GROUP = "agentlearn.endpoints"


class EndpointOptions(Value):
    """How an endpoint is used."""

    concurrency: int = 16
    """Requests in flight at once."""
    deadline_s: float = 120.0
    retry: RetryPolicy = RetryPolicy()
    api_key: str | None = None
    """For http(s) endpoints; None takes AGENTLEARN_API_KEY. Services with ids of their own read their own variables."""
    seed: int = 0
    """For a service that is itself seeded, as the simulated world is."""
    token_ids: bool = False
    """Whether every answer shall carry its exact tokens and their log-probabilities (`calls.tokens.tokens_of`), which
    training needs. For services that know `return_token_ids`: local:, vllm: and the lab model."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """With token_ids: draw from the likeliest tokens that have so much probability together."""
    top_k: int = Field(default=0, ge=0)
    """With token_ids: draw from so many likeliest tokens; 0: from all."""


class Service(Protocol):
    """What a plug-in's endpoint yields: an OpenAI-compatible service that it started."""

    @property
    def base_url(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def simulated(self) -> bool: ...


@runtime_checkable
class HoldsWeights(Protocol):
    """What a service of local weights also provides."""

    def weights_sha256(self) -> str | None:
        """Hash of the weights that it answers with; None where they are not to be had here. Blocks."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An open endpoint."""

    name: str
    """As the user wrote it."""
    model: "Model"
    endpoint_state: "EndpointState"
    simulated: bool
    url: str
    service: Service | None = None
    """What a plug-in started; None for a service that was there."""

    def client(self, unit: "WorkUnit") -> "ModelClient":
        """The model as one unit of work sees it."""
        from agentlearn.models.client import ModelClient

        return ModelClient(self.model, self.endpoint_state, unit)


def is_simulated(name: str) -> bool:
    """Whether the name stands for the simulated world."""
    return name.startswith("sim:")


def is_paid(name: str) -> bool:
    """Whether using it may cost money: every endpoint but plug-ins and loopback services."""
    prefix = name.partition(":")[0]
    if prefix in {"http", "https"}:
        return urlsplit(name).hostname not in {"127.0.0.1", "localhost", "::1"}
    return prefix not in {entry.name for entry in entry_points(group=GROUP)}


@asynccontextmanager
async def open_endpoint(name: str, options: EndpointOptions) -> AsyncGenerator[Endpoint]:
    """The endpoint of that name; its client and its service are closed in the loop that opened them.

    Raises ConfigError (bad name, unreachable service) or MissingExtra.
    """
    from agentlearn.models.client import EndpointState

    prefix, _, rest = name.partition(":")
    plugins = {entry.name: entry for entry in entry_points(group=GROUP)}
    if prefix in plugins:
        service: AbstractAsyncContextManager[Service] = plugins[prefix].load()(rest, seed=options.seed)
        async with service as running, open_service(name, running, options) as endpoint:
            yield endpoint
        return
    endpoint_state = EndpointState(Limiter(options.concurrency), deadline_s=options.deadline_s, retry=options.retry)
    if prefix in {"http", "https"}:
        base_url, _, model_name = name.partition("#")
        if not model_name or not urlsplit(base_url).hostname:
            raise ConfigError(
                f"the endpoint {name!r} must name a model after '#', as in http://127.0.0.1:8000/v1#my-model",
                code="bad_endpoint",
            )
        key = options.api_key or os.environ.get("AGENTLEARN_API_KEY")
        await _reach(base_url, key)
        async with _served(base_url, model_name, key, options) as model:
            yield Endpoint(name=name, model=model, endpoint_state=endpoint_state, simulated=False, url=base_url)
    else:
        async with _inferred(name) as model:
            yield Endpoint(
                name=name,
                model=model,
                endpoint_state=endpoint_state,
                simulated=False,
                url=model.base_url or model.system,
            )


@asynccontextmanager
async def open_service(
    name: str, service: Service, options: EndpointOptions, *, adaptive: bool = True
) -> AsyncGenerator[Endpoint]:
    """A service that runs in this process or beside it, as an endpoint of that name; it costs nothing.

    adaptive: False where it queues by itself, so that it is to be given as many requests as there are places.
    """
    from agentlearn.models.client import EndpointState

    endpoint_state = EndpointState(
        Limiter(options.concurrency, adaptive=adaptive), deadline_s=options.deadline_s, retry=options.retry, free=True
    )
    async with _served(service.base_url, service.model, None, options) as model:
        yield Endpoint(name, model, endpoint_state, simulated=service.simulated, url=service.base_url, service=service)


@asynccontextmanager
async def _served(
    base_url: str, model_name: str, api_key: str | None, options: EndpointOptions
) -> AsyncGenerator["Model"]:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    limits = httpx2.Limits(max_connections=options.concurrency, max_keepalive_connections=options.concurrency)
    # The gate has the deadline and the retries; a second set inside the client would multiply them.
    timeout = httpx2.Timeout(options.deadline_s + 5, connect=10)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout, trust_env=not _loopback(base_url)) as http:
        client = AsyncOpenAI(base_url=base_url, api_key=api_key or "none", http_client=http, max_retries=0)
        provider = OpenAIProvider(openai_client=client)
        if not options.token_ids:
            yield OpenAIChatModel(model_name, provider=provider)
            return
        from agentlearn.models.token_model import TokenModel

        yield TokenModel.asking(model_name, provider, top_p=options.top_p, top_k=options.top_k)


@asynccontextmanager
async def _inferred(name: str) -> AsyncGenerator["Model"]:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        model = infer_model(name)
    except (UserError, ValueError) as error:
        raise ConfigError(f"the endpoint {name!r} cannot be used: {error}", code="bad_endpoint") from error
    except ImportError as error:
        provider = name.partition(":")[0]
        raise MissingExtra(
            f"the endpoint {name!r} needs a package that is not here: pip install 'pydantic-ai-slim[{provider}]'"
        ) from error
    async with model:
        yield model


async def _reach(base_url: str, api_key: str | None) -> None:
    """Raises ConfigError with URL and cause when nothing answers there; any HTTP answer will do."""
    import httpx2

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx2.AsyncClient(timeout=10, trust_env=not _loopback(base_url)) as http:
            await http.get(base_url.rstrip("/") + "/models", headers=headers)
    except httpx2.HTTPError as error:
        cause = str(error) or type(error).__name__
        raise ConfigError(
            f"the endpoint {base_url!r} cannot be reached: {cause}; start the service or correct the address",
            code="endpoint_unreachable",
        ) from error
    except httpx2.InvalidURL as error:
        raise ConfigError(f"the endpoint {base_url!r} is no address: {error}", code="bad_endpoint") from error


def _loopback(base_url: str) -> bool:
    return urlsplit(base_url).hostname in {"127.0.0.1", "localhost", "::1"}
