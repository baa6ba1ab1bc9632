"""Finds models that the user can use now: API keys in the environment, and model servers on this machine."""

import os
import socket
from typing import NamedTuple

from agentlearn.models.services import KNOWN_SERVICES

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
    """Return the models that were found. Nothing is sent; servers are only connected to.

    Whether the client of a service is installed is not looked up: `check_endpoint` does it.
    """
    keys = [
        FoundModel(found, f"{prefix}:{service.example}", True)
        for prefix, service in KNOWN_SERVICES.items()
        if service.example and (found := next(filter(_is_set, service.needs[0]), None))
    ]
    servers = [
        FoundModel(f"a server on port {port} ({kind}?)", f"http://127.0.0.1:{port}/v1#MODEL", False)
        for port, kind in PORTS.items()
        if _listens(port, timeout_s)
    ]
    return (*keys, *servers)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _listens(port: int, timeout_s: float) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s):
            return True
    except OSError:
        return False
