"""Workers as actors of a Ray cluster (`--ray ADDRESS`). Only this module imports Ray.

Ray starts a worker and says why it ended. It repeats nothing: the journal does.
"""

import asyncio
import logging
import os
import pickle
import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.plugins import version
from agentlearn.rollout.link import LinkMessage
from agentlearn.rollout.workers import Cluster, NoRoom, Started, WorkerLost, WorkerNeeds

_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
if any(map(os.environ.get, _TOKENS)) or Path("~/.ray/auth_token").expanduser().is_file():
    # Only `ray start --head` uses a token without it. Ray reads it once, when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
try:
    ray: Any = import_module("ray")  # not installed where types are checked
    placement: Any = import_module("ray.util.placement_group")
    scheduling: Any = import_module("ray.util.scheduling_strategies")
    RayError: Any = ray.exceptions.RayError
except (ImportError, AttributeError) as error:  # a folder of that name on the path has none of its names
    raise MissingExtra("--ray needs Ray; install it with `pip install 'agentlearn-lib[ray]'`") from error

_CONNECT_S = 30.0
"""Seconds that a cluster has to answer."""
_PLACE_S = 60.0
"""Seconds that a cluster has to find a place for a worker."""
_MIB = 1024 * 1024
_CONCURRENCY = 10_000
"""Messages that an actor may be taking at once."""
_END = b""
"""In place of a message: the worker has ended."""


