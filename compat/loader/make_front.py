"""Makes the assembler source and the version script of a front library from the table of exports.

usage: make_front.py TABLE LIBRARY SOURCE VERSION_SCRIPT

The front library exports every name of the table under its version. Each function is a jump to the
engine, so arguments and return values pass through unchanged, whatever their types.
"""

import sys

REFUSALS = {"errno", "minus_one", "null", "void"}
SERVICES = {"served", "refused"}


def read_table(text):
    """Returns rows (library, name, "@" or "@@", version, service, what a refusal returns)."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        library, versioned, service, *returns = line.split()
        name, at, version = versioned.partition("@@" if "@@" in versioned else "@")
        served = service == "served"
        if service not in SERVICES or len(returns) != (0 if served else 1) or (
                returns and returns[0] not in REFUSALS | {"data"}):
            raise ValueError(f"line {number} is not understood: {line}")
        rows.append((library, name, at, version, service, returns[0] if returns else None))
    return rows


def target(name, service, returns):
    return f"pollux_{name}" if service == "served" else f"pollux_refuse_{returns}"


def source(rows):
    lines = ["    .text"]
    for number, (_, name, at, version, service, returns) in enumerate(rows):
        # The name in the object file is arbitrary: .symver gives the real one.
        label = f"front_{number}"
        lines += [f"    .symver {label}, {name}{at}{version}", f"    .globl {label}"]
        if returns == "data":
            lines += ["    .bss", f"    .type {label}, @object", f"    .size {label}, 1",
                      f"{label}:", "    .zero 1", "    .text"]
            continue
        lines += ["    .p2align 4", f"    .type {label}, @function", f"{label}:",
                  f"    jmp *{target(name, service, returns)}@GOTPCREL(%rip)",
                  f"    .size {label}, .-{label}"]
    return "\n".join(lines + ['    .section .note.GNU-stack,"",@progbits', ""])


def version_script(rows):
    """Returns a script that defines the versions and exports no other name; .symver binds the names
    to the versions."""
    versions = sorted({row[3] for row in rows})
    return "".join(f"{version} {{ local: front_*; }};\n" for version in versions)


def main():
    table, library, source_path, script_path = sys.argv[1:]
    with open(table, encoding="utf-8") as file:
        rows = [row for row in read_table(file.read()) if row[0] == library]
    with open(source_path, "w", encoding="utf-8") as file:
        file.write(source(rows))
    with open(script_path, "w", encoding="utf-8") as file:
        file.write(version_script(rows))


if __name__ == "__main__":
    main()
