"""Makes the manual pages and the shells' completions from the command's own tables.

usage: manual.py POLLUX VERSION_FILE PROSE_DIRECTORY OUT_DIRECTORY

POLLUX prints the tables that its --help is printed from as JSON (`pollux --help-json
[COMMAND...]`), so that no page can disagree with --help. PROSE_DIRECTORY has what --help does not:
pollux.7, and for a command COMMAND.man, sections that follow the options. Makes pollux.1, pollux.7,
pollux-COMMAND.1 (or .8), pollux.bash and _pollux (zsh) in OUT_DIRECTORY.
"""

import json
import pathlib
import re
import subprocess
import sys

# Commands that administrators run as services.
SERVICES = ("nfsd", "port", "serve")
BASH, ZSH = "pollux.bash", "_pollux"
OPERAND = re.compile(r"[^\s\[\]|.]*[A-Z]{2,}\S*")


class Command:
    """One command: its words, its one-line description, and the tables of its --help."""

    def __init__(self, words, about, page):
        self.words, self.about, self.page = words, about, page

    @property
    def name(self):
        return "-".join(["pollux", *self.words])

    @property
    def prose(self):
        """Returns the name of its file in PROSE_DIRECTORY."""
        return "-".join(self.words) or "pollux"

    @property
    def section(self):
        return 8 if self.words and self.words[0] in SERVICES else 1

    @property
    def options(self):
        return self.page.get("options", [])

    @property
    def commands(self):
        return [command["name"] for command in self.page.get("commands", [])]


def read_commands(pollux, words=(), about="kernel-bypass RoCEv2 and RPC-over-RDMA"):
    """Returns the command of these words, then its subcommands."""
    said = subprocess.run([pollux, "--help-json", *words], check=True, capture_output=True,
                          text=True)
    page = json.loads(said.stdout)
    found = [Command(list(words), about, page)]
    for below in page.get("commands", []):
        found += read_commands(pollux, [*words, below["name"]], below["about"])
    return found


def escaped(text):
    """Returns text escaped so that roff prints it unchanged."""
    for character, name in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"),
                            ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(character, name)
    return re.sub(r"^\.", r"\\&.", text)


def paragraph(text):
    return escaped(" ".join(text.split()))


def synopsis(usage):
    """Returns a usage line in roff: words to type are bold, placeholders are italic."""
    words = []
    for word in usage.split():
        font = "I" if OPERAND.fullmatch(word.strip("[]")) else "R" if word == "[options]" else "B"
        words.append(f"\\f{font}{escaped(word)}\\fR")
    return " ".join(words)


def option_heading(option):
    letter = f"\\fB\\-{option['letter']}\\fR, " if option["letter"] else ""
    value = f" \\fI{escaped(option['value'])}\\fR" if option["value"] else ""
    return f"{letter}\\fB\\-\\-{escaped(option['name'])}\\fR{value}"


def reference(command):
    return f"\\fB{escaped(command.name)}\\fR({command.section})"


def manual_page(command, every, version, prose):
    title = f"{escaped(command.name).upper()} {command.section}"
    lines = [f'.TH {title} "" "Pollux {version}" "Pollux"',
             # Does not break options, and does not stretch the lines that are short for that
             # reason. The macros of groff 1.23 adjust as the string AD says.
             ".nh", ".ad l", ".ds AD l",
             ".SH NAME", f"{escaped(command.name)} \\- {escaped(command.about)}", ".SH SYNOPSIS"]
    alternatives = command.page["usage"].split(" | ")
    for usage in alternatives:
        lines += [f"\\fBpollux\\fR {synopsis(usage)}", ".br"]
    lines.pop()
    if command.page["about"]:
        lines += [".SH DESCRIPTION", paragraph(command.page["about"])]
    if not command.words:
        lines.append(prose.pop(command.prose, "").rstrip("\n"))
    if command.options:
        lines.append(".SH OPTIONS")
        for option in command.options:
            lines += [".TP", option_heading(option), paragraph(option["help"])]
    below = [one for one in every if one.words[:-1] == command.words and one.words]
    if below:
        lines.append(".SH COMMANDS")
        for one in below:
            lines += [".TP", reference(one), escaped(one.about)]
    lines.append(prose.get(command.prose, "").rstrip("\n"))
    lines += [".SH EXIT STATUS", exit_status(command), ".SH SEE ALSO"]
    parents = [one for one in every if one.words == command.words[:-1] and command.words]
    lines.append(",\n".join([reference(one) for one in below + parents] + ["\\fBpollux\\fR(7)"]))
    return "\n".join(line for line in lines if line) + "\n"


