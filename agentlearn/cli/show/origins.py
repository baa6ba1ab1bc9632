"""Where the lessons of a library come from: the run, the batch, the tasks and the proposals that made each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentlearn.cli.show.addresses import group_address
from agentlearn.cli.show.proposal_words import SHORT_ID
from agentlearn.errors import StoreMissing
from agentlearn.store import ProposalRow, StoreReader, read_store
from agentlearn.types.experience import Experience, Library
from agentlearn.types.ids import ExperienceId


@dataclass(frozen=True, slots=True)
class LessonOrigin:
    """One making of a lesson. Runs with equal settings can make the same lesson."""

    run: str
    phase: str
    batch: int
    proposal: str
    """The proposal that was applied."""
    from_proposals: tuple[str, ...]
    """The comparisons' proposals that it carries on."""
    groups: tuple[str, ...]
    """Addresses of the groups that they came from."""
    rollouts: int
    """Number of rollouts that they were made from."""


def lesson_origins(store: Path, library: Library) -> dict[ExperienceId, list[LessonOrigin]]:
    """The origins of every lesson that a run of this store made."""
    try:
        with read_store(store) as reader:
            return origins_in(reader, library)
    except StoreMissing:
        return {}


def origins_in(reader: StoreReader, library: Library) -> dict[ExperienceId, list[LessonOrigin]]:
    """The same, from an open store."""
    found: dict[ExperienceId, list[LessonOrigin]] = {}
    of_run: dict[str, list[ProposalRow]] = {}
    approved = {(one.run, one.phase, one.batch, one.proposal): one.experience for one in reader.decisions()}
    for row in reader.proposals_of(list(library.by_id)):
        if row.run not in of_run:
            of_run[row.run] = reader.proposals(row.run)
        experience = getattr(row.ended.end, "experience", None) or approved.get(
            (row.run, row.phase, row.batch, row.ended.proposal.id)
        )
        if experience is not None:
            found.setdefault(experience, []).append(_origin(row, of_run[row.run]))
    return found


def _origin(row: ProposalRow, all_rows: Sequence[ProposalRow]) -> LessonOrigin:
    proposal = row.ended.proposal
    batch = [one for one in all_rows if (one.phase, one.batch) == (row.phase, row.batch)]
    carried = [one.ended.proposal for one in batch if one.ended.proposal.id in proposal.rests_on]
    tasks = dict.fromkeys(one.task for one in (proposal, *carried) if one.task is not None)
    return LessonOrigin(
        run=row.run,
        phase=row.phase,
        batch=row.batch,
        proposal=proposal.id,
        from_proposals=tuple(one.id for one in carried),
        groups=tuple(group_address(row.run, task, row.phase) for task in tasks),
        rollouts=len(proposal.evidence),
    )


def origin_lines(
    one: Experience, origins: Sequence[LessonOrigin], replaced: Mapping[ExperienceId, str], *, reference: str
) -> Iterator[str]:
    """The origin of one lesson as text. replaced: texts of lessons that it may replace. reference: of the library."""
    if origins:
        first, others = origins[0], len(origins) - 1
        also = f"; {others} more with the same result" if others else ""
        yield f"made in run {first.run}, {first.phase}/{first.batch}, by proposal {first.proposal[:SHORT_ID]}{also}"
        yield f"from {first.rollouts} rollouts: {', '.join(first.groups) or 'the group is not known'}"
    elif one.origin.kind in {"person", "import"}:
        yield "written by a person" if one.origin.kind == "person" else "imported from another program"
    else:
        yield "this store does not hold the run that made it"
    for parent in one.origin.parents:
        yield f"replaces {parent[:SHORT_ID]}: {replaced.get(parent, 'not in this store')}"
    yield f"effect unknown; compare measures it with the arm {reference},without={one.id[:SHORT_ID]}"


def replaced_lessons(store: Path, library: Library) -> dict[ExperienceId, str]:
    """Texts of the lessons that lessons of the library replace, as far as the store has them."""
    parents = [parent for one in library.experiences for parent in one.origin.parents]
    try:
        with read_store(store) as reader:
            return {one.id: one.lesson for one in reader.experiences(parents)}
    except StoreMissing:
        return {}


def origins_json(origins: Mapping[ExperienceId, Sequence[LessonOrigin]]) -> dict[str, list[dict[str, Any]]]:
    """The origins for JSON output."""
    return {experience: [asdict(one) for one in found] for experience, found in origins.items()}
