"""A checkpoint becomes a GGUF file by llama.cpp's converter; here a stand-in for it with the same arguments."""

from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.train.fetching.conversion import write_gguf
from tests.support.tiny_model import saved, tiny_network

CONVERTER = """
import sys
from pathlib import Path
import gguf
print("read", sys.argv[-1])
if {fails}:
    sys.exit("an architecture that is not known")
Path(sys.argv[sys.argv.index("--outfile") + 1]).write_text(f"{{gguf.NAME}} {{sys.argv[-3:]}}")
"""


def sources(folder: Path, *, fails: bool = False) -> Path:
    """llama.cpp's sources: a converter, and the module `gguf` that it needs."""
    (folder / "gguf-py" / "gguf").mkdir(parents=True)
    (folder / "gguf-py" / "gguf" / "__init__.py").write_text("NAME = 'its own gguf'\n")
    (folder / "convert_hf_to_gguf.py").write_text(CONVERTER.format(fails=fails))
    return folder


def test_the_converter_runs_with_its_own_module(tmp_path: Path) -> None:
    model, file = tmp_path / "model", tmp_path / "model.gguf"
    saved(model, tiny_network())
    write_gguf(str(model), file, sources(tmp_path / "llama"), kind="bf16")
    assert file.read_text() == f"its own gguf {['--outtype', 'bf16', str(model)]}"
    with pytest.raises(ConfigError, match="exists; remove it"):
        write_gguf(str(model), file, tmp_path / "llama", kind="bf16")


def test_what_cannot_be_converted_leaves_nothing(tmp_path: Path) -> None:
    model, file = tmp_path / "model", tmp_path / "model.gguf"
    saved(model, tiny_network())
    with pytest.raises(ConfigError, match=r"has no convert_hf_to_gguf\.py"):
        write_gguf(str(model), file, tmp_path, kind="auto")
    with pytest.raises(ConfigError, match=r"wrote no file from .* an architecture that is not known"):
        write_gguf(str(model), file, sources(tmp_path / "llama", fails=True), kind="auto")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["llama", "model"]
