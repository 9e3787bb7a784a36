"""Checks the requirements table against the citations in code and tests.

A row of requirements.txt is: name | document | section | word | requirement | code | test | case.
The name is unique. Code and test are files, separated by blanks. The case is the test case that
fails when the code breaks the requirement: a test target and Suite.Case, in one of the row's test
files. A requirement that is not met, or not by code in this tree, has "-" as code and case, and
"reason: " with the reason in place of the tests. A citation is "RFC 8166 section 4.5.2" in a
comment; one "section" may be followed by several numbers.
"""

import ast
import collections
import re

# Documents whose citations must agree with the table: each citation has a row, and each row is
# cited by its files.
CITED = ("RFC 5042", "RFC 8166", "RFC 8167", "RFC 8267", "RFC 8797")
DOCUMENTS = CITED + ("RFC 1813", "IB")
# "defines" marks a section that defines terms or formats, which code cites, too. The words are
# written as in the document: RFC 1813 writes "must", the IB specification "shall".
BINDING = ("MUST", "MUST NOT", "REQUIRED", "SHALL", "SHALL NOT", "must", "must not", "shall",
           "shall not")
WORDS = BINDING + ("SHOULD", "SHOULD NOT", "MAY", "advises", "defines")

Row = collections.namedtuple("Row",
                             "line name document section word text code tests reason target case")

NUMBER = r"[0-9A]\d*(?:\.\d+)*"
CITATION = re.compile(
    rf"(RFC \d+) sections? ({NUMBER}(?:(?:, and |, | and )(?:sections? )?{NUMBER})*)")
COMMENT = re.compile(r"\n\s*(?://|#) ?")
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
CASE = re.compile(r"(//[\w/]+:\w+) (\w+\.\w+)")


def parse_table(text):
    """Returns the rows, and errors as strings."""
    rows, wrong = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 8:
            wrong.append(f"line {number}: {len(fields)} fields, not 8")
            continue
        name, document, section, word, words, code, tests, case = fields
        if document not in DOCUMENTS or not re.fullmatch(NUMBER, section) or word not in WORDS:
            wrong.append(f"line {number}: no such document, section or word: {line}")
            continue
        if not NAME.fullmatch(name):
            wrong.append(f"line {number}: a name is small letters, digits and '-': {name}")
        reason = tests[len("reason: "):] if tests.startswith("reason: ") else ""
        files = [] if code == "-" else code.split()
        test_files = [] if reason or tests == "-" else tests.split()
        tested = CASE.fullmatch(case)
        if not words or (not reason and word != "defines" and not (files and test_files)):
            wrong.append(f"line {number}: neither code with a test nor a reason")
        if reason and files:
            wrong.append(f"line {number}: code, and a reason why there is none")
        if bool(tested) != bool(test_files) or not (tested or case == "-"):
            wrong.append(f"line {number}: a tested row names a case (//room:target Suite.Case), "
                         f"another one '-': {case}")
        target, suite_case = tested.groups() if tested else ("", "")
        rows.append(Row(number, name, document, section, word, words, files, test_files, reason,
                        target, suite_case))
    for part in ("name", "document section text"):
        keys = collections.Counter(
            tuple(getattr(row, field) for field in part.split()) for row in rows)
        wrong += [f"twice in the table: {key}" for key, count in keys.items() if count > 1]
    order = [(row.document, section_key(row.section)) for row in rows]
    wrong += [f"line {row.line}: not in the order of its document"
              for row, before, here in zip(rows[1:], order, order[1:]) if here < before]
    return rows, wrong


def section_key(section):
    """Returns a sort key that puts annexes after the chapters."""
    return tuple(1000 + int(part[1:]) if part[0] == "A" else int(part)
                 for part in section.split("."))


def citations(text):
    """Returns the set of (document, section) that a source cites. A citation may continue in the
    next line of a comment."""
    found = set()
    for match in CITATION.finditer(COMMENT.sub(" ", text)):
        if match.group(1) in CITED:
            found.update((match.group(1), n) for n in re.findall(NUMBER, match.group(2)))
    return found


def disagreements(rows, cited):
    """Returns errors as strings; `cited` maps each file to its citations()."""
    wrong = []
    named = collections.defaultdict(set)
    for row in rows:
        for path in row.code + row.tests:
            named[path].add((row.document, row.section))
            if path not in cited:
                wrong.append(f"line {row.line}: there is no {path}")
            elif row.document in CITED and (row.document, row.section) not in cited[path]:
                wrong.append(
                    f"line {row.line}: {path} does not cite {row.document} section {row.section}")
    for path, found in cited.items():
        wrong += [f"{path} cites {document} section {section}, and no row of it names that file"
                  for document, section in sorted(found - named[path])]
    return wrong


def sources_of(build_text, target):
    """Returns the sources that BUILD.bazel lists for a target; empty if there is no such target."""
    for call in ast.walk(ast.parse(build_text)):
        if not isinstance(call, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        name = given.get("name")
        if not isinstance(name, ast.Constant) or name.value != target:
            continue
        listed = [node for key in ("src", "srcs") if key in given for node in ast.walk(given[key])]
        return [node.value for node in listed if isinstance(node, ast.Constant)]
    return []


def has_case(text, case):
    """Returns whether a test source, in C++ or Python, has Suite.Case."""
    suite, name = case.split(".")
    return bool(re.search(rf"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*{suite},\s*{name}\)", text) or
                (re.search(rf"^class {suite}\b", text, re.M) and
                 re.search(rf"^ +def {name}\(", text, re.M)))


def missing_cases(rows, read):
    """Returns errors about rows whose case does not exist; `read` returns a file's text."""
    wrong = []
    for row in rows:
        if not row.case:
            continue
        room, target = row.target[2:].split(":")
        sources = {f"{room}/{source}" for source in sources_of(read(f"{room}/BUILD.bazel"), target)}
        if not any(has_case(read(path), row.case) for path in row.tests if path in sources):
            wrong.append(f"line {row.line}: no test file of the row has {row.case} and belongs to "
                         f"{row.target}")
    return wrong
