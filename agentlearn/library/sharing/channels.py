"""Where packages are found: a folder with `/.well-known/skills/index.json`, which git or a web server carries on.

An index lists the packages of a channel, each with what its release says. It is signed, so that nobody can leave out a
package or name another. Everything that is read is foreign: names are checked, links are refused, sizes are limited.
"""

import hashlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from agentlearn.errors import LibraryError, SharingError
from agentlearn.files import own, write_whole
from agentlearn.library.history.change_log import checked_name
from agentlearn.library.sharing import content_of
from agentlearn.library.sharing.content_id import LIBRARY_FILE, Package, checked_path
from agentlearn.library.sharing.signing import SIGNATURES, STATEMENT, Keys, PrivateKey, Release, opened, sealed
from agentlearn.library.sharing.signing import statement as statement_of

SKILLS = Path(".well-known", "skills")
_INDEX, _INDEX_SIGNATURE = "index.json", "index.json.sig"
_INDEX_TYPE = "https://github.com/agentlearn/agentlearn-lib/index/v1"


def _read(folder: Path, name: str) -> bytes:
    return content_of(own(folder / checked_path(name), folder))


def _listed(place: Path) -> set[str]:
    """The names of the files in a folder, without hidden ones."""
    found = (Path(where, name).relative_to(place) for where, _, inside in os.walk(place) for name in inside)
    return {one.as_posix() for one in found if not any(part.startswith(".") for part in one.parts)}


def read_package(place: Path, names: list[str] | None = None) -> Package:
    """Return the package in a folder or a CAR file. names: its files, if known.

    Raises AgentlearnError, and OSError for a link.
    """
    if not place.is_dir():
        return Package.of_car(content_of(place))
    return Package.of({name: _read(place, name) for name in (_listed(place) if names is None else names)})


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
        raise LibraryError(f"the channel has no index that can be read: {error!r}"[:300], code="bad_index") from error


def fetch(source: Path, name: str, keys: Keys, address: str = "") -> Package:
    """Return a package of a channel; or the one in a folder or a CAR file. address: its content id, where it is known.

    keys: those that are trusted, by id; where there are any, one of them must have signed the index. The signatures of
    the package itself are not checked. Raises AgentlearnError.
    """
    place, names = source, None
    if (source / SKILLS).is_dir():
        entries = {one["name"]: one for one in _entries(source / SKILLS, keys)}
        if name not in entries:
            found = ", ".join(map(repr, entries)) or "none"
            raise LibraryError(f"{str(source)!r} has no library {name!r} (found: {found})", code="unknown_library")
        place, names = source / SKILLS / checked_name(name), entries[name]["files"]
        address = address or str(entries[name].get("agentlearn", {}).get("address", ""))
    package = read_package(place, names)
    if address not in {"", package.address}:
        raise SharingError(f"{address} was expected, and {package.address} is there", code="wrong_content")
    return package
