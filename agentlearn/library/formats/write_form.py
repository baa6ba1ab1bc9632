"""Writing a library to a file or a folder, in any format."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import write_whole
from agentlearn.library.formats.agent_skill import REFERENCE, AgentSkill
from agentlearn.library.formats.lesson_lines import FILE
from agentlearn.library.formats.registry import library_format
from agentlearn.library.formats.source_files import SKILL
from agentlearn.types.experience import Library


def write_form(
    library: Library,
    out: Path,
    form: str,
    name: str = "",
    *,
    describe: Callable[[Library], str] = lambda _: "",
    known: Iterable[Library] = (),
) -> Path:
    """Write the library and return the file or the folder of the skill. Raises LibraryError.

    A file or folder that exists is replaced only if it is an unchanged export of this library or of a known one.
    name: of the library, for the title, or of the skill; when it is empty, that of the file or folder. A skill whose
    name is not that of the folder gets a folder of its name in it, because programs want both to be the same. In the
    format `lines`, a folder that exists stands for its file `lessons.jsonl`. describe: returns the description of a
    skill. known: the published versions of the library; read only where `out` exists.
    """
    chosen = library_format(form)
    if form == "lines" and out.is_dir():
        out = out / FILE
    if form == "skill" and name and out.resolve().name != name:
        out = out / name
    name = name or (out.resolve().name if form == "skill" else out.stem) or "library"

    def export(one: Library) -> Mapping[str, str]:
        return chosen.write(one, name, describe(one)) if isinstance(chosen, AgentSkill) else chosen.write(one, name)

    texts = export(library)
    exports = chain([texts], map(export, known))
    try:
        if "" in texts:
            if (out.exists() or out.is_symlink()) and not any(_holds(out, one[""]) for one in exports):
                raise _taken(out)
            _write(out, texts[""])
        else:
            parts = _parts(out)
            if out.exists() and not any(_is_skill(out, parts, one) for one in exports):
                raise _taken(out)
            (out / "references" if len(texts) > 1 else out).mkdir(parents=True, exist_ok=True)
            for file in parts - texts.keys():
                (out / file).unlink()
            for path, text in texts.items():
                _write(out / path, text)
    except OSError as error:
        raise LibraryError(f"the library could not be written to {str(out)!r}: {error}") from error
    return out


def loss_sentence(library: Library, form: str) -> str:
    """What the format does not keep of this library, in one sentence; empty when it keeps everything."""
    lost = library_format(form).losses(library)
    return f"the format {form!r} does not keep: {', '.join(lost)}" if lost else ""


def _taken(out: Path) -> LibraryError:
    return LibraryError(
        f"{str(out)!r} exists, and it is not an unchanged export of this library; give another --out, or move it away",
        code="exists",
    )


def _holds(file: Path, text: str) -> bool:
    """Whether the file is a file of its own with this text."""
    return file.is_file() and not file.is_symlink() and file.read_bytes() == _encoded(text)


def _parts(folder: Path) -> set[str]:
    """The names of the files in a folder that a skill of ours consists of."""
    found = (folder / "references").glob("*") if (folder / "references").is_dir() else ()
    parts = {name for file in found if REFERENCE.fullmatch(name := f"references/{file.name}")}
    return parts | {name for name in SKILL if (folder / name).exists() or (folder / name).is_symlink()}


def _is_skill(folder: Path, parts: Collection[str], export: Mapping[str, str]) -> bool:
    """Whether the folder is empty, or holds all files of an export, unchanged. Other files in it are left alone."""
    if not any(folder.iterdir()):
        return True
    return set(parts) == set(export) and all(_holds(folder / part, export[part]) for part in parts)


def _write(file: Path, text: str) -> None:
    """Write the file in one step. A lone surrogate becomes JSON's escape for it."""
    write_whole(file, _encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
