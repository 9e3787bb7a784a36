"""Instructions of the main paths under callgrind, against the budget that is checked in.

callgrind counts the instructions that are executed, so the same program gives nearly the same
numbers on every machine of one kind: they differ by at most one in a thousand between runs, since
each run has other keys, queue pair numbers, PSNs and times. callgrind does not support AVX-512: the
ICRC and copies measured here are those of a processor without it.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# The modules beside this file, whether it runs as a program or as a module.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import instruction_rooms

# A path may differ by this share without having changed itself: gcc decides anew what it inlines
# when the sources of a translation unit change.
TOLERANCE = 0.05
# A limit against hanging, not an expected time.
TIMEOUT_S = 600


def measure(binary):
    """Runs every path.

    Returns {name: (instructions per message, packets per message)}, and the same instructions by
    room: {name: {room: instructions per message}}.
    """
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions: valgrind is not installed (tools/dev setup installs it)")
    with tempfile.TemporaryDirectory() as directory:
        dump = pathlib.Path(directory, "dump")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no",
             f"--callgrind-out-file={dump}", binary, "paths"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
        if run.returncode != 0:
            raise SystemExit(f"instructions: the program failed:\n{run.stdout}{run.stderr}")
        totals, dumps = {}, {}
        for path in pathlib.Path(directory).iterdir():
            text = path.read_text(errors="replace")
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^totals: (\d+)", text, re.M)
            if name and total:
                totals[name[1]] = int(total[1])
                dumps[name[1]] = text
    figures, spent = {}, {}
    for line in run.stdout.splitlines():
        row = re.match(r"(.+?) {2,}(\d+) +([\d.]+) +[\d.]+$", line)
        if row:
            messages = int(row[2])
            figures[row[1]] = (totals[row[1]] / messages, float(row[3]))
            costs = instruction_rooms.rooms(dumps[row[1]])
            spent[row[1]] = {room: cost / messages for room, cost in costs.items()}
    if not figures:
        raise SystemExit(f"instructions: nothing was measured:\n{run.stdout}{run.stderr}")
    return figures, spent


def read_budget(path):
    """Returns {name: instructions per message} from lines "NUMBER NAME"."""
    budget = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            number, name = line.split(None, 1)
            budget[name] = int(number)
    return budget


def write_budget(path, figures):
    """Writes the budget file, whose comment lines it keeps at the head."""
    file = pathlib.Path(path)
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    rows = [f"{round(figures[name][0]):9d} {name}" for name in figures]
    file.write_text("\n".join(head + rows) + "\n")


def complaints(figures, budget):
    """Returns a line for each path above or below its budget, without one, or not measured."""
    found = []
    for name, (instructions, _) in figures.items():
        if name not in budget:
            found.append(f"{name}: {instructions:.0f} instructions, and not in the budget")
        elif instructions > budget[name] * (1 + TOLERANCE):
            found.append(f"{name}: {instructions:.0f} instructions a message, {budget[name]} are "
                         f"its budget ({instructions / budget[name] - 1:+.1%})")
        elif instructions < budget[name] * (1 - TOLERANCE):
            # Otherwise a later change could lose this improvement unnoticed.
            found.append(f"{name}: {instructions:.0f} instructions a message, {budget[name]} are "
                         f"its budget ({instructions / budget[name] - 1:+.1%}): the path became "
                         "shorter, update the budget")
    found += [f"{name}: in the budget, and not measured" for name in budget if name not in figures]
    return found


def table(figures, budget):
    """Returns the measured values in columns."""
    lines = [f"{'path':<24}{'packets':>10}{'instructions':>14}{'each packet':>13}{'budget':>10}"]
    for name, (instructions, packets) in figures.items():
        each_packet = f"{instructions / packets:.0f}" if packets > 0 else "-"
        lines.append(f"{name:<24}{packets:>10.2f}{instructions:>14.0f}"
                     f"{each_packet:>13}{budget.get(name, 0):>10}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="tools/dev bench --instructions", description=__doc__)
    parser.add_argument("binary", help=argparse.SUPPRESS)
    parser.add_argument("budget", help=argparse.SUPPRESS)
    parser.add_argument("--update", action="store_true", help="make the measured values the budget")
    parser.add_argument("--rooms", action="store_true", help="also print instructions per room")
    arguments = parser.parse_args()
    figures, spent = measure(arguments.binary)
    budget = read_budget(arguments.budget)
    print(table(figures, budget))
    if arguments.rooms:
        print(f"\n{instruction_rooms.table(spent)}")
    if arguments.update:
        write_budget(arguments.budget, figures)
        return 0
    wrong = complaints(figures, budget)
    for complaint in wrong:
        print(f"instructions: {complaint}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/build"))
    import closed_pipe
    closed_pipe.run(main)
