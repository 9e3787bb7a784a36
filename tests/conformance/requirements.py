"""The requirements table and the citations in code and tests, held against each other.

A row of requirements.txt: document | section | word | requirement | code | test. Code and test are
files, several with blanks between. A requirement that is not met, or not by code of this tree, has
"-" for code, and in place of tests "reason: " and why. A citation is "RFC 8166 section 4.5.2" in a
comment; one "section" may be followed by several numbers.
"""

import collections
import re

DOCUMENTS = ("RFC 5042", "RFC 8166", "RFC 8167", "RFC 8267", "RFC 8797")
# "defines": a section that says what things are, which code cites too.
WORDS = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "MAY", "advises", "defines")

Row = collections.namedtuple("Row", "line document section word text code tests reason")

NUMBER = r"\d+(?:\.\d+)*"
CITATION = re.compile(
    rf"(RFC \d+) sections? ({NUMBER}(?:(?:, and |, | and )(?:sections? )?{NUMBER})*)")
COMMENT = re.compile(r"\n\s*(?://|#) ?")


def parse_table(text):
    """The rows, and complaints as strings."""
    rows, wrong = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 6:
            wrong.append(f"line {number}: {len(fields)} fields, not 6")
            continue
        document, section, word, words, code, tests = fields
        if document not in DOCUMENTS or not re.fullmatch(NUMBER, section) or word not in WORDS:
            wrong.append(f"line {number}: no such document, section or word: {line}")
            continue
        reason = tests[len("reason: "):] if tests.startswith("reason: ") else ""
        files = [] if code == "-" else code.split()
        test_files = [] if reason or tests == "-" else tests.split()
        if not words or (not reason and word != "defines" and not (files and test_files)):
            wrong.append(f"line {number}: neither code with a test nor a reason")
        if reason and files:
            wrong.append(f"line {number}: code, and a reason why there is none")
        rows.append(Row(number, document, section, word, words, files, test_files, reason))
    keys = collections.Counter((row.document, row.section, row.text) for row in rows)
    wrong += [f"twice in the table: {key}" for key, count in keys.items() if count > 1]
    order = [(row.document, section_key(row.section)) for row in rows]
    wrong += [f"line {row.line}: not in the order of its document"
              for row, before, here in zip(rows[1:], order, order[1:]) if here < before]
    return rows, wrong


def section_key(section):
    return tuple(int(part) for part in section.split("."))


def citations(text):
    """Set of (document, section) that a source cites; comments may break a citation's line."""
    found = set()
    for match in CITATION.finditer(COMMENT.sub(" ", text)):
        if match.group(1) in DOCUMENTS:
            found.update((match.group(1), n) for n in re.findall(NUMBER, match.group(2)))
    return found


def disagreements(rows, cited):
    """Complaints; `cited` maps each file to its citations()."""
    wrong = []
    named = collections.defaultdict(set)
    for row in rows:
        for path in row.code + row.tests:
            named[path].add((row.document, row.section))
            if path not in cited:
                wrong.append(f"line {row.line}: there is no {path}")
            elif (row.document, row.section) not in cited[path]:
                wrong.append(
                    f"line {row.line}: {path} does not cite {row.document} section {row.section}")
    for path, found in cited.items():
        wrong += [f"{path} cites {document} section {section}, and no row of it names that file"
                  for document, section in sorted(found - named[path])]
    return wrong
