"""One engine over those of all processes: each samples a share of the requests with its own weights.

The turns of a conversation go to the same process, which has computed their beginning already. In rounds, the place of
every request follows from the requests of the round alone, so the same run with as many processes gives the same bits.
"""

import asyncio
import hashlib
import itertools
import pickle
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from agentlearn.errors import EndpointError
from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.train.distributed.torchrun import FollowerLinks, LeaderLinks
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.engine.torch_engine import AskedAnswer, RoundBarrier, TorchEngine
from agentlearn.train.weights.loading import LoadedModel, generation_ends

KNOWN_CONVERSATIONS = 4096
"""Number of conversations whose process is remembered."""


def spread_over(links: LeaderLinks | None) -> Callable[[TorchEngine], AbstractContextManager[Any]]:
    """Return a function that opens an engine over this process's own and those of the linked processes."""
    if links is None:
        return nullcontext
    others = [RemoteEngine(one) for one in links.requests]
    return lambda own: nullcontext(SpreadEngine(own, others))


class RemoteEngine:
    """The engine of another process, which `share_in_sampling` answers for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[list[Sampled | EndpointError]]] = {}
        self._gone = False
        threading.Thread(target=self._receive, name="agentlearn-answers", daemon=True).start()

    async def ask(self, asked: Sequence[AskedAnswer], *, together: bool) -> list[Sampled | EndpointError]:
        """Sample an answer to each prompt; returns each answer or its error. together: as one round."""
        number, future = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            if self._gone:
                raise _gone()
            self._send(("sample", number, [(list(prompt), sampling) for prompt, sampling in asked], together))
            return await future
        except asyncio.CancelledError:
            with suppress(EndpointError):
                self._send(("cancel", number))
            raise
        finally:
            self._asked.pop(number, None)

    def set_rounds(self, *, on: bool) -> None:
        """Begin or end sampling in rounds."""
        with suppress(EndpointError):  # the next request fails
            self._send(("rounds", on))

    def _send(self, message: tuple[Any, ...]) -> None:
        try:
            with self._sending:
                self._connection.send_bytes(pickle.dumps(message))
        except OSError as error:
            raise _gone() from error

    def _receive(self) -> None:
        while True:
            try:
                number, answers = pickle.loads(self._connection.recv_bytes())  # noqa: S301  from our own process
            except (EOFError, OSError):
                break
            self._deliver(number, answers)
        self._gone = True
        for number in list(self._asked):
            self._deliver(number, _gone())

    def _deliver(self, number: int, answers: "list[Sampled | EndpointError] | EndpointError") -> None:
        future = self._asked.get(number)
        if future is None:
            return

        def set_result() -> None:
            if future.done():
                return
            if isinstance(answers, EndpointError):
                future.set_exception(answers)
            else:
                future.set_result(answers)

        with suppress(RuntimeError):  # its event loop has closed
            future.get_loop().call_soon_threadsafe(set_result)


class SpreadEngine:
    """An engine that gives each request to one of several engines. Used like a `TorchEngine`."""

    def __init__(self, own: TorchEngine, others: Sequence[RemoteEngine]) -> None:
        self._own = own
        self._others = others
        self._places = ConversationPlaces(1 + len(others))
        self._rounds: _SpreadRounds | None = None

    @property
    def context(self) -> int:
        """Largest number of tokens of prompt and answer together."""
        return self._own.context

    def paused(self) -> AbstractContextManager[None]:
        """Inside the block this process samples nothing. The others pause by themselves when their weights change."""
        return self._own.paused()

    @contextmanager
    def rounds(self, conversations: int, *, at_once: int) -> Generator[RoundBarrier]:
        """Inside the block, answer requests in rounds, as `TorchEngine.rounds` does."""
        self._places.forget()
        rounds = _SpreadRounds(conversations, at_once, self._sample_round)
        for other in self._others:
            other.set_rounds(on=True)
        with self._own.rounds(0, at_once=0):
            self._rounds = rounds
            try:
                yield rounds.barrier
            finally:
                self._rounds = None
        for other in self._others:
            other.set_rounds(on=False)

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. Raises EndpointError when the model fails, or when its process has ended."""
        if (rounds := self._rounds) is not None:
            return await rounds.sample(prompt, sampling)
        with self._places.taken(prompt) as place:
            if place == 0:
                answer = await self._own.sample(prompt, sampling)
            else:
                (answer,) = await self._others[place - 1].ask([(prompt, sampling)], together=False)
            if isinstance(answer, EndpointError):
                raise answer
        self._places.remember([*prompt, *answer.ids], place)
        return answer

    async def _sample_round(self, asked: Sequence[AskedAnswer]) -> list[Sampled | EndpointError]:
        """Sample one round, given in an order that does not depend on timing."""
        shares: dict[int, list[int]] = {}
        for number, (prompt, _) in enumerate(asked):
            loads = Counter({place: len(share) for place, share in shares.items()})
            shares.setdefault(self._places.place_of(prompt, loads), []).append(number)
        answers: dict[int, Sampled | EndpointError] = {}

        async def sample_share(place: int, numbers: Sequence[int]) -> None:
            share = [asked[number] for number in numbers]
            try:
                made = (
                    await self._own.sample_round(share)
                    if place == 0
                    else await self._others[place - 1].ask(share, together=True)
                )
            except EndpointError as error:
                made = [error] * len(numbers)
            answers.update(zip(numbers, made, strict=True))

        async with asyncio.TaskGroup() as sampling:
            for place, numbers in shares.items():
                sampling.create_task(sample_share(place, numbers))
        for place, numbers in sorted(shares.items()):
            for number in numbers:
                if isinstance(answer := answers[number], Sampled):
                    self._places.remember([*asked[number][0], *answer.ids], place)
        return [answers[number] for number in range(len(asked))]


