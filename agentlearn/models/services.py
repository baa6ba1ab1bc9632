"""The model services that pydantic-ai knows by name: what each needs to be used. A plug-in cannot take their names.

pydantic-ai does not say which variables its providers read, so they stand here. A service that a newer pydantic-ai has
added works too; what it lacks is then said in pydantic-ai's words.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from agentlearn.errors import ConfigError
from agentlearn.text.secret_values import know_secret


class _KnownService(NamedTuple):
    """What a service needs."""

    needs: tuple[tuple[str, ...], ...] = ()
    """Environment variables that must be set: one of each group."""
    extra: str = "openai"
    """Extra of pydantic-ai-slim that installs its client."""
    example: str = ""
    """A small model that a key can use, for suggestions; empty: none is suggested."""
    unless: str = ""
    """Environment variable of another address; where it is set, no key is needed."""
    refused: str = ""
    """Why it cannot be used, as the end of a sentence; empty: it can."""
    hint: str = ""
    """The next step where the client itself finds that something is missing."""


def _key(variable: str, *others: str, extra: str = "openai", example: str = "") -> _KnownService:
    return _KnownService(((variable, *others),), extra, example)


_OPENAI = _KnownService((("OPENAI_API_KEY",),), unless="OPENAI_BASE_URL")
_AZURE = _KnownService((("AZURE_OPENAI_ENDPOINT",), ("AZURE_OPENAI_API_KEY",)))
_GATEWAY = _key("PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY")
_NO_CHAT = _KnownService(refused="is no chat model; name another")
KNOWN_SERVICES: Mapping[str, _KnownService] = {
    "openai": _OPENAI._replace(example="gpt-5-mini"),
    "deepseek": _key("DEEPSEEK_API_KEY", example="deepseek-chat"),
    "openrouter": _key("OPENROUTER_API_KEY", example="deepseek/deepseek-chat"),
    "groq": _key("GROQ_API_KEY", extra="groq", example="llama-3.3-70b-versatile"),
    "mistral": _key("MISTRAL_API_KEY", extra="mistral", example="mistral-small-latest"),
    "anthropic": _key("ANTHROPIC_API_KEY", extra="anthropic", example="claude-haiku-4-5"),
    "google": _key("GOOGLE_API_KEY", "GEMINI_API_KEY", extra="google", example="gemini-2.5-flash"),
    "xai": _key("XAI_API_KEY", extra="xai", example="grok-3-mini"),
    "together": _key("TOGETHER_API_KEY", example="meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    "fireworks": _key("FIREWORKS_API_KEY", example="accounts/fireworks/models/gpt-oss-20b"),
    "cerebras": _key("CEREBRAS_API_KEY", extra="cerebras", example="gpt-oss-120b"),
    "cohere": _key("CO_API_KEY", extra="cohere", example="command-r7b-12-2024"),
    "huggingface": _key("HF_TOKEN", extra="huggingface", example="Qwen/Qwen3-32B"),
    "moonshotai": _key("MOONSHOTAI_API_KEY", example="moonshot-v1-8k"),
    "zai": _key("ZAI_API_KEY", extra="zai", example="glm-4.5-flash"),
    "heroku": _key("HEROKU_INFERENCE_KEY", example="gpt-oss-120b"),
    "alibaba": _key("ALIBABA_API_KEY", "DASHSCOPE_API_KEY", example="qwen-flash"),
    "nebius": _key("NEBIUS_API_KEY"),
    "ovhcloud": _key("OVHCLOUD_API_KEY"),
    "sambanova": _key("SAMBANOVA_API_KEY"),
    "vercel": _key("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "crusoe": _key("CRUSOE_API_KEY"),
    "meta": _key("META_API_KEY"),
    "github": _KnownService(refused="is of GitHub Models, which GitHub has ended; name another service"),
    "github-copilot": _key("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
    "snowflake": _KnownService((("SNOWFLAKE_ACCOUNT",), ("SNOWFLAKE_TOKEN",)), "snowflake"),
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "openai-codex": _KnownService(),
    "openai-chatgpt": _KnownService(refused="needs a sign-in in Python; give a model object of pydantic-ai instead"),
    "azure": _AZURE,
    "azure-responses": _AZURE,
    "bedrock": _KnownService(extra="bedrock", hint="set AWS_DEFAULT_REGION"),
    "bedrock-mantle": _KnownService(extra="bedrock-mantle"),
    "google-cloud": _KnownService(
        extra="google", hint="set GOOGLE_API_KEY, or sign in with `gcloud auth application-default login`"
    ),
    "ollama": _KnownService((("OLLAMA_BASE_URL",),)),
    "litellm": _KnownService(refused="has no address; give that of your proxy, as in http://127.0.0.1:4000/v1#gpt-4o"),
    "gateway": _KnownService(refused="names no service behind the gateway; write one, as in gateway/openai:gpt-5-mini"),
    "google-gla": _KnownService(refused="has an old prefix; write google: instead"),
    "google-vertex": _KnownService(refused="has an old prefix; write google-cloud: instead"),
    "grok": _KnownService(refused="has an old prefix; write xai: instead"),
    "outlines": _KnownService(refused="cannot be opened by name; serve the model and give its address"),
    "elevenlabs": _NO_CHAT,
    "openai-decisions": _NO_CHAT,
    "google-decisions": _NO_CHAT,
    "sentence-transformers": _NO_CHAT,
    "system-one": _NO_CHAT,
    "typesafe": _NO_CHAT,
    "voyageai": _NO_CHAT,
}
"""By prefix, those with an example in the order in which they are suggested."""
SERVICES = frozenset((*KNOWN_SERVICES, "http", "https", "test", "vllm"))
"""Prefixes of endpoints that name a service, most of which cost money."""
_OURS = frozenset({"sim", "lab", "local"})
"""Prefixes of agentlearn's own services, which are known without importing pydantic-ai."""


