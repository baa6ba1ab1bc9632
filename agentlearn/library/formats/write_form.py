"""Writing a library to a file or a folder, in any format."""

from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import write_whole
from agentlearn.library.formats.agent_skill import REFERENCE, AgentSkill, made_by_us
from agentlearn.library.formats.lesson_lines import FILE
from agentlearn.library.formats.registry import library_format
from agentlearn.types.experience import Library


def write_form(library: Library, out: Path, form: str, name: str = "", description: str = "") -> Path:
    """Write the library and return the file or the folder of the skill. Raises LibraryError.

    name: of the library, for the title, or of the skill; when it is empty, that of the file or folder. A skill whose
    name is not that of the folder gets a folder of its name in it, because programs want both to be the same.
    description: of the skill. In the format `lines`, a folder that exists stands for its file `lessons.jsonl`.
    """
    chosen = library_format(form)
    if form == "lines" and out.is_dir():
        out = out / FILE
    if form == "skill" and name and out.resolve().name != name:
        out = out / name
    name = name or (out.resolve().name if form == "skill" else out.stem) or "library"
    texts = chosen.write(library, name, description) if isinstance(chosen, AgentSkill) else chosen.write(library, name)
    try:
        if "" in texts:
            _write(out, texts[""])
        else:
            _refuse_foreign(out)
            (out / "references" if len(texts) > 1 else out).mkdir(parents=True, exist_ok=True)
            for file in _stale(out, set(texts)):
                file.unlink()
            for path, text in texts.items():
                _write(out / path, text)
    except OSError as error:
        raise LibraryError(f"the library could not be written to {str(out)!r}: {error}") from error
    return out


def loss_sentence(library: Library, form: str) -> str:
    """What the format does not keep of this library, in one sentence; empty when it keeps everything."""
    lost = library_format(form).losses(library)
    return f"the format {form!r} does not keep: {', '.join(lost)}" if lost else ""


def _refuse_foreign(folder: Path) -> None:
    """Raise LibraryError when the folder holds something that this library did not write."""
    if not folder.exists():
        return
    skill = folder / "SKILL.md"
    ours = (
        skill.is_file() and not skill.is_symlink() and made_by_us(skill.read_text(encoding="utf-8", errors="replace"))
    )
    if not ours and any(folder.iterdir()):
        raise LibraryError(
            f"{str(folder)!r} holds files that agentlearn did not write; give a new folder", code="folder_not_empty"
        )


def _stale(folder: Path, written: set[str]) -> list[Path]:
    """Parts of an earlier, longer skill."""
    found = sorted((folder / "references").glob("lessons-*.md")) if (folder / "references").is_dir() else []
    names = ((file, f"references/{file.name}") for file in found)
    return [file for file, name in names if REFERENCE.fullmatch(name) and name not in written]


def _write(file: Path, text: str) -> None:
    """Write the file in one step. A lone surrogate becomes JSON's escape for it."""
    write_whole(file, text.encode("utf-8", "backslashreplace"))
