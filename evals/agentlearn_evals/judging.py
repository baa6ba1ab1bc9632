"""`agentlearn judge`: how far a judge agrees with people, by labels that people give to answers.

A labels file has a row for each answer, with what a person says of it in `label`, and what the judge said in `judged`;
without `judged`, the judge is asked about `problem`, `answer` and `expected`. Both are right or wrong, or numbers from
0 to 1. `arm` names the arm of a comparison that gave the answer, `class` a kind of answers. A rubric's criterion has
columns of its own, `label:NAME` and `judged:NAME`.
"""

import csv
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption, require_extras
from agentlearn.cli.output import print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.data.reading import rows
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.contrast import Agreement, Contrast, JudgeCorrected, Pair, agreement, judge_corrected
from agentlearn.pages.figure import count_words
from agentlearn.store import read_store

_WORDS = {
    **dict.fromkeys(("right", "correct", "true", "yes", "pass"), 1.0),
    **dict.fromkeys(("wrong", "incorrect", "false", "no", "fail"), 0.0),
}
"""Words that stand for a label, besides numbers."""
_PART = ":"
_FEWEST = 2
_BELOW = 0.8
"""Agreement below which `judge check` advises against the judge."""


@dataclass(frozen=True, slots=True)
class _Label:
    """One labelled answer."""

    person: float
    judge: float | None
    arm: str
    kind: str
    criteria: Mapping[str, Pair]
    row: Mapping[str, Any]


def _number(value: object, place: str, column: str) -> float:
    text = str(value).strip().lower()
    try:
        number = _WORDS[text] if text in _WORDS else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise DataError(f"{place}: {column} is {str(value)[:40]!r}; write right or wrong, or a number from 0 to 1")
    return number


def read_labels(path: str | Path) -> tuple[_Label, ...]:
    """Return the labelled answers of a file. Rows without a label are left out. Raises DataError."""
    found: list[_Label] = []
    for row in rows(path):
        given = {name: value for name, value in row.fields.items() if value not in (None, "")}
        if "label" not in given:
            continue
        criteria = {
            name.partition(_PART)[2]: (_number(value, row.place, name), _number(given[judged], row.place, judged))
            for name, value in given.items()
            if name.startswith(f"label{_PART}") and (judged := name.replace("label", "judged", 1)) in given
        }
        judge = _number(given["judged"], row.place, "judged") if "judged" in given else None
        person = _number(given["label"], row.place, "label")
        found.append(_Label(person, judge, str(given.get("arm", "")), str(given.get("class", "")), criteria, given))
    if not found:
        raise DataError(f"{str(path)!r} has no row with a label; fill in the column 'label' with right or wrong")
    return tuple(found)


def _pairs(labels: Iterable[_Label]) -> list[Pair]:
    return [(one.person, one.judge) for one in labels if one.judge is not None]


def labels_by_arm(path: str | Path, arms: Iterable[str], least: float | None = None) -> dict[str, list[Pair]]:
    """Return what people and the judge said of each arm's answers.

    least: see `refuse_poor_judge`. Raises DataError for an arm with too few labels, ConfigError for a poor judge.
    """
    labels, found = read_labels(path), dict[str, list[Pair]]()
    refuse_poor_judge(labels, least)
    for arm in arms:
        found[arm] = _pairs(one for one in labels if one.arm == arm)
        if len(found[arm]) < _FEWEST:
            has = f"{str(path)!r} has {count_words(len(found[arm]), 'label')} of the arm {arm!r}"
            raise DataError(
                f"{has} with what the judge said, and a judge may err differently in each arm; label at least"
                f" {_FEWEST} of each (column 'arm'), better 50"
            )
    return found


def corrected(contrasts: Sequence[Contrast], by_arm: Mapping[str, Sequence[Pair]]) -> dict[str, JudgeCorrected]:
    """Return each difference without the judge's errors, by `arm - baseline`. by_arm: see `labels_by_arm`."""
    found: dict[str, JudgeCorrected] = {}
    for one in contrasts:
        if one.mean is not None and one.standard_error is not None and one.degrees is not None:
            found[f"{one.arm} - {one.baseline}"] = judge_corrected(
                one.mean, one.standard_error, one.degrees, by_arm[one.arm], by_arm[one.baseline]
            )
    return found


def refuse_poor_judge(labels: Sequence[_Label], least: float | None) -> None:
    """Raise ConfigError where a judge agrees with people on fewer answers than was asked for."""
    pairs = _pairs(labels)
    if least is None:
        return
    if not pairs:
        raise ConfigError("the labels do not say what the judge said; `agentlearn judge check` asks it")
    if (found := agreement(pairs)).agreement < least:
        raise ConfigError(
            f"the judge agrees with people on {found.words}, which is below --min-judge-agreement {least:g}; use"
            " another judge or clearer criteria"
        )


