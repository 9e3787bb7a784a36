"""Makes the hidden functions of an archive's objects visible, for a shared library of them.

usage: export_symbols.py ARCHIVE

Objects are compiled with -fvisibility=hidden, so that calls between them do not go through the PLT.
A linker exports no hidden symbol, whatever its version script says. Data stays hidden, except for
tables of virtual functions and type information: the program would get a copy of it.
"""

import pathlib
import struct
import sys

# Of ELF's 64-bit files, and of ar's.
_MAGIC, _SECTION, _SYMBOL = b"\x7fELF", "<IIQQQQIIQQ", "<IBBH"
_SYMBOL_BYTES, _SYMBOL_TABLE = 24, 2
_LOCAL, _OBJECT, _HIDDEN = 0, 1, 2
_ARCHIVE_HEADER, _MEMBER_HEADER = 8, 60


def export(data):
    """Changes the symbol tables of an object file, a bytearray."""
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from(_SECTION, data, offset + i * size) for i in range(count)]
    for _, kind, _, _, start, length, names, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        for at in range(start, start + length, _SYMBOL_BYTES):
            name, info, other, _ = struct.unpack_from(_SYMBOL, data, at)
            name += sections[names][4]
            is_data = info & 15 == _OBJECT and data[name:name + 3] != b"_ZT"
            if info >> 4 != _LOCAL and other & 3 == _HIDDEN and not is_data:
                data[at + 5] = other & ~3


def main():
    archive = pathlib.Path(sys.argv[1])
    data = bytearray(archive.read_bytes())
    at = _ARCHIVE_HEADER
    while at < len(data):
        start = at + _MEMBER_HEADER
        length = int(data[at + 48:at + 58])
        member = data[start:start + length]
        if member.startswith(_MAGIC):
            export(member)
            data[start:start + length] = member
        at = start + length + length % 2
    archive.write_bytes(data)


if __name__ == "__main__":
    main()
