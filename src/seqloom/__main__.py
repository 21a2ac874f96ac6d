"""`python -m seqloom` is the command `seqloom`."""

from seqloom.cli.main import main

main()
