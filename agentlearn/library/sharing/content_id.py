"""What a shared library consists of, and the ids that follow from its content.

A package is a set of files by name. Its `library.json` is the library in our JSON. Bytes are named by a CIDv1 (base32,
sha2-256). The lessons are the leaves of a Merkle tree, so that one lesson can be shown to belong to a library without
the others: each leaf is the dag-cbor block of one lesson with its number, hashed twice by keccak-256, and two hashes
below a node are sorted before they are hashed, as OpenZeppelin's MerkleProof does. A package as a CAR file holds its
files as raw blocks, the lessons as dag-cbor blocks, and a root block that links to all of them.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.formats import library_text, parse_library
from agentlearn.library.sharing import MAX_BYTES, extra_package
from agentlearn.types.experience import Library
from agentlearn.types.value import Value

libipld, keccak = extra_package("share", "libipld"), extra_package("share", "Crypto.Hash.keccak")
RAW, DAG_CBOR = 0x55, 0x71
_ID_START = {code: bytes((1, code, 0x12, 0x20)) for code in (RAW, DAG_CBOR)}
"""How a CIDv1 begins: version 1, the codec, sha2-256 and its 32 bytes."""
_ID_BYTES = 36
_SIZE = re.compile(rb"[\x80-\xff]{0,3}[\x00-\x7f]")
"""A length in a CAR file, at most 256 MB, as an unsigned varint."""
LIBRARY_FILE = "library.json"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")]
"""A hash of 32 bytes in hexadecimal."""
MAX_FILE_BYTES = 1_000_000
"""Largest size of a file, which IPFS nodes exchange as one block."""
_MAX_FILES, _MAX_DEPTH = 200, 4


def _id_bytes(content: bytes, codec: int) -> bytes:
    return _ID_START[codec] + hashlib.sha256(content).digest()


def checked_path(name: str) -> str:
    """Return the name of a file in a package. Raises SharingError for one that could lead out of a folder."""
    parts = name.split("/")
    if len(parts) > _MAX_DEPTH or not all(_PART.fullmatch(one) and not one.endswith(".") for one in parts):
        rule = f"use letters, digits, '.', '_' and '-', neither '.' nor '-' first, and {_MAX_DEPTH - 1} folders at most"
        raise SharingError(f"{name[:200]!r} cannot name a file of a package; {rule}", code="bad_path")
    return name


def _keccak(*parts: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=b"".join(parts)).digest()


def _node(one: bytes, other: bytes) -> bytes:
    """The hash above two hashes, in whatever order they are given."""
    return _keccak(*sorted((one, other)))


class SharedLesson(Value):
    """What a leaf says about one lesson."""

    id: str
    lesson: str
    number: int = Field(ge=0)
    """Its place in the library: those that are shown first, then those that are withheld."""
    status: str
    """shown, parked or pending."""
    tags: tuple[str, ...] = ()

    @property
    def block(self) -> bytes:
        """Its dag-cbor block."""
        return libipld.encode_dag_cbor({**self.model_dump(), "tags": list(self.tags)})

    @property
    def leaf(self) -> bytes:
        """Its hash in the tree. Hashed twice, so that no inner node can be given out as a leaf."""
        return _keccak(_keccak(self.block))


class LessonProof(Value):
    """Shows that one lesson belongs to a library, without the others."""

    format: Literal["agentlearn-proof/1"] = "agentlearn-proof/1"
    root: Hash
    """The root of the library's tree, which a signed statement or an anchor names."""
    lesson: SharedLesson
    path: tuple[Hash, ...] = Field(default=(), max_length=32)
    """The hashes beside the way from the leaf to the root."""

    def check(self, root: str) -> None:
        """Raise SharingError unless the lesson is part of the tree with this root."""
        node = self.lesson.leaf
        for one in self.path:
            node = _node(node, bytes.fromhex(one[2:]))
        if root.lower() != self.root or node.hex() != self.root[2:]:
            raise SharingError(f"the lesson does not belong to the library with the root {root!r}", code="wrong_proof")


