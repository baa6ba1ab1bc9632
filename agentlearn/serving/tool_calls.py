"""Tool calls in the replies of local models, in every form that the chat templates of common model families use.

Chat templates agree on no form, and a form that is not read costs every rollout that needs a tool. `DIALECTS` has one
row per form; docs/models.md names models for each.

Why our own parser. transformers has one (`tokenizer.parse_response`), but it needs a `response_template` in the
checkpoint, which few have, and it is not installed with the lab model, which must read its own calls.
`agentlearn.train.engine.chat_template` uses it for checkpoints that bring such a template and write a form that is not
read here. The parsers of vLLM and SGLang cannot be imported without the whole server. Those of `renderers` know a fixed
list of checkpoints and read token ids.

Rules for all forms:

- Calls end a reply. If text follows, or one call is malformed, all of the reply is text, so that nothing is lost.
- A missing closing mark is forgiven at the end of a complete call.
- A call in a thought is a draft and no call.
- Forms without marks (`BARE`) must be the whole reply, and may only name tools that were offered.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from agentlearn.serving.chat_request import ParsedAnswer, Tool

_Call = tuple[str, str]
"""Name of a tool, and its arguments as the text of a JSON object."""
_Read = tuple[list[_Call], int]
"""Calls, and where they end in the text."""
_Schemas = Mapping[str, Mapping[str, object]]
"""The schemas of the parameters of each offered tool, by name."""

_JSON = json.JSONDecoder(strict=False)
"""Takes line breaks inside strings, which models write in code."""
_NAMED = re.compile(r'"(?:arguments|parameters)"\s*:\s*')
_BARE_KEYS = frozenset({"name", "arguments", "parameters", "type", "id"})
_BEGUN = ">>>"
"""Mark before a call that Functionary's template writes itself."""
_STOPS = (
    r"<\|(?:im_end|eot|eot_id|eom_id|end|return|endoftext|end_of_text|observation|END_OF_TURN_TOKEN)\|>"
    r"|</s>|<eos>|<end_of_turn>|<turn\|>|<\|tool_response>|<｜end▁of▁sentence｜>"
)
"""Tokens that end a turn. The service takes off the one that ended the reply."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is read, and the schemas of the tools that were offered."""

    text: str
    schemas: _Schemas

    def calls(self, begin: int, dialect: "_Dialect") -> _Read | None:
        """The calls with which the text ends, and where they begin; None when it ends with none of this form."""
        text, at = self.text, begin
        while found := (dialect.opening.match if dialect.bare else dialect.opening.search)(text, at):
            calls: list[_Call] = []
            at = _skip(dialect.between, text, found.end())
            while at < len(text) and (read := dialect.item(self, at, dialect)):
                calls += read[0]
                at = _skip(dialect.between, text, read[1])
            if calls and at == len(text):
                said = _said(text[begin : found.start()])
                if said is None or dialect.closing.search(said):
                    return None  # a draft in a thought, or behind a call that is malformed
                return [(_tool_name(name, self.schemas), arguments) for name, arguments in calls], found.start()
            if dialect.bare:
                return None
            at = max(at, found.end(), found.start() + 1)
        return None

    def json_item(self, at: int, dialect: "_Dialect") -> _Read | None:
        """`{"name": …, "arguments": {…}}`, or a list of such objects."""
        text = self.text
        found = _json_value(text, at) if text.startswith(("{", "["), at) else None
        if found is None:
            return None
        value, end = found
        calls: list[_Call] = []
        for one in cast("list[object]", value) if isinstance(value, list) else [value]:
            call = _json_call(one, text[at:end], bare=dialect.bare)
            if call is None:
                return None
            calls.append(call)
        return (calls, end) if calls else None

    def named_json_item(self, at: int, dialect: "_Dialect") -> _Read | None:
        """A name, then its arguments as a JSON object."""
        text = self.text
        named = dialect.name.match(text, at)
        found = _json_value(text, named.end()) if named and text.startswith("{", named.end()) else None
        if named is None or found is None or not isinstance(found[0], dict):
            return None
        return [(named["name"], _written(text[named.end() : found[1]], found[0]))], found[1]

    def python_item(self, at: int, dialect: "_Dialect") -> _Read | None:
        """Calls as Python writes them, with named arguments: a list of calls, or one call per line."""
        text = self.text
        if not dialect.name.match(text, at):
            return None
        ends = [found.start() for found in dialect.closing.finditer(text, at)] or [len(text)]
        for end in (ends[0], ends[-1]):  # the last, because the mark may also stand in an argument
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about backslashes in the model's strings
                    written = ast.parse(text[at:end].strip())
                calls = [call for line in written.body for call in _python_calls(line)]
            except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
                continue
            return (calls, end) if calls else None
        return None

    def gemma_item(self, at: int, dialect: "_Dialect") -> _Read | None:
        """`call:name{key:value}` with keys without quotation marks, and tokens around text."""
        text = self.text
        named = dialect.name.match(text, at)
        if named is None:
            return None
        closed = dialect.closing.search(text, named.end())
        end = closed.start() if closed else len(text)
        parts = re.split(r'<\|"\|>|<escape>', text[named.end() : end])
        written = [re.sub(r"([{,]\s*)([\w.-]+)\s*:", r'\1"\2":', part) for part in parts]
        written[1::2] = [json.dumps(part, ensure_ascii=False) for part in parts[1::2]]
        found = _json_value("".join(written), 0)
        if found is None or not isinstance(found[0], dict) or "".join(written)[found[1] :].strip():
            return None
        return [(named["name"], json.dumps(found[0], ensure_ascii=False))], end


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One form of tool calls."""

    opening: re.Pattern[str]
    """The mark before calls; of a form without marks: how the reply begins."""
    closing: re.Pattern[str]
    """The mark behind a call."""
    between: re.Pattern[str]
    """What may stand before, between and behind calls."""
    item: "Callable[[_Reply, int, _Dialect], _Read | None]"
    """Reads one call, or several, at a place in the text."""
    name: re.Pattern[str]
    """The tool's name as the group `name`, for forms that write it outside of JSON; how a Python call begins."""
    bare: bool = False
    """Whether the form has no marks."""


