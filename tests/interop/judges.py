"""Independent checks of a capture: zlib's CRC, tshark, and the conformance checker."""

import json
import subprocess

from guest import VLAN

TSHARK_FIELDS = ("frame.number", "infiniband.bth.opcode", "infiniband.bth.psn",
                 "infiniband.bth.destqp", "_ws.malformed")
# tshark 4.0 guesses a protocol for the payload of these and finds it malformed; it does not know
# opcodes 0x80 and above.
GUESSED_PAYLOAD = ("SEND", "WRITE", "READ RESPONSE", "MRA", "SIDR_REQ", "SIDR_REP", "LAP", "APR")
KNOWN_OPCODES = range(0x80)
TIME_LIMIT_S = 120


def strays(evidence, network):
    """Returns the frames that did not go over `network`, "ipv6" or "vlan"."""
    went = {"ipv6": lambda frame: ":" in frame.source, "vlan": lambda frame: frame.vlan == VLAN}
    return [frame for frame in evidence.frames if not went[network](frame)]


def judge_icrc(evidence, corrupted):
    bad = [frame.number for frame in evidence.frames if not frame.good_icrc]
    if bad and not corrupted:
        return [f"{len(bad)} frames with a wrong ICRC, the first is {bad[0]}"]
    return []


def decoded_by_tshark(path):
    """Returns the values of TSHARK_FIELDS for every RoCEv2 frame."""
    command = ["tshark", "-n", "-r", path, "-Y", "infiniband.bth", "-T", "fields", "-E",
               "separator=;", "-E", "occurrence=f"]
    for field in TSHARK_FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    return [line.split(";") for line in done.stdout.splitlines()]


def judge_tshark(evidence, corrupted):
    """Checks that tshark reads every frame as we do, and finds none malformed except where it
    guesses."""
    if corrupted:
        return []  # damaged frames are malformed, rightly
    rows = {int(row[0]): row for row in decoded_by_tshark(evidence.path)}
    found = []
    for frame in evidence.frames:
        row = rows.get(frame.number)
        if row is None:
            found.append(f"tshark sees no BTH in frame {frame.number}")
            continue
        if tuple(int(word, 0) for word in row[1:4]) != (frame.opcode, frame.psn, frame.qpn):
            found.append(f"tshark reads frame {frame.number} differently: {row}")
        guessed = any(word in name for word in GUESSED_PAYLOAD for name in frame.names)
        if row[4] and not guessed and frame.opcode in KNOWN_OPCODES:
            found.append(f"tshark finds frame {frame.number} ({frame.names}) malformed")
    return found


def judge_conformance(evidence, corrupted, checker):
    """Checks that the checker finds frames if we do, and that every one decodes, and encodes again
    to the same bytes."""
    if corrupted:
        return []
    done = subprocess.run([checker, "--json", evidence.path], stdout=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT_S, check=False)
    file, = json.loads(done.stdout)["files"]
    found = [f"frame {failure['frame']}: {failure['reason']}" for failure in file["failures"]]
    if evidence.frames and not file["counts"].get("roce") and not found:
        found = ["the conformance checker finds no RoCE frame"]
    return found


def judge(evidence, corrupted, checker):
    """Returns the errors of a capture; `corrupted`: frames were damaged on purpose."""
    found = judge_icrc(evidence, corrupted)
    found += judge_tshark(evidence, corrupted)
    found += judge_conformance(evidence, corrupted, checker)
    return found
