"""The process of one command."""

import subprocess
import sys

PROGRAM = """
import atexit, gc, sys
from agentlearn.cli.stop_signals import run_command
atexit.register(lambda: print(gc.get_threshold()[0], sorted({"aiohttp", "openai", "uvloop"} & sys.modules.keys())))
run_command(["--help"])
"""


def test_help_imports_no_network_client_and_a_command_collects_garbage_less_often() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "10000 []"