def parse_calls(text: str, tools: Sequence[Tool] | None = None, *, prompt: str = "") -> ParsedAnswer:
    """Return the text and the tool calls of a reply.

    tools: those that were offered. They say which values are text in forms that write values without quotation marks,
    and which names a call without marks may have; None: not known, then any name. prompt: what the model read; if it
    ends inside a thought, the reply begins there. Arguments stay as the model wrote them where it wrote valid JSON.
    """
    schemas = {} if tools is None else {tool.name: tool.properties for tool in tools}
    begun = _BEGUN if prompt.endswith(_BEGUN) else ""
    reply = _Reply(begun + text, schemas)
    for begin in _beginnings(reply.text, prompt):
        for dialect in DIALECTS:
            read = reply.calls(begin, dialect)
            if read is None:
                continue
            calls, first = read
            if dialect.bare and tools is not None and any(name not in schemas for name, _ in calls):
                continue
            return ParsedAnswer(reply.text[len(begun) : first].strip(), tuple(calls))
    return ParsedAnswer(text)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


# Thoughts. This is the only part that knows how they are marked.

_THOUGHTS = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "reasoning", "seed:think")),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>", "<channel|>"),
)
_THOUGHT = re.compile("|".join(re.escape(opening) for opening, _ in _THOUGHTS))
_THOUGHT_END = re.compile("|".join(re.escape(closing) for _, closing in _THOUGHTS))


def _beginnings(text: str, prompt: str) -> list[int]:
    """Places where what a model says aloud can begin: behind its first thoughts, and behind the last thought's end.

    Empty when the reply ends in its first thought. The last end can belong to a thought that a template opened.
    """
    at = _skip(_SPACE, text, 0)
    opened = _THOUGHT.match(text, at)
    thinking = opened is not None or prompt.rstrip().endswith(tuple(opening for opening, _ in _THOUGHTS))
    while thinking:
        ended = _THOUGHT_END.search(text, opened.end() if opened else at)
        if ended is None:
            return []
        at = ended.end()
        opened = _THOUGHT.match(text, _skip(_SPACE, text, at))
        thinking = opened is not None
    return sorted({at, *(ended.end() for ended in [*_THOUGHT_END.finditer(text, at)][-1:])})


