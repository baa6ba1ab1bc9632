"""`agentlearn view`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import ConfigError, MissingExtra

_INSTALL = "pip install 'agentlearn-lib[serve]'"


def view(
    what: Annotated[
        str,
        Parameter(
            help="A run, a comparison, a rollout, RUN/TASK@PHASE, or a library: NAME or NAME@X. The start of an id is"
            " enough. Default: the list of runs.",
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
    port: Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.")] = 0,
    host: Annotated[
        str, Parameter(help="Address to listen on. With any but 127.0.0.1, other machines can connect.")
    ] = "127.0.0.1",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Look at runs, attempts, lessons and costs in a browser, and decide on what waits for you.

    Open the printed address: it holds a token that only you know, and it is valid until you press Ctrl-C. It works
    during a run and afterwards.
    """
    from agentlearn.library import LibraryStore
    from agentlearn.store import read_store

    if not 0 <= port <= 65_535:
        raise ConfigError(f"--port is {port!r}; give a number from 1 to 65535, or 0 for any free port", code="bad_port")
    try:
        from agentlearn.view.bundle import write_bundle
        from agentlearn.view.routes import address_of
        from agentlearn.view.server import Site, free_port, is_loopback, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn", "anyio"}:
            raise
        raise MissingExtra(f"agentlearn view needs {error.name!r}, which is not installed: {_INSTALL}") from error
    with read_store(store) as reader:
        names = frozenset(LibraryStore(store / "libraries").names())
        start = address_of(reader, names, what)
        if bundle is not None:
            written = write_bundle(reader, store, start, bundle)
            if json:
                print_json({"bundle": str(bundle), "files": len(written), "index": str(written[0])})
            else:
                console().print(f"wrote {len(written):,} files; open {written[0]}")
            return
    listener = free_port(host, port)
    site = Site(store.absolute(), listener.getsockname()[1], host, read_only)
    if json:
        print_json({"address": site.link(start), "port": site.port, "read_only": read_only})
    else:
        out = console()
        out.print(f"open this address in a browser: {site.link(start)}")
        if not is_loopback(host):
            out.print(
                f"caution: {host} can be reached from other machines. Share the address only with people who may read the store."
            )
        out.print("Press Ctrl-C to stop. Keep the address to yourself: it holds the token that opens the pages.")
    serve(site, listener)
