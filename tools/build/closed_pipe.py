"""Support for tools whose reader may close the pipe before they are done, as head does."""

import os
import sys

# The status that a shell reports for a program that SIGPIPE has killed.
EXIT_STATUS = 128 + 13


def run(main):
    """Ends the process with the status that `main()` returns or exits with, quietly if the reader
    is gone."""
    try:
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter writes the rest of the buffer at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_STATUS
    sys.exit(status)
