"""Entry point of `python -m seqloom`, the same as the command `seqloom`."""

from seqloom.cli.main import main

main()
