"""Algorithms of the nineties that old peers still speak and that libraries have dropped.

MD2 (RFC 1319), MD4 (RFC 1320) and RC2 (RFC 2268) are broken. They are here so that messages of such peers can be read
where an administrator insists: signatures with MD2 and MD4 are refused unless a `HashPolicy` names them, and RC2 is
used only for the privacy levels that came before AES.

Plain Python is slow at this, so `msmq.security.policy` limits the size of messages that use it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MD2_TABLE = bytes.fromhex(
    "292e43c9a2d87c013d3654a1ecf0061362a705f3c0c7738c98932bd9bc4c82ca"
    "1e9b573cfdd4e01667426f188a17e512be4ec4d6da9ede49a0fbf58ebb2fee7a"
    "a968799115b2073f94c210890b225f21807f5d9a5a903227353ecce7bff79703"
    "ff1930b348a5b5d1d75e922aac56aac64fb838d296a47db676fc6be29c7404f1"
    "459d705964718720865bcf65e62da8021b6025adaeb0b9f61c46616934407e0f"
    "5547a323dd51af3ac35cf9cebac5ea262c530d6e85288409d3dfcdf441814d52"
    "6adc37c86cc1abfa24e17b080cbdb14a7888958be363e86de9cbd5fe3b001d39"
    "f2efb70e6658d0e4a67772f8eb754b0a314450b48fed1f1adb998d339f118314"
)


def md2(data: bytes) -> bytes:
    """The MD2 digest of RFC 1319, by its steps 3.1 to 3.5."""
    table = _MD2_TABLE
    padding = 16 - len(data) % 16
    data += bytes([padding]) * padding
    checksum = bytearray(16)
    last = 0
    for start in range(0, len(data), 16):
        for i, byte in enumerate(data[start : start + 16]):
            last = checksum[i] = checksum[i] ^ table[byte ^ last]
    data += checksum
    state = [0] * 48
    for start in range(0, len(data), 16):
        block = data[start : start + 16]
        state[16:32] = block
        state[32:48] = [old ^ new for old, new in zip(state, block, strict=False)]
        t = 0
        for step in range(18):
            for i, byte in enumerate(state):
                t = state[i] = byte ^ table[t]
            t = (t + step) & 0xFF
    return bytes(state[:16])


_MD4_ROUNDS = (
    # constant to add, order of the sixteen words, the four shifts
    (0x00000000, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), (3, 7, 11, 19)),
    (0x5A827999, (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), (3, 5, 9, 13)),
    (0x6ED9EBA1, (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15)),
)


def md4(data: bytes) -> bytes:
    """The MD4 digest of RFC 1320, by its steps 3.1 to 3.5."""
    bits = (8 * len(data)) & 0xFFFFFFFFFFFFFFFF
    data += b"\x80" + bytes(-(len(data) + 9) % 64) + struct.pack("<Q", bits)
    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    for words in struct.iter_unpack("<16I", data):
        a, b, c, d = state
        for number, (constant, order, shifts) in enumerate(_MD4_ROUNDS):
            for i, word in enumerate(order):
                if number == 0:
                    mixed = b & c | ~b & d
                elif number == 1:
                    mixed = b & c | b & d | c & d
                else:
                    mixed = b ^ c ^ d
                total = (a + mixed + words[word] + constant) & 0xFFFFFFFF
                shift = shifts[i % 4]
                a, b, c, d = d, (total << shift | total >> 32 - shift) & 0xFFFFFFFF, b, c
        state = [(old + new) & 0xFFFFFFFF for old, new in zip(state, (a, b, c, d), strict=True)]
    return struct.pack("<4I", *state)


_RC2_TABLE = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2"
    "179a59f587b34f1361456d8d09817d32bd8f40eb86b77b0bf09521225c6b4e82"
    "54d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed7"
    "08e8eade8052eef784aa72ac354d6a2a961ad2715a1549744b9fd05e0418a4ec"
    "c2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a9"
    "0d38341bab33ffb0bb480c5fb9b1cd2ec5f3db47e5a59c770aa62068fe7fc1ad"
)

_Words = tuple[int, int, int, int]


class RC2:
    """RC2 (RFC 2268) in CBC mode with a zero initialisation vector; the caller does the padding.

    ``effective_bits`` limits the strength of the key independently of its length; 40 was the limit of export rules.
    """

    BLOCK_SIZE = 8

    def __init__(self, key: bytes, effective_bits: int) -> None:
        if not 1 <= len(key) <= 128 or not 1 <= effective_bits <= 1024:
            raise ValueError("RC2 takes keys of 1 to 128 bytes and 1 to 1024 effective bits")
        self._words = _rc2_expand(key, effective_bits)

    def encrypt(self, data: bytes) -> bytes:
        out = bytearray()
        chain: _Words = (0, 0, 0, 0)
        for block in _blocks(data):
            mixed = _xor(block, chain)
            chain = self._encrypt_block(mixed)
            out += struct.pack("<4H", *chain)
        return bytes(out)

    def decrypt(self, data: bytes) -> bytes:
        out = bytearray()
        chain: _Words = (0, 0, 0, 0)
        for block in _blocks(data):
            out += struct.pack("<4H", *_xor(self._decrypt_block(block), chain))
            chain = block
        return bytes(out)

    def _encrypt_block(self, block: _Words) -> _Words:
        k = self._words
        r0, r1, r2, r3 = block
        for j in range(0, 64, 4):
            r0 = r0 + k[j] + (r3 & r2) + (~r3 & r1) & 0xFFFF
            r0 = (r0 << 1 | r0 >> 15) & 0xFFFF
            r1 = r1 + k[j + 1] + (r0 & r3) + (~r0 & r2) & 0xFFFF
            r1 = (r1 << 2 | r1 >> 14) & 0xFFFF
            r2 = r2 + k[j + 2] + (r1 & r0) + (~r1 & r3) & 0xFFFF
            r2 = (r2 << 3 | r2 >> 13) & 0xFFFF
            r3 = r3 + k[j + 3] + (r2 & r1) + (~r2 & r0) & 0xFFFF
            r3 = (r3 << 5 | r3 >> 11) & 0xFFFF
            if j in (16, 40):  # a mashing round after the fifth and the eleventh mixing round
                r0 = r0 + k[r3 & 63] & 0xFFFF
                r1 = r1 + k[r0 & 63] & 0xFFFF
                r2 = r2 + k[r1 & 63] & 0xFFFF
                r3 = r3 + k[r2 & 63] & 0xFFFF
        return r0, r1, r2, r3

    def _decrypt_block(self, block: _Words) -> _Words:
        k = self._words
        r0, r1, r2, r3 = block
        for j in range(60, -4, -4):
            if j in (16, 40):
                r3 = r3 - k[r2 & 63] & 0xFFFF
                r2 = r2 - k[r1 & 63] & 0xFFFF
                r1 = r1 - k[r0 & 63] & 0xFFFF
                r0 = r0 - k[r3 & 63] & 0xFFFF
            r3 = (r3 >> 5 | r3 << 11) & 0xFFFF
            r3 = r3 - k[j + 3] - (r2 & r1) - (~r2 & r0) & 0xFFFF
            r2 = (r2 >> 3 | r2 << 13) & 0xFFFF
            r2 = r2 - k[j + 2] - (r1 & r0) - (~r1 & r3) & 0xFFFF
            r1 = (r1 >> 2 | r1 << 14) & 0xFFFF
            r1 = r1 - k[j + 1] - (r0 & r3) - (~r0 & r2) & 0xFFFF
            r0 = (r0 >> 1 | r0 << 15) & 0xFFFF
            r0 = r0 - k[j] - (r3 & r2) - (~r3 & r1) & 0xFFFF
        return r0, r1, r2, r3


def _rc2_expand(key: bytes, effective_bits: int) -> tuple[int, ...]:
    """The 64 words of the key schedule (RFC 2268 2)."""
    table = _RC2_TABLE
    buffer = bytearray(key)
    for i in range(len(key), 128):
        buffer.append(table[buffer[i - 1] + buffer[i - len(key)] & 0xFF])
    size = (effective_bits + 7) // 8
    mask = 0xFF >> 8 * size - effective_bits
    buffer[128 - size] = table[buffer[128 - size] & mask]
    for i in range(127 - size, -1, -1):
        buffer[i] = table[buffer[i + 1] ^ buffer[i + size]]
    return struct.unpack("<64H", buffer)


def _blocks(data: bytes) -> Iterator[_Words]:
    if len(data) % RC2.BLOCK_SIZE:
        raise ValueError("RC2 works on whole blocks of 8 bytes")
    return struct.iter_unpack("<4H", data)


def _xor(one: _Words, other: _Words) -> _Words:
    return one[0] ^ other[0], one[1] ^ other[1], one[2] ^ other[2], one[3] ^ other[3]
