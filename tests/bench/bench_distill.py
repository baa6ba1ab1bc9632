"""Lessons distilled into the lab model: what stays of their gain, what is forgotten, and what harmful lessons do.

Three libraries are made, with one lesson for each mistake: the advice, as the simulated reflector writes it; orders to
make the mistake; and the advice on four mistakes only, distilled on problems where they can be made. The last model is
then compared with the untrained one on other families of problems, where none of the four can be made. Training with
the rewards alone takes the same number of rollouts. Everything is run with the commands of agentlearn.

    just bench distill --epochs 4
"""

import argparse
import json
import tempfile
from collections.abc import Collection, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from agentlearn.lab.contract import announced_lab
from agentlearn.train.lab.build import export_lab_model
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import DISTINCT, ENDPOINTS, FLOATS, ORDERED, Family
from agentlearn_math.lab.corpus_lessons import lesson
from agentlearn_math.tasks import home
from agentlearn_math.traps import TRAPS
from tests.bench.found import Found, Number, Row, Target
from tests.bench.real.runs import agentlearn

NOVICE = "novice"
SOME = frozenset({DISTINCT, ENDPOINTS, FLOATS, ORDERED})
"""Mistakes of the third library: 6 families have no others, 10 have none of them."""
MARGIN = 0.05
DISTILLED_RATE, REWARDED_RATE = "5e-4", "2e-4"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--epochs", type=int, default=4, help="epochs of each training, of 5 updates each")
    parser.add_argument("--k", type=int, default=4, help="rollouts per held-out problem and arm")
    parser.add_argument("--others", type=int, default=240, help="problems of the other families")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")


def measure(chosen: argparse.Namespace) -> Found:
    """Distil three libraries, and compare."""
    with tempfile.TemporaryDirectory() as work:
        bench = _Bench(Path(work), chosen)
        rows, targets, kept = bench.right()
        rewards = bench.rewards()
        inverted, fault = bench.inverted()
        forgets, forgotten = bench.other_families()
    return Found(
        rows=(*rows, *rewards, *inverted, *forgets),
        targets=(*targets, forgotten),
        notes=(
            f"Share of the lessons' gain that is kept without them: {kept:.2f}.",
            "The lessons are simulated, and the lab model is a small network that was made to read them.",
        ),
        failures=(fault,) if fault else (),
    )


