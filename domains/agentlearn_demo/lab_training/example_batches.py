"""Training examples as tensors. The dialogues of an example share one prefix, which is computed once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import Message
from agentlearn_demo.lab.contract import Dialogue, SoftTarget, TrainingExample

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BUFFER = 64
"""Number of examples that are sorted by prefix length, so that those of a batch are similar."""
MAX_OPTIONS = 6
"""Largest number of options of a soft target."""
PARTS = 4
"""Number of parts of similar length that the dialogues of a batch are split into."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedDialogue:
    """One dialogue as T tokens."""

    ids_T: NDArray[np.int64]
    answer_T: NDArray[np.bool_]
    """Whether the assistant wrote this token. Only these tokens are trained."""
    options_TC: NDArray[np.int64]
    """Possible tokens at each position."""
    shares_TC: NDArray[np.float32]
    """The teacher's probability of each option; 1 for the token itself when there is only one."""
    ambiguous_T: NDArray[np.bool_]
    """Whether the position is a soft target."""
    attention_targets: tuple[tuple[int, tuple[int, ...]], ...]
    """Position of each soft target, and the indexes of the lessons that decide it."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedExample:
    """A training example as tokens."""

    prefix_P: NDArray[np.int64]
    dialogues: tuple[EncodedDialogue, ...]
    ends_K: NDArray[np.int64]
    """Position in the prefix of the end of each of K lessons."""
    meanings_KM: NDArray[np.float32]
    """1 for each of M meanings that a lesson has, else 0."""

    @property
    def tokens(self) -> int:
        """Number of tokens, with the prefix counted once."""
        return len(self.prefix_P) + sum(len(dialogue.ids_T) for dialogue in self.dialogues)


@dataclass(frozen=True, slots=True, eq=False)
class DialoguePart:
    """N dialogues of similar length, padded to T tokens."""

    example_N: Tensor
    """Index of each dialogue's example in the batch."""
    ids_NT: Tensor
    real_NT: Tensor
    answer_NT: Tensor
    options_NTC: Tensor
    shares_NTC: Tensor
    ambiguous_NT: Tensor
    attending_D2: Tensor
    """Dialogue and position of each of D soft targets."""
    attended_DP: Tensor
    """Prefix positions to attend to from each soft target, as shares that sum to 1; the start without lessons."""


@dataclass(frozen=True, slots=True, eq=False)
class ExampleBatch:
    """B examples with prefixes padded to P tokens. Their dialogues are split into parts of similar length."""

    prefix_BP: Tensor
    real_BP: Tensor
    parts: tuple[DialoguePart, ...]
    ends_K2: Tensor
    """Example and prefix position of each lesson's end."""
    meanings_KM: Tensor
    tokens: int
    """Number of tokens without padding."""


class ExampleEncoder:
    """Encodes training examples as tokens."""

    def __init__(self, tokenizer: "Tokenizer", meanings: Sequence[str]) -> None:
        self._meanings = {meaning: at for at, meaning in enumerate(meanings)}
        self._tokenizer = tokenizer
        self._texts = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
        self._tokens = {text: token for token, text in enumerate(self._texts)}

    def encode(self, example: TrainingExample) -> EncodedExample:
        """Return the example as tokens."""
        opening = chatml.system_text([Message("system", example.system)], example.tools)
        prefix = self._tokenizer.encode(opening)
        start = opening.index(example.system)
        meanings_KM = np.zeros((len(example.lessons), len(self._meanings)), np.float32)
        for at, lesson in enumerate(example.lessons):
            meanings_KM[at, [self._meanings[meaning] for meaning in lesson.meanings]] = 1
        return EncodedExample(
            prefix_P=np.array(prefix.ids, np.int64),
            dialogues=tuple(map(self._encode_dialogue, example.dialogues)),
            ends_K=np.array([prefix.char_to_token(start + lesson.end) for lesson in example.lessons], np.int64),
            meanings_KM=meanings_KM,
        )

    def _encode_dialogue(self, dialogue: Dialogue) -> EncodedDialogue:
        ids: list[int] = []
        answer: list[bool] = []
        for message in dialogue.messages:
            head, tail = f"{chatml.START}{message.role}\n", "\n"
            for text, speaks in ((head, False), (chatml.message_text(message) + chatml.END, True), (tail, False)):
                new = self._tokenizer.encode(text).ids
                ids += new
                answer += [speaks and message.role == "assistant"] * len(new)
        options_TC, shares_TC = (
            np.zeros((len(ids), MAX_OPTIONS), np.int64),
            np.zeros((len(ids), MAX_OPTIONS), np.float32),
        )
        options_TC[:, 0], shares_TC[:, 0] = ids, 1.0
        ambiguous_T = np.zeros(len(ids), np.bool_)
        attention_targets: list[tuple[int, tuple[int, ...]]] = []
        for at, options, lessons in self._locate(ids, dialogue.soft_targets):
            attention_targets.append((at, lessons))
            options_TC[at, : len(options)] = [token for token, _ in options]
            shares_TC[at, : len(options)] = [share for _, share in options]
            ambiguous_T[at] = True
        return EncodedDialogue(
            np.array(ids, np.int64),
            np.array(answer, np.bool_),
            options_TC,
            shares_TC,
            ambiguous_T,
            tuple(attention_targets),
        )

    def _locate(
        self, ids: Sequence[int], soft_targets: Sequence[SoftTarget]
    ) -> Iterator[tuple[int, list[tuple[int, float]], tuple[int, ...]]]:
        """Position of each soft target, its options as tokens, and its lessons.

        A soft target with an option that is not a single token is left out.
        """
        at = 0
        for soft_target in soft_targets:
            for place in range(at, len(ids)):
                text = self._texts[ids[place]]
                written = next((words for words, _ in soft_target.options if text.endswith(words)), None)
                if written is not None:
                    at, before = place + 1, text.removesuffix(written)
                    options = [(self._tokens.get(before + words), share) for words, share in soft_target.options]
                    known = [(token, share) for token, share in options if token is not None]
                    if len(known) == len(options) <= MAX_OPTIONS:
                        yield place, known, soft_target.lessons
                    break


