# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Training a lab model with a tiny budget: repeatable bit by bit, equal in numpy and torch, and not done twice."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from transformers import AutoModelForCausalLM, AutoTokenizer

from agentlearn.errors import ConfigError
from agentlearn.lab.checkpoint import CARD, WEIGHTS, read_checkpoint
from agentlearn.lab.contract import Dialogue, EvaluationTask, LessonMeaning, SoftTarget, TokenPieces, TrainingExample
from agentlearn.serving import chatml
from agentlearn.serving.chat_request import Message
from agentlearn.train.lab.build import SHIPPED, build_lab_model, export_lab_model, is_built
from agentlearn.train.lab.distillation_loss import LossWeights, StudentModel, batch_loss
from agentlearn.train.lab.example_batches import ExampleEncoder, make_batch
from agentlearn.train.lab.qwen_model import ModelShape, qwen_config, random_model
from agentlearn.train.lab.tokenizer import tokenizer_of
from agentlearn.train.lab.training import Recipe, TrainingProgress, train_lab_model

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


def test_what_is_built_is_known_by_corpus_and_recipe(built: Path) -> None:
    assert is_built(Sums(), RECIPE, built)
    assert not is_built(Sums(), replace(RECIPE, tokens=601), built)
    assert not is_built(Sums(), RECIPE, built / "nowhere")


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


def test_progress_is_reported_and_the_budget_kept() -> None:
    reports: list[TrainingProgress] = []
    trained = train_lab_model(Sums(), RECIPE, reports.append)
    assert reports[-1].tokens == trained.tokens >= RECIPE.tokens
    assert np.isfinite([reports[-1].loss, reports[-1].teacher_kl]).all()


def test_a_shared_prefix_gives_the_loss_of_whole_conversations() -> None:
    lab = Sums()
    tokenizer = tokenizer_of(lab.token_pieces())
    encoder = ExampleEncoder(tokenizer, lab.meanings)
    student = StudentModel(random_model(qwen_config(SHAPE, tokenizer), 0), 2)
    examples = [encoder.encode(one) for one in islice(lab.examples(0), 8)]
    assert sum(len(one.ends_K) for one in examples) > 0
    together = batch_loss(
        student, make_batch(examples), LossWeights(doubted=3.0, read=0.0, understood=0.0, looked=0.0)
    ).total
    missed, said = 0.0, 0
    for example in examples:
        for dialogue in example.dialogues:
            ids = torch.tensor(np.concatenate([example.prefix_P, dialogue.ids_T]))
            logprobs = student.model(ids[None]).logits[0].log_softmax(-1)[len(example.prefix_P) - 1 :]
            for at in np.flatnonzero(dialogue.answer_T):
                shares = torch.from_numpy(dialogue.shares_TC[at])
                chosen = logprobs[at, torch.from_numpy(dialogue.options_TC[at])]
                missed -= (chosen * shares).sum().item() * (3 if dialogue.ambiguous_T[at] else 1)
                said += 1
    assert together.item() == pytest.approx(missed / said, rel=1e-5)


def test_a_doubt_stands_where_the_teacher_might_have_gone_on_otherwise() -> None:
    lab = Sums()
    tokenizer = tokenizer_of(lab.token_pieces())
    example = next(lab.examples(0))
    dialogue = ExampleEncoder(tokenizer, lab.meanings).encode(example).dialogues[0]
    (at,) = np.flatnonzero(dialogue.ambiguous_T)
    options = [tokenizer.id_to_token(int(one)) for one in dialogue.options_TC[at, :2]]
    assert options == ["loud", "soft"]
    assert dialogue.shares_TC[at].sum() == pytest.approx(1)
    assert tokenizer.decode(dialogue.ids_T[dialogue.answer_T].tolist()).startswith("loud")


def test_the_attention_loss_uses_the_models_own_head() -> None:
    lab = Sums()
    tokenizer = tokenizer_of(lab.token_pieces())
    encoder = ExampleEncoder(tokenizer, lab.meanings)
    student = StudentModel(random_model(qwen_config(SHAPE, tokenizer), 0), 2)
    student.model.set_attn_implementation("eager")
    examples = [encoder.encode(one) for one in islice(lab.examples(0), 8)]
    assert any(
        lessons for example in examples for dialogue in example.dialogues for _, lessons in dialogue.attention_targets
    )
    loss, without = (
        batch_loss(student, make_batch(examples), LossWeights(read=0.0, understood=0.0, looked=looked)).total.item()
        for looked in (1.0, 0.0)
    )
    missed: list[float] = []
    for example in examples:
        for dialogue in example.dialogues:
            for place, lessons in dialogue.attention_targets:
                before = torch.tensor(np.concatenate([example.prefix_P, dialogue.ids_T[:place]]))[None]
                seen = student.model(before, output_attentions=True).attentions[student.middle][0, 0, -1]
                shares = seen[: len(example.prefix_P)] / seen[: len(example.prefix_P)].sum()
                aims = example.ends_K[list(lessons)] if lessons else [0]
                missed.append(-float(np.mean([shares[int(aim)].log().item() for aim in aims])))
    assert loss - without == pytest.approx(float(np.mean(missed)), rel=1e-4)


def test_a_card_says_how_the_weights_came_about(built: Path) -> None:
    assert f"lab build sums --tokens {RECIPE.tokens} --seed 3" in (built / SHIPPED / CARD).read_text()


def test_a_folder_with_a_model_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no checkpoint of agentlearn; give a new folder"):
        build_lab_model(Sums(), RECIPE, tmp_path, lambda _: None)
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "{}"
