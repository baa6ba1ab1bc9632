"""Content ids, CAR files and proofs: equal to those of the npm packages, and everything tampered with is refused."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import LibraryError, SharingError
from agentlearn.types.experience import Library, library_of

pytest.importorskip("libipld", reason="needs the extra share")
pytest.importorskip("Crypto", reason="needs the extra share")

from agentlearn.library.sharing.content_id import (
    LessonProof,
    Package,
    library_bytes,
    read_car,
    written_car,
)

VECTORS: Any = json.loads(Path(__file__).with_name("npm_vectors.json").read_text(encoding="utf-8"))
"""Made by `npm_vectors.mjs`; the file names the versions of the packages."""
FILES = {name: text.encode() for name, text in VECTORS["files"].items()}


def package_of(library: Library) -> Package:
    return Package.of({"library.json": library_bytes(library)})


def test_ids_blocks_and_the_car_are_those_of_the_npm_packages() -> None:
    package = Package.of(FILES)
    car = base64.b64decode(VECTORS["car"])
    assert (package.content, package.address, package.root) == tuple(
        VECTORS[name] for name in ("content", "address", "merkle")
    )
    assert package.car == car
    assert Package.of_car(car, VECTORS["address"]) == package


@given(st.integers(1, 40), st.data())
def test_every_lesson_has_a_proof_and_no_other_lesson_fits_it(size: int, data: st.DataObject) -> None:
    tree = package_of(library_of([f"Lesson number {number}." for number in range(size)]))
    one, other = (data.draw(st.integers(0, size - 1)) for _ in range(2))
    proof = tree.proof(tree.lessons[one].id)
    assert LessonProof.model_validate_json(proof.model_dump_json()) == proof
    proof.check(tree.root)
    if one != other:
        with pytest.raises(SharingError):
            proof.model_copy(update={"lesson": tree.lessons[other]}).check(tree.root)


def _with_block(car: bytes) -> bytes:
    root, blocks = read_car(car)
    return written_car(root, {**blocks, **dict(list(read_car(OTHER.car)[1].items())[:1])})


def _repeated(car: bytes) -> bytes:
    root, blocks = read_car(car)
    link, block = list(blocks.items())[-1]
    return car + written_car(root, {link: block})[len(written_car(root, {})) :]


def _without_last(car: bytes) -> bytes:
    root, blocks = read_car(car)
    return written_car(root, dict(list(blocks.items())[:-1]))


PACKAGE = Package.of(FILES)
OTHER = package_of(library_of(["Something else."]))
CARS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a flipped bit in a block": (lambda car: car[:-9] + bytes((car[-9] ^ 1,)) + car[-8:], "wrong_block"),
    "a flipped bit in an id": (lambda car: car.replace(b"\x01\x55\x12\x20", b"\x01\x55\x12\x21", 1), "wrong_block"),
    "cut off": (lambda car: car[:-5], "bad_car"),
    "empty": (lambda car: b"", "bad_car"),
    "not a CAR": (lambda car: b"PK\x03\x04 an archive", "bad_car"),
    "a length of 9 bytes": (lambda car: b"\xff" * 8 + b"\x01" + car, "bad_car"),
    "a length that is longer than needed": (lambda car: bytes((car[0] | 0x80, 0)) + car[1:], "bad_car"),
    "another library's block added": (_with_block, "wrong_content"),
    "a block twice": (_repeated, "wrong_block"),
    "a lesson's block left out": (_without_last, "wrong_content"),
    "another package": (lambda car: OTHER.car, "wrong_content"),
    "too large": (lambda car: car + b"x" * 16_000_000, "car_too_large"),
}


def test_a_car_file_that_was_tampered_with_is_refused(subtests: pytest.Subtests) -> None:
    for name, (tamper, code) in CARS.items():
        with subtests.test(name), pytest.raises(SharingError) as refused:
            Package.of_car(tamper(PACKAGE.car), PACKAGE.address)
        assert refused.value.code == code, name


LESSONS = PACKAGE.files["library.json"]
PACKAGES: dict[str, tuple[dict[str, bytes], str]] = {
    "a path out of the folder": ({"../evil": b""}, "bad_path"),
    "an absolute path": ({"/etc/passwd": b""}, "bad_path"),
    "a path of Windows": ({"..\\evil": b""}, "bad_path"),
    "a drive": ({"C:evil": b""}, "bad_path"),
    "a hidden file": ({".git/config": b""}, "bad_path"),
    "an empty part": ({"a//b": b""}, "bad_path"),
    "a new line": ({"a\nb": b""}, "bad_path"),
    "folders too deep": ({"a/b/c/d/e": b""}, "bad_path"),
    "a file too large": ({"big": b"x" * 1_000_001}, "package_too_large"),
    "too many files": ({f"f{number}": b"" for number in range(201)}, "package_too_large"),
    "a lesson changed": ({"library.json": LESSONS.replace(b"both ends", b"one end")}, "bad_library"),
    "other spaces": ({"library.json": LESSONS.replace(b"\n", b"\n ", 1)}, "not_canonical"),
    "no text": ({"library.json": b"\xff"}, "bad_library"),
}


def test_a_package_that_was_tampered_with_is_refused(subtests: pytest.Subtests) -> None:
    for name, (files, code) in PACKAGES.items():
        with subtests.test(name):
            with pytest.raises((SharingError, LibraryError)) as refused:
                Package.of({**FILES, **files})
            assert refused.value.code == code
    library = PACKAGE.library
    reordered = Library(experiences=library.experiences[::-1], withheld=library.withheld)
    assert package_of(reordered).root != PACKAGE.root
    with pytest.raises(SharingError) as refused:
        Package.of({"SKILL.md": b""})
    assert refused.value.code == "no_library"


def test_a_proof_that_was_tampered_with_is_refused(subtests: pytest.Subtests) -> None:
    proof = PACKAGE.proof(PACKAGE.lessons[1].id[:8])
    lesson = proof.lesson
    changed = {
        "other words": {"lesson": lesson.model_copy(update={"lesson": "Guess."})},
        "another place": {"lesson": lesson.model_copy(update={"number": 0})},
        "shown instead of parked": {"lesson": lesson.model_copy(update={"status": "parked"})},
        "the path cut": {"path": proof.path[:-1]},
        "the path reordered": {"path": proof.path[::-1]},
        "another root": {"root": OTHER.root},
    }
    for name, change in changed.items():
        with subtests.test(name), pytest.raises(SharingError) as refused:
            proof.model_copy(update=change).check(PACKAGE.root)
        assert refused.value.code == "wrong_proof"
    with pytest.raises(SharingError):
        proof.check(OTHER.root)
    for wrong in ("", "zz"):
        with pytest.raises(LibraryError):
            PACKAGE.proof(wrong)
