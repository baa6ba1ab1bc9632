"""Datasets of the Hugging Face hub: `hf:aime24` and other short names, or `hf:OWNER/NAME[:SPLIT]`.

A short name fixes one revision of one dataset, so that a run can be repeated, and maps its columns to `problem` and
`answer`. Only `webwalkerqa` uses the newest revision and keeps its rows as they are: the web domain reads both of its
column layouts. A dataset with several parts is read as `hf:OWNER/NAME:PART/SPLIT`.

The rules are those of the hub (https://huggingface.co/docs/hub/datasets-data-files-configuration), for files that are
read here. A dataset that a program in its repository makes has no splits here: no such program is run.
"""

import json
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml

from agentlearn.data.files import ending, file_rows
from agentlearn.data.row import SourceRow, cell
from agentlearn.errors import DataError, MissingExtra
from agentlearn.text.files import write_whole

HUB = "hf:"
CONNECT_S = 3.0
"""Longest wait for the hub to accept a connection."""
_KEYWORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_ENDINGS = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
_NOT_DATA = {"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
_SHARD = re.compile(r"data/(\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}[^/]*")
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_COMMIT = re.compile("[0-9a-f]{40}")
_SHOWN = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _SplitFiles:
    """One split of a dataset."""

    config: str
    """Name of the part of the dataset; "default" where it has only one."""
    name: str
    files: tuple[str, ...]
    """Paths in the repository, in the order in which they are read."""
    is_default: bool = False
    """Whether the card says that its part is meant where none is named."""

    @classmethod
    def by_name(cls, config: str, files: Sequence[str], *, is_default: bool = False) -> "Iterator[_SplitFiles]":
        """Yield the splits that names give: shards in `data/`, else words in names of files, else in names of folders.

        Only the files with the ending that most have count: the others are in another layout, or describe the dataset.
        """
        counts = Counter(ending(PurePosixPath(one)) for one in files)
        usual = max(_ENDINGS, key=lambda one: counts[one])
        files = [one for one in files if ending(PurePosixPath(one)) == usual]

        def named(text: str) -> list[str]:
            words = set(re.split(r"[-._ 0-9/]+", text))
            return [split for split, keywords in _KEYWORDS.items() if words.intersection(keywords)]

        chosen = (
            [(found[1], one) for one in files if (found := _SHARD.fullmatch(one))]
            or [(split, one) for one in files for split in named(PurePosixPath(one).name)]
            or [(split, one) for one in files for split in named(str(PurePosixPath(one).parent))]
            or [("train", one) for one in files]
        )
        for split in dict.fromkeys(split for split, _ in chosen):
            yield cls(config, split, tuple(one for of, one in chosen if of == split), is_default)

    @classmethod
    def of_config(cls, config: Mapping[str, object], files: Sequence[str]) -> "Iterator[_SplitFiles]":
        """Yield the splits of one part of the dataset, as its card gives them."""
        name, folder = str(config.get("config_name") or "default"), str(config.get("data_dir") or "").strip("./")
        inside = [one for one in files if not folder or one.startswith(f"{folder}/")]
        given, is_default = config.get("data_files"), config.get("default") is True
        if given is None:
            yield from cls.by_name(name, inside, is_default=is_default)
            return
        for split, patterns in _patterns(given):
            rules = [
                tuple(part for part in (*folder.split("/"), *pattern.split("/")) if part not in {"", "."})
                for pattern in patterns
            ]
            found = tuple(dict.fromkeys(one for rule in rules for one in inside if _fits(one, rule)))
            if found:
                yield cls(name, split, found, is_default)


def splits_of(names: Sequence[str], card: str) -> tuple[_SplitFiles, ...]:
    """Return all splits that can be read here. names: the repository's files. card: the text of its card."""
    files: list[str] = []
    for name in sorted(names):
        path = PurePosixPath(name)
        hidden = any(part.startswith((".", "__")) for part in path.parts)
        if not hidden and path.name not in _NOT_DATA and ending(path) in _ENDINGS:
            files.append(name)
    front = _FRONT.match(card)
    try:
        header = yaml.safe_load(front[1]) if front else None
    except (yaml.YAMLError, ValueError, RecursionError):
        header = None
    given = header.get("configs") if isinstance(header, Mapping) else None
    configs = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    if not configs:
        return tuple(_SplitFiles.by_name("default", files))
    return tuple(split for config in configs for split in _SplitFiles.of_config(config, files))


def _patterns(given: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield splits and their patterns, from any of the forms in which cards write them."""
    if isinstance(given, str) or (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        given = {"train": given}
    if isinstance(given, Mapping):
        given = [{"split": split, "path": path} for split, path in given.items()]
    for one in given if isinstance(given, list) else []:
        if isinstance(one, Mapping) and (path := one.get("path")):
            yield str(one.get("split") or "train"), (path,) if isinstance(path, str) else tuple(map(str, path))


def _fits(path: str, pattern: tuple[str, ...]) -> bool:
    """Whether a path fits a pattern, in which `**` stands for any number of folders."""
    parts = path.split("/")
    reached = {0}
    """How many parts of the path the parts of the pattern so far can take."""
    for one in pattern:
        if one == "**":
            reached = set(range(min(reached), len(parts) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], one)}
    return len(parts) in reached


@dataclass(frozen=True, slots=True)
class _Published:
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

    def chosen(self, splits: tuple[_SplitFiles, ...], files: Sequence[str]) -> _SplitFiles | str:
        """Return the split that is wanted, or why there is none."""
        if not splits:
            program = next((name for name in files if name.endswith(".py") and "/" not in name), None)
            why = "it has no file in JSON, JSON Lines, CSV, TSV or Parquet"
            if program is not None:
                why = f"it is made by a program ({program}), and no program of a dataset is run"
            return f"{why}; download its rows and give them as a file"
        configs = list(dict.fromkeys(one.config for one in splits))
        usual = [one for one in configs if one == "default" or len(configs) == 1]
        config = self.config or next(iter([*(one.config for one in splits if one.is_default), *usual]), None)
        if config not in configs:
            names = ", ".join(f"'hf:{self.dataset}:{one}/{self.split}'" for one in configs[:_SHOWN])
            had = f"has no part {config!r}" if config else "has several parts"
            return f"it {had}; write {names}{' and so on' if len(configs) > _SHOWN else ''}"
        found = {one.name: one for one in splits if one.config == config}
        if self.split not in found:
            return f"it has no split {self.split!r}; choose one of {', '.join(map(repr, found))}"
        return found[self.split]

    def listing(self, *, offline: bool) -> tuple[str, Sequence[str]]:
        """Return the commit and its files; what a commit holds never changes, so the hub is asked once."""
        from huggingface_hub import HfApi
        from huggingface_hub.constants import HF_HUB_CACHE
        from huggingface_hub.errors import LocalEntryNotFoundError

        kept = Path(HF_HUB_CACHE, "agentlearn-file-lists", f"{self.dataset.replace('/', '--')}@{self.revision}.json")
        fixed = self.revision is not None and _COMMIT.fullmatch(self.revision)
        if (fixed or offline) and kept.is_file():
            commit, files = json.loads(kept.read_text(encoding="utf-8"))
            return commit, files
        if offline:
            raise LocalEntryNotFoundError(f"{self.dataset} is not in the cache")
        info = HfApi(endpoint=_endpoint()).dataset_info(self.dataset, revision=self.revision, timeout=30.0)
        listing = str(info.sha), [one.rfilename for one in info.siblings or ()]
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps(listing).encode())
        return listing


_DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer:"
    " $Answer (without quotes) where $Answer is the answer to the problem."
)
_DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'

PUBLISHED: Mapping[str, _Published] = {
    "aime24": _Published(
        "HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        columns=("problem", "answer"),
        rows=30,
    ),
    "aime25": _Published(
        "math-ai/aime25",
        split="test",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        columns=("problem", "answer"),
        rows=30,
    ),
    "dapo-math-17k": _Published(
        "BytedTsinghua-SIA/DAPO-Math-17k",
        revision="65877096c24ffa7abc4e4fa5edb95cf3413a5674",
        columns=("prompt", "reward_model.ground_truth"),
        rows=17_400,
        around=(_DAPO_BEFORE, _DAPO_AFTER),
    ),
    "gsm8k": _Published(
        "openai/gsm8k",
        config="main",
        revision="740312add88f781978c0658806c59bc2815b9866",
        columns=("question", "answer"),
        rows=7_473,
    ),
    "webwalkerqa": _Published("callanwu/WebWalkerQA", split="main", rows=680),
}
"""Datasets by short name. DAPO-Math-17k contains each problem about a hundred times; it is read once."""


def published(source: str) -> tuple[str, _Published]:
    """Return name and dataset of `hf:NAME` or `hf:OWNER/NAME`, each with or without `:SPLIT` or `:PART/SPLIT`.

    Raises DataError.
    """
    name, _, split = source.removeprefix(HUB).partition(":")
    known = PUBLISHED.get(name.casefold())
    if known is None:
        if name.count("/") != 1 or not all(name.split("/")):
            names = ", ".join(repr(HUB + one) for one in PUBLISHED)
            raise DataError(f"{source!r} is not a known short name of a dataset ({names}); write 'hf:OWNER/NAME:SPLIT'")
        known = _Published(name)
    if not split:
        return name, known
    config, _, split = split.rpartition("/")
    return name, replace(known, config=config or known.config, split=split, rows=None)


def hub_rows(source: str) -> Iterator[SourceRow]:
    """Yield the dataset's rows. Raises MissingExtra, or DataError when hub or dataset cannot be reached.

    A file is fetched when its first row is asked for. The list of files and the files are kept in the hub's own cache,
    and are read from there when the hub cannot be reached.
    """
    _, one = published(source)
    for number, row in enumerate(row for path in _split_files(source, one) for row in file_rows(path)):
        fields = dict(row.fields)
        if one.columns is not None and not row.fault:
            problem, answer = one.columns
            text = SourceRow(f"{one.dataset}#0", fields).text(problem)
            plain = text.removeprefix(one.around[0]).removesuffix(one.around[1]).strip()
            rest = {name: value for name, value in fields.items() if name not in {"problem", "question"}}
            fields = rest | {"problem": plain, "answer": cell(fields, answer)}
        yield SourceRow(f"{source}#{number}", fields, row.fault)


def _split_files(source: str, wanted: _Published) -> Iterator[Path]:
    """Yield the files of a split, each fetched when it is asked for."""
    try:
        installed = find_spec("huggingface_hub") is not None
    except (ImportError, ValueError):
        installed = False
    if not installed:
        raise MissingExtra(f"reading {source!r} needs huggingface_hub: pip install 'agentlearn-lib[hub]'")
    unreachable = _why_unreachable()

    def refused(why: str) -> DataError:
        return DataError(f"{source!r} cannot be read: {why}")

    def attempt(ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Exception as error:  # the client raises errors of several libraries, with no common base class
            if unreachable:
                raise refused(
                    f"{unreachable}, and the dataset {wanted.dataset!r} is not in the cache of this machine; check the"
                    " network, or give a file"
                ) from error
            cause = " ".join(str(error).split()) or type(error).__name__
            raise refused(f"{cause}; check name, split and network, or give a file") from error

    def fetched(name: str) -> Path:
        from huggingface_hub import hf_hub_download

        path = hf_hub_download(
            wanted.dataset,
            name,
            repo_type="dataset",
            revision=commit,
            endpoint=_endpoint(),
            local_files_only=bool(unreachable),
        )
        return Path(str(path))

    commit, files = attempt(lambda: wanted.listing(offline=bool(unreachable)))
    card = ""
    if "README.md" in files:
        card = attempt(lambda: fetched("README.md")).read_text(encoding="utf-8", errors="replace")
    chosen = wanted.chosen(splits_of(files, card), files)
    if isinstance(chosen, str):
        raise refused(chosen)
    for name in chosen.files:
        yield attempt(lambda name=name: fetched(name))


def _why_unreachable() -> str:
    """Return why the hub cannot be reached, after at most a few seconds; empty when it seems that it can."""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().casefold() in {"1", "on", "yes", "true"}:
        return "HF_HUB_OFFLINE forbids to ask the hub"
    address = urlsplit(_endpoint())
    if getproxies() or not address.hostname:
        return ""
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname, port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"{address.hostname} does not answer ({error.strerror or error})"
    return ""


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
