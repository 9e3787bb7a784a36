"""Makes the changelog of the Debian packages from the newest section of CHANGELOG.md.

usage: debian_changelog.py VERSION MAINTAINER SECONDS <CHANGELOG.md
SECONDS is the time of the version in seconds since 1970.
"""

import datetime
import email.utils
import re
import sys
import textwrap

COLUMNS = 80


def items(text):
    """Yields the items of the newest section, without their tables and links."""
    section = re.split(r"^## .*\n", text, flags=re.MULTILINE)[1]
    for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        item = re.sub(r"^ *\|.*\n", "", item, flags=re.MULTILINE)
        yield " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", item).split())


def main(version, maintainer, seconds):
    print(f"pollux ({version}) unstable; urgency=medium\n")
    for item in items(sys.stdin.read()):
        print(textwrap.fill(item, COLUMNS, initial_indent="  * ", subsequent_indent="    ",
                            break_long_words=False, break_on_hyphens=False))
    when = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    print(f"\n -- {maintainer}  {email.utils.format_datetime(when)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
