"""Which files of a dataset's repository are its splits: as its card says, or by the names of the files. Pure.

The rules are those of the hub (https://huggingface.co/docs/hub/datasets-data-files-configuration), for files that are
read here. A dataset that a program in its repository makes has no splits here: no such program is run.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import yaml

from agentlearn.data.file_text import ending

CARD = "README.md"
_KEYWORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_ENDINGS = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
_NOT_DATA = {"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
_SHARD = re.compile(r"data/(\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}[^/]*")
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """One split of a dataset."""

    config: str
    """Name of the part of the dataset; "default" where it has only one."""
    name: str
    files: tuple[str, ...]
    """Paths in the repository, in the order in which they are read."""
    is_default: bool = False
    """Whether the card says that its part is meant where none is named."""


def splits_of(names: Sequence[str], card: str) -> tuple[SplitFiles, ...]:
    """Return all splits that can be read here. names: the repository's files. card: the text of its card."""
    files = [name for name in sorted(names) if _is_data(name)]
    configs = list(_configs(card))
    if not configs:
        return tuple(_by_name("default", files))
    return tuple(split for config in configs for split in _of_config(config, files))


def programs_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the programs at the top of a repository, one of which may be what makes the dataset."""
    return tuple(name for name in names if name.endswith(".py") and "/" not in name)


def _is_data(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__")) for part in path.parts)
    return not hidden and path.name not in _NOT_DATA and ending(path) in _ENDINGS


def _configs(card: str) -> Iterator[Mapping[str, object]]:
    """Yield what the card says about each part of the dataset."""
    front = _FRONT.match(card)
    try:
        header = yaml.safe_load(front[1]) if front else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    configs = header.get("configs") if isinstance(header, Mapping) else None
    for config in configs if isinstance(configs, list) else []:
        if isinstance(config, Mapping):
            yield config


def _of_config(config: Mapping[str, object], files: Sequence[str]) -> Iterator[SplitFiles]:
    name, folder = str(config.get("config_name") or "default"), str(config.get("data_dir") or "").strip("./")
    inside = [one for one in files if not folder or one.startswith(f"{folder}/")]
    given, is_default = config.get("data_files"), config.get("default") is True
    if given is None:
        yield from _by_name(name, inside, is_default=is_default)
        return
    for split, patterns in _patterns(given):
        rules = [_pattern(pattern, folder) for pattern in patterns]
        found = tuple(one for rule in rules for one in inside if _fits(one, rule))
        if found:
            yield SplitFiles(name, split, tuple(dict.fromkeys(found)), is_default)


def _patterns(given: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield splits and their patterns, from any of the forms in which cards write them."""
    match given:
        case str():
            yield "train", (given,)
        case list() if all(isinstance(one, str) for one in given):
            yield "train", tuple(given)
        case list():
            for one in given:
                if isinstance(one, Mapping) and (path := one.get("path")):
                    yield str(one.get("split") or "train"), (path,) if isinstance(path, str) else tuple(map(str, path))
        case Mapping():
            for split, path in given.items():
                yield str(split), (path,) if isinstance(path, str) else tuple(map(str, path or ()))
        case _:
            return


def _pattern(pattern: str, folder: str) -> tuple[str, ...]:
    """Return a pattern of a card as one pattern per part of a path."""
    return tuple(part for part in (*folder.split("/"), *pattern.split("/")) if part not in {"", "."})


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


def _by_name(config: str, files: Sequence[str], *, is_default: bool = False) -> Iterator[SplitFiles]:
    """Yield the splits that names give: shards in `data/`, else words in names of files, else in names of folders."""
    files = _of_usual_ending(files)
    shards = [(found[1], one) for one in files if (found := _SHARD.fullmatch(one))]
    by_file = [(split, one) for one in files for split in _words(PurePosixPath(one).name)]
    by_folder = [(split, one) for one in files for split in _words(str(PurePosixPath(one).parent))]
    chosen = shards or by_file or by_folder or [("train", one) for one in files]
    for split in dict.fromkeys(split for split, _ in chosen):
        yield SplitFiles(config, split, tuple(one for of, one in chosen if of == split), is_default)


def _of_usual_ending(files: Sequence[str]) -> list[str]:
    """Return the files with the ending that most have: the others are in another layout, or describe the dataset."""
    counts = Counter(ending(PurePosixPath(one)) for one in files)
    best = max(_ENDINGS, key=lambda one: counts[one])
    return [one for one in files if ending(PurePosixPath(one)) == best]


def _words(text: str) -> Iterator[str]:
    words = set(re.split(r"[-._ 0-9/]+", text))
    return (split for split, keywords in _KEYWORDS.items() if words.intersection(keywords))
