"""`agentlearn serve`, `mcp` and `view`: what runs until it is stopped."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from agentlearn.cli.options import EVERY_ADDRESS, AllowHostOption, JsonOption, KeysOption, StoreOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.live.personal_data import PersonalDataMode

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
_Choose = Annotated[
    Literal["conversation", "turn"], Parameter(help="Choose lessons once for a conversation, or for each user message.")
]
_Place = Annotated[
    Literal["instructions", "last"], Parameter(help="Where lessons stand; last: before the newest user message.")
]
_PersonalData = Annotated[
    PersonalDataMode, Parameter(help="What happens to e-mail addresses, cards and the like before storage.")
]
_Port = Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.", validator=Number(gte=0, lte=65_535))]


@contextmanager
def _needing(extra: str, command: str) -> Generator[None]:
    """Raise MissingExtra where an import in the block fails because a package of the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn", "anyio", "aiohttp", "mcp"}:
            raise
        raise MissingExtra(
            f"agentlearn {command} needs {error.name!r}, which is not installed: pip install 'agentlearn-lib[{extra}]'"
        ) from error


def _others_can_connect(host: str, allow_host: Sequence[str], caution: str) -> list[str]:
    """What to print where other machines can reach an address; nothing where only this one can."""
    from agentlearn.pages.web_app.server import is_loopback

    if is_loopback(host):
        return []
    unnamed = host in EVERY_ADDRESS and not allow_host
    refused = ["They are refused until you name this machine as they do: --allow-host NAME."] if unnamed else []
    return [f"caution: other machines can reach {host}{caution}", *refused]


