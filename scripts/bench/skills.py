"""What of other people's skills survives an import and an export: `python -m scripts.bench.skills FOLDER [--skills N]`.

FOLDER holds skills at any depth. Each is imported into a store, approved, exported as a skill, and compared with the
original; then one section is removed, and the export is compared again, so that the text is made of sections. Prints
the shares that survive, what was not kept, and the slowest import.
"""

import argparse
import re
import time
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory

from agentlearn.library import LibraryStore
from agentlearn.library.formats import write_form
from agentlearn.library.formats.document import FRONT_MATTER
from agentlearn.library.formats.markdown import AgentSkill
from agentlearn.library.formats.source_files import SKILL
from agentlearn.library.import_lessons import import_lessons
from agentlearn.types.experience import Library

_CODE = re.compile(r"^([ \t]*)(`{3,}|~{3,}).*\n(?:.*\n)*?\1\2[ \t]*$", re.MULTILINE)


def _found(folder: Path, most: int) -> list[Path]:
    """At most so many skills below a folder, evenly spread over all of them in order."""
    found = sorted({file.parent for name in SKILL for file in folder.rglob(name)})
    return found if len(found) <= most else [found[at * len(found) // most] for at in range(most)]


def _in_order(words: list[str], kept: list[str]) -> int:
    """The number of words that are kept in their order."""
    if words == kept:
        return len(words)
    return sum(block.size for block in SequenceMatcher(None, words, kept, autojunk=False).get_matching_blocks())


def _measured(skill: Path, work: Path, found: Counter[str]) -> list[str]:
    """Count what survives of one skill, and return what does not."""
    libraries, lost = LibraryStore(work / "libraries"), list[str]()
    imported = import_lessons(skill, "skill", name="skill", store=libraries)
    history = libraries.history("skill")
    history.update(
        lambda now: imported.added_to(now, approve=True), kind="import", files=imported.files.values(), who="bench"
    )
    library = history.load()
    main = next(skill / name for name in SKILL if (skill / name).exists())
    text = main.read_text("utf-8-sig")
    front = FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    held = "".join(one.lesson for one in library.experiences)
    words, codes = body.split(), [one[0] for one in _CODE.finditer(body)]
    kept = Counter(held.split())
    found["words"] += len(words)
    found["words kept"] += sum((Counter(words) & kept).values())
    found["words in order"] += _in_order(words, held.split())
    found["code blocks"] += len(codes)
    found["code blocks whole in one section"] += sum(
        any(code in one.lesson for one in library.experiences) for code in codes
    )
    found["code blocks kept"] += sum(code in held for code in codes)
    lost += [f"{one.place}: {one.code}: {one.reason}" for one in imported.refused]
    lost += [f"{one.place}: {one.what}: {one.reason}" for one in imported.unread]
    name = AgentSkill.own_name(main.read_bytes()) or "skill"
    out = write_form(library, work / "out", "skill", name, content=libraries.content)
    for file in (one for one in skill.rglob("*") if one.is_file()):
        again = out / file.relative_to(skill)
        same = again.is_file() and again.read_bytes() == file.read_bytes()
        kind = "SKILL.md" if file == main else "other files"
        found[kind] += 1
        found[f"{kind} byte for byte"] += same
        lost += [] if same else [f"{file.relative_to(skill)}: not the same bytes"]
    shorter = Library(experiences=library.experiences[:-1], files=library.files)
    changed = write_form(shorter, work / "changed", "skill", name, content=libraries.content) / main.name
    expected = (
        text[: len(text.rstrip("\n")) - len(library.experiences[-1].lesson.rstrip("\n"))]
        if not imported.refused
        else ""
    )
    found["SKILL.md with a section removed"] += bool(expected)
    found["rest of it byte for byte"] += bool(expected) and changed.read_text("utf-8").rstrip("\n") == expected.rstrip(
        "\n"
    )
    return lost


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--skills", type=int, default=400)
    given = options.parse_args()
    found, slowest, lost = Counter[str](), (0.0, ""), list[str]()
    for skill in _found(given.folder, given.skills):
        with TemporaryDirectory() as work:
            started = time.perf_counter()
            try:
                lost += [f"{skill.relative_to(given.folder)}: {one}" for one in _measured(skill, Path(work), found)]
                found["skills"] += 1
            except Exception as error:
                found["skills refused"] += 1
                lost.append(f"{skill.relative_to(given.folder)}: {error}")
            slowest = max(slowest, (time.perf_counter() - started, str(skill)))
    for what, number in found.items():
        print(f"{what}: {number:,}")
    print(f"slowest: {slowest[0]:.1f} s {slowest[1]}")
    for one in lost:
        print(f"not kept: {one}")


if __name__ == "__main__":
    main()