def exit_status(command):
    if command.words == ["run"]:
        return ("That of the program; 126 if it cannot be started, 127 if it is not found, 1 if "
                "there are no libraries for it, 2 for a wrong command line.")
    return "0 on success, 1 on failure, 2 for a wrong command line."


def value_kind(option):
    """Returns what completes an option's value: "none" if nothing does, "" if it takes no value."""
    value = option["value"]
    if option["name"] in ("core", "cores"):
        return "cores"
    if value == "IFACE":
        return "interfaces" if option["name"] == "netdev" else "none"
    if value.startswith("FILE"):
        return "files"
    if value.startswith("DIR"):
        return "directories"
    if re.fullmatch(r"[a-z]+(\|[a-z]+)+", value):
        return "words:" + value.replace("|", ",")
    return "none" if value else ""


def bash_completion(every, template):
    cases = []
    for command in every:
        words = [f"--{option['name']}{':' * bool(value_kind(option))}{value_kind(option)}"
                 for option in command.options] or command.commands
        cases.append(f'    "{" ".join(command.words)}") echo {" ".join(words)} ;;')
    return template.replace("@CASES@", "\n".join(cases))


ZSH_ACTIONS = {"cores": "_pollux_cores", "interfaces": "_pollux_interfaces", "files": "_files",
               "directories": "_files -/", "none": " "}


def zsh_option(option):
    text = re.sub(r"([\[\]:\\])", r"\\\1", " ".join(option["help"].split())).replace("'", "'\\''")
    kind = value_kind(option)
    if not kind:
        return f"'--{option['name']}[{text}]'"
    action = f"({kind[6:].replace(',', ' ')})" if kind.startswith("words:") else ZSH_ACTIONS[kind]
    value = re.sub(r"([\[\]:\\])", r"\\\1", option["value"])
    return f"'*--{option['name']}=[{text}]:{value}:{action}'"


def zsh_completion(every, template):
    cases = []
    for command in every:
        name = " ".join(command.words)
        if command.commands:
            about = [one["about"].replace("'", "'\\''") for one in command.page["commands"]]
            list_ = " ".join(f"'{one}:{text}'" for one, text in zip(command.commands, about))
            cases.append(f'    "{name}") commands=({list_}) ;;')
        else:
            options = " \\\n        ".join(zsh_option(option) for option in command.options)
            cases.append(f'    "{name}") options=(\n        {options}) ;;')
    return template.replace("@CASES@", "\n".join(cases))


def make(pollux, version_file, prose_directory, out):
    version = pathlib.Path(version_file).read_text(encoding="utf-8").strip()
    directory, out = pathlib.Path(prose_directory), pathlib.Path(out)
    every = read_commands(pollux)
    prose = {file.stem: file.read_text(encoding="utf-8") for file in directory.glob("*.man")}
    for unknown in set(prose) - {command.prose for command in every}:
        sys.exit(f"{directory}/{unknown}.man: there is no such command")
    for command in every:
        (out / f"{command.name}.{command.section}").write_text(
            manual_page(command, every, version, prose), encoding="utf-8")
    general = (directory / "pollux.7").read_text(encoding="utf-8")
    (out / "pollux.7").write_text(general.replace("@VERSION@", version), encoding="utf-8")
    for name, made in ((BASH, bash_completion), (ZSH, zsh_completion)):
        template = pathlib.Path(__file__).parent / f"completion.{made.__name__.split('_')[0]}"
        (out / name).write_text(made(every, template.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    make(*sys.argv[1:])