def example_batches(
    examples: Iterator[TrainingExample], encoder: ExampleEncoder, size: int, seed: int
) -> Iterator[ExampleBatch]:
    """Yield batches of `size` examples without end."""
    rng = Random(f"lab batches {seed}")
    while True:
        buffered = sorted((encoder.encode(one) for one in islice(examples, BUFFER)), key=lambda one: len(one.prefix_P))
        taken = [buffered[at : at + size] for at in range(0, BUFFER, size)]
        rng.shuffle(taken)
        yield from map(make_batch, taken)


def make_batch(examples: Sequence[EncodedExample]) -> ExampleBatch:
    """Return the examples as one batch."""
    prefix_BP, real_BP = _padded([one.prefix_P for one in examples])
    dialogues = sorted(
        ((at, dialogue) for at, one in enumerate(examples) for dialogue in one.dialogues),
        key=lambda one: len(one[1].ids_T),
    )
    cut = -(-len(dialogues) // PARTS)
    return ExampleBatch(
        prefix_BP=prefix_BP,
        real_BP=real_BP,
        parts=tuple(
            _part(dialogues[at : at + cut], examples, prefix_BP.shape[1]) for at in range(0, len(dialogues), cut)
        ),
        ends_K2=torch.tensor([(at, int(end)) for at, one in enumerate(examples) for end in one.ends_K]).reshape(-1, 2),
        meanings_KM=torch.from_numpy(np.concatenate([one.meanings_KM for one in examples])),
        tokens=sum(one.tokens for one in examples),
    )


def _part(
    dialogues: Sequence[tuple[int, EncodedDialogue]], examples: Sequence[EncodedExample], width: int
) -> DialoguePart:
    ids_NT, real_NT = _padded([dialogue.ids_T for _, dialogue in dialogues])
    attention_targets = [
        (at, place, example, lessons)
        for at, (example, dialogue) in enumerate(dialogues)
        for place, lessons in dialogue.attention_targets
    ]
    attended_DP = np.zeros((len(attention_targets), width), np.float32)
    for row, (_, _, example, lessons) in enumerate(attention_targets):
        attended_DP[row, examples[example].ends_K[list(lessons)] if lessons else 0] = 1 / max(1, len(lessons))
    return DialoguePart(
        example_N=torch.tensor([at for at, _ in dialogues]),
        ids_NT=ids_NT,
        real_NT=real_NT,
        answer_NT=_padded([dialogue.answer_T for _, dialogue in dialogues])[0],
        options_NTC=_padded([dialogue.options_TC for _, dialogue in dialogues])[0],
        shares_NTC=_padded([dialogue.shares_TC for _, dialogue in dialogues])[0],
        ambiguous_NT=_padded([dialogue.ambiguous_T for _, dialogue in dialogues])[0],
        attending_D2=torch.tensor([(at, place) for at, place, _, _ in attention_targets], dtype=torch.int64).reshape(
            -1, 2
        ),
        attended_DP=torch.from_numpy(attended_DP),
    )


def _padded(rows: Sequence[NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """The rows padded with zeros to equal length, and a mask of the real values."""
    longest = max(len(row) for row in rows)
    padded = np.zeros((len(rows), longest, *rows[0].shape[1:]), rows[0].dtype)
    real = np.zeros((len(rows), longest), np.bool_)
    for at, row in enumerate(rows):
        padded[at, : len(row)] = row
        real[at, : len(row)] = True
    return torch.from_numpy(padded), torch.from_numpy(real)
