"""Recorded replies of real services, from the test cassettes in a clone of pydantic-ai, served on loopback and read.

Each reply is read twice: by the service's own client in pydantic-ai, and by ours. Nothing of the clone is copied.
As an address, `http://…#model`, it is the first reply to `solve`; any later call gets a short answer.
"""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn import solve
from agentlearn.config import BudgetOptions, CallOptions
from agentlearn.doctor.model_probe import MemoryJournal
from agentlearn.errors import AgentlearnError, EndpointError
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.price import cost_usd
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.ids import new_run_id
from agentlearn.types.trajectory import ModelTurn

CHAT = "chat/completions"
HOSTS = {
    "api.openai.com": "openai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "openrouter.ai": "openrouter",
    "api.cerebras.ai": "cerebras",
    "router.huggingface.co": "huggingface",
    "api.z.ai": "zai",
    "myorg-myaccount.snowflakecomputing.com": "snowflake",
    "api.deepseek.com": "deepseek",
    "api.inference.crusoecloud.com": "crusoe",
    "ollama.com": "ollama",
    "us.inference.heroku.com": "heroku",
    "api.anthropic.com": "anthropic",
    "api.cohere.com": "cohere",
    "generativelanguage.googleapis.com": "google",
    "aiplatform.googleapis.com": "google",
    "bedrock-runtime.us-east-1.amazonaws.com": "bedrock",
}
"""The service behind each host; of other hosts, only chat completions are read."""
_FORMS = {
    CHAT: "",
    "responses": " responses",
    "v1/messages": " messages",
    "generateContent": " generateContent",
    "converse": " converse",
    "v2/chat": " chat",
}
"""What follows the name of a service in the table, by how the path of a request ends."""
_ASKED = ModelRequest.user_text_prompt("x")
_SHORT_ANSWER = (
    b'{"choices": [{"message": {"role": "assistant", "content": "\\\\boxed{1}"}, "finish_reason": "stop"}],'
    b' "usage": {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0}}'
)


class Exchange(NamedTuple):
    """One recorded reply."""

    service: str
    form: str
    """How the path of the request ends; a key of `_FORMS`."""
    file: str
    model: str
    body: dict[str, Any]
    limit: int
    """Limit on the output tokens of the request."""

    @property
    def label(self) -> str:
        """Name of the service and of its API."""
        return f"{self.service}{_FORMS[self.form]}"


class Read(NamedTuple):
    """What a client made of a reply."""

    text: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each tool call."""
    tokens: tuple[int, int]
    """Input and output tokens."""
    cost: float | None = None
    unfinished: bool = False
    """Whether the service says that a filter, an error or a limit ended the reply."""


@dataclass
class Table:
    """How many replies of each service were read, and what went wrong."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    failures: list[str] = field(default_factory=list[str])

    def count(self, label: str, *what: str) -> None:
        """Count a reply under each of these words."""
        self.counts.setdefault(label, Counter()).update(what)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table."""
        yield f"{'service':32} {'read':>9} {'same':>9} {'usage':>9} {'cost':>7}   not read by its own client"
        for label, one in sorted(self.counts.items(), key=lambda pair: -pair[1]["total"]):
            if not one["total"]:
                continue
            pairs = [f"{one[word]}/{one[of]}" for word, of in (("read", "total"), ("same", "total"))]
            pairs += [f"{one['usage']}/{one['with usage']}", f"{one['cost']}/{one['with cost']}"]
            yield f"{label:32} {pairs[0]:>9} {pairs[1]:>9} {pairs[2]:>9} {pairs[3]:>7}   {one['odd'] or ''}"


def exchanges(root: Path) -> Iterator[Exchange]:
    """Yield the whole (not streamed) replies with status 200 to chat requests in the cassettes below a folder."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted(root.rglob("cassettes/**/*.yaml")):
        recorded: Any = yaml.load(file.read_text(encoding="utf-8"), loader)
        for one in recorded.get("interactions", ()) if isinstance(recorded, dict) else ():
            if "request" in one and (exchange := _exchange(one, str(file.relative_to(root)))):
                yield exchange


