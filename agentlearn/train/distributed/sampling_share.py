"""The share of sampling in a process that does not lead: it answers the leader's requests with its own engine."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled
from agentlearn.train.distributed.links import FollowerLinks
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.engine.torch_engine import TorchEngine
from agentlearn.train.serving.local import generation_ends, torch_engine
from agentlearn.train.weights.loading import LoadedModel


@contextmanager
def share_in_sampling(
    loaded: LoadedModel, links: FollowerLinks, *, wanted: bool
) -> Generator[Callable[[], AbstractContextManager[None]]]:
    """Answer the leader's sampling requests in other threads while the block runs, if that is wanted.

    Yields the context in which nothing is sampled, so that weights may change.
    """
    if not wanted:
        yield nullcontext
        return
    network: Any = loaded.model
    ends = TemplateFormat(loaded.tokenizer, stop_ids=generation_ends(network.generation_config)).stop_ids
    engine = torch_engine(network, ends)
    with engine.running():
        share = _Share(engine, links)
        threading.Thread(target=lambda: asyncio.run(share.serve()), name="agentlearn-share", daemon=True).start()
        yield engine.paused


class _Share:
    """Answers requests until the connection closes."""

    def __init__(self, engine: TorchEngine, links: FollowerLinks) -> None:
        self._engine = engine
        self._connection = links.requests
        self._rounds = ExitStack()
        self._running: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as answers:
            while (message := await asyncio.to_thread(self._next)) is not None:
                match message:
                    case ("sample", number, asked, together):
                        task = answers.create_task(self._answer(number, asked, together=together))
                        self._running[number] = task
                    case ("cancel", number) if number in self._running:
                        self._running[number].cancel()
                    case ("rounds", on):
                        self._rounds.close()
                        if on:
                            self._rounds.enter_context(self._engine.rounds(0, at_once=0))
                    case _:
                        pass
            for task in self._running.values():
                task.cancel()
        self._rounds.close()

    def _next(self) -> Any:
        """The next message; None when the leader has ended."""
        try:
            return pickle.loads(self._connection.recv_bytes())  # noqa: S301  from our own leader
        except (EOFError, OSError):
            return None

    async def _answer(self, number: int, asked: Any, *, together: bool) -> None:
        try:
            answers: list[Sampled | EndpointError] = (
                await self._engine.sample_round(asked)
                if together
                else [await self._engine.sample(prompt, sampling) for prompt, sampling in asked]
            )
        except EndpointError as error:
            answers = [error] * len(asked)
        finally:
            self._running.pop(number, None)
        with suppress(OSError):
            self._connection.send_bytes(pickle.dumps((number, answers)))