def is_service(prefix: str) -> bool:
    """Whether a prefix names a model service, also one that a newer pydantic-ai has added."""
    name = prefix.strip().casefold()
    if name in SERVICES or name.startswith("gateway/"):
        return True
    if name in _OURS:
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:  # a service whose client is not installed
        return True
    return True


def known_service(prefix: str) -> _KnownService:
    """Return what is known of the service with that prefix."""
    return _GATEWAY if prefix.startswith("gateway/") else KNOWN_SERVICES.get(prefix, _KnownService())


def address_of(prefix: str) -> str | None:
    """Return the address that the environment gives a service; None when it is the service's own."""
    variable = known_service(prefix).unless
    return (_value(variable) or None) if variable else None


def pip_line(prefix: str) -> str:
    """Return the command that installs the client of a service."""
    prefix = prefix.removeprefix("gateway/")
    return f"pip install 'pydantic-ai-slim[{known_service(prefix).extra if prefix in KNOWN_SERVICES else prefix}]'"


def check_variables(name: str) -> None:
    """Raise ConfigError when the service of that endpoint cannot be used, or a variable that it needs is not set."""
    prefix, colon, model = name.partition(":")
    service = known_service(prefix)
    if service.refused:
        raise ConfigError(f"the endpoint {name!r} {service.refused}")
    if not colon:
        return
    if not model.strip():
        example = f"{prefix}:{service.example or 'MODEL'}"
        raise ConfigError(f"the endpoint {name!r} names no model; write one, as in {example}")
    if service.unless and _value(service.unless) and service.needs[0][0] not in os.environ:
        return
    for group in service.needs:
        found = next((variable for variable in group if _value(variable)), None)
        if found is None:
            empty = next((variable for variable in group if variable in os.environ), None)
            state = f", but {empty} is empty" if empty else ""
            raise ConfigError(
                f"the endpoint {name!r} needs the environment variable {' or '.join(group)}{state}; set it and start"
                " again"
            )
        check_key(os.environ[found], found)
        if "KEY" in found or "TOKEN" in found:
            know_secret(os.environ[found])


def check_key(key: str, where: str) -> None:
    """Raise ConfigError when no request can carry a key. where: its variable or option, for the message."""
    if key != key.strip() or not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the value of {where} has a character that cannot be sent, such as a line break or a space at its end;"
            " copy it again"
        )


def _value(variable: str) -> str:
    return os.environ.get(variable, "").strip()


_PORTS = {8000: "vLLM", 11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp"}
"""Usual ports of model servers, by number."""


class _FoundModel(NamedTuple):
    """A model that is probably available."""

    why: str
    """The variable or the server that was found."""
    endpoint: str
    """Name to give with `--model`."""
    paid: bool
    """Whether its use costs money."""


def found_models(*, timeout_s: float = 0.05) -> tuple[_FoundModel, ...]:
    """Return the models that were found. Nothing is sent; servers are only connected to.

    Whether the client of a service is installed is not looked up: `check_endpoint` does it.
    """
    keys = [
        _FoundModel(found, f"{prefix}:{service.example}", True)
        for prefix, service in KNOWN_SERVICES.items()
        if service.example and (found := next(filter(_value, service.needs[0]), None))
    ]
    servers = list[_FoundModel]()
    for port, kind in _PORTS.items():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=timeout_s):
            servers.append(
                _FoundModel(f"a server on port {port} ({kind}?)", f"http://127.0.0.1:{port}/v1#MODEL", False)
            )
    return (*keys, *servers)
