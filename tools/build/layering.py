"""Checks the layering of the rooms in Bazel's own graph; exit status 1 if it is violated.

usage: layering.py

For each room: no rule of a room that it may not include is visible to it (Bazel refuses such a
dependency before it compiles anything), the libraries that it ships depend on no such rule, and it
sees the rooms that it may include (otherwise the first two checks would prove nothing).
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.build.lint import ASIDE, NARROW, ROOMS  # pylint: disable=wrong-import-position

# Every room may use the helpers of the build, such as fuzz_driver.
BUILD_HELPERS = "//tools/build/..."


def query(expression):
    done = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--ui_event_filters=-info", expression], cwd=ROOT,
        stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"layering: the query failed: {expression}")
    return sorted(done.stdout.split())


def libraries(rooms):
    """Returns a query expression for the libraries that `rooms` ship."""
    pattern = " + ".join(f"//{room}/..." for room in rooms)
    return f'(kind("cc_library rule", {pattern}) except attr("testonly", 1, {pattern}) ' \
           f"except {BUILD_HELPERS})"


def check_room(room, allowed, refused):
    found = []
    if refused:
        seen = query(f"visible(some({libraries([room])}), {libraries(refused)})")
        found += [f"{target} is visible to //{room}" for target in seen]
        used = query(f"deps({libraries([room])}) intersect {libraries(refused)}")
        found += [f"//{room} depends on {target}" for target in used]
    for other in allowed:
        if not query(f"visible(some({libraries([room])}), {libraries([other])})"):
            found.append(f"//{room} sees nothing of //{other}")
    return found


def check_tools():
    """Checks that code outside the rooms uses only public targets of the root package."""
    used = query("deps(//tools/..., 1) intersect "
                 "(//stack/... + //cm/... + //oncrpc/... + //rpcrdma/... + //nfs/... + "
                 "//compat/...)")
    return [f"//tools depends on {target} itself, not on the root package's public targets"
            for target in used]


def main():
    rooms = [room for room in ROOMS if query(libraries([room]))]
    sees = ASIDE | NARROW
    found = check_tools()
    for i, room in enumerate(rooms):
        # The tools see no room, only the public targets of the root package.
        seen = [] if room == "tools" else sees.get(room, rooms[:i])
        allowed = [other for other in seen if other in rooms and other not in ASIDE]
        unseen = [other for other in rooms[:i] if other in ASIDE or room in sees
                  and other not in sees[room]]
        found += check_room(room, allowed, unseen + rooms[i + 1:])
    for message in found:
        print(f"layering: {message}")
    print(f"{len(rooms)} rooms, {len(found)} breaches")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    import closed_pipe
    closed_pipe.run(main)