def _said(before: str) -> str | None:
    """The text behind the last thought; None when a thought goes on at its end."""
    ends = [found.end() for found in _THOUGHT_END.finditer(before)]
    said = before[ends[-1] :] if ends else before
    return None if _THOUGHT.search(said) else said


# Readers of one call.


def _json_call(value: object, body: str, *, bare: bool) -> _Call | None:
    """A call in a JSON value. Arguments may be an object, or its text."""
    match value:
        case {"function": dict() as function}:
            return _json_call(cast("object", function), body, bare=bare)
        case dict() if bare and not cast("dict[str, object]", value).keys() <= _BARE_KEYS:
            return None
        case (
            {"name": str(name), "arguments": arguments}
            | {"name": str(name), "parameters": arguments}
            | {"tool_name": str(name), "parameters": arguments}
        ):
            pass
        case _:
            return None
    if isinstance(arguments, dict):
        return name, _verbatim(body, cast("object", arguments))
    inner = _json_value(arguments, 0) if isinstance(arguments, str) else None
    if inner is None or not isinstance(inner[0], dict) or cast("str", arguments)[inner[1] :].strip():
        return None
    return name, _written(cast("str", arguments).strip(), inner[0])


def _python_calls(line: ast.stmt) -> list[_Call]:
    """The calls of one line, with literal arguments. Raises ValueError for anything else."""
    match line:
        case ast.Expr(value=ast.List(elts=nodes) | ast.Tuple(elts=nodes)):
            pass
        case ast.Expr(value=node):
            nodes = [node]
        case _:
            raise ValueError("no call")
    calls: list[_Call] = []
    for node in nodes:
        if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name | ast.Attribute):
            raise ValueError("no call")
        named = {str(one.arg): ast.literal_eval(_JsonNames().visit(one.value)) for one in node.keywords if one.arg}
        if len(named) != len(node.keywords):
            raise ValueError("arguments without names")
        calls.append((ast.unparse(node.func), json.dumps(named, ensure_ascii=False)))
    return calls


class _JsonNames(ast.NodeTransformer):
    """Reads JSON's `true`, `false` and `null` as Python's values."""

    _values: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node


@dataclass(frozen=True, slots=True)
class _Tags:
    """Reads a name, then one tag per argument whose value is plain text, as in XML."""

    argument: re.Pattern[str]
    """The opening tag, with the argument's name as the group `key`."""
    end: str
    """The closing tag of an argument."""
    behind: re.Pattern[str]
    """What may follow it. A closing tag before anything else is part of the value."""
    lines: bool = False
    """Whether values stand on lines of their own."""
    lone: bool = False
    """Whether a call without arguments is told from a word by its tags."""

    def __call__(self, reply: _Reply, at: int, dialect: _Dialect) -> _Read | None:
        text, schemas = reply.text, reply.schemas
        named = dialect.name.match(text, at)
        if named is None:
            return None
        at = _skip(_SPACE, text, named.end())
        if text.startswith("{", at):
            return reply.named_json_item(named.start(), dialect)
        name = _tool_name(named["name"].strip(), schemas)
        arguments: dict[str, object] = {}
        while argument := self.argument.match(text, at):
            end = text.find(self.end, argument.end())
            while end >= 0 and not self.behind.match(text, end + len(self.end)):
                end = text.find(self.end, end + 1)
            if end < 0:
                return None
            value, key = text[argument.end() : end], argument["key"].strip()
            if self.lines:
                value = re.sub(r"\A\r?\n|\r?\n\Z", "", value)
            arguments[key] = _typed(value, schemas.get(name, {}).get(key), argument.groupdict().get("text"))
            at = _skip(_SPACE, text, end + len(self.end))
        closed = self.lone or name in schemas
        if not arguments and not (closed and dialect.closing.match(text, at)):
            return None
        return [(name, json.dumps(arguments, ensure_ascii=False))], at


