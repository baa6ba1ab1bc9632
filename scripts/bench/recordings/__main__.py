"""Writes the page docs/evidence_from_recordings.md again from a folder of clones.

The folder holds one clone for each source that the page lists; --clone-commands prints the commands that make them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.text.files import write_whole
from agentlearn.text.printing import print_line
from agentlearn_evals.formats import write_observations
from scripts.bench.recordings.methods import try_methods
from scripts.bench.recordings.page import PAGE, clone_notes, evidence_page, row_file
from scripts.bench.recordings.recorded import answer_questions, load_recordings


def main(arguments: Sequence[str]) -> int:
    """Write the page, and the rollouts if asked. The status is 2 for clones that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench.recordings", description=__doc__)
    parser.add_argument("clones", type=Path, nargs="?", metavar="CLONES", help="folder with the clones")
    parser.add_argument("--out", type=Path, default=PAGE, help=f"the page (default {PAGE}, here)")
    parser.add_argument("--full", type=Path, metavar="FILE", help="also write the page with a section per recording")
    parser.add_argument("--rows", type=Path, metavar="FOLDER", help="also write each question's rollouts as CSV")
    parser.add_argument("--clone-commands", action="store_true", help="print the commands that make the clones")
    chosen = parser.parse_args(arguments)
    listed = load_recordings()
    if chosen.clone_commands:
        for source in listed.sources.values():
            for command in source.cloning:
                print_line(command)
        return 0
    if chosen.clones is None:
        parser.error("give the folder with the clones, or --clone-commands")
    try:
        for note in clone_notes(listed, chosen.clones):
            print_line(f"note: {note}", to_stderr=True)
        answers = answer_questions(listed, chosen.clones)
        parts = try_methods(listed, answers, chosen.clones)
        _write(chosen.out, evidence_page(listed, answers, parts).encode())
        if chosen.full:
            _write(chosen.full, evidence_page(listed, answers, parts, full=True).encode())
        for number, one in enumerate(answers, start=1) if chosen.rows else ():
            _write(chosen.rows / row_file(number), b"")
            write_observations(one.observations, chosen.rows / row_file(number))
    except AgentlearnError as error:
        print_line(f"error: {error}", to_stderr=True)
        return error.exit_status
    print_line(f"{chosen.out}: {len(answers)} questions")
    return 0


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    except OSError as error:
        words = f"{str(file)!r} cannot be written ({error.strerror}); choose another place with --out, --full or --rows"
        raise ConfigError(words, code="not_written") from error


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
