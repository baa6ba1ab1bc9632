"""Start a zygote. Run by path, in an interpreter that ignores environment variables and the module `site`.

Usage: boot.py CONTROL_FD CONFIG_JSON
"""

import sys
from pathlib import Path
from types import ModuleType


def _stand_in(name: str, folder: Path) -> ModuleType:
    """Register a package whose modules can be imported without running its `__init__`, which imports much more."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
    return package


def main() -> None:
    """Run the zygote until the control socket closes."""
    sandbox = Path(__file__).resolve().parent.parent
    stand_ins = _stand_in("agentlearn", sandbox.parent), _stand_in("agentlearn.sandbox", sandbox)

    from agentlearn.sandbox.inside.serve import run_zygote

    for package in stand_ins:
        package.__path__ = []  # sessions cannot import the library
    run_zygote(int(sys.argv[1]), sys.argv[2])


main()
