"""A benchmark as a command: what a person can mend is a sentence, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from seqloom import SeqloomError


def run_command(main: Callable[[], None]) -> None:
    """Runs it; a SeqloomError ends it with exit code 2."""
    try:
        main()
    except SeqloomError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
