"""The library of a learn run in words: what was written, or why nothing was."""

from collections.abc import Mapping
from pathlib import Path

from agentlearn.cli.words import count_words
from agentlearn.config.command_words import command_words
from agentlearn.learning.report import LibraryLine, Proposals


def library_words(
    library: LibraryLine, proposals: Proposals, groups: Mapping[str, int], *, store: Path, latest: bool = True
) -> str:
    """The library that a run wrote, with the command that shows it; or the reason why it wrote none.

    groups: number of groups by kind. latest: whether the run has just ended, so that the name stands for its version.
    """
    version = f"{library.name}@{library.version[:8]}"
    if library.current == library.version:
        lessons = f"{count_words(library.lessons, 'lesson')}, {library.tokens} tokens (estimated)"
        show = command_words("library", "show", library.name if latest else version, store=store)
        return f"{version}  {lessons}      {show}"
    kept = ""
    if library.current is not None:
        current = f"{library.name}@{library.current[:8]}"
        stays = "stays" if latest else "stayed"
        show = command_words("library", "show", current, store=store)
        kept = f"; {library.name} {stays} at version {library.current[:8]}      {show}"
    return f"no library was written: {_reason(library, proposals, groups)}{kept}"


def quarantine_words(waiting: int, run: str, *, store: Path) -> str:
    """How many lessons of a run wait for a person, with the command that shows them."""
    verb = "waits" if waiting == 1 else "wait"
    show = command_words("library", "pending", "--run", run, store=store)
    return f"{count_words(waiting, 'proposal')} {verb} for a person's decision and changed nothing      {show}"


def _reason(library: LibraryLine, proposals: Proposals, groups: Mapping[str, int]) -> str:
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
