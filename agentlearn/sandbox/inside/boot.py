"""Starts a zygote; run by path, in an interpreter that looks at no environment and no `site`.

Usage: boot.py CONTROL_FD CONFIG_JSON
"""

import sys
from pathlib import Path
from types import ModuleType


def _stand_in(name: str, folder: Path) -> ModuleType:
    """A package whose modules can be imported without running its own `__init__`, which loads much more."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
    return package


def main() -> None:
    """Be the zygote until the control socket closes."""
    sandbox = Path(__file__).resolve().parent.parent
    stand_ins = _stand_in("agentlearn", sandbox.parent), _stand_in("agentlearn.sandbox", sandbox)

    from agentlearn.sandbox.inside.serve import serve

    for package in stand_ins:
        package.__path__ = []  # sessions find nothing of the library
    serve(int(sys.argv[1]), sys.argv[2])


main()
