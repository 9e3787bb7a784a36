"""Counts the instructions of a path by room (source folder), from callgrind's dump of the path.

Inlined code counts for the file in which it was written: the dump names the file of each line.
Source: Valgrind's manual, "Callgrind Format Specification".
"""

import re

# In the order of the table. A file's cost counts for the first room whose pattern matches its name.
ROOMS = [
    ("rpcrdma", r"(^|/)(oncrpc|rpcrdma)/"),
    ("cm", r"(^|/)cm/"),
    ("stack/transport", r"(^|/)stack/transport/"),
    ("stack/wire", r"(^|/)stack/(wire|base)/"),
    ("stack/verbs, memory", r"(^|/)stack/(verbs|memory)/"),
    ("stack/engine, io, ip", r"(^|/)stack/(engine|io|ip|kernel)/"),
    ("DPDK", r"/dpdk/|rte_[a-z_]+[.][ch]$"),
    ("the load", r"(^|/)(tests|tools)/"),
]
REST = "libraries"  # those of C and C++ with their headers, including intrinsics
NAMES = [name for name, _ in ROOMS] + [REST]


def room_of(file, library):
    """Returns the room of a source file; `library` is the object, for code without a file."""
    if file == "???":  # everything in the program has line numbers except DPDK's archives
        return REST if ".so" in library else "DPDK"
    for name, pattern in ROOMS:
        if re.search(pattern, file):
            return name
    return REST


class Names:
    """Compressed names: a dump writes a name once, then only its number: "(3) a.cc", "(3)"."""

    def __init__(self):
        self.known = {}

    def read(self, text):
        number, name = re.match(r"\((\d+)\)(?: (.*))?$", text).groups()
        if name is not None:
            self.known[number] = name
        return self.known[number]


def rooms(dump):
    """Returns {room: instructions} of a dump's text.

    Each instruction counts once, in the function that executes it, not also in the callers.
    """
    files, objects = Names(), Names()
    file = library = "???"
    costs = dict.fromkeys(NAMES, 0)
    is_call = False
    for line in dump.splitlines():
        key, _, value = line.partition("=")
        if key in ("fl", "fi", "fe"):
            file = files.read(value)
        elif key == "ob":
            library = objects.read(value)
        elif key in ("cfi", "cfl"):
            files.read(value)
        elif key == "cob":
            objects.read(value)
        elif key == "calls":
            is_call = True
        elif re.match(r"[+*\-]?\d*\s+\d+$", line):
            # The line after a call has the inclusive cost of the callee.
            if not is_call:
                costs[room_of(file, library)] += int(line.split()[-1])
            is_call = False
    return costs


def table(by_path):
    """Formats {path: {room: instructions per message}} as a table with a column per path."""
    width = max(len(name) for name in NAMES)
    paths = list(by_path)
    lines = [" " * width + "".join(f"  {path:>21}" for path in paths)]
    for name in NAMES:
        lines.append(f"{name:<{width}}" +
                     "".join(f"  {by_path[path][name]:>21.0f}" for path in paths))
    sums = "".join(f"  {sum(by_path[path].values()):>21.0f}" for path in paths)
    return "\n".join(lines + [f"{'all':<{width}}" + sums])
