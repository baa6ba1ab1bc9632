"""Finds models that the user can use now: API keys in the environment, and model servers on this machine."""

import os
import socket
from typing import NamedTuple

KEYS = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "DEEPSEEK_API_KEY": "deepseek:deepseek-chat",
    "OPENROUTER_API_KEY": "openrouter:deepseek/deepseek-chat",
    "GROQ_API_KEY": "groq:llama-3.3-70b-versatile",
    "MISTRAL_API_KEY": "mistral:mistral-small-latest",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
}
"""Environment variable of an API key, and a small model that the key can use."""

PORTS = {8000: "vLLM", 11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp"}
"""Usual ports of model servers, by number."""


class FoundModel(NamedTuple):
    """A model that is probably available."""

    why: str
    """The variable or the server that was found."""
    endpoint: str
    """Name to give with `--model`."""
    paid: bool
    """Whether its use costs money."""


def found_models(*, timeout_s: float = 0.05) -> tuple[FoundModel, ...]:
    """Return the models that were found. Nothing is sent; servers are only connected to."""
    keys = [FoundModel(name, model, True) for name, model in KEYS.items() if os.environ.get(name)]
    servers = [
        FoundModel(f"a server on port {port} ({kind}?)", f"http://127.0.0.1:{port}/v1#MODEL", False)
        for port, kind in PORTS.items()
        if _listens(port, timeout_s)
    ]
    return (*keys, *servers)


def _listens(port: int, timeout_s: float) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s):
            return True
    except OSError:
        return False
