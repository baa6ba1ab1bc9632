"""Does training on one kind of task make another kind worse, and does `train --margin` see it?

    python -m scripts.bench.two_kinds

A transformer with some 200,000 weights is trained from random ones to know two kinds of facts about made-up towns: the
number of a town, and its letter. It says most numbers right, less than half of the letters, and most letters where it
reads a lesson. No model is simulated. Then five runs of `agentlearn train`, each from these weights and on letters
only, with both kinds held out and `--margin 0.1`: with rewards and with the lesson distilled, each at a learning rate
that suits, and at higher ones. What the run says is compared with a second measurement of the numbers, with other
seeds.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agentlearn import Library
from agentlearn.library import LibraryStore
from agentlearn.serving.chat_request import END, START, TEMPLATE
from agentlearn.types.value import Value
from scripts.bench.real.measuring import once
from scripts.bench.real.runs import RunFailed, agentlearn

LESSON = "Read the name of the town once more."
INSTRUCTIONS = "Answer."
PAD = "<|endoftext|>"
ABC = "abcdefghij"
MARGIN = 0.1
RIGHT = {"numbers": 0.9, "letters": 0.5, "letters with the lesson": 1.0}
"""Share of right answers among those that the model learns from at first."""
RUNS = (
    ("rewards", 1e-3, ()),
    ("rewards", 5e-3, ()),
    ("rewards", 2e-2, ()),
    ("lesson", 1e-3, ("--distill", "letters")),
    ("lesson", 5e-3, ("--distill", "letters")),
)
_FIRST = ("Mar", "Tol", "Quin", "Har", "Sel", "Nor", "Bex", "Dun", "Fal", "Gor", "Hux", "Kel")
_LAST = ("low", "by", "wick", "den", "ton", "ford", "mere", "stow")
Rows = list[dict[str, str]]


class Ran(Value):
    """One run of `train`, and what its weights do."""

    name: str
    rate: float
    published: bool
    letters: tuple[float, float]
    """Held-out letters before and after, as the run measured them."""
    numbers: tuple[float, float]
    numbers_verdict: str
    letters_verdict: str
    all_verdict: str
    """Of both kinds together."""
    all_numbers: tuple[float, float]
    """All numbers before and after, measured afterwards with other seeds."""
    all_words: str
    cpu_s: float


def problems(kind: str) -> Rows:
    """Return all problems of one kind, in an order of their own."""
    chance = random.Random(kind)
    names = [first + last for first in _FIRST for last in _LAST]
    chance.shuffle(names)
    answers = "0123456789" if kind == "numbers" else ABC
    return [{"problem": f"{kind} {name}?", "answer": chance.choice(answers)} for name in names]


def prompt_of(problem: str, *, lesson: bool) -> str:
    """Return the text that the model reads, as in a rollout."""
    lessons = f"\n\n{Library.of([LESSON]).render()}" if lesson else ""
    return f"{START}system\n{INSTRUCTIONS}{lessons}{END}\n{START}user\n{problem}{END}\n{START}assistant\n"


def tokenizer_of(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer for any text, with few tokens for these."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (PAD, START, END)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = TEMPLATE
    return fast


def build(folder: Path, steps: int, seed: int) -> float:
    """Train a model from random weights on answers that are partly wrong, save it, and return its last loss."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    chance = random.Random(seed)
    numbers, letters = problems("numbers"), problems("letters")
    texts = [prompt_of(row["problem"], lesson=lesson) for row in numbers + letters for lesson in (False, True)]
    tokenizer: Any = tokenizer_of(texts)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, head_dim=16, max_position_embeddings=256, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    loss = torch.zeros(())
    for step in range(steps):
        lesson = step % 2 == 1  # all rows of a step have prompts of about the same length
        rows = [chance.choice(chance.choice((numbers, letters))) for _ in range(32)]
        ids, targets = _batch(tokenizer, rows, lesson=lesson, chance=chance)
        logits = model(input_ids=ids, attention_mask=ids.ne(tokenizer.pad_token_id).long()).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"  step {step + 1} of {steps}: loss {float(loss.detach()):.3f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return float(loss.detach())