class ConversationPlaces:
    """Which of several engines has sampled the last answer of each conversation. Not thread-safe."""

    def __init__(self, places: int) -> None:
        self._loads = Counter(dict.fromkeys(range(places), 0))
        self._known: OrderedDict[tuple[int, bytes], int] = OrderedDict()
        """The place by number and hash of the tokens so far, oldest first."""
        self._lengths = Counter[int]()

    def forget(self) -> None:
        """Forget all conversations."""
        self._known.clear()
        self._lengths.clear()

    def remember(self, ids: Sequence[int], place: int) -> None:
        """Remember where the conversation with these tokens so far was sampled."""
        key = (len(ids), _digests(ids, [len(ids)])[0])
        if key not in self._known:
            self._lengths[len(ids)] += 1
        self._known[key] = place
        self._known.move_to_end(key)
        while len(self._known) > KNOWN_CONVERSATIONS:
            (length, _), _ = self._known.popitem(last=False)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def place_of(self, prompt: Sequence[int], loads: Counter[int] | None = None) -> int:
        """The place of the conversation that the prompt continues; of a new one, the place with the smallest load.

        loads: number of requests by place; None: those inside `taken`.
        """
        lengths = sorted(length for length in self._lengths if length < len(prompt))
        for length, digest in zip(reversed(lengths), reversed(_digests(prompt, lengths)), strict=True):
            if (place := self._known.get((length, digest))) is not None:
                return place
        loads = self._loads if loads is None else loads
        return min(self._loads, key=lambda place: (loads[place], place))

    @contextmanager
    def taken(self, prompt: Sequence[int]) -> Generator[int]:
        """Count a request at its place while the block runs; yields the place."""
        place = self.place_of(prompt)
        self._loads[place] += 1
        try:
            yield place
        finally:
            self._loads[place] -= 1


