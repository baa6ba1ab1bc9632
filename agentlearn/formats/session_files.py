"""Session files of coding agents as one kind of value: Claude Code, Codex, OpenCode, OpenHands and ATIF.

A format is recognised by what a file holds. Where its fields stand is told by `session_files.toml`, one table for each
agent, and one walk reads all. JSON lines are read one line at a time; OpenCode and OpenHands may keep one session in a
folder of many small files, which are put together. What cannot be read is counted and never raises.

Who wrote a text follows from its place in the format. Programs also put texts into the user's place, such as files of
the repository, output of commands and reminders: these are not the user's words and are left out, with a count. The
sessions of sub-agents are left out too, because the one who speaks to them is a model. What a session repeats of an
earlier one from its first message on, in whichever file, counts once.
"""

import gzip
import json
import os
import re
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain, dropwhile, groupby, takewhile
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pydantic_core import from_json

from agentlearn.models.reply import UnreadReply, fields_of, read_parts, shown_text, written
from agentlearn.rollout.transcript import cut
from agentlearn.text import storable
from agentlearn.types.ids import content_hash

MAX_TEXT = 8_000
"""Largest number of characters of a text that is kept; a longer one keeps its beginning and its end."""
MAX_LINE_BYTES = 2**25
"""A longer line is read in pieces, which are no JSON: it is left out, with a count."""
_MAX_DOCUMENT_BYTES = 2**27
"""Larger files that are one JSON value are left out, with a count; files of JSON lines may have any size."""
Agent = Literal["Claude Code", "Codex", "OpenCode", "OpenHands", "ATIF"]

OWN_AGENT = "agentlearn"
"""Name of the agent in ATIF that we write."""
UNPARSED = "unparsed_arguments"
"""Name of the only argument in ATIF of a call whose arguments were no JSON object; its value is what was written."""

