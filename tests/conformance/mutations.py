"""The mutations of requirements.txt: for each row, a change that breaks its code and that its test
case must detect.

An entry of mutations.txt begins with a line `ROW FILE`: the name of a row and a product source. The
lines to replace follow, each after "- ", and then their replacements, each after "+ ". The old text
must occur exactly once in the file; the blanks before its first line may be left out. A line
`ROW none: why`, without replacement lines, says that the row has no mutation. Blank lines separate
entries.
"""

import collections
import re

from tests.conformance import requirements

# `why` is empty if there is a mutation.
Mutation = collections.namedtuple("Mutation", "line row path old new why")

HEAD = re.compile(r"([a-z0-9-]+) (\S+)")
NONE = re.compile(r"([a-z0-9-]+) none: (.+)")


def parse(text):
    """Returns the mutations in their order, and errors as strings."""
    found, wrong = [], []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        none = NONE.fullmatch(line)
        head = HEAD.fullmatch(line)
        if none:
            found.append(Mutation(number, none.group(1), "", "", "", none.group(2)))
            continue
        old, new = [], []
        while at < len(lines) and lines[at][:1] == "-":
            old.append(lines[at][2:])
            at += 1
        while at < len(lines) and lines[at][:1] == "+":
            new.append(lines[at][2:])
            at += 1
        if not head or not old or old == new:
            wrong.append(f"line {number}: a row and a file, lines behind '- ' and what replaces "
                         f"them behind '+ ': {line}")
            continue
        found.append(Mutation(number, head.group(1), head.group(2), "\n".join(old),
                              "\n".join(new), ""))
    return found, wrong


def apply(mutation, text):
    """Returns the mutated source, or None unless the old text occurs exactly once."""
    if text.count(mutation.old) != 1:
        return None
    return text.replace(mutation.old, mutation.new)


def disagreements(mutations, rows, read):
    """Returns errors as strings; `read` returns a file's text, or None if there is no such file."""
    wrong = []
    by_name = {row.name: row for row in rows}
    counts = collections.Counter(mutation.row for mutation in mutations)
    wrong += [f"two mutations of {name}" for name, count in counts.items() if count > 1]
    for mutation in mutations:
        row = by_name.get(mutation.row)
        if row is None or not row.case:
            wrong.append(f"line {mutation.line}: no row with a case is named {mutation.row}")
        if mutation.why:
            continue
        text = read(mutation.path)
        if text is None:
            wrong.append(f"line {mutation.line}: there is no {mutation.path}")
        elif apply(mutation, text) is None:
            wrong.append(f"line {mutation.line}: the old text stands {text.count(mutation.old)} "
                         f"times in {mutation.path}, not once")
        elif row is not None and mutation.path in row.tests:
            wrong.append(f"line {mutation.line}: {mutation.path} is the test, not the product")
    wrong += [f"no mutation of {row.name}, which has a case and says {row.word}" for row in rows
              if row.case and row.word in requirements.BINDING and row.name not in counts]
    return wrong