def _exchange(one: dict[str, Any], file: str) -> Exchange | None:
    request, response = one["request"], one["response"]
    url = urlsplit(request["uri"])
    service = HOSTS.get(url.hostname or "", url.hostname or "")
    form = next((form for form in _FORMS if url.path.endswith(f"/{form}") or url.path.endswith(f":{form}")), None)
    known = form == CHAT or url.hostname in HOSTS
    if request["method"] != "POST" or form is None or not known or response["status"]["code"] != 200:
        return None
    body = _json(response)
    if (
        body is None
        or (form == "responses" and body.get("status") != "completed")
        or (form == CHAT and not body.get("choices"))
    ):
        return None
    asked = _json(request) or {}
    model = asked.get("model") or url.path.rpartition("/model")[2].lstrip("s/").rpartition("/")[0] or "a-model"
    return Exchange(service, form, file, str(model), body, _limit_of(asked))


def _limit_of(asked: dict[str, Any]) -> int:
    """Return the limit on output tokens of a request; 4,000 without one, since some clients then ask for a stream."""
    inner = (asked.get("generationConfig") or {}, asked.get("inferenceConfig") or {})
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
    limits = (fields.get(name) for fields in (asked, *inner) for name in names)
    return next((limit for limit in limits if isinstance(limit, int)), 4_000)


def _json(message: dict[str, Any]) -> dict[str, Any] | None:
    found = message.get("parsed_body")
    if found is None:
        text = message.get("body")
        text = text.get("string") if isinstance(text, dict) else text
        try:
            found = json.loads(text or "")
        except (ValueError, TypeError):
            return None
    return found if isinstance(found, dict) else None