def _digests(ids: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
    """Hashes of the first tokens, for each of these numbers of tokens, which rise."""
    whole = np.asarray(ids, dtype=np.int64).tobytes()
    digest, done, found = hashlib.blake2b(digest_size=16), 0, list[bytes]()
    for length in lengths:
        digest.update(whole[8 * done : 8 * length])
        done = length
        found.append(digest.copy().digest())
    return found


@dataclass(slots=True, eq=False)
class _WaitingRequest:
    prompt: Sequence[int]
    sampling: Sampling
    answer: "asyncio.Future[Sampled]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class _SpreadRounds:
    """Conversations that are sampled in rounds over several engines."""

    def __init__(
        self,
        conversations: int,
        at_once: int,
        sample_round: Callable[[Sequence[AskedAnswer]], "asyncio.Future[Any] | Any"],
    ) -> None:
        self.barrier = RoundBarrier(conversations, at_once, self._recheck)
        self._sample_round = sample_round
        self._waiting: list[_WaitingRequest] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._round: asyncio.Task[None] | None = None

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Wait for the next round and sample in it."""
        self._loop = asyncio.get_running_loop()
        request = _WaitingRequest(prompt, sampling)
        self._waiting.append(request)
        self._start()
        try:
            return await request.answer
        finally:
            if request in self._waiting:
                self._waiting.remove(request)

    def _recheck(self) -> None:
        """Start the next round if it waits for no more requests. Called from any thread."""
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # closed
                loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        """Start the next round when all its requests are here."""
        if self._round is not None or not self._waiting or len(self._waiting) < self.barrier.expected:
            return
        requests = sorted(self._waiting, key=lambda one: (one.sampling.seed, list(one.prompt)))
        self._waiting = []
        self._round = asyncio.get_running_loop().create_task(self._run(requests))

    async def _run(self, requests: Sequence[_WaitingRequest]) -> None:
        outcomes: list[Sampled | EndpointError]
        try:
            outcomes = await self._sample_round([(one.prompt, one.sampling) for one in requests])
        except BaseException:
            for request in requests:
                request.answer.cancel()
            raise
        finally:
            self._round = None
        for request, outcome in zip(requests, outcomes, strict=True):
            if request.answer.done():
                continue
            if isinstance(outcome, Sampled):
                request.answer.set_result(outcome)
            else:
                request.answer.set_exception(outcome)
        self._start()


def _gone() -> EndpointError:
    return EndpointError("a process that samples has ended", code="engine_failed")


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
    engine = TorchEngine.of(network, ends, bf16=loaded.bf16)
    serving = _answer_requests(engine, links.requests)
    with engine.running():
        threading.Thread(target=lambda: asyncio.run(serving), name="agentlearn-share", daemon=True).start()
        yield engine.paused


async def _answer_requests(engine: TorchEngine, connection: Connection) -> None:
    """Answer the leader's requests until the connection closes."""
    running: dict[int, asyncio.Task[None]] = {}

    async def answer(number: int, asked: Any, *, together: bool) -> None:
        try:
            answers: list[Sampled | EndpointError] = (
                await engine.sample_round(asked)
                if together
                else [await engine.sample(prompt, sampling) for prompt, sampling in asked]
            )
        except EndpointError as error:
            answers = [error] * len(asked)
        finally:
            running.pop(number, None)
        with suppress(OSError):
            connection.send_bytes(pickle.dumps((number, answers)))

    with ExitStack() as rounds:
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    sent = await asyncio.to_thread(connection.recv_bytes)
                except (EOFError, OSError):  # the leader has ended
                    break
                match pickle.loads(sent):  # noqa: S301  from our own leader
                    case ("sample", int(number), asked, together):
                        running[number] = tasks.create_task(answer(number, asked, together=bool(together)))
                    case ("cancel", int(number)) if number in running:
                        running[number].cancel()
                    case ("rounds", on):
                        rounds.close()
                        if on:
                            rounds.enter_context(engine.rounds(0, at_once=0))
                    case _:
                        pass
            for task in running.values():
                task.cancel()
