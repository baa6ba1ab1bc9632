"""`agentlearn serve`."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import AllowHostOption, JsonOption, PortOption, StoreOption
from agentlearn.cli.output import print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.recorder.personal_data import PersonalDataMode

_Upstream = Annotated[
    str, Parameter(help="Base URL of the model service, such as https://api.openai.com/v1.", show_default=False)
]
_Libraries = Annotated[
    tuple[str, ...],
    Parameter(
        help="Library whose lessons are added: NAME or NAME@X. Give it several times to let clients choose; the first"
        " is the default.",
        negative="",
        show_default=False,
    ),
]
_Tokens = Annotated[
    Path | None,
    Parameter(help="File with the token of a client on each line, and a space and its tenant, if it has one."),
]
_Hide = Annotated[
    str | None, Parameter(help="Share of episodes to hide each lesson in, such as 1/5, to measure its effect.")
]
_PersonalData = Annotated[
    PersonalDataMode, Parameter(help="What happens to e-mail addresses, cards and the like before storage.")
]
_INSTALL = "pip install 'agentlearn-lib[serve]'"


def serve(
    *,
    upstream: _Upstream,
    library: _Libraries = (),
    name: Annotated[str, Parameter(help="Name that traffic is recorded under; '' records nothing.")] = "gateway",
    port: PortOption = 8400,
    host: Annotated[str, Parameter(help="Address to listen on. Any but 127.0.0.1 needs tokens.")] = "127.0.0.1",
    allow_host: AllowHostOption = (),
    tokens: _Tokens = None,
    key: Annotated[
        str, Parameter(help="Environment variable with the key for the service, in place of the clients' keys.")
    ] = "",
    metric: Annotated[str, Parameter(help="Name of the feedback that is the reward.")] = "reward",
    hide: _Hide = None,
    personal_data: _PersonalData = "off",
    max_body_mib: Annotated[int, Parameter(help="Largest request in MiB.")] = 32,
    max_requests_per_minute: Annotated[int, Parameter(help="Of one client; 0: no limit.")] = 0,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Add lessons to the model calls of any program, and record them to learn from.

    Programs use http://127.0.0.1:8400/v1 as the base URL of their model. Requests and replies pass through unchanged,
    but for the lessons: Chat Completions, Responses, and Anthropic's Messages.
    """
    try:
        from agentlearn.live.gateway.admission import LOOPBACK, GatewaySettings
        from agentlearn.live.gateway.gateway import Gateway, serve_gateway
        from agentlearn.view.server import free_port, is_loopback
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn", "anyio", "aiohttp"}:
            raise
        raise MissingExtra(f"agentlearn serve needs {error.name!r}, which is not installed: {_INSTALL}") from error
    if not is_loopback(host) and tokens is None:
        raise ConfigError(
            f"--host is {host!r}, so other machines can reach the gateway; give clients tokens with --tokens FILE",
            code="open_gateway",
        )
    if key and not os.environ.get(key):
        raise ConfigError(f"--key names the variable {key!r}, which is not set; export {key}=...", code="no_key")
    settings = GatewaySettings(
        upstream=upstream,
        libraries=library,
        name=name,
        store=store.absolute(),
        key=os.environ[key] if key else "",
        tokens={} if tokens is None else _tokens(tokens),
        hosts=(*LOOPBACK, *(() if is_loopback(host) else (host,)), *allow_host),
        metric=metric,
        hide=hide,
        personal_data=personal_data,
        max_body_mib=max_body_mib,
        max_requests_per_minute=max_requests_per_minute,
    )
    gateway = Gateway(settings)
    listener = free_port(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    recorded = f"recorded as {name!r} in {store}" if name else "not recorded"
    lines = (
        f"base URL for OpenAI's clients: {address}/v1; for Anthropic's: {address}",
        f"lessons of {', '.join(library) or 'no library'}; {recorded}",
        "Press Ctrl-C to stop.",
    )
    print_result({"base_url": f"{address}/v1", "libraries": list(library), "recorded_as": name}, lines, json=json)
    serve_gateway(gateway, listener)


def _tokens(file: Path) -> dict[str, str]:
    """Read the clients' tokens and their tenants. Raises ConfigError."""
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the tokens in {str(file)!r} cannot be read: {error}", code="bad_tokens") from error
    found: dict[str, str] = {}
    for number, words in enumerate(lines, start=1):
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or len(words[0]) < 16 or words[0] in found:
            raise ConfigError(
                f"line {number} of {str(file)!r} must hold a new token of 16 or more characters, and perhaps a tenant",
                code="bad_tokens",
            )
        found[words[0]] = words[1] if len(words) > 1 else ""
    if not found:
        raise ConfigError(f"{str(file)!r} holds no token; write one on each line", code="bad_tokens")
    return found
