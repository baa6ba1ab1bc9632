"""Program that searches a text for a regular expression; both come from its input as JSON. Run by `find_pattern`."""

import contextlib
import json
import re
import sys
from itertools import islice

BAD_PATTERN = 3
"""Exit status for a pattern that cannot be compiled."""
PROCESSOR_S = 3
MEMORY_BYTES = 1 << 30


def main() -> int:
    """Search and write the places of the matches; returns the exit status."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    given = json.load(sys.stdin)
    try:
        pattern = re.compile(given["pattern"], re.IGNORECASE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError):
        return BAD_PATTERN
    found = (one.span() for one in pattern.finditer(given["text"]) if one.end() > one.start())
    json.dump(list(islice(found, given["most"])), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
