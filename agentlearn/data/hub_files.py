"""The files of one split of a dataset, from the hub or from the cache on this machine, one at a time."""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from agentlearn.data.hub_splits import CARD, SplitFiles, programs_in, splits_of
from agentlearn.errors import DataError, MissingExtra
from agentlearn.files import write_whole

HUB_EXTRA = "pip install 'agentlearn-lib[hub]'"
CONNECT_S = 3.0
"""Longest wait for the hub to accept a connection."""
_TIMEOUT_S = 30.0
_DATASET = "dataset"
_COMMIT = re.compile("[0-9a-f]{40}")
T = TypeVar("T")


class HubSplit(NamedTuple):
    """Which rows of which dataset."""

    source: str
    """As the user named it, for messages."""
    dataset: str
    """OWNER/NAME."""
    config: str | None
    """Part of the dataset; None: its default."""
    split: str
    revision: str | None
    """Commit, branch or tag; None: the newest."""


class _Listing(NamedTuple):
    """What a repository holds at one commit."""

    commit: str
    files: tuple[str, ...]


def split_files(wanted: HubSplit) -> Iterator[Path]:
    """Yield the split's files, each fetched when it is asked for. Raises MissingExtra, or DataError.

    The list of files and the files are kept in the hub's own cache, and are read from there when the hub cannot be
    reached.
    """
    if not _client_installed():
        raise MissingExtra(f"reading {wanted.source!r} needs huggingface_hub: {HUB_EXTRA}")
    unreachable = why_unreachable()
    listing = _attempt(wanted, unreachable, lambda: _listing(wanted, offline=bool(unreachable)))
    card = ""
    if CARD in listing.files:
        path = _attempt(wanted, unreachable, lambda: _fetched(wanted, listing, CARD, offline=bool(unreachable)))
        card = path.read_text(encoding="utf-8", errors="replace")
    for name in _chosen(wanted, splits_of(listing.files, card), listing.files).files:
        yield _attempt(
            wanted, unreachable, lambda name=name: _fetched(wanted, listing, name, offline=bool(unreachable))
        )


def _chosen(wanted: HubSplit, splits: tuple[SplitFiles, ...], files: tuple[str, ...]) -> SplitFiles:
    """Return the split that is wanted. Raises DataError."""
    if not splits:
        programs = programs_in(files)
        why = (
            f"it is made by a program ({programs[0]}), and no program of a dataset is run"
            if programs
            else "it has no file in JSON, JSON Lines, CSV, TSV or Parquet"
        )
        raise _refused(wanted, f"{why}; download its rows and give them as a file")
    configs = list(dict.fromkeys(one.config for one in splits))
    config = wanted.config or _default_config(splits, configs)
    if config not in configs:
        names = ", ".join(f"'hf:{wanted.dataset}:{one}/{wanted.split}'" for one in configs[:_SHOWN])
        had = f"has no part {config!r}" if config else "has several parts"
        raise _refused(wanted, f"it {had}; write {names}{' and so on' if len(configs) > _SHOWN else ''}")
    found = {one.name: one for one in splits if one.config == config}
    if wanted.split not in found:
        raise _refused(wanted, f"it has no split {wanted.split!r}; choose one of {', '.join(map(repr, found))}")
    return found[wanted.split]


_SHOWN = 8


def _default_config(splits: tuple[SplitFiles, ...], configs: list[str]) -> str | None:
    marked = [one.config for one in splits if one.is_default]
    return next(iter([*marked, *(one for one in configs if one == "default" or len(configs) == 1)]), None)


def _listing(wanted: HubSplit, *, offline: bool) -> _Listing:
    """Return the files of the repository; what a commit holds never changes, so the hub is asked once."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import LocalEntryNotFoundError

    kept = Path(HF_HUB_CACHE, "agentlearn-file-lists", f"{wanted.dataset.replace('/', '--')}@{wanted.revision}.json")
    fixed = wanted.revision is not None and _COMMIT.fullmatch(wanted.revision)
    if (fixed or offline) and kept.is_file():
        commit, files = json.loads(kept.read_text(encoding="utf-8"))
        return _Listing(commit, tuple(files))
    if offline:
        raise LocalEntryNotFoundError(f"{wanted.dataset} is not in the cache")
    info = HfApi(endpoint=_endpoint()).dataset_info(wanted.dataset, revision=wanted.revision, timeout=_TIMEOUT_S)
    listing = _Listing(str(info.sha), tuple(one.rfilename for one in info.siblings or ()))
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, json.dumps(listing).encode())
    return listing


def _fetched(wanted: HubSplit, listing: _Listing, name: str, *, offline: bool) -> Path:
    from huggingface_hub import hf_hub_download

    path = hf_hub_download(
        wanted.dataset,
        name,
        repo_type=_DATASET,
        revision=listing.commit,
        endpoint=_endpoint(),
        local_files_only=offline,
    )
    return Path(str(path))


def _attempt(wanted: HubSplit, unreachable: str, ask: Callable[[], T]) -> T:
    """Return what the hub's client gives. Raises DataError for every failure of it."""
    try:
        return ask()
    except Exception as error:  # the client raises errors of several libraries, with no common base class
        if unreachable:
            raise DataError(
                f"{wanted.source!r} cannot be read: {unreachable}, and the dataset {wanted.dataset!r} is not in the"
                " cache of this machine; check the network, or give a file",
                code="hub",
            ) from error
        cause = " ".join(str(error).split()) or type(error).__name__
        raise _refused(wanted, f"{cause}; check name, split and network, or give a file") from error


def _refused(wanted: HubSplit, why: str) -> DataError:
    return DataError(f"{wanted.source!r} cannot be read: {why}", code="hub")


def why_unreachable() -> str:
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


def _client_installed() -> bool:
    try:
        return find_spec("huggingface_hub") is not None
    except (ImportError, ValueError):
        return False


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
