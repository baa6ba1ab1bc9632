"""`agentlearn --install-completion`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agentlearn.cli.output import console
from agentlearn.errors import ConfigError


def install_completion(
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, Parameter(help="Default: the shell that you are using.")
    ] = None,
) -> None:
    """Install completion of commands and options for your shell."""
    from cyclopts.completion.detect import ShellDetectionError

    from agentlearn.cli.app import build

    try:
        path = build().install_completion(shell=shell)
    except ShellDetectionError as error:
        raise ConfigError(
            "your shell is not known; give one: agentlearn --install-completion --shell bash", code="unknown_shell"
        ) from error
    console().print(f"wrote {path}; start a new shell to use it")
