"""A language model over HTTP: OpenAI-compatible chat completions with exact tokens."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.serving.chat_request import CallInMessage, Message, ParsedAnswer
from agentlearn.serving.chat_service import ChatService, Sampled, Sampling, TokenCache, WrittenReplies
from agentlearn.serving.tool_calls import parse_calls
from tests.support.toy_chat import END, PAIRS, ScriptedEngine, ToyFormat, spelled

Json = dict[str, Any]
Client = httpx2.AsyncClient

CALL = '<tool_call>\n{"name": "run", "arguments": {"code":  "1+1"}}\n</tool_call>'
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}


def saying(text: str, **more: Any) -> ScriptedEngine:
    return ScriptedEngine(lambda prompt, sampling: spelled(text), **more)


@asynccontextmanager
async def serving(engine: Any, chat: ToyFormat | None = None) -> AsyncGenerator[Client]:
    service = ChatService(engine, chat or ToyFormat(), model="toy")
    async with service.serve() as url, Client(base_url=url, timeout=60) as client:
        yield client


def body(*texts: str, **more: Any) -> Json:
    return {"model": "toy", "messages": [{"role": "user", "content": text} for text in texts], "seed": 4, **more}


def ask(engine: Any, sent: Json, path: str = "/chat/completions") -> httpx2.Response:
    async def once() -> httpx2.Response:
        async with serving(engine) as client:
            return await client.post(path, json=sent)

    return asyncio.run(once())


def test_an_answer_has_what_clients_read() -> None:
    answer = ask(saying("then"), body("hi")).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "toy"
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "then", "refusal": None}
    assert (choice["finish_reason"], choice["logprobs"]) == ("stop", None)
    prompt = len(ToyFormat().encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"))
    assert answer["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 5,
        "total_tokens": prompt + 5,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in choice


def test_the_tokens_are_the_sampler_s_own() -> None:
    engine = saying("then")
    answer = ask(engine, body("hi", return_token_ids=True, logprobs=True)).json()
    (choice,) = answer["choices"]
    ((prompt, _),) = engine.asked
    assert tuple(answer["prompt_token_ids"]) == prompt
    assert tuple(choice["token_ids"]) == (*spelled("then"), END)
    assert [one["logprob"] for one in choice["logprobs"]["content"]] == [-(one % 7) / 8 for one in choice["token_ids"]]
    assert [one["token"] for one in choice["logprobs"]["content"]] == ["t", "h", "e", "n", "<|im_end|>"]


def test_an_answer_cut_at_its_limit_says_so() -> None:
    choice = ask(saying("then"), body("hi", max_completion_tokens=2)).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("th", "length")


def test_tools_are_shown_called_and_answered() -> None:
    engine = saying(f"I count.\n{CALL}\n{CALL}")
    answer = ask(engine, body("hi", tools=[TOOL])).json()["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] == "I count."
    one, two = answer["message"]["tool_calls"]
    assert one["function"] == two["function"] == {"name": "run", "arguments": '{"code":  "1+1"}'}
    assert one["id"] != two["id"]
    assert '"name": "run"' in ToyFormat().decode(engine.asked[0][0])


@given(st.dictionaries(st.text(max_size=5), st.recursive(st.text() | st.integers(), st.lists, max_leaves=4)))
def test_arguments_come_out_as_they_were_written(arguments: Json) -> None:
    for written in (json.dumps(arguments), json.dumps(arguments, indent=1, ensure_ascii=False)):
        text = f'<tool_call>{{"name": "run", "arguments": {written}}}</tool_call>'
        if "tool_call>" not in written:
            assert parse_calls(text) == ParsedAnswer("", (("run", written),))


def test_what_it_cannot_do_is_refused_in_words(subtests: pytest.Subtests) -> None:
    unsupported: list[Json] = [
        {"response_format": {"type": "json_object"}},
        {"stop": ["\n"]},
        {"frequency_penalty": 0.5},
    ]
    wrong: list[Json] = [
        *({"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_k": -2}, {"min_p": 1.5}),
        *({"max_tokens": -5}, {"seed": -1}, {"seed": "x"}),
    ]
    long: list[Json] = [{"messages": [{"role": "user", "content": "x" * 5_000}]}]
    cases = {"unsupported_parameter": unsupported, "invalid_value": wrong, "context_length_exceeded": long}

    async def answers() -> list[tuple[Json, str, httpx2.Response]]:
        async with serving(saying("x")) as client:
            return [
                (more, code, await client.post("/chat/completions", content=json.dumps({**body("hi"), **more})))
                for code, several in cases.items()
                for more in several
            ]

    for more, code, answer in asyncio.run(answers()):
        ((name, value),) = more.items()
        words = {
            "unsupported_parameter": f"'{name}' is not supported",
            "invalid_value": f"Invalid value for '{name}': {value!r}",
        }
        with subtests.test(repr(more)[:60]):
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
            assert words.get(code, "4096 tokens") in answer.json()["error"]["message"]


def test_it_says_what_it_serves() -> None:
    async def look() -> tuple[Json, Json, int]:
        async with serving(saying("x", context=77)) as client:
            models, health = await client.get("/models"), await client.get("../health")
            return models.json(), health.json(), (await client.get("/nothing")).status_code

    models, health, status = asyncio.run(look())
    assert [(one["id"], one["max_model_len"]) for one in models["data"]] == [("toy", 77)]
    assert health == {"status": "ok", "model": "toy"}
    assert status == 404


def test_a_stream_carries_the_same_answer() -> None:
    engine = saying(f"I count.\n{CALL}\n{CALL}")
    sent = body("hi", tools=[TOOL], return_token_ids=True, logprobs=True)
    whole = ask(engine, sent).json()
    streamed = ask(engine, {**sent, "stream": True, "stream_options": {"include_usage": True}}).text
    lines = [line.removeprefix("data: ") for line in streamed.splitlines() if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "I count."
    calls: dict[int, str] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", []):
            calls[call["index"]] = calls.get(call["index"], "") + call["function"]["arguments"]
    assert calls == {0: '{"code":  "1+1"}', 1: '{"code":  "1+1"}'}
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    last = chunks[-2]["choices"][0]
    assert last["token_ids"] == whole["choices"][0]["token_ids"]
    assert last["logprobs"] == whole["choices"][0]["logprobs"]
    assert chunks[-1]["usage"] == whole["usage"]


def test_requests_without_a_seed_differ_and_can_be_repeated() -> None:
    def seeds() -> list[int]:
        engine = saying("x")
        sent = {key: value for key, value in body("hi").items() if key != "seed"}

        async def twice() -> None:
            async with serving(engine) as client:
                for _ in range(2):
                    await client.post("/chat/completions", json=sent)

        asyncio.run(twice())
        return [sampling.seed for _, sampling in engine.asked]

    one, two = seeds()
    assert one != two
    assert seeds() == [one, two]


def test_sampling_stops_when_the_client_disconnects() -> None:
    class Endless(ScriptedEngine):
        async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
            self.asked.append((tuple(prompt), sampling))
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
            raise AssertionError

    engine = Endless(lambda prompt, sampling: ())

    async def hang_up() -> None:
        async with serving(engine) as client:
            request = asyncio.create_task(client.post("/chat/completions", json=body("hi")))
            async with asyncio.timeout(60):
                while not engine.asked:
                    await asyncio.sleep(0.02)
                request.cancel()
                while not engine.cancelled:
                    await asyncio.sleep(0.02)
            await asyncio.wait({request})

    asyncio.run(hang_up())
    assert engine.cancelled == len(engine.asked) == 1


def converse(engine: ScriptedEngine, chat: ToyFormat, turns: int, *, calls: bool) -> list[Json]:
    """Answers of a conversation in which each answer is sent back, as pydantic-ai would."""

    async def all_turns() -> list[Json]:
        messages: list[Json] = [{"role": "user", "content": "the ban in 1000"}]
        answers: list[Json] = []
        async with serving(engine, chat) as client:
            for _ in range(turns):
                sent = {"model": "toy", "messages": messages, "seed": 1, "return_token_ids": True, "tools": [TOOL]}
                answers.append((await client.post("/chat/completions", json=sent)).json())
                said = answers[-1]["choices"][0]["message"]
                back = {"role": "assistant", "content": said["content"], "tool_calls": said.get("tool_calls", [])}
                results = [
                    {"role": "tool", "tool_call_id": call["id"], "content": "then 2"} for call in back["tool_calls"]
                ]
                messages = [*messages, back, *(results if calls else [{"role": "user", "content": "go on then"}])]
        return answers

    return asyncio.run(all_turns())


def ids_of(answer: Json) -> list[int]:
    return [*answer["prompt_token_ids"], *answer["choices"][0]["token_ids"]]


@given(st.lists(st.sampled_from([*PAIRS, *"thean 01\n"]), min_size=1, max_size=12).map("".join))
def test_turns_of_words_extend_each_other_token_by_token(text: str) -> None:
    first, second = converse(saying(text), ToyFormat(), 2, calls=False)
    assert second["prompt_token_ids"][: len(ids_of(first))] == ids_of(first)


def test_an_answer_that_was_cut_goes_on_from_its_own_tokens() -> None:
    engine, chat = saying("then the than"), ToyFormat()

    async def both() -> list[Json]:
        async with serving(engine, chat) as client:
            sent = body("hi", max_tokens=6, return_token_ids=True)
            first = (await client.post("/chat/completions", json=sent)).json()
            said = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
            sent = {**sent, "messages": [*sent["messages"], said, {"role": "user", "content": "on"}]}
            return [first, (await client.post("/chat/completions", json=sent)).json()]

    first, second = asyncio.run(both())
    assert second["prompt_token_ids"][: len(ids_of(first))] == ids_of(first)


def test_answers_of_equal_text_keep_their_own_tokens() -> None:
    chat = ToyFormat()
    cache = TokenCache(["<|im_end|>"], chat.encode)
    apart, joined = [*spelled("then"), END], [*chat.encode("then"), END]
    assert apart != joined
    cache.store("then<|im_end|>", apart, ["call_1"])
    cache.store("then<|im_end|>", joined, ["call_2"])
    assert cache.ids("then<|im_end|>x", ["call_1", "call_7"]) == [*apart, *spelled("x")]
    assert cache.ids("then<|im_end|>x", ["call_2"]) == [*joined, *spelled("x")]


def test_a_message_that_the_client_changed_is_not_restored() -> None:
    replies = WrittenReplies(limit=2)
    replies.store(f"so\n{CALL}", ParsedAnswer("so", (("run", "{}"),)), ["call_1"])
    same = Message("assistant", "so", (CallInMessage("call_1", "run", "{}"),))
    changed = replace(same, text="no")
    (restored, kept, user) = replies.restored([same, changed, Message("user", "so")])
    (spaced,) = replies.restored([replace(same, calls=(CallInMessage("call_1", "run", "{ }"),))])
    assert spaced.verbatim == restored.verbatim
    (other,) = replies.restored([replace(same, calls=(CallInMessage("call_1", "run", '{"a": 1}'),))])
    assert other.verbatim == ""
    assert restored.verbatim == f"so\n{CALL}"
    assert (kept.verbatim, user.verbatim) == ("", "")
    for at in range(2):
        replies.store(f"w{at}", ParsedAnswer(f"w{at}"), [])
    assert replies.restored([same]) == (same,)
