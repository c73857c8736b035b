"""Conversion of hexadecimal text to bytes, whatever its layout.

Understood are plain digits in groups of any size, ``0x10, 0x00``, ``\\x10\\x00``, ``10:00``, and the dumps of
xxd, hexdump -C, od -t x1, tcpdump -X and Wireshark with their offsets and character columns. ``#`` starts a
comment and blank lines separate packets.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from msmq.capture.problems import UnreadableError
from msmq.capture.records import Readable

_CHUNK: Final = 1 << 16
_LONGEST_DUMP_LINE: Final = 1000

# An offset ends in a colon, or is longer than the two-digit bytes that follow it.
_DUMP: Final = re.compile(r"\s*(?:0x)?[0-9A-Fa-f]{4,16}(?::\s|(?=\s+[0-9A-Fa-f]{2}(?:\s|$)))\s*(?P<rest>.*)")
_PAIRS: Final = re.compile(r"[0-9A-Fa-f]{2}(?: [0-9A-Fa-f]{2})*\s*")
_BARE_OFFSET: Final = re.compile(r"\s*[0-9A-Fa-f]{7,8}\s*")
_SEPARATORS: Final = re.compile(r"0[xX]|\\x|[\s,:;{}\"']")


def looks_like_text(head: bytes) -> bool:
    """Whether a file begins like text, hexadecimal or not."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    if any(byte < 32 and byte not in b"\t\n\r\f" for byte in head):
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head)  # a character split at the end is no error yet
    except UnicodeDecodeError:
        return False
    return True


def read_blocks(file: Readable, head: bytes) -> Iterator[bytes | None]:
    """The bytes of the text piece by piece, and None where a blank line ends a block."""
    wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    odd = ""  # a digit whose second half is on the next line
    open_block = dumping = False
    number = 0
    for number, line in enumerate(_lines(file, "utf-16" if wide else "utf-8-sig"), 1):
        if not line.strip():
            if open_block:
                yield None
            open_block = False
            continue
        if dumping and _BARE_OFFSET.fullmatch(line):
            continue  # the last line of a dump gives only its length
        dump = _DUMP.fullmatch(line) if len(line) <= _LONGEST_DUMP_LINE else None
        dumping = dump is not None
        digits = odd + (_plain_digits(line, number) if dump is None else _dump_digits(dump["rest"]))
        odd = digits[-1] if len(digits) % 2 else ""
        if len(digits) > 1:
            open_block = True
            yield bytes.fromhex(digits[: len(digits) - len(odd)])
    if odd:
        raise UnreadableError(f"line {number}: an odd number of hexadecimal digits")


def _plain_digits(line: str, number: int) -> str:
    """The digits of a line that is not of a dump."""
    bare = _SEPARATORS.sub("", line.partition("#")[0])
    if bare == "*":
        raise UnreadableError(f"line {number}: the dump leaves out repeated lines; make it with hexdump -v")
    if re.fullmatch(r"[0-9A-Fa-f]*", bare) is None:
        raise UnreadableError(f"line {number} is not hexadecimal: {line.strip()[:40]!a}")
    return bare


def _dump_digits(rest: str) -> str:
    """The digits of a dump line behind its offset, without the character column.

    Columns are separated by two or more blanks. A second column of digits counts only as the right half of sixteen
    bytes; otherwise text such as "beef" in the character column would be read as bytes.
    """
    columns = re.split(r"\s{2,}", rest.partition("|")[0].strip())
    first = columns[0]
    if len(columns) > 1 and len(first) == 23 and _PAIRS.fullmatch(first) and _PAIRS.fullmatch(columns[1]):
        first += columns[1][:23]
    return re.sub(r"[^0-9A-Fa-f]", "", first)


def _lines(file: Readable, encoding: str) -> Iterator[str]:
    """The lines of a text; lines too long to hold are cut into pieces, and a comment stays a comment in each piece."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    text = ""
    comment = False  # whether the piece continues a comment
    try:
        while chunk := file.read(_CHUNK):
            text += decoder.decode(chunk)
            *whole, text = re.split(r"\r\n|\n|\r(?!$)", text)
            for line in whole:
                yield "#" if comment else line
                comment = False
            if len(text) > _CHUNK:
                yield "#" if comment else text
                comment = comment or "#" in text
                text = ""
        text += decoder.decode(b"", True)
    except UnicodeDecodeError:
        raise UnreadableError("the text is neither hexadecimal nor in a known encoding") from None
    if text:
        yield "#" if comment else text
