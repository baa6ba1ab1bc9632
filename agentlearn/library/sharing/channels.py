"""Where packages are found: a folder with `/.well-known/skills/index.json`, which git or a web server carries on.

An index lists the packages of a channel, each with what its release says. It is signed, so that nobody can leave out a
package or name another. A package that is published elsewhere is one CAR file, which a gateway sends for its address.
Everything that is read is foreign: names are checked, links are refused, sizes are limited.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agentlearn.errors import AgentlearnError, LibraryError, SharingError
from agentlearn.library.formats.markdown import escaped
from agentlearn.library.history.change_log import checked_name
from agentlearn.library.sharing import MAX_BYTES, SKILLS, content_of
from agentlearn.library.sharing.content_id import LIBRARY_FILE, Package, checked_path
from agentlearn.library.sharing.signing import SIGNATURES, STATEMENT, Keys, PrivateKey, Release, opened, sealed, verify
from agentlearn.library.sharing.signing import statement as statement_of
from agentlearn.text import visible_line
from agentlearn.text.files import own, refuse_links, write_whole
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.rendering import headline

CARD_FILE = "README.md"
_HUB_LICENCES = frozenset(
    {"apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc-by-4.0", "cc-by-nc-4.0", "cc-by-sa-4.0", "cc0-1.0", "mit"}
)
"""Identifiers that the Hugging Face hub knows. It is told of any other licence as `other`, with its name."""
_CARD_LESSONS = 100
"""Largest number of lessons on a card."""
_DOWNLOAD_S = 60.0
"""Largest duration of a download."""
_INDEX, _INDEX_SIGNATURE = "index.json", "index.json.sig"
_INDEX_TYPE = "https://github.com/agentlearn/agentlearn-lib/index/v1"


def _read(folder: Path, name: str) -> bytes:
    return content_of(own(folder / checked_path(name), folder))


def _listed(place: Path) -> set[str]:
    """The names of the files in a folder, without hidden ones."""
    found = (Path(where, name).relative_to(place) for where, _, inside in os.walk(place) for name in inside)
    return {one.as_posix() for one in found if not any(part.startswith(".") for part in one.parts)}


def read_package(place: Path, names: list[str] | None = None) -> Package:
    """Return the package in a folder or a CAR file. names: its files, if known; another one beside them is refused.

    Raises AgentlearnError, and OSError for a link.
    """
    if not place.is_dir():
        return Package.of_car(content_of(place))
    refuse_links(place)
    found = _listed(place)
    package = Package.of({name: _read(place, name) for name in (found if names is None else names)})
    if odd := sorted(found - package.files.keys()):
        raise SharingError(f"{odd[0]!r} is no file of the package; do not use this copy", code="other_files")
    return package


def write_package(package: Package, place: Path, *, replace: bool = False) -> None:
    """Write a package to a folder, or to a file `*.car`. replace: in place of another package.

    Raises LibraryError where something else is there, and OSError.
    """
    old = _listed(place)
    if place.is_symlink() or place.is_file() or (old and not (replace and LIBRARY_FILE in old)):
        raise LibraryError(f"{str(place)!r} exists, and is no package to replace; give another", code="exists")
    for name in old - package.files.keys():
        own(place / name, place).unlink()
    parts = {own(place / name, place): content for name, content in package.files.items()}
    for file, content in ({place: package.car} if place.suffix == ".car" else parts).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)


def claimed(package: Package) -> Release:
    """Return the release that a package holds, about its files, whoever signed it. Raises SharingError."""
    bundle = next((content for name, content in package.files.items() if name.startswith(SIGNATURES)), b"")
    return Release.signed_in(opened(bundle, STATEMENT, None)[0], package)


def publish(package: Package, channel: Path, description: str, key: PrivateKey, now: datetime) -> None:
    """Put a package into a channel's folder, and sign its new index. Raises AgentlearnError."""
    release, folder = claimed(package), channel / SKILLS
    before = _entries(folder, {}) if (folder / _INDEX).exists() else []
    write_package(package, folder / checked_name(release.name), replace=True)
    said = {"address": package.address, **release.model_dump(mode="json")}
    about = {"description": description, "files": list(package.files), "agentlearn": said}
    entries = [*(one for one in before if one["name"] != release.name), {"name": release.name, **about}]
    index = (json.dumps({"skills": entries}, ensure_ascii=False, indent=1) + "\n").encode()
    write_whole(folder / _INDEX, index)
    signed = statement_of(_INDEX, hashlib.sha256(index).hexdigest(), _INDEX_TYPE, {"issued": now.isoformat()})
    write_whole(folder / _INDEX_SIGNATURE, sealed(signed, STATEMENT, key))


