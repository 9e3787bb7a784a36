"""Makes the reference of the public headers, as HTML pages by Doxygen.

usage: reference.py DIRECTORY

Doxygen's warnings are errors. In the copies that it reads, `//` lines belong to the declaration
that follows at once. A comment behind a declaration, with its further lines, belongs to that one.
The comment at the head of a header describes the file.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import lint

SOURCES = pathlib.Path(__file__).resolve().parents[2]
MAIN_PAGE = """# Pollux

The public headers of Pollux, by [class](annotated.html) and by [file](files.html). Start with
docs/api.md, which explains the APIs by examples. Declarations in other headers may change at any
time.
"""
ALONE = re.compile(r"( *)// (.*)")
BEHIND = re.compile(r"(?! *(?:#|}  ))(.*\S +)// (.*)")


def escaped(comment):
    """Returns a comment in which Doxygen finds no link in "::ffff:192.0.2.1"."""
    return re.sub(r"(?<!\w)::", r"\::", comment)


def convert(lines):
    """Yields the lines of a header with its comments in Doxygen's form."""
    column = None  # of a comment behind a declaration, which the next lines may continue
    for index, line in enumerate(lines):
        alone, behind = ALONE.fullmatch(line), BEHIND.fullmatch(line)
        if index == 0:
            yield "/// @file"
        if alone and len(alone[1]) == column:
            yield f"{alone[1]}///< {escaped(alone[2])}"
            continue
        column = len(behind[1]) if behind else None
        if alone and next((after for after in lines[index:] if not after.lstrip().startswith("//")),
                          ""):
            yield f"{alone[1]}/// {escaped(alone[2])}"
        elif behind:
            yield f"{behind[1]}///< {escaped(behind[2])}"
        else:
            yield line


def main(directory):
    directory = pathlib.Path(directory).resolve()
    public = lint.read_public((SOURCES / lint.PUBLIC).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as copies:
        for header in public:
            copy = pathlib.Path(copies, header)
            copy.parent.mkdir(parents=True, exist_ok=True)
            lines = (SOURCES / header).read_text(encoding="utf-8").splitlines()
            copy.write_text("\n".join(convert(lines)) + "\n", encoding="utf-8")
        pathlib.Path(copies, "main.md").write_text(MAIN_PAGE, encoding="utf-8")
        options = (SOURCES / "tools/build/Doxyfile").read_text(encoding="utf-8")
        options += f"PROJECT_NUMBER = {(SOURCES / 'VERSION').read_text(encoding='utf-8')}"
        options += f"OUTPUT_DIRECTORY = {directory}\n"
        subprocess.run(["doxygen", "-"], input=options, text=True, cwd=copies, check=True)
    # Debian's packages contain no copies of jQuery; the pages need none.
    for script in directory.glob("*.js"):
        script.unlink()
    for page in directory.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"<script.*</script>\n", "", text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
