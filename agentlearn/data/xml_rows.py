"""Reading rows from XML in the layout of ASDiv: each `Problem` element is a row, its children are the columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError

ROW = "problem"
"""Name of the elements that are rows."""


def xml_rows(text: str, name: str) -> Iterator[SourceRow]:
    """Yield one row per `Problem`, with its attributes and its children as columns. Raises DataError."""
    reader = _Reader(name)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        cause = expat.ErrorString(error.code)
        raise DataError(f"{name} line {error.lineno} is not XML ({cause}); correct it, or give JSONL or CSV") from error
    yield from reader.rows


@dataclass(slots=True)
class _Reader:
    """The rows met so far, and the one that is being read."""

    name: str
    rows: list[SourceRow] = field(default_factory=list[SourceRow])
    parser: expat.XMLParserType = field(init=False)
    _depth: int = 0
    _row_depth: int = 0
    _line: int = 0
    _fields: dict[str, object] = field(default_factory=dict[str, object])
    _fault: str = ""
    _text: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.parser = expat.ParserCreate(encoding="utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        self.parser.EntityDeclHandler = self._refuse_entity

    def _refuse_entity(self, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise DataError(f"{self.name} line {line} declares an XML entity; write its text where it is used")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._text.clear()
        if not self._row_depth and tag.casefold() == ROW:
            self._row_depth, self._line = self._depth, self.parser.CurrentLineNumber
            self._fields, self._fault = dict(attributes), ""
        elif self._row_depth and self._depth > self._row_depth + 1:
            self._fault = f"holds the element {tag!r} inside another one; write plain text there"

    def _end(self, tag: str) -> None:
        if self._row_depth and self._depth == self._row_depth + 1:
            if tag in self._fields:
                self._fault = f"has the element {tag!r} twice; keep one of them"
            self._fields[tag] = "".join(self._text).strip()
        elif self._depth == self._row_depth:
            fault = f"{self.name} line {self._line} {self._fault}" if self._fault else ""
            self.rows.append(SourceRow(f"{self.name}:{self._line}", self._fields, fault=fault))
            self._row_depth = 0
        self._depth -= 1
