"""Training a lab model with a tiny budget: repeatable bit by bit, equal in numpy and torch, and its tokenizer twice."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.serving import chat_request as chatml  # noqa: E402
from agentlearn.serving.chat_request import CallInMessage, Message  # noqa: E402
from agentlearn.serving.tool_calls import parse_calls  # noqa: E402
from agentlearn_demo.lab import lab  # noqa: E402
from agentlearn_demo.lab.training import ModelShape, Recipe, TrainingProgress, build_lab_model  # noqa: E402
from agentlearn_demo.lab.transformer import SHIPPED, TOKENIZER, read_checkpoint, read_tokenizer  # noqa: E402

SHAPE = ModelShape(hidden=16, layers=2, heads=2, groups=1, head=8, inner=16, context=4_096)
RECIPE = Recipe(tokens=9_000, seed=3, scenes=2, shape=SHAPE, warmup_steps=2)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    seen: list[TrainingProgress] = []
    build_lab_model(lab, RECIPE, folder, seen.append)
    assert seen[-1].tokens >= RECIPE.tokens
    return folder


def test_numpy_and_torch_give_the_same_logits(built: Path) -> None:
    runtime, twin = read_checkpoint(built / SHIPPED, "novice")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(built), AutoTokenizer.from_pretrained(built)
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


def test_a_folder_with_a_model_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no checkpoint of agentlearn; give a new folder"):
        build_lab_model(lab, RECIPE, tmp_path, lambda _: None)
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "{}"


# The tokenizer, with and without the library `tokenizers`.

bits = st.sampled_from(
    ["ab", " the", " there", "\\n# both ends", "é", "<tool_call>", "a", " ", "1", "23", "²", "٣", "½", "漢", "\x00",
     "\n", "<|im_end|>", "Ġ", "<0x41>"]
)  # fmt: skip


@pytest.mark.slow
@given(text=st.lists(st.one_of(bits, st.text(max_size=5)), max_size=8).map("".join))
def test_both_readers_of_one_file_give_the_same_ids_and_the_text_comes_back(text: str) -> None:
    from tokenizers import Tokenizer

    library, twin = Tokenizer.from_file(str(lab.folder / TOKENIZER)), read_tokenizer(lab.folder / TOKENIZER)
    ids = library.encode(text).ids
    assert twin.encode(text) == ids
    assert twin.decode(ids) == text == library.decode(ids, skip_special_tokens=False)
    assert len(twin) == library.get_vocab_size()


# The chat template.

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
arguments = st.dictionaries(st.sampled_from(["code", "n"]), words, min_size=1, max_size=2).map(
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
)
calls = st.lists(st.builds(CallInMessage, st.just("c"), st.sampled_from(["run_python", "look"]), arguments), max_size=2)
messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["system", "user", "tool"]), words),
        st.builds(Message, st.just("assistant"), words, calls.map(tuple)),
    ),
    min_size=1,
    max_size=5,
)
tools = st.lists(st.sampled_from(["run_python", "look"]), unique=True, max_size=2)


def plain(message: Message, *, parsed: bool) -> dict[str, Any]:
    """As chat services are sent it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        sent["tool_calls"] = [
            {"function": {"name": one.name, "arguments": json.loads(one.arguments) if parsed else one.arguments}}
            for one in message.calls
        ]
    return sent


@given(messages=messages, tools=tools, answer=st.booleans(), parsed=st.booleans())
def test_jinja_and_our_own_text_are_the_same(
    built: Path, messages: list[Message], tools: list[str], answer: bool, parsed: bool
) -> None:
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    sent = [plain(one, parsed=parsed) for one in messages]
    rendered = _template(built).apply_chat_template(
        sent, tools=offered or None, tokenize=False, add_generation_prompt=answer
    )
    assert rendered == chatml.conversation_text(messages, tools, answer=answer)


_TEMPLATES: dict[Path, Any] = {}


def _template(folder: Path) -> Any:
    if folder not in _TEMPLATES:
        _TEMPLATES[folder] = AutoTokenizer.from_pretrained(folder)
    return _TEMPLATES[folder]


@given(text=words, arguments=st.lists(arguments, min_size=1, max_size=2), system=words)
def test_an_answer_that_is_sent_back_extends_what_was_sampled(text: str, arguments: list[str], system: str) -> None:
    before = [Message("system", system), Message("user", "q")]
    sent = Message("assistant", text.strip(), tuple(CallInMessage("c", "run_python", one) for one in arguments))
    sampled = sent.written()
    parsed = parse_calls(sampled)
    if len(parsed.calls) != len(arguments):
        return  # the words hold tags of their own
    again = Message("assistant", parsed.text, tuple(CallInMessage("c", *one) for one in parsed.calls))
    after = chatml.conversation_text([*before, again, Message("tool", "6")], ["run_python"])
    assert after.startswith(chatml.conversation_text(before, ["run_python"]) + sampled + chatml.END)
