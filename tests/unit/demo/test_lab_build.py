# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Training a lab model with a tiny budget: repeatable bit by bit, equal in numpy and torch, and not done twice."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from transformers import AutoModelForCausalLM, AutoTokenizer

from agentlearn.errors import ConfigError
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import Message
from agentlearn_demo.lab.checkpoint import WEIGHTS, read_checkpoint
from agentlearn_demo.lab.contract import (
    Dialogue,
    EvaluationTask,
    LessonMeaning,
    SoftTarget,
    TokenPieces,
    TrainingExample,
)
from agentlearn_demo.lab_training.build import SHIPPED, build_lab_model, export_lab_model
from agentlearn_demo.lab_training.qwen_model import ModelShape
from agentlearn_demo.lab_training.training import Recipe

SHAPE = ModelShape(hidden=16, layers=2, heads=2, groups=1, head=8, inner=16, context=256)
RECIPE = Recipe(tokens=600, seed=3, scenes=2, shape=SHAPE, warmup_steps=2)


class Sums:
    """A lab model of our own: it adds, and a lesson may tell it to be loud."""

    name = "sums"
    version = "1"
    conditions = ("none",)
    meanings = ("loud", "soft")
    families = 1

    def __init__(self, folder: Path = Path()) -> None:
        self.folder = folder

    def token_pieces(self) -> TokenPieces:
        return TokenPieces(
            ("You add 2 numbers.",), ("user\n", "assistant\n", "system\n", " is", "loud", "soft", " plus")
        )

    def examples(self, seed: int) -> Iterator[TrainingExample]:
        rng = np.random.default_rng(seed)
        while True:
            lesson = "\n[G1] Be loud." if rng.random() < 0.5 else ""
            system = f"You add 2 numbers.{lesson}\n"
            dialogues = tuple(self._talk(*map(int, rng.integers(0, 9, 2)), bool(lesson)) for _ in range(3))
            lessons = (LessonMeaning(len(system) - 1, ("loud",)),) if lesson else ()
            yield TrainingExample(system, (), dialogues, lessons)

    def _talk(self, a: int, b: int, loud: bool) -> Dialogue:
        share = 0.9 if loud else 0.2
        said = Message("assistant", f"loud {a} plus {b} is {a + b}")
        soft_targets = (SoftTarget((("loud", share), ("soft", 1 - share)), (0,) if loud else ()),)
        return Dialogue((Message("user", f"{a}+{b}"), said), soft_targets)

    def evaluation_tasks(self, condition: str, number: int, seed: int) -> list[EvaluationTask]:
        return []

    def knows(self, question: str) -> bool:
        return "+" in question

    def is_right(self, task: EvaluationTask, text: str) -> bool:
        return False


def hashed(folder: Path) -> str:
    return hashlib.sha256((folder / SHIPPED / WEIGHTS).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    build_lab_model(Sums(), RECIPE, folder, lambda _: None)
    return folder


def test_a_build_is_repeated_to_the_bit_and_another_seed_gives_another_model(built: Path, tmp_path: Path) -> None:
    build_lab_model(Sums(), RECIPE, tmp_path / "again", lambda _: None)
    build_lab_model(Sums(), replace(RECIPE, seed=4), tmp_path / "other", lambda _: None)
    assert hashed(tmp_path / "again") == hashed(built) != hashed(tmp_path / "other")


def test_numpy_and_torch_give_the_same_logits(built: Path) -> None:
    runtime, twin = read_checkpoint(built / SHIPPED, "sums")
    model = AutoModelForCausalLM.from_pretrained(built)
    tokenizer = AutoTokenizer.from_pretrained(built)
    messages = [Message("system", "You add 2 numbers."), Message("user", "1+2")]
    prompt = tokenizer.apply_chat_template(
        [{"role": one.role, "content": one.text} for one in messages], tokenize=False, add_generation_prompt=True
    )
    assert prompt == chatml.conversation_text(messages)
    ids = twin.encode(prompt)
    assert ids == tokenizer.encode(prompt)
    expected = model(torch.tensor([ids])).logits[0].detach().numpy()
    before, _ = runtime.prefill(ids[:3], runtime.empty())
    np.testing.assert_allclose(runtime.prefill(ids, runtime.empty())[1], expected[-1], atol=1e-4)
    np.testing.assert_allclose(runtime.prefill(ids[3:], before)[1], expected[-1], atol=1e-4)


def test_the_shipped_files_export_to_the_same_checkpoint(built: Path, tmp_path: Path) -> None:
    export_lab_model(Sums(built / SHIPPED), tmp_path)
    assert hashed(tmp_path) == hashed(built)
    first, second = (AutoModelForCausalLM.from_pretrained(one).state_dict() for one in (built, tmp_path))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_folder_with_a_model_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no checkpoint of agentlearn; give a new folder"):
        build_lab_model(Sums(), RECIPE, tmp_path, lambda _: None)
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "{}"