def _batch(
    tokenizer: Any, rows: Sequence[dict[str, str]], *, lesson: bool, chance: random.Random
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and targets, padded at the right. Only answers are learned."""
    ids, targets = list[list[int]](), list[list[int]]()
    for row in rows:
        kind = "numbers" if row["answer"].isdigit() else "letters"
        right = chance.random() < RIGHT["letters with the lesson" if lesson and kind == "letters" else kind]
        answer = row["answer"] if right else chance.choice("0123456789" if kind == "numbers" else ABC)
        prompt = tokenizer.encode(prompt_of(row["problem"], lesson=lesson))
        said = tokenizer.encode(f"{answer}{END}")
        ids.append(prompt + said)
        targets.append([-100] * len(prompt) + said)
    longest = max(map(len, ids))
    pad = tokenizer.pad_token_id
    return (
        torch.tensor([one + [pad] * (longest - len(one)) for one in ids]),
        torch.tensor([one + [-100] * (longest - len(one)) for one in targets]),
    )


_OPTIONS = (
    "--reward",
    "exact",
    "--tools",
    "none",
    "--instructions",
    INSTRUCTIONS,
    "--only-instructions",
    "--max-output-tokens",
    "4",
)


def train(store: Path, model: Path, name: str, rate: float, more: Sequence[str], epochs: int) -> Ran:
    """Train on letters with both kinds held out, then measure all numbers with other seeds."""
    folder = store / f"{name}-{rate:g}"
    LibraryStore(folder / "libraries").publish("letters", Library.of([LESSON]))
    files = {kind: folder / f"{kind}.jsonl" for kind in ("letters-learned", "letters", "numbers")}
    letters = problems("letters")
    for kind, rows in (("letters-learned", letters[:64]), ("letters", letters[64:]), ("numbers", problems("numbers"))):
        files[kind].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ran = agentlearn(
        "train", str(files["letters-learned"]), *_OPTIONS, "--model", str(model), "--name", "trained", *more,
        "--test-data", str(files["numbers"]), "--test-data", str(files["letters"]), "--margin", str(MARGIN),
        "--eval-rollouts", "2", "--epochs", str(epochs), "--batch-size", "16", "--learning-rate", str(rate),
        "--report-to", "none", store=folder, threads=1,
    )  # fmt: skip
    numbers, held_letters = ran.result["test_sets"]
    path, cpu_s = ran.result["weights"]["path"], ran.cpu_s
    arms = (f"before=none,model=local:{model}", f"after=none,model=local:{path}")
    again = agentlearn(
        "compare", *arms, "--domain", str(files["numbers"]), *_OPTIONS, "-k", "4", "--temperature", "1",
        "--seed", "1000", "--margin", str(MARGIN), "--yes", store=folder, threads=1,
    ).result  # fmt: skip
    return Ran(
        name=name,
        rate=rate,
        published=ran.result["weights"]["published"],
        letters=_scores(held_letters),
        numbers=_scores(numbers),
        numbers_verdict=numbers["delta"]["verdict"],
        letters_verdict=held_letters["delta"]["verdict"],
        all_verdict=ran.result["delta"]["verdict"],
        all_numbers=(again["arms"][0]["score"], again["arms"][1]["score"]),
        all_words=again["contrasts"][0]["sentence"],
        cpu_s=cpu_s,
    )


def _scores(held_out: dict[str, Any]) -> tuple[float, float]:
    return held_out["before"]["mean"], held_out["after"]["mean"]


def main() -> int:
    """Build the model, make the runs, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="steps of the training from random weights")
    parser.add_argument("--epochs", type=int, default=3, help="passes over 64 letters in each run")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--store", type=Path, default=Path(".agentlearn/two-kinds"), help="where everything is kept")
    chosen = parser.parse_args()
    store: Path = chosen.store
    model = store / "model"
    if not (model / "config.json").is_file():
        print(
            f"the model is trained from random weights: loss {build(model, chosen.steps, chosen.seed):.3f}", flush=True
        )
    try:
        for name, rate, more in RUNS:
            found = once(
                store / f"{name}-{rate:g}",
                Ran,
                lambda name=name, rate=rate, more=more: train(store, model, name, rate, more, chosen.epochs),
            )
            print(_line(found), flush=True)
    except RunFailed as error:
        print(f"{error}\nWhat was done before is kept: the same command goes on from there.", file=sys.stderr)
        return 1
    return 0


def _line(ran: Ran) -> str:
    return (
        f"{ran.name}, learning rate {ran.rate:g}: {'published' if ran.published else 'not published'};"
        f" letters {ran.letters[0]:.2f} → {ran.letters[1]:.2f} ({ran.letters_verdict}),"
        f" numbers {ran.numbers[0]:.2f} → {ran.numbers[1]:.2f} ({ran.numbers_verdict});"
        f" both together: {ran.all_verdict}."
        f" All numbers again: {ran.all_numbers[0]:.2f} → {ran.all_numbers[1]:.2f}. {ran.all_words}"
        f" ({ran.cpu_s:.0f} s of CPU)"
    )


if __name__ == "__main__":
    sys.exit(main())
