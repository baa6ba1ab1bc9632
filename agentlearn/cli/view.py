"""`agentlearn view`."""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import EVERY_ADDRESS, AllowHostOption, JsonOption, KeysOption, PortOption, StoreOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import MissingExtra

_INSTALL = "pip install 'agentlearn-lib[serve]'"
_PROGRESS_S = 5.0


def view(
    what: Annotated[
        str,
        Parameter(
            help="A run, a comparison, a rollout, RUN/TASK@PHASE, or a library: NAME or NAME@X. The start of an id is"
            " enough. Or a file or folder with sessions of a coding agent, such as ATIF; or the folder of a channel, to"
            " see what it offers. Default: the list of runs.",
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
    port: PortOption = 0,
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

    try:
        from agentlearn.view.bundle import write_bundle
        from agentlearn.view.routes import address_of
        from agentlearn.view.server import Site, app_of, free_port, is_loopback, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn", "anyio"}:
            raise
        raise MissingExtra(f"agentlearn view needs {error.name!r}, which is not installed: {_INSTALL}") from error
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
        elif what.endswith((".json", ".jsonl")) or ("/" in what and Path(what).exists()):
            from agentlearn.recorder.sessions import SESSIONS, record_whole

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
            if not is_loopback(host):
                out.print(f"caution: other machines can reach {host}. Anyone who has this address can read the store.")
                if host in EVERY_ADDRESS and not allow_host:
                    out.print("They are refused until you name this machine as they do: --allow-host NAME.")
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