def serve(
    *,
    upstream: _Upstream,
    library: _Libraries = (),
    name: Annotated[str, Parameter(help="Name that traffic is recorded under; '' records nothing.")] = "gateway",
    port: _Port = 8400,
    host: Annotated[str, Parameter(help="Address to listen on. Any but 127.0.0.1 needs tokens.")] = "127.0.0.1",
    allow_host: AllowHostOption = (),
    tokens: _Tokens = None,
    key: Annotated[
        str, Parameter(help="Environment variable with the key for the service, in place of the clients' keys.")
    ] = "",
    metric: Annotated[str, Parameter(help="Name of the feedback that is the reward.")] = "reward",
    scale: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="Its LOW,HIGH, such as 1,5. [default: 0,1]")
    ] = None,
    hide: _Hide = None,
    choose: _Choose = "conversation",
    place: _Place = "instructions",
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
    with _needing("serve", "serve"):
        from agentlearn.library import LibraryStore
        from agentlearn.library.history.change_log import is_library_name
        from agentlearn.library.shown import share_of
        from agentlearn.library.tenants import tenant_store
        from agentlearn.live.gateway.admission import LOOPBACK, GatewaySettings
        from agentlearn.live.gateway.gateway import Gateway, serve_gateway
        from agentlearn.pages.web_app.server import free_port, is_loopback
    if not is_loopback(host) and tokens is None:
        raise ConfigError(
            f"--host is {host!r}, so other machines can reach the gateway; give clients tokens with --tokens FILE"
        )
    if key and not os.environ.get(key):
        raise ConfigError(f"--key names the variable {key!r}, which is not set; export {key}=...")
    share_of(hide, "--hide")
    settings = GatewaySettings(
        upstream=upstream,
        libraries=library,
        name=name,
        store=store.absolute(),
        key=os.environ[key] if key else "",
        tokens={} if tokens is None else _tokens(tokens),
        hosts=(*LOOPBACK, *(() if is_loopback(host) else (host,)), *allow_host),
        metric=metric,
        scale=scale,
        hide=hide,
        choose=choose,
        place=place,
        personal_data=personal_data,
        max_body_mib=max_body_mib,
        max_requests_per_minute=max_requests_per_minute,
    )
    gateway = Gateway(settings)
    listener = free_port(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    recorded = f"recorded as {name!r} in {store}" if name else "not recorded"
    stores = [
        LibraryStore(tenant_store(store, one or None) / "libraries") for one in sorted({"", *settings.tokens.values()})
    ]
    named = [one for one in (given.partition("@")[0] for given in library) if is_library_name(one)]
    unknown = [stores[0].unknown_words(one) for one in named if all(held.unknown_words(one) for held in stores)]
    lines = (
        f"base URL for OpenAI's clients: {address}/v1; for Anthropic's: {address}",
        f"lessons of {', '.join(library) or 'no library'}; {recorded}",
        *(f"caution: {one}; requests go on without lessons" for one in unknown),
        "Press Ctrl-C to stop.",
    )
    print_result({"base_url": f"{address}/v1", "libraries": list(library), "recorded_as": name}, lines, json=json)
    serve_gateway(gateway, listener)


def _tokens(file: Path) -> dict[str, str]:
    """Read the clients' tokens and their tenants. Raises ConfigError."""
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the tokens in {str(file)!r} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, words in enumerate(lines, start=1):
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or len(words[0]) < 16 or words[0] in found:
            raise ConfigError(
                f"line {number} of {str(file)!r} must hold a new token of 16 or more characters, and perhaps a tenant"
            )
        found[words[0]] = words[1] if len(words) > 1 else ""
    if not found:
        raise ConfigError(f"{str(file)!r} holds no token; write one on each line")
    return found


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
    runs: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Also offer tools that plan, price, start and show runs."),
    ] = False,
    max_cost_usd: Annotated[
        float,
        Parameter(
            help="With --runs: dollars that all runs together may be given as limits. 0: only what costs nothing.",
            validator=Number(gte=0),
        ),
    ] = 0.0,
    allow_folder: Annotated[
        tuple[Path, ...],
        Parameter(negative="", help="With --runs: folder whose files runs may name, beside the working folder."),
    ] = (),
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Offer libraries to agents that speak MCP, such as coding agents: docs/mcp.md.

    Agents search lessons, propose new ones, which wait for you, and give feedback. Over HTTP they need a token: that of
    the variable AGENTLEARN_MCP_TOKEN, else a new one that is printed.
    """
    if not libraries and not runs:
        raise ConfigError("name the libraries to offer: agentlearn mcp NAME; or offer runs: agentlearn mcp --runs")
    if not runs and (max_cost_usd or allow_folder):
        raise ConfigError("--max-cost-usd and --allow-folder are for --runs; add it, or leave them out")
    with _needing("mcp", "mcp"):
        from agentlearn.pages.web_app.mcp_runs import RunTools
        from agentlearn.pages.web_app.mcp_server import PATH, http_app, mcp_server
        from agentlearn.pages.web_app.server import free_port, hosts_of, serve
    folders = [one.expanduser().resolve() for one in (Path(), *allow_folder)]
    tools = RunTools(Path(store).absolute(), folders, max_cost_usd) if runs else None
    server = mcp_server(libraries, Path(store), read_only=read_only, runs=tools)
    if port is None:
        server.run("stdio")
        return
    given = os.environ.get(_TOKEN, "")
    if given and len(given) < _SHORTEST_TOKEN:
        raise ConfigError(f"{_TOKEN} has {len(given)} characters; use at least {_SHORTEST_TOKEN}")
    token, listener = given or secrets.token_urlsafe(24), free_port(host, port)
    number, out = listener.getsockname()[1], console(to_stderr=True)
    out.print(f"serving {', '.join([*libraries, *(['runs'] if runs else [])])} at http://{host}:{number}{PATH}")
    out.print(f"header  Authorization: Bearer {f'${_TOKEN}' if given else token}")
    for line in _others_can_connect(host, allow_host, ", and the token travels unencrypted."):
        out.print(line)
    out.print("Press Ctrl-C to stop.")
    serve(http_app(server, hosts_of(host, number, allow_host), token), listener, lifespan="on")


_PROGRESS_S = 5.0


def view(
    what: Annotated[
        str,
        Parameter(
            help="A run, a comparison, a rollout, RUN/TASK@PHASE, or a library: NAME or NAME@X. The start of an id is"
            " enough, and `last` is the latest run. Or a file or folder with sessions of a coding agent, such as ATIF;"
            " or the folder of a channel, to see what it offers. Default: the list of runs.",
            show_default=False,
        ),
    ] = "",
    /,
    *,
    bundle: Annotated[
        Path | None, Parameter(help="Write the pages about it to this folder, as files to share, and stop.")
    ] = None,
    read_only: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Only show pages, without forms that change things."),
    ] = False,
    port: _Port = 0,
    host: Annotated[
        str, Parameter(help="Address to listen on. With any but 127.0.0.1, other machines can connect.")
    ] = "127.0.0.1",
    allow_host: AllowHostOption = (),
    key: KeysOption = (),
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Look at runs, attempts, lessons and costs in a browser, and decide on what waits for you.

    Open the printed address: it holds a token that only you know, and it is valid until you press Ctrl-C. It works
    during a run and afterwards.
    """
    from agentlearn.library import LibraryStore
    from agentlearn.library.sharing import SKILLS
    from agentlearn.store import read_store

    with _needing("serve", "view"):
        from agentlearn.pages.web_app.routes import address_of, write_bundle
        from agentlearn.pages.web_app.server import Site, app_of, free_port, serve
    with ExitStack() as stack:
        start, channel = "", None
        if what and (Path(what) / SKILLS).is_dir():
            from agentlearn.library.sharing.channels import Channel
            from agentlearn.library.sharing.signing import trusted

            channel = Channel(Path(what), trusted(key))
            channel.offers(datetime.now(UTC), most=0)  # refuses an index that cannot be read or trusted
            # the pages need a store, and those of a channel show nothing of it
            store, read_only = Path(stack.enter_context(TemporaryDirectory(prefix="agentlearn-view-"))), True
            asyncio.run(_create(store))
            start = "/offers"
        elif what.endswith((".json", ".jsonl", ".jsonl.gz")) or ("/" in what and Path(what).exists()):
            from agentlearn.live.sessions import SESSIONS, record_whole

            # sessions of another program, to look at and not to keep
            store, read_only = Path(stack.enter_context(TemporaryDirectory(prefix="agentlearn-view-"))), True
            rollouts = record_whole(Path(what), store)
            start = f"/rollout/{rollouts[0]}" if len(rollouts) == 1 else f"/live/{SESSIONS}"
        with read_store(store) as reader:
            start = start or address_of(reader, frozenset(LibraryStore(store / "libraries").names()), what)
        if bundle is not None:
            done = write_bundle(store, start, bundle, _progress(), channel)
            document = {"bundle": str(bundle), "files": done.files, "index": str(done.index)}
            more = f"; {done.left_out:,} more pages were left out; name one attempt or task" if done.left_out else ""
            line = f"wrote {done.files:,} files; open {done.index}{more}"
            print_result({**document, "left_out": done.left_out}, [line], json=json)
            return
        listener = free_port(host, port)
        site = Site(store.absolute(), listener.getsockname()[1], host, allow_host, read_only, channel)
        if json:
            print_json({"address": site.link(start), "port": site.port, "read_only": read_only})
        else:
            out = console()
            out.print(f"open this address in a browser: {site.link(start)}")
            for line in _others_can_connect(host, allow_host, ". Anyone who has this address can read the store."):
                out.print(line)
            out.print("Press Ctrl-C to stop. Keep the address to yourself: it holds the token that opens the pages.")
        serve(app_of(site), listener)


async def _create(store: Path) -> None:
    """Make an empty store."""
    from agentlearn.store import open_store

    async with open_store(store):
        pass


def _progress() -> Callable[[int, int], None]:
    """Print how far a bundle is, every few seconds."""
    out, last = console(to_stderr=True), [time.monotonic()]

    def told(written: int, waiting: int) -> None:
        if time.monotonic() - last[0] > _PROGRESS_S:
            last[0] = time.monotonic()
            out.print(f"{written:,} pages written, {waiting:,} known to follow")

    return told
