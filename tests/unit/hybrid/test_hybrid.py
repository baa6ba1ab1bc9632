"""`hybrid`: recipes, what its stages share, what is said of them, and mistakes as one sentence before anything runs."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentlearn.config import packaged_recipe, read_recipe
from agentlearn.errors import ConfigError
from agentlearn.measure.contrast import Contrast
from agentlearn_evals.comparison import ArmLine
from agentlearn_evals.hybrid import HybridReport, HybridRound, plan_hybrid, print_hybrid, sentences
from agentlearn_evals.hybrid_settings import HybridSettings, hybrid_settings, recipe_name
from agentlearn_evals.lesson_removals import PruningStage
from tests.support.cases import cases
from tests.support.command import agentlearn_here
from tests.support.snapshot import assert_snapshot


def recipe(**changes: Any) -> HybridSettings:
    return hybrid_settings({"domain": "math", "model": "lab:novice", **changes})


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        plan_hybrid(recipe(**changes))
    assert caught.value.exit_status == 2
    return caught.value.message


def test_a_wrong_recipe_is_refused_in_one_sentence(subtests: pytest.Subtests) -> None:
    for changes, sentence in cases(__file__, "a_wrong_recipe_is_refused_in_one_sentence"):
        with subtests.test(repr((changes, sentence))):
            assert refusal(**changes).startswith(sentence)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    words = refusal(learn={"reflector": "http://me:hidden@host/v1#m"})
    assert words.startswith("learn.reflector holds a key or a password")
    assert "hidden" not in words


def test_the_stages_share_what_stands_at_the_top(tmp_path: Path) -> None:
    settings = recipe(
        seed=7, store=tmp_path, name="mine", margin=0.2, learn={"epochs": 2}, train={"epochs": 5}, compare={"k": 3}
    )
    learning, training = settings.learn_stage("lab:novice"), settings.train_stage("lab:novice", "mine@abc", 2)
    comparing = settings.compare_stage(("none", "mine"))
    assert {learning.seed, training.seed, training.gradient.seed, comparing.seed} == {7}
    assert {learning.store, training.store, comparing.store} == {tmp_path}
    assert (learning.epochs, training.epochs, comparing.k, comparing.margin) == (2, 5, 3, 0.2)
    assert (learning.library, learning.library_name, learning.reflector_name) == (None, "mine", "sim:reflector")
    assert (training.distill, training.library, training.weights_name) == ("mine@abc", "none", "mine-2")
    assert training.gradient.loss == "distill"
    assert comparing.domains == ("math",)
    assert settings.compare_stage(("none", "mine"), 9).k == 9
    assert settings.learn_stage("lab:novice", "mine@abc").library == "mine@abc"


def test_own_tasks_are_compared_on_the_held_out_file() -> None:
    settings = recipe(data="learn.jsonl", test_data="held.jsonl", model="models/mine")
    assert settings.learn_stage("models/mine").test_data == ("held.jsonl",)
    assert settings.train_stage("models/mine", "x").test_data == ("held.jsonl",)
    comparing = settings.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("math",), "held.jsonl", None)
    judged = hybrid_settings(settings.model_dump(exclude_unset=True) | {"reward": "number", "domain": "mine"})
    comparing = judged.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("held.jsonl",), None, "number")


def test_a_domain_stands_for_its_recipe_which_is_valid(tmp_path: Path) -> None:
    assert [recipe_name(one) for one in ("math", "math/hybrid", "mine.yaml")] == ["math/hybrid"] * 2 + ["mine.yaml"]
    path = packaged_recipe("math/hybrid")
    assert path is not None
    plan = plan_hybrid(hybrid_settings({**read_recipe(path), "store": tmp_path}))
    assert plan.train.refusals == ()
    assert plan.compare_rollouts == plan.compare_tasks * plan.compare_k * 4
    with pytest.raises(ConfigError, match="there is no recipe 'web/hybrid'"):
        recipe_name("web")


@pytest.mark.slow
def test_a_training_that_would_be_refused_stops_before_lessons_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: math\nmodel: lab:novice\ntrain:\n  gradient:\n    lora_dropout: 0.1\n")
    done = agentlearn_here("hybrid", "mine.yaml", cwd=tmp_path, expect=2)
    assert done.stderr.startswith("agentlearn: train: ")
    assert "lora_dropout is 0.1, but lora_rank=0" in done.stderr
    assert not (tmp_path / ".agentlearn").exists()


def test_a_dry_run_prints_all_stages_and_stores_nothing(tmp_path: Path) -> None:
    printed = agentlearn_here("hybrid", "math", "--dry-run", "--rounds", "2", cwd=tmp_path).stdout
    for words in ("2, margin 0.1", "STAGE learn", "STAGE train", "STAGE compare", "STAGE remove", "960 rollouts"):
        assert words in printed
    assert not (tmp_path / ".agentlearn").exists()
    assert "'nothing' is neither a domain" in agentlearn_here("hybrid", "nothing", cwd=tmp_path, expect=2).stderr


LESSONS = {"a1" * 16: "proposed", "b2" * 16: "proposed", "c3" * 16: "needed", "d4" * 16: "unclear"}


def contrast(arm: str, mean: float, verdict: str = "cannot_tell", baseline: str = "both") -> Contrast:
    given = {"arm": arm, "baseline": baseline, "mean": mean, "low": mean - 0.05, "high": mean + 0.05}
    return Contrast.model_validate({**given, "verdict": verdict, "sentence": f"{arm} {mean} {baseline}"})


def arm(name: str, score: float) -> ArmLine:
    given = {"arm": name, "label": name, "score": score, "low": score - 0.1, "high": score + 0.1, "undecided": 1}
    return ArmLine.model_validate({**given, "tasks": 4, "rollouts": 8, "counted": 7})


def removal(lesson: str, state: str, tokens: int = 20, **changes: Any) -> dict[str, Any]:
    given = {"lesson": lesson, "text": f"Lesson {lesson[:2]}.", "tokens": tokens, "state": state}
    return {**given, "contrast": contrast(f"without-{lesson}", -0.01), **changes}


def pruning(**changes: Any) -> PruningStage:
    removals = [removal(one, state, 20 + n) for n, (one, state) in enumerate(LESSONS.items())]
    given: dict[str, Any] = {"runs": ("r",), "removals": removals, "not_measured": 0, "tokens_saved": 41}
    given |= {"together": contrast("without-proposed", -0.02), "together_shown": True}
    return PruningStage.model_validate(given | changes)


def report(kept: float | None = 0.8, **changes: Any) -> HybridReport:
    learned = {"run": "l", "reference": "math@abc", "version": "abc", "lessons": 4, "tokens": 90}
    learned |= {"simulated": True, "published": True, "reason": "why", **changes.pop("learned", {})}
    trained = {"run": "t", "weights": "w/math-1", "sha256": "f", "published": True, "before": 0.4, "after": 0.8}
    compared = {
        "runs": ("r", "s"),
        "arms": (arm("none", 0.4), arm("lessons", 0.9), arm("distilled", 0.8), arm("both", 0.9)),
        "tokens_in_per_call": {"none": 42, "lessons": 372, "distilled": 44, "both": 372},
        "contrasts": (
            contrast("lessons", 0.5, "better", "none"),
            contrast("distilled", 0.4, "better", "none"),
            contrast("distilled", -0.1, "worse", "lessons"),
        ),
        "kept": kept,
    }
    if isinstance(of_training := changes.get("trained"), dict):
        changes["trained"] = trained | of_training
    stages = {"learned": learned, "trained": trained, "compared": compared, **changes}
    one = HybridRound.model_validate({"number": 1, "model": "lab:novice", "start": None, **stages})
    return HybridReport(domain="math", model="lab:novice", seed=0, rounds=(one,))


def test_what_is_said_and_printed_of_each_kind_of_result() -> None:
    worse, equal = contrast("without-proposed", -0.2, "worse"), contrast("without", 0.0)
    equal = equal.model_copy(update={"low": 0.0, "high": 0.0})
    alone = removal("a1" * 16, "proposed", caution="25 clusters are few")
    kinds = {
        "proposals that hold together": report(pruning=pruning()),
        "proposals that are parked": report(pruning=pruning(parked=True)),
        "proposals that back each other up": report(compared=None, pruning=pruning(together_shown=False)),
        "proposals that are worse together": report(
            compared=None, pruning=pruning(together=worse, together_shown=False)
        ),
        "a proposal without a verdict": report(compared=None, pruning=pruning(removals=(alone,))),
        "no proposal": report(compared=None, pruning=pruning(removals=(removal("c3" * 16, "needed"),), together=None)),
        "a lesson that changed no task": report(
            compared=None, pruning=pruning(removals=(removal("d4" * 16, "unclear", contrast=equal),), together=None)
        ),
        "no gain of which a share could be kept": report(None, learned={"simulated": False}),
        "weights that are not published": report(
            trained={"published": False, "withheld": "held-out tasks got worse", "after": 0.2}, compared=None
        ),
        "nothing to distil": report(learned={"published": False}, trained=None, compared=None),
    }
    said = [f"## {name}\n" + "\n".join(sentences(one, recipe(margin=0.1))) for name, one in kinds.items()]
    out = io.StringIO()
    print_hybrid(report(pruning=pruning()), recipe(margin=0.1), Console(file=out, width=200))
    assert_snapshot(__file__, "hybrid", "\n".join((*said, "## printed", out.getvalue())))
