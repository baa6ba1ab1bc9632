"""The lab model's tokenizer: the same ids with and without the library `tokenizers`, and no text is lost."""

import pytest

pytest.importorskip("tokenizers")

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentlearn_demo.lab.contract import TokenPieces
from agentlearn_demo.lab.tokenizer import LabTokenizer, read_tokenizer
from agentlearn_demo.lab_training.tokenizer import tokenizer_of

PIECES = TokenPieces(
    whole=("Solve it in 3 steps.\n",),
    parts=("ab", "abc", "bca", "c a", " the", " there", "re is", "\\n# both ends", "é", "<tool_call>", "aaa", "aa"),
)
TOKENIZER = tokenizer_of(PIECES)
bits = st.sampled_from(
    [
        *PIECES.parts,
        *PIECES.whole,
        "a",
        "b",
        "c",
        " ",
        "1",
        "23",
        "²",
        "٣",
        "½",
        "漢",
        "\x00",
        "\n",
        "<|im_end|>",
        "Ġ",
        "<0x41>",
    ]
)
texts = st.lists(st.one_of(bits, st.text(max_size=5)), max_size=8).map("".join)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> LabTokenizer:
    path = tmp_path_factory.mktemp("lab") / "tokenizer.json"
    TOKENIZER.save(str(path))
    return read_tokenizer(path)


@settings(max_examples=400, deadline=None)
@given(text=texts)
def test_both_readers_of_one_file_give_the_same_ids_and_the_text_comes_back(twin: LabTokenizer, text: str) -> None:
    ids = TOKENIZER.encode(text).ids
    assert twin.encode(text) == ids
    assert twin.decode(ids) == text == TOKENIZER.decode(ids, skip_special_tokens=False)
    assert len(twin) == TOKENIZER.get_vocab_size()


def test_the_shipped_tokenizer_is_the_one_that_the_pieces_make() -> None:
    from agentlearn_demo.math.lab import lab

    shipped = Tokenizer.from_file(str(lab.folder / "tokenizer.json"))
    assert shipped.get_vocab() == tokenizer_of(lab.token_pieces()).get_vocab()
