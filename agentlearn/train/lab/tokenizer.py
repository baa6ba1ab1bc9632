"""The lab model's tokenizer: of all ways to cut a text into known pieces, one with the fewest.

Every piece has the same score, digits always stand alone, and every byte is a piece, so that any text comes back as it
was. `agentlearn.lab.tokenizer` reads the same file without this library.
"""

from typing import TYPE_CHECKING

from agentlearn.lab.contract import Pieces
from agentlearn.serving.chatml import END, START, TEMPLATE

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

PAD = "<|endoftext|>"


def tokenizer_of(pieces: Pieces) -> "Tokenizer":
    """The tokenizer with those pieces."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import Unigram
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    alphabet = sorted(ByteLevel.alphabet())
    level = ByteLevel(add_prefix_space=False, use_regex=False)
    parts = ["".join(text for text, _ in level.pre_tokenize_str(part)) for part in pieces.parts]
    vocabulary = dict.fromkeys([PAD, START, END, *alphabet, *parts])
    tokenizer = Tokenizer(Unigram([(piece, -1.0) for piece in vocabulary], unk_id=0))
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), level])
    tokenizer.decoder = Decoder()
    tokenizer.add_special_tokens([AddedToken(one, normalized=False, special=True) for one in (PAD, START, END)])
    tokenizer.add_tokens([AddedToken(whole, normalized=False, special=False) for whole in pieces.whole])
    return tokenizer


def for_transformers(tokenizer: "Tokenizer", context: int) -> "PreTrainedTokenizerFast":
    """The same as transformers use it, with its chat template."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
