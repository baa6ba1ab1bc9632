"""Datasets of the Hugging Face hub: `hf:aime24` and other short names, or `hf:OWNER/NAME[:SPLIT]`.

A short name fixes one revision of one dataset, so that a run can be repeated, and maps its columns to `problem` and
`answer`. Only `webwalkerqa` uses the newest revision and keeps its rows as they are: the web domain reads both of its
column layouts. A dataset with several parts is read as `hf:OWNER/NAME:PART/SPLIT`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agentlearn.data.files import file_rows
from agentlearn.data.hub_files import HubSplit, split_files
from agentlearn.data.row import SourceRow, cell
from agentlearn.errors import DataError

HUB = "hf:"


@dataclass(frozen=True, slots=True)
class Published:
    """A dataset of the hub."""

    dataset: str
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    """Commit of the dataset's repository; None: the newest."""
    columns: tuple[str, str] | None = None
    """Names of the problem and answer columns; None leaves the rows as they are."""
    rows: int | None = None
    """Approximate number of different problems, for estimates."""
    around: tuple[str, str] = ("", "")
    """Text before and after each problem that belongs to another agent's prompt; it is removed."""


_DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer:"
    " $Answer (without quotes) where $Answer is the answer to the problem."
)
_DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'

PUBLISHED: Mapping[str, Published] = {
    "aime24": Published(
        "HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        columns=("problem", "answer"),
        rows=30,
    ),
    "aime25": Published(
        "math-ai/aime25",
        split="test",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        columns=("problem", "answer"),
        rows=30,
    ),
    "dapo-math-17k": Published(
        "BytedTsinghua-SIA/DAPO-Math-17k",
        revision="65877096c24ffa7abc4e4fa5edb95cf3413a5674",
        columns=("prompt", "reward_model.ground_truth"),
        rows=17_400,
        around=(_DAPO_BEFORE, _DAPO_AFTER),
    ),
    "gsm8k": Published(
        "openai/gsm8k",
        config="main",
        revision="740312add88f781978c0658806c59bc2815b9866",
        columns=("question", "answer"),
        rows=7_473,
    ),
    "webwalkerqa": Published("callanwu/WebWalkerQA", split="main", rows=680),
}
"""Datasets by short name. DAPO-Math-17k contains each problem about a hundred times; it is read once."""


def published(source: str) -> tuple[str, Published]:
    """Return name and dataset of `hf:NAME` or `hf:OWNER/NAME`, each with or without `:SPLIT` or `:PART/SPLIT`.

    Raises DataError.
    """
    name, _, split = source.removeprefix(HUB).partition(":")
    known = PUBLISHED.get(name.casefold())
    if known is None:
        if name.count("/") != 1 or not all(name.split("/")):
            names = ", ".join(repr(HUB + one) for one in PUBLISHED)
            raise DataError(f"{source!r} is not a known short name of a dataset ({names}); write 'hf:OWNER/NAME:SPLIT'")
        known = Published(name)
    if not split:
        return name, known
    config, _, split = split.rpartition("/")
    return name, replace(known, config=config or known.config, split=split, rows=None)


def hub_name(source: str) -> str:
    """Return the dataset's name without its owner."""
    return published(source)[0].rpartition("/")[2]


def hub_rows(source: str) -> Iterator[SourceRow]:
    """Yield the dataset's rows. Raises MissingExtra, or DataError when hub or dataset cannot be reached."""
    _, one = published(source)
    paths = split_files(HubSplit(source, one.dataset, one.config, one.split, one.revision))
    for number, row in enumerate(row for path in paths for row in file_rows(path)):
        yield SourceRow(f"{source}#{number}", row.fields if row.fault else _mapped(one, row.fields), row.fault)


def _mapped(one: Published, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the row with the columns `problem` and `answer`, for a dataset whose columns are known."""
    if one.columns is None:
        return dict(fields)
    problem, answer = one.columns
    rest = {name: value for name, value in fields.items() if name not in {"problem", "question"}}
    text = SourceRow(f"{one.dataset}#0", fields).text(problem)
    return rest | {"problem": _without(one.around, text), "answer": cell(fields, answer)}


def _without(around: tuple[str, str], text: str) -> str:
    before, after = around
    return text.removeprefix(before).removesuffix(after).strip()