# Values.


def _json_value(text: str, at: int) -> tuple[object, int] | None:
    try:
        return _JSON.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _verbatim(body: str, arguments: object) -> str:
    """The arguments as the model wrote them; rewritten if their text cannot be found."""
    for found in _NAMED.finditer(body):
        value = _json_value(body, found.end())
        if value is not None and value[0] == arguments:
            return _written(body[found.end() : value[1]], arguments)
    return json.dumps(arguments, ensure_ascii=False)


def _written(text: str, value: object) -> str:
    """The text of a JSON value; rewritten if it is not valid, as with line breaks inside strings."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return text


def _typed(text: str, schema: object, is_text: str | None) -> object:
    """A value that was written without quotation marks, by the parameter's schema.

    Without a schema, only objects and lists are read as JSON. is_text: `true` or `false` where the form itself says it.
    """
    types = _types(schema)
    if "string" in types or is_text == "true":
        return text
    stripped = text.strip()
    if not types and is_text is None and not stripped.startswith(("{", "[")):
        return text
    stripped = {"True": "true", "False": "false", "None": "null"}.get(stripped, stripped)
    found = _json_value(stripped, 0)
    return found[0] if found is not None and found[1] == len(stripped) else text


def _types(schema: object) -> frozenset[str]:
    """The JSON types that a schema allows; empty when it does not say."""
    if not isinstance(schema, dict):
        return frozenset()
    said = cast("Mapping[str, object]", schema)
    own = said.get("type")
    several = cast("list[object]", own) if isinstance(own, list) else [own] if own else []
    found = frozenset(str(one) for one in several)
    for among in (said.get("anyOf"), said.get("oneOf")):
        for one in cast("list[object]", among) if isinstance(among, list) else []:
            found |= _types(one)
    return found


def _tool_name(name: str, schemas: _Schemas) -> str:
    """The name without the namespace that some templates put before it."""
    return name if name in schemas else name.removeprefix("functions.")


# The forms. A form with the same opening as another one is told apart by what follows.

_SPACE = re.compile(r"\s*")
_NAME = r"(?P<name>[\w.-]+)"
_PYTHON_CALL = r"\[?\s*[A-Za-z_][\w.]*\("


def _dialect(
    opening: str,
    closing: str = r"(?!)",
    item: Callable[[_Reply, int, _Dialect], _Read | None] = _Reply.json_item,
    name: str = r"(?!)",
    *,
    behind: str = r"(?!)",
    bare: bool = False,
) -> _Dialect:
    """behind: what may stand behind a call besides `closing`, and also elsewhere in a reply."""
    between = rf"(?:[\s,;]|{closing}|{behind}|{_STOPS}" + ("" if bare else f"|{opening}") + ")*"
    return _Dialect(re.compile(opening), re.compile(closing), re.compile(between), item, re.compile(name), bare=bare)


_FUNCTION_TAGS = _Tags(
    re.compile(r"<parameter=(?P<key>[^>\n]+)>"),
    "</parameter>",
    re.compile(r"\s*(?:<parameter=|</function>|</tool_call>|</seed:tool_call>|\Z)"),
    lines=True,
    lone=True,
)
_ARGUMENT_TAGS = _Tags(
    re.compile(r"<arg_key>(?P<key>[^<]*)</arg_key>\s*<arg_value>"),
    "</arg_value>",
    re.compile(r"\s*(?:<arg_key>|</tool_call>|<tool_call>|\Z)"),
)
_INVOKE_TAGS, _DSML_TAGS, _ATEM_TAGS = (
    _Tags(
        re.compile(rf'<{mark}parameter name="(?P<key>[^"]+)"(?: string="(?P<text>true|false)")?>'),
        f"</{mark}parameter>",
        re.compile(rf"\s*(?:<{mark}parameter |</{mark}invoke>|\Z)"),
        lone=True,
    )
    for mark in ("", "｜DSML｜", "atem:")
)

DIALECTS: tuple[_Dialect, ...] = (
    # Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4, EXAONE 4
    _dialect("<tool_call>", "</tool_call>"),
    # Qwen3-Coder, Qwen 3.5, Nemotron 3, Seed-OSS; Llama 3.1 and Functionary 3.1 with JSON in the tag
    _dialect(
        "<(?:seed:)?tool_call>|(?=<function=)",
        "</(?:function|(?:seed:)?tool_call)>",
        _FUNCTION_TAGS,
        r"<function=(?P<name>[^>\n]+)>",
    ),
    # GLM 4.5 to 5
    _dialect("<tool_call>", "</tool_call>", _ARGUMENT_TAGS, rf"{_NAME}(?=\s*<)"),
    # Mistral: a list, or names with arguments
    _dialect(r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]"),
    _dialect(r"\[TOOL_CALLS\]", r"(?!)", _Reply.named_json_item, rf"{_NAME}(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*"),
    # gpt-oss
    _dialect(
        r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)? ?(?=to=functions\.)",
        r"<\|call\|>",
        _Reply.named_json_item,
        rf"to=functions\.{_NAME}(?:\s|\w|<\|channel\|>|<\|constrain\|>)*<\|message\|>",
    ),
    # DeepSeek V3 and R1, DeepSeek V3.1
    _dialect(
        "<｜tool▁calls?▁begin｜>",
        "<｜tool▁calls?▁end｜>",
        _Reply.named_json_item,
        rf"(?:function<｜tool▁sep｜>)?{_NAME}(?:<｜tool▁sep｜>)?\s*(?:```json)?\s*",
        behind="```",
    ),
    # Kimi K2
    _dialect(
        r"<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>",
        r"<\|tool_call_end\|>|<\|tool_calls_section_end\|>",
        _Reply.named_json_item,
        rf"{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*",
    ),
    # MiniMax M2
    _dialect(
        "<minimax:tool_call>", "</(?:minimax:tool_call|invoke)>", _INVOKE_TAGS, r'<invoke name="(?P<name>[^"]+)">'
    ),
    # DeepSeek V3.2
    _dialect(
        "<｜DSML｜(?:function|tool)_calls>",
        "</｜DSML｜(?:function_calls|tool_calls|invoke)>",
        _DSML_TAGS,
        r'<｜DSML｜invoke name="(?P<name>[^"]+)">',
    ),
    # Muse Glimmer
    _dialect(
        "<atem:function_calls>",
        "</atem:(?:function_calls|invoke)>",
        _ATEM_TAGS,
        r'<atem:invoke name="(?P<name>[^"]+)">',
    ),
    # Phi-4-mini, Granite 3
    _dialect(r"<\|tool_call\|>|\bfunctools(?=\[)", r"<\|/tool_call\|>"),
    # Jamba, MiniMax M1; Nemotron 2; Command R7B and A; InternLM 3
    _dialect("<tool_calls>", "</tool_calls>"),
    _dialect("<TOOLCALL>", "</TOOLCALL>"),
    _dialect(r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"),
    _dialect(r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>"),
    # Functionary 3.2
    _dialect(rf"{_BEGUN}(?=\w)", r"(?!)", _Reply.named_json_item, rf"{_NAME}\n"),
    # Gemma 4, FunctionGemma
    _dialect(
        r"<\|tool_call>|<start_function_call>", r"<tool_call\|>|<end_function_call>", _Reply.gemma_item, f"call:{_NAME}"
    ),
    # Llama 4; LFM 2; OLMo 3
    _dialect(r"<\|python_start\|>", r"<\|python_end\|>", _Reply.python_item, _PYTHON_CALL),
    _dialect(r"<\|tool_call_start\|>", r"<\|tool_call_end\|>", _Reply.python_item, _PYTHON_CALL),
    _dialect("<function_calls>", "</function_calls>", _Reply.python_item, _PYTHON_CALL),
    # Llama 3: with its mark, and bare; xLAM: a bare list
    _dialect(r"<\|python_tag\|>"),
    _dialect(r"\s*(?=[{\[])", bare=True),
    # Llama 3.2 and 4
    _dialect(r"\s*(?=\[)", r"(?!)", _Reply.python_item, _PYTHON_CALL, bare=True),
)