_Json = dict[str, Any]
_ERRORS, _PROGRAM = "errors of a service", "texts by the agent's program"
_OTHER, _UNKNOWN = "lines of other kinds, such as snapshots and summaries", "lines of no known kind"
_COPIED = "lines that an earlier session has too"
_CUT = "files that end too early or are no JSON; what is whole was read"
_SPEAKERS = {"user": "user", "assistant": "model", "agent": "model"}
_BY_AGENT = frozenset({"model", "call", "result"})
_INTERRUPTED, _REFUSED_WHY = "[Request interrupted by user", "the user said:\n"
_IDE_REQUEST = re.compile(r"\A# .*^## My request for Codex:\s*$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"\[(?:(?:input_)?image(?:_url)?|document)\]|<image name=\[[^<>]*\]>|</image>")
_COMMAND = re.compile(r"<command-(name|args)>(.*?)</command-\1>", re.DOTALL)
_STATUS = re.compile(r"\A(?:(?!Output:).*\n){0,6}?(?:Exit code:?|Process exited with code) (-?\d+)\s*$", re.MULTILINE)


@dataclass(slots=True)
class Entry:
    """One thing that was said or done."""

    kind: Literal["user", "model", "call", "result", "interrupted", "reverted"]
    """reverted: the user took back the latest of what stands before. interrupted: the user stopped the agent."""
    text: str = ""
    """What was said; the arguments of a call as JSON; what a tool returned."""
    tool: str = ""
    call: str = ""
    """Id of the call, also in its result."""
    status: int | None = None
    """Exit status of a command; None when the file does not say it."""
    failed: bool | None = None
    """Whether the file marks the result as failed; None when it says nothing."""
    refused: bool = False
    """Whether the user refused the call, so that it did not run."""
    reverted: bool = False
    """Whether the user took back this message of his, and what the agent did about it."""


@dataclass(slots=True)
class AgentSession:
    """One session in order."""

    agent: Agent
    id: str
    repository: str = ""
    """Folder that the agent worked in; empty when the file does not say it."""
    model: str = ""
    entries: list[Entry] = field(default_factory=list[Entry])


_TABLE = tomllib.loads(files("agentlearn.formats").joinpath("session_files.toml").read_text(encoding="utf-8"))
_FORMS = [defaultdict[str, Any](str, one) for one in _TABLE["forms"]]
for _form in _FORMS:
    _form["rules"] = [defaultdict[str, str](str, one) for one in _form["rules"]]
_BLOCK = re.compile(rf"<({'|'.join(_TABLE['tags'].split())})\b[^<>]*>.*?</\1>\s*", re.DOTALL)


_Turn = tuple[Entry, Any] | None
"""A message that the user typed, in the tree of a session, and the one before it on its branch."""


def _branch(turn: _Turn) -> Iterator[Entry]:
    """A message and those before it, the latest first."""
    while turn is not None:
        yield turn[0]
        turn = turn[1]


class _SessionReader:
    """Reads the rows of one session into entries, by the table of its agent."""

    def __init__(self, form: _Json, head: _Json, reading: "Reading") -> None:
        self.form, self.head, self.reading = form, head, reading
        self.session = AgentSession(form["agent"], "")
        self.entries = self.session.entries
        self.is_sub_agent = any(_holds(head, one["when"]) for one in form["rules"] if one["gives"] == "sub-agent")
        self._keys = set[str]()
        self._said, self._items, self._echoes = list[str](), list[tuple[int, Entry]](), 0
        self._command: Entry | None = None
        self._tools: dict[str, str] = {}
        self._replies: dict[str, list[Entry]] = {}
        self._turns: dict[str, _Turn] = {}
        self._typed: dict[tuple[int, str, str], _Turn] = {}
        self._last: _Turn = None
        self._linked = False
        self._taken_back: int | None = None

    def read(self, row: _Json, where: str) -> None:
        """Add what a row gives. where: its place, for what is counted."""
        form, session, start = self.form, self.session, len(self.entries)
        session.id = session.id or str(_at(self.head, form["id"]) or _at(row, form["id"]) or "")
        folder = session.repository or _at(self.head, form["repository"]) or _at(row, form["repository"]) or ""
        session.repository = str(folder[0] if isinstance(folder, list) else folder)
        model = _at(self.head, form["model"]) or _at(row, form["model"])
        session.model = model if isinstance(model, str) and not model.startswith("<") else session.model
        key, parent, reply = (str(_at(row, form[one]) or "") for one in ("key", "parent", "reply"))
        self._linked |= parent in self._turns
        turn = self._turns.get(parent, self._last)
        self._turns |= {key: turn} if key else {}
        skipped = [what for condition, what in (form["skipped"] or {}).items() if _holds(row, condition)]
        name = f"{key} {_at(row, form['who'])}"
        if skipped or (key and name in self._keys):
            self.reading.skip(skipped[0] if skipped else _COPIED, where)
            return
        self._keys.add(name)
        if key and key == _at(self.head, form["reverted"]):
            self._taken_back = start
        earlier, given = self._replies.get(reply, []), set[str]()
        for rule, part in self._parts(row):
            given.add(rule["gives"])
            self._give(rule, part, row, earlier)
        self._say(is_echo="typed" in given)
        self.reading.left_out[_OTHER] += not given
        new = self.entries[start:]
        self._replies |= {reply: earlier + new} if reply else {}
        if form["parent"] and given == {"said"} and [one.kind for one in new] == ["user"]:
            before = None if not parent and self._linked and form["parent"] in row else turn
            written = (id(before), new[0].text, str(_at(row, form["time"]) or key))
            if written in self._typed:
                self.entries.pop()
                self.reading.skip(_COPIED, where)
            elif before is not self._last:
                self._leave_branch(before)
            self._turns[key] = self._last = self._typed.setdefault(written, (new[0], before))

    def _parts(self, row: _Json) -> Iterator[tuple[_Json, _Json]]:
        """Each part of a row with each rule that holds for it, in the order of the row."""
        for each, rules in groupby(self.form["rules"], key=lambda one: one["each"]):
            found, of_part = _at(row, each) if each else row, list(rules)
            found = {"type": "text", "text": found} if isinstance(found, str) else found
            for part in found if isinstance(found, list) else [found]:
                yield from ((rule, part) for rule in of_part if isinstance(part, dict) and _holds(part, rule["when"]))

    def _give(self, rule: _Json, part: _Json, row: _Json, earlier: list[Entry]) -> None:
        """Add what a part gives. earlier: what other rows of the same reply gave."""
        content = _at(part, rule["text"]) if rule["text"] else part
        call = str(_at(part, rule["call"]) or "")
        match rule["gives"]:
            case "said" | "typed" as gives:
                who = "user" if gives == "typed" else _SPEAKERS.get(str(_at(row, self.form["who"])))
                if who is None or any(_holds(one, mark) for one in (part, row) for mark in self.form["program"]):
                    self._command = None  # it was for the model, and the program added to it
                    self.reading.left_out[_PROGRAM] += 1
                elif who == "user":
                    self._said += [shown_text([one]) for one in read_parts(content)]
                elif text := _shown(content).strip():
                    self._put(Entry("model", _short(text)), earlier)
            case "call":
                if isinstance(content, dict) and content.keys() == {UNPARSED}:
                    content = content[UNPARSED]
                self._tools[call] = str(_at(part, rule["tool"]) or "shell")
                self._put(Entry("call", _short(written(content)), self._tools[call], call), earlier)
            case "result" | "refused":
                self._return(rule, part, _shown(content), call)
            case "interrupted":
                self.entries.append(Entry("interrupted"))
            case "reverted":
                users = [one for one in self.entries if one.kind == "user" and not one.reverted]
                self._revert(users[-content:] if isinstance(content, int) and content > 0 else users[-1:])
            case "sub-agent":
                self.is_sub_agent = True
            case gives:
                self.reading.left_out[_ERRORS if gives == "error" else _PROGRAM] += 1

    def _put(self, entry: Entry, earlier: list[Entry]) -> None:
        """Add what the model said or called, or put it in place of what another row has of it."""
        for one in earlier:
            if one.kind == "call" and (one.kind, one.call) == (entry.kind, entry.call or None):
                one.text = entry.text
                return
            if one.kind == entry.kind == "model" and one.text[: len(entry.text)] == entry.text[: len(one.text)]:
                one.text = max(one.text, entry.text, key=len)
                return
        self.entries.append(entry)

    def _return(self, rule: _Json, part: _Json, text: str, call: str) -> None:
        """Add the result of a call. Words that the user gave when refusing it follow as the user's."""
        status, failing, asked = _at(part, rule["status"]), rule["failed"], rule["gives"] == "refused"
        failed = _holds(part, failing) if "=" in failing or _at(part, failing) is not None else None
        inner = json_object(text) if text.startswith("{") and '"exit_code"' in text else {}
        if (code := _at(inner, "metadata.exit_code")) is not None:
            status, text = code, str(inner.get("output"))
        code = status if isinstance(status, int) and status != -1 else None  # -1: the command was still running
        if code is None and failed is not False and (found := _STATUS.match(text)):
            code = int(found[1])
        refused = asked or (failed is not False and text.removeprefix("Error: ").startswith(tuple(_TABLE["refused"])))
        why = text if asked else text.partition(_REFUSED_WHY)[2].strip() if refused else ""
        failed = refused or (code != 0 if code is not None else failed)
        self.entries.append(Entry("result", _short(text), self._tools.get(call, "tool"), call, code, failed, refused))
        self.entries += [Entry("user", _short(why))] if why else []

    def _say(self, *, is_echo: bool) -> None:
        """Add what the user said in a row, without what the program put before or behind it."""
        texts, self._said = self._said, list[str]()
        last = self._command if self.entries and self.entries[-1] is self._command else None
        answered = any(one.startswith("<local-command-std") for one in texts)
        if _at(self.head, "agent.name") != OWN_AGENT:  # there no program adds texts in the user's name
            texts = [one for one in map(self._words, texts) if not _PICTURE.fullmatch(one)] or texts[:1]
        words = "\n".join(filter(None, texts)).strip()
        if last and (answered or (words and " " not in last.text)):
            self.entries.pop()  # a command for the program: it answered, or nobody did
        if words.startswith(_INTERRUPTED):
            self.entries.append(Entry("interrupted"))
        elif words:
            command = dict(_COMMAND.findall(words)) if words.startswith("<command-") else {}
            if command:
                words = f"/{command.get('name', '').strip(' /')} {command.get('args', '').strip()}".strip()
            entry = Entry("user", _short(words))
            self._command = entry if command else None
            self._echoes += is_echo
            if self.form["echoed"] and not is_echo:
                self._items.append((len(self.entries), entry))
            else:
                self.entries.append(entry)

    def _words(self, text: str) -> str:
        """What the user said in a text. What the program added is counted."""
        words = text.strip()
        while block := _BLOCK.match(words):
            words = words[block.end() :]
        blocks = [*_BLOCK.finditer(words)]
        while blocks and blocks[-1].end() == len(words):
            words = words[: blocks.pop().start()]
        words = "" if words.startswith(tuple(_TABLE["begins"])) else _IDE_REQUEST.sub("", words).strip()
        self.reading.left_out[_PROGRAM] += words != text.strip()
        return words

    def _leave_branch(self, before: _Turn) -> None:
        """Mark what the user took back with the message that came last, which follows an earlier one than the last."""
        gone = {id(one) for one in _branch(self._last)} - {id(one) for one in _branch(before)}
        if taken_back := [*dropwhile(lambda one: id(one) not in gone, self.entries[:-1])]:
            message = self.entries.pop()
            self._revert(taken_back)
            self.entries.append(message)

    def _revert(self, gone: list[Entry]) -> None:
        for one in gone:
            one.reverted = one.kind == "user"
        self.entries.append(Entry("reverted"))

    def finish(self) -> AgentSession:
        """Return the session. Where events say what the user typed, other texts in his place are the program's."""
        if self._taken_back is not None:
            self._revert(self.entries[self._taken_back :])
        for place, entry in reversed([] if self._echoes else self._items):
            self.entries.insert(place, entry)
        self.reading.left_out[_PROGRAM] += max(0, len(self._items) - self._echoes) * bool(self._echoes)
        return self.session


@dataclass(slots=True)
class Reading:
    """What a folder or a file holds: iterate for the sessions; the counts are complete after that."""

    folder: Path
    files: Counter[str] = field(default_factory=Counter[str])
    """Sessions by agent."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """What was not read, in words."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """For each kind of what was not read, the first place."""
    _known: set[str] = field(default_factory=set[str])
    """Digests of the attempts so far."""
    _pieces: dict[str, str] = field(default_factory=dict[str, str])
    """For each session of OpenCode a file that holds a piece of it; empty when its own file was read."""

    def __iter__(self) -> Iterator[AgentSession]:
        for place, rows in groupby(self._rows(), key=lambda one: one[0]):
            reader: _SessionReader | None = None
            for _, head, row, where in rows:
                form = _form_of(head, row)
                reader = reader or (_SessionReader(form, head, self) if form else None)
                try:
                    if reader and form is reader.form:
                        reader.read(cast("_Json", row), where)
                    elif row is not None:
                        self.skip(_OTHER if isinstance(_at(row, "type"), str) else _UNKNOWN, where)
                except (RecursionError, ValueError):  # values nested too deep, or a number of too many digits
                    self.skip(_UNKNOWN, where)
            if reader is None:
                self.skip("files that hold no session", place)
            else:
                yield from self._finished(reader, place)
        for piece in filter(None, self._pieces.values()):
            self.skip("sessions of OpenCode without their own file; give the folder storage", piece)
        self.left_out = +self.left_out

    def skip(self, what: str, where: str) -> None:
        """Count what is not read."""
        self.left_out[what] += 1
        self.examples.setdefault(what, where)

    def _rows(self) -> Iterator[tuple[str, _Json, object, str]]:
        """The rows of all sessions, one session after another, each with its session's name, its document and place."""
        one_file = [(self.folder.parent, list[str](), [self.folder.name])] if self.folder.is_file() else None
        for folder, folders, names in one_file or os.walk(self.folder):
            folders.sort()
            for path in (Path(folder, name) for name in sorted(names, key=_natural)):
                try:
                    if path.is_file() and not path.is_symlink():
                        yield from self._rows_of(path)
                except OSError as error:
                    self.skip(f"files that cannot be opened ({error.strerror})", str(path))

    def _rows_of(self, path: Path) -> Iterator[tuple[str, _Json, object, str]]:
        kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if kind not in {".json", ".jsonl"}:
            return self.skip(f"files of the kind {path.suffix or 'without a suffix'}, also packed ones", str(path))
        where, lists = "", ("steps", "messages", "history", "trajectory", "events")
        for where, value in self._values(path, kind):
            head = fields_of(value) or {}
            rows = value if isinstance(value, list) else next(filter(None, map(head.get, lists)), None)
            match value:
                case {"id": str(name), "directory": str()} if kind == ".json":
                    self._pieces[name] = ""
                    yield from ((name, {"info": value}, one, where) for one in self._stored(name, path.parents[2]))
                case {"sessionID": str(name)} if kind == ".json":
                    self._pieces.setdefault(name, where)
                case _ if isinstance(rows, list) and any(_form_of(head, one) for one in rows):
                    yield from ((where, head, one, where) for one in rows)
                case _:  # an event of OpenHands may have a file of its own
                    is_event = kind == ".json" and _holds(value, "source & kind")
                    yield str(path.parent if is_event else path), {}, value, where
        if not where:
            yield str(path), {}, None, str(path)

    def _finished(self, reader: _SessionReader, where: str) -> Iterator[AgentSession]:
        """The session that was read, without the attempts at its beginning that an earlier one has too."""
        session, attempts = reader.finish(), [list[Entry]()]
        session.id = session.id or Path(where).stem
        if reader.is_sub_agent:
            return self.skip("sessions of sub-agents", where)
        for one in session.entries:
            if one.kind == "user" and any(before.kind in _BY_AGENT for before in attempts[-1]):
                attempts.append([])
            attempts[-1].append(one)
        digests = [
            content_hash(*(content_hash(one.kind, one.tool, one.call, one.text) for one in each)) for each in attempts
        ]
        copies = len([*takewhile(self._known.__contains__, digests)])
        self._known.update(digests)
        session.entries = [*chain.from_iterable(attempts[copies:])]
        if copies:
            self.skip(_COPIED, where)
        if any(one.kind in {"model", "call"} for one in session.entries):
            self.files[session.agent] += 1
            yield session
        elif not copies:
            self.skip("sessions in which the agent says nothing", session.id)

    def _values(self, path: Path, kind: str) -> Iterator[tuple[str, object]]:
        """The JSON values of a file, each with its place: of its lines, or one that fills it."""
        with cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream:
            try:
                line, number = stream.readline(MAX_LINE_BYTES), 1
                if line.startswith(b"version https://git-lfs.github.com/spec/"):
                    return self.skip("pointers of Git LFS; fetch the files with `git lfs pull`", str(path))
                if line.strip() in {b"{", b"["} or (kind == ".json" and _json(line) is None):
                    content = line + stream.read(_MAX_DOCUMENT_BYTES)
                    if len(content) > _MAX_DOCUMENT_BYTES:
                        return self.skip(f"JSON documents of more than {_MAX_DOCUMENT_BYTES:,} bytes", str(path))
                    yield str(path), self._value(content, str(path))
                    return None
                while line:
                    where, value = f"{path}, line {number}", _json(line)
                    if value is not None:
                        yield where, value
                    elif line.strip():
                        self.skip("lines that are no JSON, such as the last one of a file that was cut", where)
                    line, number = stream.readline(MAX_LINE_BYTES), number + 1
            except (EOFError, zlib.error):
                self.skip(_CUT, str(path))

    def _value(self, content: bytes, where: str) -> object:
        content = (
            content[max(0, content.find(b"{")) :] if content[:1].isalpha() else content
        )  # what `opencode export` says
        if (whole := _json(content)) is not None:
            return whole
        self.skip(_CUT, where)
        with suppress(ValueError):
            return from_json(content, allow_partial=True)

    def _stored(self, session: str, storage: Path) -> Iterator[_Json]:
        """The messages of a session in OpenCode's folder, each with its parts."""

        def read(folder: Path) -> Iterator[tuple[str, object]]:
            for path in sorted(folder.glob("*.json")):
                yield path.stem, self._value(path.read_bytes(), str(path))

        for name, info in read(storage / "message" / re.sub(r"\W", "-", session)):
            yield {"info": info, "parts": [part for _, part in read(storage / "part" / name)]}


def _form_of(head: _Json, row: object) -> _Json | None:
    return next((one for one in _FORMS if any(_holds(row, fit) or _holds(head, fit) for fit in one["fits"])), None)


@cache
def _paths(spec: str) -> list[list[str]]:
    return [path.split(".") for path in spec.split("|")] if spec else []


def _at(value: object, spec: str) -> Any:
    """What stands at the first of these paths that is there and not an empty text; None for nothing."""
    for path in _paths(spec):
        found = value
        for name in path:
            found = cast("_Json", found).get(name) if isinstance(found, dict) else None
        if found is not None and found != "":
            return found
    return None


@cache
def _conditions(spec: str) -> list[tuple[str, str, list[str]]]:
    found = re.findall(r"([^ &=!]+)(?:(!?=)([^&]*))?", spec)
    return [(path, sign, values.split()) for path, sign, values in found]


def _holds(value: object, spec: str) -> bool:
    """Whether a condition of `session_files.toml` holds."""
    for path, sign, values in _conditions(spec):
        found = _at(value, path)
        is_one = (str(found).lower() if isinstance(found, bool) else found) in values
        if is_one != (sign == "=") if sign else found in (None, False):
            return False
    return True


def json_object(text: str) -> _Json:
    """Return the object that a JSON text holds; empty for any other text."""
    return fields_of(_json(text)) or {}


def _shown(content: object) -> str:
    """The texts of a content, each on lines of its own; any other value as JSON."""
    try:
        return shown_text(read_parts(content))
    except UnreadReply:
        return written(content)


def _short(text: str) -> str:
    return storable(cut(text, MAX_TEXT))


def _json(text: str | bytes) -> object:
    """The value of a JSON text; None when it is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
