"""Commands of agentlearn in messages, written so that a user can type them as they are."""

import os
import shlex
from pathlib import Path

from agentlearn.config.options import DEFAULT_STORE


def command_words(*words: str, store: Path) -> str:
    """A command, with the store unless it is the one that is used without an option."""
    usual = store == DEFAULT_STORE and not os.environ.get("AGENTLEARN_STORE")
    return shlex.join(["agentlearn", *words, *([] if usual else ["--store", str(store)])])
