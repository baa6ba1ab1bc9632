"""Endpoints by name: what the user gives with `--model`, opened as one model with its limiter and its HTTP clients.

sim:novice, local:DIR, …      a service started by a plug-in (entry-point group `agentlearn.endpoints`)
http://host:port/v1#model     any OpenAI-compatible service
openai:gpt-5-mini             any model id of pydantic-ai

A model may have several endpoints: several addresses, or several servers that a plug-in starts.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from pydantic import Field

from agentlearn.config import ONLINE, CallOptions
from agentlearn.config.endpoint_address import (
    NO_CREDENTIALS,
    Credentials,
    credentials_of,
    endpoint_name,
    replicas_of,
)
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.models.call_settings import DEFAULT_CALL_SETTINGS, CallSettings, never_sent
from agentlearn.models.endpoint_state import Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.replicas import Replica, Replicas, refuse_other_models
from agentlearn.models.services import check_key, check_variables, is_service, known_service, pip_line
from agentlearn.plugins import Plugin, announced, cause_words, guarded, load
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import know_environment, know_secret
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.profiles import ModelProfile

    from agentlearn.models.call_context import WorkUnit
    from agentlearn.models.client import ModelClient
    from agentlearn.models.endpoint_state import EndpointState

GROUP = "agentlearn.endpoints"
"""Entry-point group of plug-ins that start a service."""
_HUGGINGFACE = "https://router.huggingface.co/v1"
"""Address of Hugging Face's services, which chooses the provider of a model itself."""
_LOG = get_log()


class TokenRequest(Value):
    """Ask for the exact tokens of every answer and their log-probabilities, which training needs.

    Only for services that know `return_token_ids`: local:, vllm: and the lab model.
    """

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the most likely tokens that together have this probability."""
    top_k: int = Field(default=0, ge=0)
    """Sample from this many most likely tokens; 0: from all."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Sample from tokens with at least this share of the likeliest token's probability; 0: from all."""


