"""Which rooms of the house a path's instructions are spent in, from callgrind's dump of it.

What is inlined counts where it was written: the dump names the file of each line. Source:
Valgrind's manual, "Callgrind Format Specification".
"""

import re

# In the order of the table; the first whose pattern is found in the name of a file takes its cost.
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
REST = "libraries"  # the C and C++ ones and their headers, intrinsics among them
NAMES = [name for name, _ in ROOMS] + [REST]


def room_of(file, library):
    """`library`: the name of the object, for code whose file is not known."""
    if file == "???":  # everything in the program has line numbers except DPDK's archives
        return REST if ".so" in library else "DPDK"
    for name, pattern in ROOMS:
        if re.search(pattern, file):
            return name
    return REST


class Names:
    """Names are written once, and then by their number: "(3) a.cc", "(3)"."""

    def __init__(self):
        self.known = {}

    def read(self, text):
        number, name = re.match(r"\((\d+)\)(?: (.*))?$", text).groups()
        if name is not None:
            self.known[number] = name
        return self.known[number]


def rooms(dump):
    """{room: instructions} of a dump's text, each counted once: what callees take is theirs."""
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
            # The line behind a call tells what the callee took with all that it called.
            if not is_call:
                costs[room_of(file, library)] += int(line.split()[-1])
            is_call = False
    return costs


def table(by_path):
    """Of {path: {room: instructions a message}}: a column for each path."""
    width = max(len(name) for name in NAMES)
    paths = list(by_path)
    lines = [" " * width + "".join(f"  {path:>21}" for path in paths)]
    for name in NAMES:
        lines.append(f"{name:<{width}}" +
                     "".join(f"  {by_path[path][name]:>21.0f}" for path in paths))
    sums = "".join(f"  {sum(by_path[path].values()):>21.0f}" for path in paths)
    return "\n".join(lines + [f"{'all':<{width}}" + sums])
