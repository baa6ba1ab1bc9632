"""Models on the Hugging Face hub: whether one can be had, within seconds."""

import threading
from pathlib import Path

from agentlearn.errors import ConfigError

WAIT_S = 5.0
"""How long the hub may take to answer the first question about a model."""
_ADAPTER_FILES = ["adapter_config.json", "adapter_model.safetensors", "*.jinja", "tokenizer*", "*.model", "vocab*"]


def reach_hub(name: str) -> str:
    """Return the name when the hub has this model, or the folder of its cached files when the hub is silent.

    Blocks for some seconds at most. Raises ConfigError when the model can be had from neither.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(
            f"there is no folder {name!r}, and it is not a hub id either; give a folder with a Hugging Face checkpoint,"
            " or a hub id OWNER/NAME",
            code="no_model",
        ) from error
    error = _answer(name)
    if error is None:
        return name
    if (folder := _cached(name)) is not None:
        return folder
    raise _refusal(name, error) from error


def adapter_on_hub(name: str) -> Path | None:
    """Return a folder with the adapter of this hub id; None when the hub id is a model without adapter."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    if _answer(name, "adapter_config.json") is not None:
        return None
    try:
        return Path(snapshot_download(name, allow_patterns=_ADAPTER_FILES))
    except (EntryNotFoundError, LocalEntryNotFoundError, OSError) as error:
        raise _refusal(name, error) from error


def _answer(name: str, file: str = "config.json") -> Exception | None:
    """Ask the hub for a file of the model; returns None when the model is there, else what went wrong."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    found: list[Exception | None] = []

    def ask() -> None:
        try:
            get_hf_file_metadata(hf_hub_url(name, file), timeout=WAIT_S)
        except EntryNotFoundError as error:
            found.append(None if file == "config.json" else error)
        except Exception as error:  # noqa: BLE001  whatever it is, the hub gave no answer
            found.append(error)
        else:
            found.append(None)

    asking = threading.Thread(target=ask, name="agentlearn-hub", daemon=True)  # looking up a host has no time limit
    asking.start()
    asking.join(2 * WAIT_S)
    return found[0] if found else TimeoutError(f"no answer within {2 * WAIT_S:g} s")


def _cached(name: str) -> str | None:
    """Return the folder of the model's files that were downloaded before; None when there are none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return snapshot_download(name, local_files_only=True)
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None


def _refusal(name: str, error: Exception) -> ConfigError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return ConfigError(
            f"the Hugging Face hub gives the model {name!r} only to users who accepted its terms; accept them on its"
            " page and log in with hf auth login",
            code="no_model",
        )
    if isinstance(error, RepositoryNotFoundError):
        return ConfigError(
            f"there is no folder {name!r}, and the Hugging Face hub has no such model; if it is private, log in with"
            " hf auth login",
            code="no_model",
        )
    why = " ".join(str(error).split())[:150] or type(error).__name__
    return ConfigError(
        f"there is no folder {name!r}, and the Hugging Face hub cannot be asked for it ({why}); download it where there"
        f" is a network with hf download {name} --local-dir DIRECTORY, and give that folder",
        code="hub_unreachable",
    )