class Service(Protocol):
    """An OpenAI-compatible service that a plug-in started."""

    @property
    def base_url(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def simulated(self) -> bool: ...


@runtime_checkable
class HoldsWeights(Protocol):
    """A service that can hash the weights it answers with."""

    def weights_sha256(self) -> str | None:
        """Return the hash of the weights; None when they are not on this machine. Blocks."""
        ...


@runtime_checkable
class _ChecksChat(Protocol):
    """A service that knows the chat template of its model."""

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        """Return notes on the template. tools: whether tools are needed. Raises ConfigError when it cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An open endpoint."""

    name: str
    """Name, as the user wrote it, without credentials."""
    model: "Model"
    endpoint_state: "EndpointState"
    simulated: bool
    url: str
    service: Service | None = None
    """The service that a plug-in started; None for a service that was running already."""
    call_settings: CallSettings = DEFAULT_CALL_SETTINGS
    """What every request contains, and what is left out of it."""

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        """Return notes on the model's chat template, where it is known. Raises ConfigError when it cannot be used."""
        return self.service.check_chat(tools=tools) if isinstance(self.service, _ChecksChat) else ()

    @property
    def function_note(self) -> str:
        """What to say about a model that is a function of the program, which may or may not ask a real model."""
        from pydantic_ai.models.function import FunctionModel

        if not isinstance(_innermost(self.model), FunctionModel):
            return ""
        return f"the model {self.name} is a function of the program: the figures are those of what it answers"

    def client(self, unit: "WorkUnit", *, history_tokens: int | None = None) -> "ModelClient":
        """Return the model for one unit of work. history_tokens: largest size of a request (estimated)."""
        from agentlearn.models.client import ModelClient

        # pydantic-ai's clients warn of some settings that they leave out, each time
        settings = replace(self.call_settings, left_out=self.call_settings.left_out | self.never_sent)
        return ModelClient(self.model, self.endpoint_state, unit, settings, history_tokens=history_tokens)

    @property
    def never_sent(self) -> frozenset[str]:
        """The settings, by pydantic-ai's names, that the client of this model leaves out of every request."""
        return never_sent(self.model, self.call_settings.added)


def is_simulated(name: str) -> bool:
    """Whether the endpoint is a simulated model."""
    return name.startswith("sim:")


def is_paid(name: str, model: "Model | None" = None) -> bool:
    """Whether using the endpoint may cost money; plug-ins and loopback services cost nothing.

    model: the model object that stands for the name. A `TestModel` costs nothing, and a `FunctionModel` is code of the
    program that gives it.
    """
    if model is not None:
        from pydantic_ai.models.function import FunctionModel

        from agentlearn.models.client import NoModel

        own_code = _is_stand_in(model) or isinstance(_innermost(model), FunctionModel | NoModel)
        return not own_code and not _loopback(model.base_url or "")
    prefix = name.partition(":")[0]
    if prefix.casefold() in {"http", "https"}:
        return urlsplit(name).hostname not in {"127.0.0.1", "localhost", "::1"}
    return _plugin_of(name) is None


def _plugin_of(name: str) -> Plugin | None:
    """Return the plug-in that serves the endpoint. Raises ConfigError when two packages announce its prefix."""
    prefix, colon, _ = name.partition(":")
    found = announced(GROUP, reserved=is_service)
    if is_service(prefix) or not colon:
        return found.usable.get(prefix) if prefix in found.usable and found.usable[prefix].own else None
    return found.get(prefix)


def check_endpoint(name: str, options: CallOptions) -> None:
    """Refuse an endpoint that cannot be used: its name, address, package and key are checked. Nothing is sent.

    Whether the service answers and has the model is found out when it is opened and asked.
    Raises ConfigError or MissingExtra.
    """
    for one in options.endpoints_of(endpoint_name(name)):
        bare, _ = replicas_of(one)
        if (plugin := _plugin_of(bare)) is not None:
            load(plugin, "model service")
        elif _is_address(bare):
            _address(bare)
            _key_of(options)
        else:
            _named_model(bare)


@asynccontextmanager
async def open_endpoint(
    name: str,
    options: CallOptions,
    *,
    seed: int = 0,
    retry: RetryPolicy | None = None,
    tokens: TokenRequest | None = None,
    call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
    model: "Model | None" = None,
) -> AsyncGenerator[Endpoint]:
    """Open the endpoint of that name; its client and its service are closed when the block ends.

    model: use this model under that name.
    An http(s) endpoint takes its key from `options.api_key`, else from AGENTLEARN_API_KEY, and its credentials from its
    address, now or earlier in this process. seed: for services that are seeded themselves, such as the simulated model.
    call_settings: for every request. retry: None for the policy of `options`.

    Raises ConfigError (bad name, unreachable service) or MissingExtra.
    """
    name = endpoint_name(name)
    know_environment(os.environ)
    names = options.endpoints_of(name)
    bare, count = replicas_of(names[0])
    prefix, _, rest = bare.partition(":")
    plugin = None if model is not None else _plugin_of(bare)
    for refused in announced(GROUP, reserved=is_service).refused:
        if model is None and refused.name == prefix:
            _LOG.warning("plugin.ignored", reason=refused.why)
    if plugin is not None:
        async with AsyncExitStack() as stack:
            shares: list[dict[str, Any]] = [{"share": (one, count)} for one in range(count)] if count > 1 else [{}]
            first, *others = [await stack.enter_async_context(_started(plugin, rest, seed, **one)) for one in shares]
            opened = open_service(
                name, first, options, others=others, retry=retry, tokens=tokens, call_settings=call_settings
            )
            yield await stack.enter_async_context(opened)
        return
    state = _state_of(name, options, Limiter(options.concurrency), retry)
    if model is None and _is_address(name):
        key = _key_of(options)
        await _check_addresses(names, key)
        served = {
            _address(one)[0]: served_model(*_address(one), key, options, tokens, credentials_of(one)) for one in names
        }
        async with _all_of(served, state) as (url, first):
            yield Endpoint(name, first, state, simulated=False, url=url, call_settings=call_settings)
        return
    # A given model is not entered: leaving it would close a client that the program may be using for other work.
    async with _named_model(name) if model is None else nullcontext(model) as opened:
        url = opened.base_url or opened.system
        yield Endpoint(name, opened, state, simulated=_is_stand_in(opened), url=url, call_settings=call_settings)


def model_name(model: "Model") -> str:
    """Return the name under which a model object is recorded: its system and its own name."""
    return f"{model.system}:{model.model_name}"


def _is_stand_in(model: "Model") -> bool:
    """Whether a model is pydantic-ai's `TestModel`, or wraps one. A `FunctionModel` may ask a real model."""
    from pydantic_ai.models.test import TestModel

    return isinstance(_innermost(model), TestModel)


def _innermost(model: "Model") -> "Model":
    """Return the model that a model wraps, if it wraps one."""
    from pydantic_ai.models.wrapper import WrapperModel

    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model


def _started(plugin: Plugin, rest: str, seed: int, **share: Any) -> AbstractAsyncContextManager[Service]:
    """Return the plug-in's service, to be entered. Raises ConfigError when it does not keep the protocol.

    share: for one of several such services, its index and their number.
    """
    start = load(plugin, "model service")
    if plugin.own:
        return cast("Callable[..., AbstractAsyncContextManager[Service]]", start)(rest, seed=seed, **share)
    called = cast("Callable[..., object]", start)
    service = guarded(plugin, "model service", lambda: called(rest, seed=seed))
    if not isinstance(service, AbstractAsyncContextManager):
        raise ConfigError(
            f"the model service {plugin.name!r} of the package {plugin.package!r} ({plugin.value}) gave"
            f" {type(service).__name__!r} and not an async context manager; reinstall or uninstall the package"
        )
    return cast("AbstractAsyncContextManager[Service]", service)


@asynccontextmanager
async def open_service(
    name: str,
    service: Service,
    options: CallOptions,
    *,
    others: Sequence[Service] = (),
    retry: RetryPolicy | None = None,
    tokens: TokenRequest | None = None,
    adaptive: bool = True,
    call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
) -> AsyncGenerator[Endpoint]:
    """Open a service on this machine as an endpoint of that name; its answers cost nothing.

    others: further services of the same model.
    adaptive: False for a service that queues requests itself; it is always given `options.concurrency` of them.
    call_settings: for every request.
    """
    state = _state_of(name, options, Limiter(options.concurrency, adaptive=adaptive), retry)
    state.free, simulated = True, service.simulated
    served = {one.base_url: served_model(one.base_url, one.model, None, options, tokens) for one in (service, *others)}
    async with _all_of(served, state) as (url, first):
        yield Endpoint(name, first, state, simulated=simulated, url=url, service=service, call_settings=call_settings)


@asynccontextmanager
async def _all_of(
    served: "Mapping[str, AbstractAsyncContextManager[Model]]", state: "EndpointState"
) -> "AsyncGenerator[tuple[str, Model]]":
    """Open the clients of a model's endpoints, by URL, and yield the first, which stands for all."""
    async with AsyncExitStack() as stack:
        models = {url: await stack.enter_async_context(one) for url, one in served.items()}
        if len(models) > 1:
            state.replicas = Replicas([Replica(url, model) for url, model in models.items()])
            stack.push_async_callback(state.replicas.close)
        yield next(iter(models.items()))


def _state_of(name: str, options: CallOptions, limiter: Limiter, retry: RetryPolicy | None) -> "EndpointState":
    """Return the state of an endpoint that is being opened."""
    from agentlearn.models.endpoint_state import EndpointState
    from agentlearn.models.outage import Outage

    return EndpointState(
        limiter,
        deadline_s=options.call_deadline_s,
        retry=retry or RetryPolicy(attempts=options.max_attempts),
        name=name,
        outage=Outage(limit_s=60 * options.max_outage_minutes, name=name),
    )


@asynccontextmanager
async def served_model(
    base_url: str,
    model_name: str,
    api_key: str | None,
    options: CallOptions,
    tokens: TokenRequest | None = None,
    credentials: Credentials = NO_CREDENTIALS,
) -> AsyncGenerator["Model"]:
    import httpx2
    from pydantic_ai.providers.openai import OpenAIProvider

    from agentlearn.models.chat_model import (
        ACCEPTED,
        ChatClient,
        ChatModel,
        http_transport,
        read_within_limit,
        token_settings,
    )

    limits = httpx2.Limits(max_connections=options.concurrency, max_keepalive_connections=options.concurrency)
    # `ModelClient` has the deadline and the retries; a second set in the HTTP client would multiply them.
    timeout = httpx2.Timeout(options.call_deadline_s + 5, connect=10)
    async with httpx2.AsyncClient(
        limits=limits,
        timeout=timeout,
        transport=http_transport(options.concurrency, proxies=not _loopback(base_url)),
        trust_env=not _loopback(base_url),
        auth=_basic_auth(credentials),
        headers={"Accept-Encoding": ACCEPTED},
        event_hooks={"response": [read_within_limit]},
    ) as http:
        client = ChatClient(
            base_url=base_url,
            api_key=api_key or "none",
            http_client=http,
            max_retries=0,
            default_query=dict(credentials.query),
        )
        provider = OpenAIProvider(openai_client=client)
        wanted = None if tokens is None else token_settings(**tokens.model_dump())
        yield ChatModel(model_name, provider=provider, settings=wanted, profile=partial(_limit_named, base_url))


def _is_address(name: str) -> bool:
    return name.partition(":")[0].casefold() in {"http", "https"}


def _address(name: str) -> tuple[str, str]:
    """Return the base URL and the model of an address. Raises ConfigError."""
    import httpx2

    _refuse_unprintable(name)
    base_url, _, model_name = name.partition("#")
    try:
        host = urlsplit(base_url).hostname
        httpx2.URL(base_url)
    except (ValueError, httpx2.InvalidURL) as error:
        raise ConfigError(f"the endpoint {base_url!r} is not an address: {error}; correct it") from error
    if not model_name.strip() or not host:
        raise ConfigError(f"the endpoint {name!r} must name a model after '#', as in http://127.0.0.1:8000/v1#my-model")
    return base_url, model_name


def _key_of(options: CallOptions) -> str | None:
    """Return the key for an address; None when there is none. Raises ConfigError for one that cannot be sent."""
    given = options.api_key.get_secret_value() if options.api_key else os.environ.get("AGENTLEARN_API_KEY", "")
    key = given.strip()
    check_key(key, "AGENTLEARN_API_KEY")
    know_secret(key)
    return key or None


def _refuse_unprintable(name: str) -> None:
    if not name.isprintable():
        raise ConfigError(
            f"the endpoint {name!r} has a character that no name of a model or an address has, such as a line break;"
            " correct it"
        )


def _named_model(name: str) -> "Model":
    """Return a model of a service that pydantic-ai knows. Raises ConfigError or MissingExtra."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    _refuse_unprintable(name)
    prefix = name.partition(":")[0]
    if prefix in {"lab", "sim"}:
        raise ConfigError(
            f"the endpoint {name!r} is in the package agentlearn_demo, which is not installed; name another model"
        )
    try:
        if not known_service(prefix).refused:
            with suppress(ValueError):  # an unknown service
                infer_provider_class(prefix)  # it imports the package
        check_variables(name)
        if prefix != "huggingface":
            return infer_model(name)
        from pydantic_ai.providers.huggingface import HuggingFaceProvider

        # without an address, pydantic-ai cannot read the replies
        return infer_model(name, lambda _: HuggingFaceProvider(base_url=_HUGGINGFACE))
    except ImportError as error:
        line = pip_line(prefix)
        raise MissingExtra(f"the endpoint {name!r} needs a package that is not installed: {line}") from error
    except ConfigError:
        raise
    except Exception as error:  # from the constructor of a client, which reads variables and files of its own
        words = " ".join(str(error).split()) if isinstance(error, UserError | ValueError) else cause_words(error)
        hint = known_service(prefix).hint or ("" if "Did you mean" in words else _meant(name))
        raise ConfigError(f"the endpoint {name!r} cannot be used: {words}{f'; {hint}' if hint else ''}") from error


_WITHOUT_SCHEME = re.compile(r"[\w.-]+:\d+(?:/[^#]*)?#.+|[\w.-]+(?:\.[\w-]+)+(?:/[^#]*)?#.+")
"""An address of a service without `http://`."""


def _meant(name: str) -> str:
    """Return how the user may have meant to name a model that is not known; empty when nothing is near."""
    from genai_prices import Usage, calc_price

    if name.startswith(ONLINE):
        return f"{name.partition(':')[0]}: names tasks; a model of the hub is local:OWNER/NAME"
    if _WITHOUT_SCHEME.fullmatch(name):
        return f"write {'http://' + name!r}"
    if is_service(name):
        return f"write '{name}:MODEL'"
    if ":" not in name:
        with suppress(LookupError):  # no service is known that has a model of this name
            return f"write '{calc_price(Usage(), model_ref=name).provider.id}:{name}'"
        return "write SERVICE:MODEL, such as openai:gpt-5-mini, or the URL of a service"
    return ""


async def _check_addresses(names: Sequence[str], api_key: str | None) -> None:
    """Raise ConfigError when nothing answers at any address of a model, or when two say that they serve another."""
    answers, unreachable = dict[str, bytes](), list[ConfigError]()
    for name in names:
        base_url, _ = _address(name)
        try:
            answers[base_url] = await _reachable(base_url, api_key, credentials_of(name), read=len(names) > 1)
        except ConfigError as error:
            unreachable.append(error)
    if not answers:
        raise unreachable[0]
    for error in unreachable:
        _LOG.warning("endpoint.unreachable", reason=error.message)
    refuse_other_models(answers, _address(names[0])[1])


async def _reachable(base_url: str, api_key: str | None, credentials: Credentials, *, read: bool) -> bytes:
    """Return the list of models of a service, if it is to be read.

    Raises ConfigError with address and cause when nothing answers there; any HTTP answer is enough.
    """
    import httpx2

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with (
            asyncio.timeout(20),
            httpx2.AsyncClient(timeout=10, trust_env=not _loopback(base_url), auth=_basic_auth(credentials)) as http,
            http.stream(
                "GET", base_url.rstrip("/") + "/models", headers=headers, params=dict(credentials.query)
            ) as answer,
        ):
            return await answer.aread() if read else b""
    except (httpx2.HTTPError, TimeoutError) as error:
        cause = str(error) or type(error).__name__
        raise ConfigError(
            f"the endpoint {base_url!r} cannot be reached: {cause}; start the service or correct the address",
            code="endpoint_unreachable",
        ) from error
    except httpx2.InvalidURL as error:
        raise ConfigError(f"the endpoint {base_url!r} is not an address: {error}; correct it") from error


def _limit_named(base_url: str, default: "ModelProfile") -> "ModelProfile":
    """Return a profile with the name under which the service takes a limit on its output.

    Every compatible service knows `max_tokens`, and some know only that. OpenAI's own, and its reasoning models behind
    other addresses, take `max_completion_tokens`.
    """
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    host = urlsplit(base_url).hostname or ""
    newer = host.endswith((".openai.com", ".openai.azure.com")) or bool(default.get("openai_supports_reasoning"))
    return merge_profile(default, OpenAIModelProfile(openai_chat_supports_max_completion_tokens=newer))


def _basic_auth(credentials: Credentials) -> tuple[str, str] | None:
    pair = credentials.username, credentials.password
    return pair if any(pair) else None


def _loopback(base_url: str) -> bool:
    return urlsplit(base_url).hostname in {"127.0.0.1", "localhost", "::1"}
