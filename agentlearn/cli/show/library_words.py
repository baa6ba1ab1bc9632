"""The library of a learn run in words: what was written, or why nothing was."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentlearn.cli.words import count_words
from agentlearn.config.command_words import command_words
from agentlearn.learning.report import LibraryLine, Proposals, SelectedVersion, VersionLine


def library_words(
    library: LibraryLine,
    proposals: Proposals,
    groups: Mapping[str, int],
    *,
    store: Path,
    selection: SelectedVersion | None = None,
    latest: bool = True,
) -> str:
    """The library that a run wrote, with the command that shows it; or the reason why it wrote none.

    groups: number of groups by kind. latest: whether the run has just ended, so that the name stands for its version.
    """
    version = f"{library.name}@{library.version[:8]}"
    if selection is not None and selection.status == "pending":
        lessons = count_words(library.lessons, "lesson")
        return f"{version}  {lessons}, pending: to publish it anyway      {selection.command}"
    if library.current == library.version:
        lessons = f"{count_words(library.lessons, 'lesson')}, {library.tokens} tokens (estimated)"
        show = command_words("library", "show", library.name if latest else version, store=store)
        return f"{version}  {lessons}      {show}"
    if selection is not None and selection.status == "published" and library.current is not None:
        pinned = "is" if latest else "was"
        unpin = command_words("library", "unpin", library.name, store=store)
        return (
            f"{version}  {count_words(library.lessons, 'lesson')}, added to the history; the name {library.name}"
            f" {pinned} pinned to version {library.current[:8]}      {unpin}"
        )
    kept = ""
    if library.current is not None:
        current = f"{library.name}@{library.current[:8]}"
        stays = "stays" if latest else "stayed"
        show = command_words("library", "show", current, store=store)
        kept = f"; {library.name} {stays} at version {library.current[:8]}      {show}"
    if selection is not None and selection.status == "unchanged" and selection.last != selection.selected:
        return f"nothing was published: no version that was learned is better than the start{kept}"
    return f"no library was written: {why_unwritten(library, proposals, groups)}{kept}"


def selection_words(selection: SelectedVersion, versions: Sequence[VersionLine]) -> str:
    """Which version a run selected, and why, or why it is not published."""
    updates = next((one.updates for one in versions if one.version == selection.selected), 0)
    after = f"made after {count_words(updates, 'update')}" if updates else "the library at the start"
    if selection.status == "unchanged":
        after = "the library at the start"
    verdict = {"published": "", "pending": "NOT published: ", "unchanged": ""}[selection.status]
    return f"version {selection.selected[:8]}, {after}: {verdict}{selection.reason}"


def quarantine_words(waiting: int, run: str, *, store: Path) -> str:
    """How many lessons of a run wait for a person, with the command that shows them."""
    verb = "waits" if waiting == 1 else "wait"
    show = command_words("library", "pending", "--run", run, store=store)
    return f"{count_words(waiting, 'proposal')} {verb} for a person's decision and changed nothing      {show}"


def why_unwritten(library: LibraryLine, proposals: Proposals, groups: Mapping[str, int]) -> str:
    """Why the run did not write its library."""
    refused, unused = sum(proposals.rejected.values()), sum(proposals.dropped.values())
    if proposals.applied:
        return f"version {library.version[:8]} was not published"
    if waiting := sum(proposals.quarantined.values()):
        return f"no proposal was applied ({waiting} quarantined, {refused} refused, {unused} not used)"
    if refused or unused:
        return f"no proposal was applied ({refused} refused, {unused} not used)"
    if not groups.get("mixed"):
        return "no task had rollouts with different rewards, so there was nothing to compare"
    return "the comparisons proposed nothing"
