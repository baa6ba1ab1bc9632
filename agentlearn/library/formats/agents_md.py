"""Lessons in a file such as `AGENTS.md` or `CLAUDE.md`, which coding agents read before they start to work.

The lessons stand in a block between two marks, which are comments of Markdown. All other bytes of the file belong to
the person and are never changed. The first mark names the library and holds a hash of the block, so that a block that
somebody changed by hand is not replaced either.
"""

import hashlib
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import readable, write_whole
from agentlearn.library.formats.markdown_list import read_items, written_items
from agentlearn.library.formats.source_files import LibraryFormat, ReadLessons, SourceFiles
from agentlearn.types.experience import Library

AGENTS_FILE = "AGENTS.md"
"""The file that is written where `--out` is a folder."""
_MARK = re.compile(rb"^<!-- agentlearn:(begin|end) ([\w.-]+)(?: ([0-9a-f]{16}))? -->[ \t]*\r?$", re.MULTILINE)
_LIKE_A_MARK = re.compile(rb"(?<!\\)<!--[ \t]*agentlearn:(?:begin|end)\b")
_NAME = re.compile(r"(?!.*--)[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def _write(library: Library, name: str) -> Mapping[str, str]:
    if not _NAME.fullmatch(name):
        raise LibraryError(
            f"{name!r} cannot name a block of lessons; give up to 64 letters, digits, '.', '_' and single '-' with"
            " --name",
            code="bad_block_name",
        )
    lines = [
        f"## Lessons ({name})",
        "",
        "Follow those of these lessons that fit the task at hand.",
        "",
        *written_items(library.experiences, level=3),
    ]
    body = "\n".join(lines).rstrip("\n") + "\n"
    return {"": f"<!-- agentlearn:begin {name} {_hash(body.encode())} -->\n{body}<!-- agentlearn:end {name} -->\n"}


def write_block(out: Path, text: str, name: str) -> Path:
    """Put a block into a file, in place of the block of that name, else at the end. Returns the file.

    All other bytes stay as they are. out: the file, or the folder that holds or gets `AGENTS.md`. Raises LibraryError
    for a link, for a file whose marks are damaged, and for a block that was changed by hand; OSError.
    """
    file = out / AGENTS_FILE if out.is_dir() else out
    if file.is_symlink():
        raise LibraryError(f"{str(file)!r} is a link; give the file itself, {str(file.resolve())!r}", code="is_a_link")
    before = readable(file).read_bytes() if file.exists() else b""
    if before.startswith(_WIDE):
        raise LibraryError(f"{str(file)!r} is UTF-16; save it as UTF-8", code="not_text")
    block = text.encode("utf-8", "backslashreplace")
    start, end = _place(before, name, str(file))
    head, tail = before[:start], before[end:]
    if head and start == end:  # a new block begins on a line of its own, after an empty one
        head += b"\n" if head.endswith(b"\n") else b"\n\n"
    mode = stat.S_IMODE(file.stat().st_mode) if before else None
    write_whole(file, head + block + tail)
    if mode is not None:
        file.chmod(mode)
    return file


def _place(content: bytes, name: str, shown: str) -> tuple[int, int]:
    """Where the block of that name begins and ends; the end of the file, twice, when there is none."""
    marks = list(_MARK.finditer(content))
    kinds = [(one[1], one[2]) for one in marks]
    paired = len(kinds) % 2 == 0 and all(
        first == (b"begin", second[1]) and second[0] == b"end"
        for first, second in zip(kinds[::2], kinds[1::2], strict=True)
    )
    names = [one[1] for one in kinds[::2]]
    if not paired or len(set(names)) < len(names) or len(_LIKE_A_MARK.findall(content)) != len(marks):
        raise LibraryError(
            f"the marks of agentlearn's lessons in {shown} are damaged: each block begins with a line such as"
            f" '<!-- agentlearn:begin {name} … -->' and ends with '<!-- agentlearn:end {name} -->', once; repair or"
            " remove them, and export again",
            code="damaged_marks",
        )
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        if begin[2] != name.encode():
            continue
        body = content[begin.end() + 1 : end.start()]
        if begin[3] != _hash(body).encode():
            raise LibraryError(
                f"the lessons of {name!r} in {shown} were changed by hand, so they are not replaced; move your lines"
                " out of the block, or remove the block with its marks, and export again",
                code="changed_by_hand",
            )
        return begin.start(), min(end.end() + 1, len(content))
    return len(content), len(content)


def _hash(body: bytes) -> str:
    """The hash of a block, whichever line ends git gave it."""
    return hashlib.sha256(body.replace(b"\r\n", b"\n")).hexdigest()[:16]


def _sniff(source: SourceFiles) -> bool:
    return not source.is_folder and _MARK.search(source.only.encode(errors="surrogatepass")) is not None


def _read(source: SourceFiles) -> ReadLessons:
    """The lessons of all blocks, with the numbers of their lines."""
    kept, inside = list[str](), False
    for line in source.only.split("\n"):
        mark = _MARK.fullmatch(line.encode(errors="surrogatepass"))
        inside = mark[1] == b"begin" if mark else inside
        kept.append(line if inside and not mark else "")
    return ReadLessons(tuple(read_items("\n".join(kept))))


AGENTS_MD = LibraryFormat("agents-md", _sniff, _read, _write, keeps="lessons and tags")
"""A block of lessons in a Markdown file of a person."""