class _Bench:
    """One store in a temporary folder, with the models and libraries that the stages leave there."""

    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self.folder, self.chosen, self.store = folder, chosen, folder / "store"
        export_lab_model(announced_lab(NOVICE), folder / NOVICE)
        self.model = f"local:{folder / NOVICE}"

    def right(self) -> tuple[Sequence[Row], Sequence[Target], float]:
        """The advice on every mistake."""
        self._library("right", "reflector")
        weights, trained = self._train("--distill", "right", rate=DISTILLED_RATE)
        arms = [
            f"none=none,model={self.model}",
            f"lessons=right,model={self.model}",
            f"distilled=none,model={weights}",
            f"both=right,model={weights}",
        ]
        result = self._compare(arms, "--domain", "math")
        none, lessons, distilled, _ = result["arms"]
        kept = (distilled["score"] - none["score"]) / (lessons["score"] - none["score"])
        unseen = trained["unseen_families"]
        kept_unseen = (unseen["after"]["mean"] - unseen["before"]["mean"]) / (lessons["score"] - none["score"])
        longer = distilled["tokens_out"] / none["tokens_out"]
        targets = (
            Target(what="share of the gain kept", figure=kept, bound="at_least", limit=0.8),
            Target(
                what="gain on families not trained on, over that of the lessons",
                figure=kept_unseen,
                bound="at_least",
                limit=0.6,
            ),
            Target(what="output tokens over none", figure=longer, bound="at_most", limit=1.15),
            Target(what="output tokens over none, least", figure=longer, bound="at_least", limit=0.85),
        )
        return _rows("advice: ", result), targets, kept

    def rewards(self) -> Sequence[Row]:
        """Training with the rewards, without lessons."""
        weights, _ = self._train(rate=REWARDED_RATE)
        result = self._compare([f"none=none,model={self.model}", f"trained=none,model={weights}"], "--domain", "math")
        return _rows("rewards: ", result)[1:]

    def inverted(self) -> tuple[Sequence[Row], str]:
        """Orders to make every mistake. Returns a sentence if they are called an improvement."""
        self._library("inverted", "inverted")
        weights, trained = self._train("--distill", "inverted", rate=DISTILLED_RATE)
        arms = [
            f"none=none,model={self.model}",
            f"lessons=inverted,model={self.model}",
            f"distilled=none,model={weights}",
        ]
        result = self._compare(arms, "--domain", "math")
        verdicts = [one["verdict"] for one in result["contrasts"]]
        row = Row(name="harmful: published", figures={"published": trained["weights"]["published"]})
        praised = "better" in [*verdicts, trained["delta"]["verdict"]]
        return [*_rows("harmful: ", result)[1:], row], "harmful lessons are called an improvement" if praised else ""

    def other_families(self) -> tuple[Sequence[Row], Target]:
        """The advice on some mistakes, and what it does where they cannot be made."""
        self._library("some", "reflector", SOME)
        learned = self._problems("learned", 60, split="train", families=_families(only=SOME))
        others = self._problems("others", self.chosen.others, split="test", families=_families(without=SOME))
        weights, _ = self._train(
            "--distill", "some", "--data", str(learned), "--test-share", "0", "--no-eval", rate=DISTILLED_RATE
        )
        arms = [f"none=none,model={self.model}", f"distilled=none,model={weights}"]
        asked = self._problems("own", 120, split="test", families=_families(only=SOME))
        own = self._compare(arms, "--domain", "math", "--data", str(asked))
        result = self._compare(arms, "--domain", "math", "--data", str(others), "--margin", str(MARGIN))
        (contrast,) = result["contrasts"]
        rows = [*_rows("four mistakes, their families: ", own)[1:], *_rows("four mistakes, others: ", result)[1:]]
        worst = contrast["low"] if contrast["margin"]["holds"] else float("-inf")
        return rows, Target(what="other families, no worse by", figure=worst, bound="at_least", limit=-MARGIN)

    def _library(self, name: str, kind: str, mistakes: Collection[str] = ()) -> None:
        chance = Random(name)
        for trap in TRAPS:
            if not mistakes or trap.name in mistakes:
                agentlearn("library", "add", name, lesson(kind, trap, chance).text, store=self.store, threads=1)

    def _train(self, *more: str, rate: str) -> tuple[str, Any]:
        ran = agentlearn(
            "train", "math", *more, "--epochs", str(self.chosen.epochs), "--learning-rate", rate, "--no-tensorboard",
            store=self.store, threads=self.chosen.threads,
        )  # fmt: skip
        return f"local:{ran.result['weights']['path']}", ran.result

    def _compare(self, arms: Sequence[str], *more: str) -> Any:
        ran = agentlearn(
            "compare", *arms, *more, "-k", str(self.chosen.k), "--temperature", "0.7", "--yes",
            store=self.store, threads=self.chosen.threads,
        )  # fmt: skip
        return ran.result

    def _problems(self, name: str, number: int, *, split: str, families: Sequence[Family[Any]]) -> Path:
        """Write problems of the families in turn, which are of one split of the domain."""
        file, chance = self.folder / f"{name}.jsonl", Random(name)
        found: dict[str, str] = {}
        for family in cycle(families):
            if len(found) == number:
                break
            params = family.generate(chance, lambda one, family=family: home(family.name, one) == split)
            if params is not None:
                found.setdefault(family.ask(params, chance), family.gold(params))
        rows = [{"problem": problem, "answer": answer} for problem, answer in found.items()]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return file


def _families(*, only: Collection[str] = (), without: Collection[str] = ()) -> Sequence[Family[Any]]:
    return [
        family
        for family in FAMILIES
        if (not only or set(family.traps) <= set(only)) and not set(family.traps) & set(without)
    ]


def _rows(before: str, result: Any) -> list[Row]:
    contrasts = {one["arm"]: one for one in result["contrasts"]}
    rows: list[Row] = []
    for arm in result["arms"]:
        contrast = contrasts.get(arm["arm"], {})
        figures: dict[str, Number] = {"score": arm["score"]}
        figures |= {f"gain_{end}": contrast.get(end) for end in ("mean", "low", "high")}
        figures |= {
            "tokens_in_each": arm["tokens_in"] / arm["rollouts"],
            "tokens_out_each": arm["tokens_out"] / arm["rollouts"],
        }
        rows.append(Row(name=before + arm["arm"], figures=figures))
    return rows
