"""Building the lab model's tokenizer, which splits a text into the smallest number of pieces.

All pieces have the same score, every digit is its own piece, and every byte is a piece, so any text can be encoded.
`agentlearn_demo.lab.tokenizer` reads the resulting file without the library `tokenizers`.
"""

from typing import TYPE_CHECKING

from agentlearn.serving.chat_request import END, START, TEMPLATE
from agentlearn_demo.lab.contract import TokenPieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

PAD = "<|endoftext|>"


def tokenizer_of(token_pieces: TokenPieces) -> "Tokenizer":
    """Return the tokenizer with these pieces."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import Unigram
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    alphabet = sorted(ByteLevel.alphabet())
    level = ByteLevel(add_prefix_space=False, use_regex=False)
    parts = ["".join(text for text, _ in level.pre_tokenize_str(part)) for part in token_pieces.parts]
    vocabulary = dict.fromkeys([PAD, START, END, *alphabet, *parts])
    tokenizer = Tokenizer(Unigram([(piece, -1.0) for piece in vocabulary], unk_id=0))
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), level])
    tokenizer.decoder = Decoder()
    tokenizer.add_special_tokens([AddedToken(one, normalized=False, special=True) for one in (PAD, START, END)])
    tokenizer.add_tokens([AddedToken(whole, normalized=False, special=False) for whole in token_pieces.whole])
    return tokenizer


def for_transformers(tokenizer: "Tokenizer", context: int) -> "PreTrainedTokenizerFast":
    """Return the tokenizer for transformers, with its chat template."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
