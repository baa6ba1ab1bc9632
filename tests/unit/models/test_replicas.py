"""A model with several endpoints: calls spread evenly, failures stay unseen, the journal is as with one endpoint."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelConnectionError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, CallOptions, LearnSettings
from agentlearn.config.endpoint_address import one_model, replicas_of, same_model
from agentlearn.errors import ConfigError, EndpointError
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.models.client import ModelClient
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import FIRST_WAIT_S, Outage, RetryPolicy
from agentlearn.models.replicas import Replica, Replicas, refuse_other_models
from agentlearn.models.service_record import service_notes, service_records
from tests.support.cases import cases
from tests.support.stages import RUN, ListJournal

REFUSED = ModelConnectionError("m", "refused")


class Server:
    """One endpoint. It raises the failures it is given, one for each request, and holds answers while `held` is set."""

    def __init__(self, failures: Sequence[Exception | None] = ()) -> None:
        self.failures = list(failures)
        self.down: Exception | None = None
        self.held: asyncio.Event | None = None
        self.asked: list[str] = []

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = str(messages[0].parts[0].content)  # type: ignore[union-attr]
        self.asked.append(prompt)
        failure = self.down or (self.failures.pop(0) if self.failures else None)
        await asyncio.sleep(0)
        if self.held is not None:
            await self.held.wait()
        if failure is not None:
            raise failure
        return ModelResponse(parts=[TextPart(f"answer to {prompt}")])


class Served:
    """A model at these endpoints. Time passes when `now` is changed."""

    def __init__(self, *servers: Server, attempts: int = 1, concurrency: int = 16) -> None:
        self.servers, self.now, self.journal = servers, 0.0, ListJournal()
        models = [FunctionModel(one.answer) for one in servers]
        self.all = [Replica(f"http://{at}/v1", one, lambda: self.now) for at, one in enumerate(models)]
        self.state = EndpointState(
            Limiter(concurrency, adaptive=False),
            deadline_s=60,
            retry=RetryPolicy(attempts=attempts, base_s=0),
            outage=Outage(limit_s=60),
            replicas=Replicas(self.all) if len(models) > 1 else None,
        )
        self.model, self.context = models[0], CallContext(RUN, self.journal, Budget(BudgetOptions()))

    async def ask(self, name: str, times: int = 1) -> list[ModelResponse]:
        unit = WorkUnit(self.context, "rollout", name, 7)
        client = ModelClient(self.model, self.state, unit)
        prompt = [ModelRequest.user_text_prompt(name)]
        return [await client.request(list(prompt), None, ModelRequestParameters()) for _ in range(times)]

    async def ask_all(self, count: int, times: int = 1) -> None:
        async with asyncio.TaskGroup() as group:
            for one in range(count):
                group.create_task(self.ask(f"unit {one}", times))

    def records(self) -> list[tuple[str, str]]:
        """What the journal has, without times."""
        texts = {one.id: json.loads(one.response)[0]["parts"][0]["content"] for one in self.journal.records}
        return sorted((str(identity), text) for identity, text in texts.items())


@pytest.mark.parametrize("servers", [2, 3])
def test_the_load_is_even_and_a_unit_stays_at_its_endpoint(servers: int) -> None:
    served = Served(*(Server() for _ in range(servers)))
    asyncio.run(served.ask_all(120, times=3))
    counts = [one.answers for one in served.all]
    assert sum(counts) == 360
    assert max(counts) <= 1.2 * 360 / servers
    places = [set(one.asked) for one in served.servers]
    assert sum(map(len, places)) == len(set.union(*places)), "no unit was at two endpoints"


faults = st.sampled_from(
    [None, REFUSED, TimeoutError(), *(ModelHTTPError(status, "m") for status in (401, 404, 500, 502, 503))]
)


@settings(max_examples=30, deadline=None)
@given(st.lists(faults, max_size=30))
def test_one_good_endpoint_answers_every_call_as_if_it_were_alone(failures: list[Exception | None]) -> None:
    alone, several = Served(Server()), Served(Server(failures), Server())

    async def main() -> None:
        await alone.ask_all(20, times=2)
        await several.ask_all(20, times=2)

    asyncio.run(main())
    assert several.records() == alone.records()
    assert several.state.failures.total() == several.all[0].failures.total()
    assert several.all[1].failures.total() == 0


def test_an_endpoint_that_stops_gets_one_request_from_time_to_time_and_comes_back() -> None:
    first, second = Server(), Server()
    served = Served(first, second)

    async def main() -> None:
        await served.ask_all(8)
        first.down, before = REFUSED, len(first.asked)
        await served.ask_all(40)
        assert len(first.asked) - before <= 16, "those that were in flight"
        served.now += FIRST_WAIT_S / 2
        before = len(first.asked)
        await served.ask_all(40)
        assert len(first.asked) == before, "it is set aside"
        served.now += FIRST_WAIT_S
        await served.ask_all(40)
        assert len(first.asked) == before + 1, "one request tries it again"
        served.now += 2 * FIRST_WAIT_S
        first.down = None
        await served.ask_all(40)
        assert len(first.asked) > before + 10

    asyncio.run(main())
    (record,) = service_records([served.state])
    assert [one.set_asides for one in record.endpoints] == [1, 0]
    (note,) = service_notes([record])
    assert "had 2 endpoints: http://0/v1 answered" in note
    assert "(connection 8), set aside once; http://1/v1 answered" in note


def test_an_endpoint_that_never_answers_delays_no_call_but_the_first_ones() -> None:
    silent, well = Server(), Server()
    served = Served(silent, well)

    async def main() -> None:
        silent.held = asyncio.Event()
        first = asyncio.create_task(served.ask_all(16))
        while len(served.journal.records) < 8:
            await asyncio.sleep(0)
        assert len(silent.asked) == 8
        served.now += 10.0
        await first
        assert len(well.asked) == 16, "what waited was asked elsewhere"
        for _ in range(5):
            served.now += 60.0
            await served.ask_all(40)
        assert [one for one in silent.asked if one.startswith("unit")] == silent.asked[:8]
        assert len(silent.asked) == 9, "one small request tries it again"
        silent.held.set()
        while not served.all[0].ready:
            await asyncio.sleep(0)
        await served.ask_all(40)
        await served.state.replicas.close()  # type: ignore[union-attr]

    asyncio.run(main())
    assert served.all[0].failures == {"silent": 8}
    assert served.all[0].answers > 10


def test_a_busy_endpoint_that_answers_others_is_not_taken_for_silent() -> None:
    one = Replica("http://0/v1", FunctionModel(Server().answer), lambda: now)
    now = 0.0
    with one.request():
        now = 50.0
        with one.request():
            pass
        now = 52.0
        assert one.silent_s(0.0) == 2.0


def test_a_call_in_flight_at_an_endpoint_that_is_set_aside_may_end() -> None:
    first, second = Server(), Server()
    served = Served(first, second)

    async def main() -> None:
        first.held = asyncio.Event()
        slow = asyncio.create_task(served.ask("slow"))
        while not first.asked:
            await asyncio.sleep(0)
        served.now += 1.0
        served.all[0].failed("connection", served.now)
        first.held.set()
        await slow
        assert first.asked == ["slow"]
        assert not served.all[0].ready, "an answer to an older request does not bring it back"
        await served.ask_all(4)

    asyncio.run(main())
    assert (first.asked, len(second.asked)) == (["slow"], 4)


def test_a_request_that_no_endpoint_would_take_is_sent_to_one() -> None:
    for failure in (ModelHTTPError(400, "m"), ModelHTTPError(422, "m"), ModelHTTPError(413, "m")):
        served = Served(Server([failure]), Server())
        with pytest.raises(EndpointError):
            asyncio.run(served.ask("one"))
        assert [len(one.asked) for one in served.servers] == [1, 0]
        assert all(one.ready for one in served.all)


def test_what_one_request_may_have_caused_sets_no_endpoint_aside_at_once() -> None:
    for failure in (ModelHTTPError(500, "m"), UnexpectedModelBehavior("no choices")):
        served = Served(Server([failure]), Server())
        asyncio.run(served.ask("one"))
        assert [len(one.asked) for one in served.servers] == [1, 1]
        assert all(one.ready for one in served.all)
        served.servers[0].down = failure
        asyncio.run(served.ask_all(20))
        assert not served.all[0].ready


def test_when_all_endpoints_are_silent_the_calls_wait_for_any_of_them() -> None:
    first, second = Server(), Server()
    served = Served(first, second, attempts=2)

    async def main() -> None:
        await served.ask("before")
        first.down = second.down = REFUSED
        waiting = asyncio.create_task(served.ask_all(20))
        while not served.state.outage.down:
            await asyncio.sleep(0)
        second.down = None
        await waiting

    asyncio.run(main())
    assert served.state.outage.down is False
    assert len(served.journal.records) == 21


def test_names_of_endpoints(subtests: pytest.Subtests) -> None:
    for case in cases(__file__, "names"):
        with subtests.test(case["given"]):
            if "error" in case:
                with pytest.raises(ConfigError) as caught:
                    one_model(case["given"])
                assert case["error"] in caught.value.message
            else:
                assert one_model(case["given"]) == (case["name"], tuple(case["endpoints"]))
    assert replicas_of("vllm:Org/Model?replicas=3") == ("vllm:Org/Model", 3)
    assert same_model("http://b/v1#m", "http://a/v1#m")
    assert not same_model("http://b/v1#n", "http://a/v1#m")
    assert not same_model("openai:m", "http://a/v1#m")


def test_settings_keep_several_endpoints_under_one_name() -> None:
    names = ["http://a/v1#m", "http://user:secret@b/v1#m"]
    settings = LearnSettings(domain="math", model=names, reflector="vllm:big?replicas=2")  # type: ignore[arg-type]
    assert (settings.model, settings.reflector) == ("http://a/v1#m", "vllm:big")
    assert settings.served_at == {
        "http://a/v1#m": ("http://a/v1#m", "http://b/v1#m"),
        "vllm:big": ("vllm:big?replicas=2",),
    }
    assert "secret" not in settings.resolved()
    again = LearnSettings.model_validate_json(settings.resolved())
    assert again.endpoints == ("http://a/v1#m", "http://b/v1#m", "vllm:big?replicas=2")
    assert "served_at" not in CallOptions().model_dump()


def cards(**card: object) -> bytes:
    return json.dumps({"data": [{"id": "m", **card}]}).encode()


def test_endpoints_that_say_that_they_serve_other_models_are_refused() -> None:
    same = {"http://a": cards(root="/x/m", max_model_len=4096), "http://b": cards(root="/y/m", max_model_len=4096)}
    refuse_other_models(same, "m")
    refuse_other_models({"http://a": cards(root="m"), "http://b": b"<html>", "http://c": b"[]"}, "m")
    for other, words in (
        (cards(root="/x/n", max_model_len=4096), "root is 'm' and 'n'"),
        (cards(root="/x/m", max_model_len=2048), "max_model_len is 4096 and 2048"),
        (b'{"data": [{"id": "n"}]}', "the model is 'm' and 'n'"),
    ):
        with pytest.raises(ConfigError, match=f"'http://a' and 'http://b' serve different models: {words}"):
            refuse_other_models({**same, "http://b": other}, "m")
    vocabularies = {f"http://{at}": cards(meta={"n_vocab": size}) for at, size in (("a", 32000), ("b", 128256))}
    with pytest.raises(ConfigError, match="n_vocab is 32000 and 128256"):
        refuse_other_models(vocabularies, "m")
