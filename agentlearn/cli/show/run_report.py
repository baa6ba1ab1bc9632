"""The main numbers of a run's report as lines."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentlearn.cli.show.labelled import labelled
from agentlearn.cli.show.library_words import library_words, quarantine_words, selection_words
from agentlearn.cli.stages import malformed_words, stage_lines
from agentlearn.cli.words import change_words, score_words
from agentlearn.learning.pilot import PilotReport
from agentlearn.learning.report import LibraryLine, Proposals, SelectedVersion, StageLine, VersionLine
from agentlearn.store import RunRow, StoreReader

_COLUMNS = 80
"""Largest number of columns of the table of stages."""


def report_lines(reader: StoreReader, run: RunRow) -> Iterator[str]:
    """The report of a finished run; nothing for a run without one."""
    report: dict[str, Any] = json.loads(run.report) if run.report else {}
    if "contrasts" in report:
        for contrast in report["contrasts"]:
            yield labelled("verdict", contrast["sentence"])
        return
    if run.kind == "hybrid":
        yield from (labelled("found", sentence) for sentence in report.get("sentences", ()))
        return
    if report.get("delta"):
        delta = report["delta"]
        scores = f"{score_words(report['before']['mean'])} → {score_words(report['after']['mean'])}"
        interval = tuple(delta["ci"]) if delta["ci"] else None
        if unknown := delta.get("withheld") or delta.get("left_open"):
            yield labelled("held out", unknown)
        yield labelled("held out", f"{scores}  {change_words(delta['mean'], interval)}")
    if "updates" in report:
        yield from _training_lines(report)
    elif report.get("pilot"):
        pilot = PilotReport.model_validate(report["pilot"])
        yield from (labelled(label, words) for label, words in zip(("pilot", "", ""), pilot.lines(), strict=True))
    elif "library" in report:
        if selection := _selection(report):
            versions = [VersionLine.model_validate(one) for one in report.get("versions", ())]
            yield labelled("selection", selection_words(selection, versions))
        yield labelled("library", _library(reader, report))
    if "proposals" in report:
        for label, name in (("refused", "rejected"), ("dropped", "dropped")):
            yield labelled(label, _counts(report["proposals"][name]) or "no proposal")
        if held := report["proposals"]["quarantined"]:
            yield labelled("quarantined", _counts(held))
            yield labelled("", quarantine_words(sum(held.values()), run.run, store=reader.directory))
    stages = {stage: StageLine.model_validate(line) for stage, line in report.get("stages", {}).items()}
    if stages:
        yield from stage_lines(stages, _COLUMNS)
        yield from (labelled("malformed", words) for words in malformed_words(stages))
    yield from (labelled("note", note) for note in report.get("notes", ()))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {count}" for code, count in sorted(counts.items()))


def _library(reader: StoreReader, report: Mapping[str, Any]) -> str:
    return library_words(
        LibraryLine.model_validate(report["library"]),
        Proposals.model_validate(report["proposals"]),
        report["groups"],
        store=reader.directory,
        selection=_selection(report),
        latest=False,
    )


def _selection(report: Mapping[str, Any]) -> SelectedVersion | None:
    """Which version was selected; None in the report of a pilot."""
    found = report["selection"]
    return SelectedVersion.model_validate(found) if found else None


def _training_lines(report: Mapping[str, Any]) -> Iterator[str]:
    weights, updates = report["weights"], report["updates"]
    tokens = sum(one["tokens"] for one in updates)
    curve = ", ".join(f"{score_words(one['held_out']['mean'])} after {one['updates']}" for one in report["curve"])
    yield labelled("updates", f"{len(updates)} with {report['loss']}, {tokens:,} trained tokens")
    if curve:
        yield labelled("curve", curve)
    yield labelled("weights", f"{weights['sha256_before'][:12]} → {weights['sha256_after'][:12]}  {weights['path']}")