def _entries(folder: Path, keys: Keys) -> list[dict[str, Any]]:
    """The entries of the index in a folder. keys: those that are trusted, one of which must have signed it."""
    try:
        index = _read(folder, _INDEX)
        if keys:
            said = opened(_read(folder, _INDEX_SIGNATURE), STATEMENT, keys)[0]
            predicate = json.loads(said)["predicate"]
            if said != statement_of(_INDEX, hashlib.sha256(index).hexdigest(), _INDEX_TYPE, predicate):
                raise SharingError("the index of the channel is not the one that was signed", code="other_index")
        entries = json.loads(index)["skills"]
        return [{**one, "name": str(one["name"]), "files": list(map(str, one["files"]))} for one in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LibraryError(f"the channel has no index that can be read: {error!r}"[:300]) from error


def fetch(source: str, name: str, keys: Keys, address: str = "") -> Package:
    """Return a package of a channel; or the one in a folder, in a CAR file, or behind the URL of a CAR file.

    keys: those that are trusted, by id; where there are any, one of them must have signed the index. The signatures of
    the package itself are not checked. address: its content id, where it is known; a URL needs it. Raises
    AgentlearnError.
    """
    if "://" in source:
        if not address:
            raise LibraryError(f"name the content id that {source!r} must have, with --address")
        return _expected(Package.of_car(_downloaded(source)), address)
    place = Path(source)
    if not (place / SKILLS).is_dir():
        return _expected(read_package(place), address)
    entries = {one["name"]: one for one in _entries(place / SKILLS, keys)}
    if name not in entries:
        found = ", ".join(map(repr, entries)) or "none"
        raise LibraryError(f"{source!r} has no library {name!r} (found: {found})", code="unknown_library")
    return _listed_package(place, entries[name], address)


def _listed_package(channel: Path, entry: dict[str, Any], address: str = "") -> Package:
    """The package that an entry of an index names."""
    package = read_package(channel / SKILLS / checked_name(entry["name"]), entry["files"])
    said = entry.get("agentlearn", {})
    return _expected(package, address or (str(said.get("address", "")) if isinstance(said, Mapping) else ""))


def _expected(package: Package, address: str) -> Package:
    """The package, if it has the address; an empty one is not checked."""
    if address not in {"", package.address}:
        raise SharingError(f"{address} was expected, and {package.address} is there", code="wrong_content")
    return package


def _downloaded(url: str) -> bytes:
    """What a gateway sends. Redirects are not followed. Raises SharingError with the code `gateway`."""
    import httpx2  # for packages behind a URL only

    started, content = time.monotonic(), bytearray()
    try:
        with httpx2.stream("GET", url, headers={"accept-encoding": "identity"}, timeout=20) as answer:
            if answer.status_code != 200:
                raise SharingError(f"{url!r} answered {answer.status_code}, not with a file", code="gateway")
            for part in answer.iter_raw():
                content += part
                if len(content) > MAX_BYTES or time.monotonic() - started > _DOWNLOAD_S:
                    limits = f"{MAX_BYTES // 1_000_000} MB in {_DOWNLOAD_S:.0f} s"
                    raise SharingError(f"{url!r} sends more than a package, or too slowly: {limits}", code="gateway")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = f"{url!r} could not be read: {error or type(error).__name__}"[:300]
        raise SharingError(f"{why}; check the address, or try another gateway", code="gateway") from error
    return bytes(content)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a channel offers under a name. All of it is foreign."""

    name: str
    description: str
    package: Package | None = None
    """None where no package can be read."""
    release: Release | None = None
    """What is said about the package, whoever signed it."""
    signers: tuple[str, ...] = ()
    """The ids of the trusted keys that signed the release; empty for none, or where no key is known."""
    refusal: AgentlearnError | None = None
    """Why the release does not count as signed, or why the package cannot be read."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel to look at."""

    folder: Path
    keys: Keys
    """Those that are trusted; where there are any, one of them must have signed the index."""

    def offers(self, now: datetime, first: int = 0, most: int = 20) -> tuple[list[Offer], int]:
        """Return at most `most` offers from the number `first` on, and how many there are. Raises AgentlearnError."""
        entries = _entries(self.folder / SKILLS, self.keys)
        return [self._offer(one, now) for one in entries[first : first + most]], len(entries)

    def _offer(self, entry: dict[str, Any], now: datetime) -> Offer:
        package, release, signers = None, None, tuple[str, ...]()
        refusal: AgentlearnError | None = None
        try:
            package = _listed_package(self.folder, entry)
            release = claimed(package)
            if release.name != entry["name"]:
                raise SharingError(f"the release is of {release.name!r}", code="wrong_name")
            if self.keys:
                signers = verify(package, self.keys, now)[1]
        except AgentlearnError as error:
            refusal = error
        return Offer(entry["name"], str(entry.get("description", "")), package, release, signers, refusal)


def hub_card(library: Library, name: str, description: str, told: Mapping[str, str]) -> bytes:
    """Return the card of a repository on a hub: `README.md`, with front matter as the Hugging Face hub reads it.

    told: model, domain, licence and price, as they are signed; empty where nothing is said.
    """
    licence = visible_line(told["licence"])
    other = ["license: other", f"license_name: {json.dumps(licence, ensure_ascii=False)}"] if licence else []
    front = [f"license: {licence.lower()}"] if licence.lower() in _HUB_LICENCES else other
    facts = {**told, "version": library.version}
    rows = [f"| {what} | {escaped(visible_line(text))} |" for what, text in facts.items() if text]
    shown = [f"- {escaped(visible_line(headline(one.lesson)))}" for one in library.experiences[:_CARD_LESSONS]]
    more = len(library) - len(shown)
    lines = [
        *("---", *front, "library_name: agentlearn", "tags:", "- agentlearn", "- agent-skills", "---", ""),
        *(f"# {escaped(name)}", "", escaped(visible_line(description)), "", "| | |", "|---|---|", *rows, ""),
        "Prices and licences are information: nothing is sold or paid here. The files are signed. Check who signed",
        "them before you use the lessons:",
        *("", "```sh", "pip install 'agentlearn-lib[share]'", "agentlearn library verify . --key KEY.pub"),
        *(f"agentlearn library fetch . {name} --key KEY.pub", "```", ""),
        *(f"## {counted_lessons(len(library)).capitalize()}", "", *shown),
        *(["", f"and {more:,} more in `{LIBRARY_FILE}`"] if more else []),
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
