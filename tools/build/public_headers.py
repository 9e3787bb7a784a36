"""Prints the headers that programs outside the tree need: the public ones, and those that these
include.

usage: public_headers.py
"""

import os
import pathlib

import lint


def main():
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    waiting = sorted(lint.read_public(pathlib.Path(lint.PUBLIC).read_text(encoding="utf-8")))
    found = set()
    while waiting:
        header = waiting.pop()
        if header in found or lint.room_of(header) is None:
            continue
        found.add(header)
        lines = pathlib.Path(header).read_text(encoding="utf-8").splitlines()
        waiting += [include[1] for include in map(lint.INCLUDE.match, lines) if include]
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main()
