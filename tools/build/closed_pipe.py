"""For tools whose reader may leave before they are done, as head does."""

import os
import sys

# What a shell reports of a program that SIGPIPE has ended.
EXIT_STATUS = 128 + 13


def run(main):
    """Ends the process with what `main()` returns or exits with; quietly where nobody reads on."""
    try:
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer is written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_STATUS
    sys.exit(status)