class _Actor:
    """A worker. What driver and worker send each other waits here for the other one."""

    def __init__(self) -> None:
        self.inbox, self.outbox = asyncio.Queue[bytes](), asyncio.Queue[bytes]()

    async def version(self) -> str:
        """Return the version of agentlearn on this machine."""
        return version()

    async def work(self) -> None:
        """Make rollouts until the driver ends the actor."""
        from agentlearn.rollout.worker import work  # the driver needs none of it

        try:
            await work(self, f"on the machine {platform.node()!r} of the Ray cluster")
        finally:
            self.outbox.put_nowait(_END)

    async def put(self, message: bytes) -> None:
        """Take a message for the worker."""
        self.inbox.put_nowait(message)

    async def take(self) -> list[bytes]:
        """Return what the worker has sent, at least one message."""
        taken = [await self.outbox.get()]
        while not self.outbox.empty():
            taken.append(self.outbox.get_nowait())
        return taken

    async def send(self, message: LinkMessage) -> None:
        """Send a message to the driver."""
        self.outbox.put_nowait(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    async def receive(self) -> LinkMessage:
        """Return the next message of the driver."""
        return pickle.loads(await self.inbox.get())  # noqa: S301  from the driver


@dataclass(slots=True)
class _ActorLink:
    """The driver's end."""

    actor: Any
    work: Any
    """Refers to the actor's work."""
    taken: deque[bytes] = field(default_factory=deque[bytes])
    why: str = ""
    """Why the actor is gone; empty before."""

    async def send(self, message: LinkMessage) -> None:
        """Send a message. Raises OSError when the actor is gone."""
        try:
            await self.actor.put.remote(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        except RayError as error:
            self.why = self.why or _why(error)
            raise OSError("the actor is gone") from error

    async def receive(self) -> LinkMessage:
        """Return the next message. Raises EOFError when the actor is gone."""
        try:
            while not self.taken:
                self.taken.extend(await self.actor.take.remote())
            if self.taken[0] == _END:
                await self.work
                raise EOFError("the worker has ended")
        except RayError as error:
            self.why = self.why or _why(error)
            raise EOFError("the actor is gone") from error
        return pickle.loads(self.taken.popleft())  # noqa: S301  from an actor of our own

    async def cause(self) -> str:
        """Return why the actor is gone."""
        return self.why or "its work has ended"


@dataclass(frozen=True, slots=True)
class _RayCluster:
    """Starts workers as actors."""

    address: str

    async def check(self, count: int, needs: WorkerNeeds) -> None:
        """Raise ConfigError when the machines of the cluster cannot hold so many workers, however long one waits."""
        nodes: list[dict[str, Any]] = [one["Resources"] for one in ray.nodes() if one["Alive"]]
        room = sum(
            min(int(node.get("CPU", 0) / needs.cpus), int(node.get("memory", 0) / (needs.memory_mib * _MIB)))
            for node in nodes
        )
        if room >= count:
            return
        machines = ", ".join(
            f"{node.get('CPU', 0):g} CPUs and {node.get('memory', 0) / _MIB:,.0f} MiB" for node in nodes
        )
        raise ConfigError(
            f"the Ray cluster has room for {room} of {count} workers: each takes {needs.cpus:g} CPUs and"
            f" {needs.memory_mib:,} MiB of one machine, and the machines have {machines or 'nothing'}; give --workers"
            f" {room or 1} or add machines",
            code="no_room",
        )

    @asynccontextmanager
    async def start(self, needs: WorkerNeeds) -> AsyncGenerator[Started]:
        """Start a worker, and end it with the block. Raises WorkerLost, and NoRoom when there is none."""
        place = placement.placement_group([{"CPU": needs.cpus, "memory": needs.memory_mib * _MIB}])
        actor = None
        try:
            if not await asyncio.to_thread(place.wait, _PLACE_S):
                free = ray.available_resources().get("CPU", 0)
                raise NoRoom(
                    f"the Ray cluster has had no room for a worker for {_PLACE_S:g} s: its machines are in use"
                    f" ({free:g} CPUs are free); give fewer --workers, or wait"
                )
            there = scheduling.PlacementGroupSchedulingStrategy(place)
            options = {"num_cpus": needs.cpus, "memory": needs.memory_mib * _MIB, "max_concurrency": _CONCURRENCY}
            options |= {"scheduling_strategy": there, "max_restarts": 0, "max_task_retries": 0}
            actor = ray.remote(_Actor).options(**options).remote()
            try:
                found = await asyncio.wait_for(actor.version.remote(), needs.start_s)
            except TimeoutError:
                raise NoRoom(
                    f"a worker has its place in the Ray cluster, but has not answered within {needs.start_s:g} s: its"
                    " machine starts Python and imports agentlearn slowly, as with busy cores or a cold disk; give a"
                    " larger --worker-start-s",
                    code="worker_slow",
                ) from None
            except RayError as error:
                raise WorkerLost(_why(error)) from error
            if found != version():
                raise ConfigError(
                    f"the machines of the Ray cluster have agentlearn {found}, and this one has {version()}; install"
                    " the same version everywhere"
                )
            link = _ActorLink(actor, actor.work.remote())
            yield Started(link, link.cause)
        finally:
            with suppress(RayError):
                if actor is not None:
                    ray.kill(actor)
                placement.remove_placement_group(place)


def _why(error: Exception) -> str:
    """Why an actor is gone, in Ray's words and without its advice."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
    place = " ".join(line.strip() for line in str(error).splitlines() if line.startswith(("\tpid:", "\tip:")))
    cause = lines[-1].partition(" Some common causes include")[0] if lines else type(error).__name__
    return f"{cause} ({place})" if place else cause


def _own_modules() -> list[str]:
    """Files and folders of the modules that were imported from the working directory and belong to no package."""
    here, packaged, found = Path.cwd().resolve(), packages_distributions(), dict[str, None]()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or name == "__main__" or name in packaged or not file:
            continue
        path = Path(file).resolve()
        path = path.parent if path.name == "__init__.py" else path
        if path.parent == here:
            found[str(path)] = None
    return list(found)


@asynccontextmanager
async def open_ray_cluster(address: str) -> AsyncGenerator[Cluster]:
    """Connect to a cluster, if this program is not connected yet. Raises ConfigError when that fails.

    address: `HOST:PORT`, `ray://HOST:PORT`, or `auto` for the one of this machine.
    """
    own = not ray.is_initialized()
    if own and (why := await _connected(address)):
        raise ConfigError(
            f"no Ray cluster answers at {address!r} ({why}); start one with `ray start --head`, give its address, and"
            " set RAY_AUTH_TOKEN to its token if it has one"
        )
    try:
        yield _RayCluster(address)
    finally:
        if own:
            ray.shutdown()


async def _connected(address: str) -> str:
    """Connect, and return why that failed; empty when it did not. Ray itself waits for ever for some clusters."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    modules = _own_modules()
    carried = {"py_modules": modules} if modules else None
    answer, loop = asyncio.get_running_loop().create_future(), asyncio.get_running_loop()

    def connect() -> None:
        why = ""
        try:
            ray.init(address, log_to_driver=False, configure_logging=False, runtime_env=carried)
        except Exception as error:  # noqa: BLE001  Ray raises many kinds
            why = next(iter(str(error).splitlines()), "") or type(error).__name__
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(answer.set_result, why)

    threading.Thread(target=connect, name="ray", daemon=True).start()
    try:
        return await asyncio.wait_for(asyncio.shield(answer), _CONNECT_S)
    except TimeoutError:
        return f"it was silent for {_CONNECT_S:g} s"
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray dumps its stack at SIGTERM before it calls ours
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
