"""Writes the page, with a table of all answers, and the same in full, with a section per recording.

The words around them are in `page.md` and `in_full.md`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentlearn.measure.contrasts import signed_difference
from agentlearn.measure.difference import benjamini_hochberg
from agentlearn.text import number_text
from scripts.bench.recordings.recorded import (
    AnsweredQuestion,
    ExperimentRecording,
    Recordings,
    RecordingSource,
    commit_of,
)

_VERDICTS = {"better": "**better**", "worse": "**worse**", "no_worse": "no worse", "cannot_tell": "cannot tell"}
PAGE = Path("evidence_from_recordings.md")


def evidence_page(
    listed: Recordings, answers: Sequence[AnsweredQuestion], parts: Mapping[str, str], *, full: bool = False
) -> str:
    """Return the page in Markdown, or the same in full. parts: further texts by the name of their hole.

    Raises KeyError for a hole without a text.
    """
    text = (Path(__file__).parent / ("in_full.md" if full else "page.md")).read_text(encoding="utf-8")
    holes = {
        "counts": _counts(listed, answers),
        "sources": "\n".join(_sources(listed)),
        "answers": "\n".join(_full_table(answers) if full else _table(answers)),
        "recordings": "\n".join(_sections(listed, answers)),
    }
    for name, part in (holes | dict(parts)).items():
        text = text.replace(f"{{{{ {name} }}}}", part)
    if "{{ " in text:
        raise KeyError(text.partition("{{ ")[2].partition(" }}")[0])
    return text


def row_file(number: int) -> str:
    """Return the name of the file with the rollouts of a question. number: from 1."""
    return f"{number:02}.csv"


def _counts(listed: Recordings, answers: Sequence[AnsweredQuestion]) -> str:
    verdicts = Counter(one.contrast.verdict for one in answers)
    said = ", ".join(f"{_VERDICTS[verdict].strip('*')} {count}" for verdict, count in verdicts.most_common())
    rollouts = sum(len(one.observations) for one in answers)
    return (
        f"{len(answers)} questions of {len(listed.recordings)} recordings, {rollouts:,} rollouts (some serve several"
        f" questions). Verdicts: {said}."
    )


def _sources(listed: Recordings) -> Iterator[str]:
    yield "| source | commit | licence |\n|---|---|---|"
    for one in listed.sources.values():
        yield f"| [{one.repository}](https://github.com/{one.repository}) | `{one.commit[:12]}` | {one.licence} |"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def _scores(one: AnsweredQuestion) -> tuple[str, str]:
    """Before and after, and the difference with its interval."""
    found = one.contrast
    before, after = (number_text(score or 0.0, 3) for score in (found.baseline_score, found.score))
    interval = f"[{signed_difference(found.low)}, {signed_difference(found.high)}]"
    return f"{before} → {after}", f"{signed_difference(found.mean)} {interval}"


def _table(answers: Sequence[AnsweredQuestion]) -> Iterator[str]:
    yield "| | question | tasks | before → after | difference, 95 % | p, Holm |\n|---|---|---|---|---|---|"
    recording = ""
    for number, one in enumerate(answers, start=1):
        if one.recording.title != recording:
            recording = one.recording.title
            yield f"| | *{recording}* | | | | |"
        found, (scores, difference) = one.contrast, _scores(one)
        verdict = "" if found.verdict == "cannot_tell" else f" {_VERDICTS[found.verdict]}"
        yield (
            f"| {number} | {one.question.ask} | {found.tasks} | {scores} | {difference} |"
            f" {_p(found.p_adjusted)}{verdict} |"
        )


def _full_table(answers: Sequence[AnsweredQuestion]) -> Iterator[str]:
    yield "| | question | tasks | before → after | difference, 95 % | p | p, Holm | q, BH | verdict |"
    yield "|---|---|---|---|---|---|---|---|---|"
    shares = benjamini_hochberg([1.0 if one.contrast.p is None else one.contrast.p for one in answers])
    recording = family = ""
    for number, (one, share) in enumerate(zip(answers, shares, strict=True), start=1):
        found = one.contrast
        if one.recording.family != family:
            family = one.recording.family
            yield f"| | **{family}** | | | | | | | |"
        if one.recording.title != recording:
            recording = one.recording.title
            yield f"| | *{recording}* | | | | | | | |"
        scores, difference = _scores(one)
        yield (
            f"| {number} | {one.question.ask} | {found.tasks} | {scores} | {difference} |"
            f" {_p(found.p)} | {_p(found.p_adjusted)} | {_p(share)} | {_VERDICTS[found.verdict]} |"
        )


def _sections(listed: Recordings, answers: Sequence[AnsweredQuestion]) -> Iterator[str]:
    family = ""
    for recording in listed.recordings:
        if recording.family != family:
            family = recording.family
            yield f"## {family}\n"
        own = [(number, one) for number, one in enumerate(answers, start=1) if one.recording == recording]
        yield from _section(listed.sources[recording.source], recording, own)


def _section(
    source: RecordingSource, recording: ExperimentRecording, answers: Sequence[tuple[int, AnsweredQuestion]]
) -> Iterator[str]:
    yield f"### {recording.title}\n"
    yield f"{recording.about.strip()} Source: {source.repository}, {source.licence}.\n"
    for number, one in answers:
        yield f"**{number}. {one.question.ask}** {one.contrast.sentence}\n\n{one.question.reading.strip()}\n"
    yield f"*What cannot be said.* {recording.limits.strip()}\n"


def clone_notes(listed: Recordings, clones: Path) -> Iterator[str]:
    """Yield a sentence for each clone that is not at the listed commit, or of which that cannot be told."""
    for one in listed.sources.values():
        found = commit_of(clones / one.folder)
        if (clones / one.folder).is_dir() and found != one.commit:
            at = f"is at commit {found[:12]}, and not at" if found else "does not say whether it is at commit"
            yield f"the clone {one.folder!r} {at} {one.commit[:12]}, so the page can differ from the one in docs/"