def judge_check(
    labels: Annotated[str, Parameter(help="CSV, JSON or Parquet file with labels; see `judge sheet`.")],
    /,
    *,
    reward: Annotated[
        str | None, Parameter(help="Judge to ask where the file has no `judged`: judge, a rubric, or module:function.")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Model that judges, for a reward that asks a model.")] = None,
    min_judge_agreement: Annotated[
        float | None, Parameter(help="Refuse a judge that agrees on a smaller share.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show how far a judge agrees with people: agreement, kappa, what it mistakes for what, and where it is worst."""
    given = read_labels(labels)
    if any(one.judge is None for one in given):
        given = _asked(given, labels, reward, judge)
    whole = agreement(_pairs(given))
    parts: dict[str, dict[str, Agreement]] = {"class": {}, "arm": {}, "criterion": {}}
    for what, key in (("class", "kind"), ("arm", "arm")):
        for name in sorted({getattr(one, key) for one in given} - {""}):
            parts[what][name] = agreement(_pairs(one for one in given if getattr(one, key) == name))
    for name in sorted({name for one in given for name in one.criteria}):
        parts["criterion"][name] = agreement([one.criteria[name] for one in given if name in one.criteria])
    lines = [f"agreement  {whole.words}", f"confusion  {_confusion(whole)}"]
    for what, found in parts.items():
        worst = sorted(found.items(), key=lambda one: (one[1].agreement, one[0]))
        lines += [f"{what:<10} {name}: {one.words}" for name, one in worst]
    if whole.low < _BELOW:
        lines.append(
            f"note       the judge may agree on fewer than {_BELOW:.0%}: use another, or compare --judge-labels"
        )
    dumped = {what: {name: one.model_dump() for name, one in found.items()} for what, found in parts.items()}
    print_result({**whole.model_dump(), "by": dumped}, lines, json=json)
    refuse_poor_judge(given, min_judge_agreement)


def _confusion(found: Agreement) -> str:
    """What the person and the judge said, with the number of answers."""
    parts = (one.split("/") for one in found.confusion)
    said = (f"person {person}, judge {judge}: {found.confusion[f'{person}/{judge}']}" for person, judge in parts)
    return "; ".join(said)


def _asked(labels: Sequence[_Label], path: str, reward: str | None, judge: str | None) -> tuple[_Label, ...]:
    """Return the labels with what the judge says of each answer now. Nothing is stored."""
    from agentlearn.cli.interrupt import run_async
    from agentlearn.cli.library_checks import asked_model
    from agentlearn.domain.contract import rollout_ending_in
    from agentlearn.domain.custom import find_reward, judged_tasks
    from agentlearn.types.task import Task

    if reward is None:
        raise ConfigError(f"{path!r} has no column 'judged'; name the judge with --reward, such as --reward judge")
    if missing := next((one for one in ("problem", "answer") if any(one not in label.row for label in labels)), None):
        raise DataError(f"{path!r} has labels without {missing!r}, which the judge has to be asked about")
    domain = judged_tasks("judge-check", find_reward(reward))
    if domain.uses_judge and judge is None:
        raise ConfigError(f"the reward {reward!r} asks a model; name it with --judge")
    require_extras([judge] if judge else [], otel=False)

    async def ask(model: Any = None) -> list[float | None]:
        asked = domain if model is None else domain.with_judge(lambda _: model)
        scores: list[float | None] = []
        for one in labels:
            expected = one.row.get("expected")
            task = Task.of(domain.name, str(one.row["problem"]), None if expected is None else str(expected))
            verdict = asked.verify(task, rollout_ending_in(task, str(one.row["answer"])))
            verdict = await verdict if isawaitable(verdict) else verdict
            scores.append(verdict.reward)
        return scores

    scores = run_async(lambda: asked_model(judge, "judge-check", ask) if judge and domain.uses_judge else ask())
    if undecided := sum(one is None for one in scores):
        raise DataError(f"the judge did not decide {undecided} of {len(labels)} answers; use another judge")
    return tuple(replace(one, judge=score) for one, score in zip(labels, scores, strict=True))


def judge_sheet(
    rollouts: Annotated[str, Parameter(help="What `compare --out FILE.csv` wrote.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="CSV file to write.")],
    answers: Annotated[int, Parameter(help="Answers of each arm, drawn at random.")] = 50,
    seed: Annotated[int, Parameter(help="Seed of the draw.")] = 0,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write a sheet of answers to label, drawn at random from each arm of a comparison, with what its judge said."""
    if out.exists():
        raise ConfigError(f"{str(out)!r} exists; give another --out, or move it away", code="exists")
    by_arm = defaultdict[str, list[str]](list)
    for row in rows(rollouts):
        if row.fields.get("arm") and row.fields.get("rollout") and row.fields.get("score") not in (None, ""):
            by_arm[str(row.fields["arm"])].append(str(row.fields["rollout"]))
    if not by_arm:
        raise DataError(f"{rollouts!r} has no rollouts with arm, rollout and score; give what compare --out wrote")
    draw = random.Random(seed)
    drawn = [(arm, one) for arm, of in sorted(by_arm.items()) for one in draw.sample(of, min(answers, len(of)))]
    draw.shuffle(drawn)  # so that their order does not tell a person the arm
    with read_store(store) as reader, out.open("w", newline="", encoding="utf-8") as file:
        found = [(arm, reader.trajectory(one)) for arm, one in drawn]
        tasks = reader.tasks([one.task for _, one in found])
        sheet = csv.writer(file)
        sheet.writerow(["label", "problem", "expected", "answer", "judged", "arm", "class", "rollout"])
        for arm, one in found:
            task = tasks[one.task]
            said = [task.problem, task.answer or "", one.answer or "", one.reward, arm, task.family, one.id]
            sheet.writerow(["", *said])
    check = command_words("judge", "check", str(out), store=store)
    numbers = ", ".join(f"{min(answers, len(of))} of {arm}" for arm, of in sorted(by_arm.items()))
    lines = [f"wrote {out}: {numbers}", "fill in the column label with right or wrong, then:", f"  {check}"]
    print_result({"out": str(out), "answers": len(drawn)}, lines, json=json)