class _Replies(ThreadingHTTPServer):
    """Answers every request with the present reply."""

    body = b"{}"
    after = b""
    """Answers every request after the first; empty: the reply does."""
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that the client has closed."""


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send(b'{"data": []}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        assert isinstance(server, _Replies)
        reply, server.body = server.body, server.after or server.body
        self._send(reply)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in the standard library
        """Write no log."""


@contextmanager
def _serving() -> Generator[tuple[_Replies, str]]:
    server = _Replies(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _compatible(provider: str, model: str = "openai.OpenAIChatModel") -> Callable[[str, str], Model]:
    """Return a maker of a model whose provider takes a client of `openai`."""

    def made(url: str, name: str) -> Model:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        provided = _named("providers", provider)(openai_client=client)
        return _named("models", model)(name, provider=provided)

    return made


def _own(provider: str, model: str, path: str = "", **given: Any) -> Callable[[str, str], Model]:
    """Return a maker of a model whose provider takes an address."""

    def made(url: str, name: str) -> Model:
        provided = _named("providers", provider)(base_url=url + path, api_key="k", **given)
        return _named("models", model)(name, provider=provided)

    return made


def _anthropic(url: str, name: str) -> Model:
    from anthropic import AsyncAnthropic  # pyright: ignore[reportMissingImports]

    client = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
    return _named("models", "anthropic.AnthropicModel")(
        name, provider=_named("providers", "anthropic.AnthropicProvider")(anthropic_client=client)
    )


def _bedrock(url: str, name: str) -> Model:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "k", "region_name": "us-east-1"}
    provided = _named("providers", "bedrock.BedrockProvider")(base_url=url, **keys)
    return _named("models", "bedrock.BedrockConverseModel")(name, provider=provided)


def _cohere(url: str, name: str) -> Model:
    from cohere import AsyncClientV2  # pyright: ignore[reportMissingImports]

    provided = _named("providers", "cohere.CohereProvider")(cohere_client=AsyncClientV2(api_key="k", base_url=url))
    return _named("models", "cohere.CohereModel")(name, provider=provided)


def _named(package: str, name: str) -> Any:
    """Return an object of pydantic-ai by the name of its module and its own."""
    from importlib import import_module

    module, _, attribute = name.partition(".")
    return getattr(import_module(f"pydantic_ai.{package}.{module}"), attribute)


MAKERS: dict[tuple[str, str], Callable[[str, str], Model]] = {
    ("openai", CHAT): _compatible("openai.OpenAIProvider"),
    ("groq", CHAT): _own("groq.GroqProvider", "groq.GroqModel"),
    ("mistral", CHAT): _own("mistral.MistralProvider", "mistral.MistralModel"),
    ("openrouter", CHAT): _compatible("openrouter.OpenRouterProvider", "openrouter.OpenRouterModel"),
    ("cerebras", CHAT): _compatible("cerebras.CerebrasProvider", "cerebras.CerebrasModel"),
    ("huggingface", CHAT): _own("huggingface.HuggingFaceProvider", "huggingface.HuggingFaceModel", "/v1"),
    ("zai", CHAT): _compatible("zai.ZaiProvider", "zai.ZaiModel"),
    ("snowflake", CHAT): _compatible("snowflake.SnowflakeProvider", "snowflake.SnowflakeModel"),
    ("deepseek", CHAT): _compatible("deepseek.DeepSeekProvider"),
    ("crusoe", CHAT): _compatible("crusoe.CrusoeProvider", "crusoe.CrusoeModel"),
    ("ollama", CHAT): _compatible("ollama.OllamaProvider", "ollama.OllamaModel"),
    ("heroku", CHAT): _compatible("heroku.HerokuProvider"),
    ("anthropic", "v1/messages"): _anthropic,
    ("google", "generateContent"): _own("google.GoogleProvider", "google.GoogleModel"),
    ("bedrock", "converse"): _bedrock,
    ("cohere", "v2/chat"): _cohere,
}
_RESPONSES = _compatible("openai.OpenAIProvider", "openai.OpenAIResponsesModel")


def read_all(root: Path, *, own: bool = False) -> Table:
    """Read every recorded reply and return the table.

    own: read with the services' own clients through our model client; otherwise as `http://…#model` through `solve`,
    which is possible for chat completions only.
    """
    return asyncio.run(_read_all(root, own=own))


def read_as_address(bodies: Iterable[dict[str, Any]], tools: Collection[str]) -> Iterator[Read | str]:
    """Yield what is read of each chat completion, or why nothing is. tools: names of the tools that are given."""
    with _serving() as (server, url):
        for body in bodies:
            server.body = json.dumps(body).encode()
            yield asyncio.run(_as_address(f"{url}/v1#m", tools))


async def _as_address(name: str, tools: Collection[str]) -> Read | str:
    try:
        async with open_endpoint(name, CallOptions(), retry=RetryPolicy(attempts=1)) as endpoint:
            return await _through(endpoint, tools)
    except AgentlearnError as error:
        return error.message


async def _read_all(root: Path, *, own: bool) -> Table:
    table = Table()
    with TemporaryDirectory() as folder, _serving() as (server, url):
        for one in exchanges(root):
            if not own and one.form != CHAT:
                continue
            server.body, server.after = json.dumps(one.body).encode(), b""
            client = _made(one.service, one.form, url, one.model)
            plain = await _plainly(client, one) if client else None if own else recorded(one.body)
            if plain is None:
                table.count(one.label, "odd")
                continue
            table.count(one.label, "total")
            try:
                if own:
                    ours = await _with_own(client, one, {name for name, _ in plain.calls})
                else:
                    server.after = _SHORT_ANSWER
                    ours = await _solved(f"{url}/v1#{one.model}", one.limit, Path(folder))
            except AgentlearnError as error:
                if plain.unfinished:
                    table.count(one.label, "read", "same")
                else:
                    table.failures.append(f"{one.label}: {one.file}: not read: {error.message}")
                continue
            table.count(one.label, "read")
            _compare(table, one, plain, ours)
    return table


@cache
def _made(service: str, form: str, url: str, name: str) -> Model | None:
    maker = MAKERS.get((service, form), _RESPONSES if form == "responses" else None)
    try:
        return maker(url, name) if maker else None
    except ImportError:
        return None


async def _plainly(client: Model, one: Exchange) -> Read | None:
    """Return what the own client of a service reads; None when it reads nothing."""
    try:
        return _read(await client.request([_ASKED], ModelSettings(max_tokens=one.limit), ModelRequestParameters()))
    except Exception:  # the own client is only compared with
        return recorded(one.body) if one.form == CHAT else None


async def _with_own(client: Model | None, one: Exchange, tools: Collection[str]) -> Read:
    async with open_endpoint(one.model, CallOptions(), retry=RetryPolicy(attempts=1), model=client) as endpoint:
        return await _through(endpoint, tools, one.limit)


async def _solved(model: str, limit: int, store: Path) -> Read:
    """Return what the first step of a rollout has of the reply."""
    found = await solve("math", "What is 1?", model=model, store=store, max_output_tokens=limit)
    turn = next((step for step in found.steps if isinstance(step, ModelTurn)), None)
    if turn is None:
        raise EndpointError("endpoint_reply", found.failure.message if found.failure else "")
    calls = tuple((one.tool, _plain(one.arguments)) for one in turn.tool_calls)
    return Read(_said(turn.text), calls, (turn.usage.tokens_in, turn.usage.tokens_out), found.cost_usd)


async def _through(endpoint: Endpoint, tools: Collection[str], limit: int = 4_000) -> Read:
    """Return what our client reads. tools: names of the tools that are given."""
    unit = WorkUnit(CallContext(new_run_id(), MemoryJournal(), Budget(BudgetOptions())), "solve", "one", 0)
    parameters = ModelRequestParameters(function_tools=[ToolDefinition(name=name) for name in sorted(tools)])
    response = await endpoint.client(unit).request([_ASKED], ModelSettings(max_tokens=limit), parameters)
    return _read(response)


def _read(response: ModelResponse) -> Read:
    calls = [(part.tool_name, _plain(part.args)) for part in response.parts if isinstance(part, ToolCallPart)]
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    tokens = response.usage.input_tokens, response.usage.output_tokens
    unfinished = response.finish_reason in {"content_filter", "error", "length"}
    return Read(_said(text), tuple(calls), tokens, cost_usd(response), unfinished)


def recorded(body: dict[str, Any]) -> Read:
    """Return what stands in a chat completion itself."""
    message, usage = body["choices"][0]["message"], body.get("usage") or {}
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    called = [one["function"] for one in message.get("tool_calls") or ()]
    calls = tuple((one["name"], _plain(one.get("arguments"))) for one in called)
    tokens = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return Read(_said(content), calls, tokens)


def _said(text: str) -> str:
    """Return a text without thoughts in tags, also one that does not end."""
    return re.sub(r"<(think|thinking)>.*?(?:</\1>|\Z)", "", text, flags=re.DOTALL).strip()


def _plain(arguments: Any) -> str:
    """Return the arguments of a call in one form."""
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(found or {}, sort_keys=True)


def _compare(table: Table, one: Exchange, plain: Read, ours: Read) -> None:
    where = f"{one.label}: {one.file}"
    # Some clients take a thought that never ends for an answer.
    right = [plain, recorded(one.body)] if one.form == CHAT else [plain]
    if (ours.text, ours.calls) in [(each.text, each.calls) for each in right]:
        table.count(one.label, "same")
    else:
        table.failures.append(
            f"{where}: differs: {_cut(ours.text, ours.calls)} instead of {_cut(plain.text, plain.calls)}"
        )
    tokens = recorded(one.body).tokens if one.form == CHAT else plain.tokens
    if any(tokens):
        table.count(one.label, "with usage")
        if ours.tokens == tokens:
            table.count(one.label, "usage")
        else:
            table.failures.append(f"{where}: usage {ours.tokens} instead of {tokens}")
    cost = _reported_cost(one.body.get("usage") or {}) if one.form == CHAT else plain.cost
    if cost is not None:
        table.count(one.label, "with cost")
        if ours.cost is not None and isclose(ours.cost, cost):
            table.count(one.label, "cost")
        else:
            table.failures.append(f"{where}: cost {ours.cost} instead of {cost}")


def _reported_cost(usage: dict[str, Any]) -> float | None:
    """Return the cost that OpenRouter reports, with what a key of one's own cost at the provider."""
    upstream = (usage.get("cost_details") or {}).get("upstream_inference_cost") if usage.get("is_byok") else None
    return None if usage.get("cost") is None else usage["cost"] + (upstream or 0)


def _cut(*values: object) -> str:
    text = repr(values)
    return text if len(text) < 160 else text[:157] + "..."
