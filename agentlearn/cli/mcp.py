"""`agentlearn mcp`."""

import os
import secrets
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from agentlearn.cli.options import EVERY_ADDRESS, AllowHostOption, StoreOption
from agentlearn.cli.output import console
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import ConfigError, MissingExtra

_TOKEN = "AGENTLEARN_MCP_TOKEN"  # noqa: S105  the name of the variable
_SHORTEST_TOKEN = 20


def mcp(
    *libraries: Annotated[str, Parameter(help="Names of the libraries to offer.")],
    port: Annotated[
        int | None,
        Parameter(
            help="Serve over HTTP at this port of the machine; 0 takes a free one. [default: stdio]",
            validator=Number(gte=0, lte=65_535),
        ),
    ] = None,
    host: Annotated[
        str, Parameter(help="Address to listen on. With any but 127.0.0.1, other machines can connect.")
    ] = "127.0.0.1",
    allow_host: AllowHostOption = (),
    read_only: Annotated[
        bool, Parameter(negative="", show_default=False, help="Offer no tools that store proposals and feedback.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Offer libraries to agents that speak MCP, such as coding agents: docs/mcp.md.

    Agents search lessons, propose new ones, which wait for you, and give feedback. Over HTTP they need a token: that of
    the variable AGENTLEARN_MCP_TOKEN, else a new one that is printed.
    """
    if not libraries:
        raise ConfigError("name the libraries to offer: agentlearn mcp NAME", code="no_library")
    try:
        from agentlearn.view.mcp_server import PATH, http_app, mcp_server
        from agentlearn.view.server import free_port, hosts_of, is_loopback, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"anyio", "mcp", "starlette"}:
            raise
        how = "pip install 'agentlearn-lib[mcp]'"
        raise MissingExtra(f"agentlearn mcp needs {error.name!r}, which is not installed: {how}") from error
    server = mcp_server(libraries, Path(store), read_only=read_only)
    if port is None:
        server.run("stdio")
        return
    given = os.environ.get(_TOKEN, "")
    if given and len(given) < _SHORTEST_TOKEN:
        raise ConfigError(f"{_TOKEN} has {len(given)} characters; use at least {_SHORTEST_TOKEN}", code="bad_token")
    token, listener = given or secrets.token_urlsafe(24), free_port(host, port)
    number, out = listener.getsockname()[1], console(to_stderr=True)
    out.print(f"serving {', '.join(libraries)} at http://{host}:{number}{PATH}")
    out.print(f"header  Authorization: Bearer {f'${_TOKEN}' if given else token}")
    if not is_loopback(host):
        out.print(f"caution: other machines can reach {host}, and the token travels unencrypted.")
        if host in EVERY_ADDRESS and not allow_host:
            out.print("They are refused until you name this machine as they do: --allow-host NAME.")
    out.print("Press Ctrl-C to stop.")
    serve(http_app(server, hosts_of(host, number, allow_host), token), listener, lifespan="on")