@dataclass(frozen=True)
class Package:
    """The files of a shared library, by name with `/`, and the library that they hold."""

    files: Mapping[str, bytes]
    library: Library

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Package":
        """Check the names and the sizes, and read the library. Raises SharingError and LibraryError."""
        if LIBRARY_FILE not in files:
            raise SharingError(f"the package has no {LIBRARY_FILE!r}; `library sign` writes one", code="no_library")
        sizes = [len(content) for name, content in files.items() if checked_path(name)]
        if len(files) > _MAX_FILES or max(sizes, default=0) > MAX_FILE_BYTES or sum(sizes) > MAX_BYTES:
            raise SharingError("more than 200 files, 1 MB in a file or 16 MB are no package", code="package_too_large")
        library = parse_library(files[LIBRARY_FILE].decode(errors="replace"), LIBRARY_FILE)
        if library_bytes(library) != files[LIBRARY_FILE]:
            raise SharingError(f"{LIBRARY_FILE} is not written as agentlearn writes it", code="not_canonical")
        return cls(dict(sorted(files.items())), library)

    @cached_property
    def lessons(self) -> tuple[SharedLesson, ...]:
        """The leaves of the tree. Raises LibraryError for a library without lessons."""
        held = [(one, "shown") for one in self.library.experiences]
        held += [(one.experience, one.status) for one in self.library.withheld]
        if not held:
            raise LibraryError("the library holds no lesson; add one before you share it")
        return tuple(
            SharedLesson(id=one.id, lesson=one.lesson, number=number, status=status, tags=one.tags)
            for number, (one, status) in enumerate(held)
        )

    @cached_property
    def _levels(self) -> list[list[bytes]]:
        """The hashes from the leaves to the root. A node without a neighbour moves up as it is."""
        levels = [[one.leaf for one in self.lessons]]
        while len(below := levels[-1]) > 1:
            pairs = (below[at : at + 2] for at in range(0, len(below), 2))
            levels.append([_node(*pair) if len(pair) > 1 else pair[0] for pair in pairs])
        return levels

    @property
    def root(self) -> str:
        """The hash that stands for all lessons and their order."""
        return "0x" + self._levels[-1][0].hex()

    def proof(self, lesson: str) -> LessonProof:
        """Return the proof of the lesson whose id starts so. Raises LibraryError for none, and for several."""
        found = [one for one in self.lessons if lesson and one.id.startswith(lesson)]
        if len(found) != 1:
            wrong = f"{len(found)} lessons have an id that starts with {lesson!r}; library show lists the ids"
            raise LibraryError(wrong, code="unknown_lesson")
        steps = [(found[0].number >> height ^ 1, level) for height, level in enumerate(self._levels[:-1])]
        path = tuple("0x" + level[at].hex() for at, level in steps if at < len(level))
        return LessonProof(root=self.root, lesson=found[0], path=path)

    @property
    def content(self) -> str:
        """The content id of the library's file."""
        return libipld.encode_cid(_id_bytes(self.files[LIBRARY_FILE], RAW))

    @cached_property
    def _blocks(self) -> dict[bytes, bytes]:
        """All blocks by binary id, the root first."""
        links = {name: _id_bytes(content, RAW) for name, content in self.files.items()}
        lessons = {_id_bytes(block, DAG_CBOR): block for block in (one.block for one in self.lessons)}
        document = {"format": "agentlearn-package/1", "files": links, "lessons": list(lessons), "merkle": self.root}
        root = libipld.encode_dag_cbor(document)
        files = {links[name]: content for name, content in self.files.items()}
        return {_id_bytes(root, DAG_CBOR): root, **files, **lessons}

    @property
    def address(self) -> str:
        """The content id of the whole package, under which IPFS finds it."""
        return libipld.encode_cid(next(iter(self._blocks)))

    @property
    def car(self) -> bytes:
        """The package as a CAR file (version 1)."""
        return written_car(next(iter(self._blocks)), self._blocks)

    @classmethod
    def of_car(cls, content: bytes, address: str | None = None) -> "Package":
        """Return the package in a CAR file, with every block checked. address: the content id that was asked for.

        Raises SharingError for a file that is damaged, too large, of another address, or that holds any other block.
        """
        root, blocks = read_car(content)
        try:
            links: dict[str, bytes] = libipld.decode_dag_cbor(blocks[root])["files"]
            package = cls.of({name: blocks[link] for name, link in links.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SharingError(f"the CAR file holds no whole package: {error!r}"[:300], code="bad_car") from error
        wanted = libipld.encode_cid(root) if address is None else address
        if package.address != wanted or read_car(package.car) != (root, blocks):
            raise SharingError(f"the CAR file is not exactly the package {wanted}; do not use it", code="wrong_content")
        return package


def library_bytes(library: Library) -> bytes:
    """Return the canonical file of a library."""
    return library_text(library).encode("utf-8", "backslashreplace")


def written_car(root: bytes, blocks: Mapping[bytes, bytes]) -> bytes:
    """Return blocks by binary content id as a CAR file (version 1) with one root."""
    header = libipld.encode_dag_cbor({"roots": [root], "version": 1})
    return b"".join(_sized(one) for one in (header, *(link + block for link, block in blocks.items())))


def read_car(content: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the root and the blocks of a CAR file, each block checked against its id. Raises SharingError."""
    if len(content) > MAX_BYTES:
        raise SharingError(f"the CAR file is larger than {MAX_BYTES:,} bytes", code="car_too_large")
    parts, blocks = _parts(content), dict[bytes, bytes]()
    try:
        header = libipld.decode_dag_cbor(next(parts, b""))
        ((root,), version) = header["roots"], header["version"]
    except (KeyError, TypeError, ValueError) as error:
        words = "the file is no package that `agentlearn library sign` wrote (no CAR file with one root)"
        raise SharingError(words, code="bad_car") from error
    for part in parts:
        link, block = part[:_ID_BYTES], part[_ID_BYTES:]
        if link[:4] not in _ID_START.values() or _id_bytes(block, link[1]) != link or link in blocks:
            raise SharingError("a block of the CAR file does not fit its id, or is there twice", code="wrong_block")
        blocks[link] = block
    if version != 1 or root not in blocks:
        raise SharingError("the CAR file is not of version 1, or lacks the block of its root", code="bad_car")
    return root, blocks


def _sized(part: bytes) -> bytes:
    """A part with its length before it, as an unsigned varint."""
    size, left = bytearray(), len(part)
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*size, left)) + part


def _parts(content: bytes) -> Iterator[bytes]:
    """The parts of a CAR file. Raises SharingError where one is cut off or its length is not written as it must be."""
    at = 0
    while at < len(content):
        number = _SIZE.match(content, at)
        size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(number[0] if number else b""))
        end = size + (number.end() if number else at)
        part = content[end - size : end]
        if not part or _sized(part) != content[at:end]:
            raise SharingError(f"the CAR file is damaged at byte {at:,}", code="bad_car")
        yield part
        at = end
