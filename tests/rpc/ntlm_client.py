"""The initiating half of NTLM (MS-NLMP) with any flags and any layout of its messages, from the text alone.

Nothing of this project or of another implementation is imported. The CHALLENGE is read strictly: its fixed part has 56
bytes, the last eight of them the Version, which is zero unless it was negotiated.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher

UNICODE, OEM, REQUEST_TARGET, SIGN, SEAL = 0x1, 0x2, 0x4, 0x10, 0x20
LM_KEY, NTLM, ALWAYS_SIGN, EXTENDED = 0x80, 0x200, 0x8000, 0x80000
IDENTITY, TARGET_INFO, VERSION = 0x100000, 0x800000, 0x2000000
KEY_128, KEY_EXCHANGE, KEY_56 = 0x20000000, 0x40000000, 0x80000000
TIMESTAMP, FLAGS, MIC_PROVIDED = 7, 6, 2
SIGNATURE = b"NTLMSSP\0"


def _md5(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.md5).digest()


@dataclass
class NtlmClient:
    """One login. ``version`` and ``mic`` say whether its AUTHENTICATE has those fields."""

    flags: int
    user: str
    nt_hash: bytes
    domain: str = ""
    version: bool = True
    mic: bool = True
    first: bytes = b""
    session_key: bytes = b""

    def negotiate(self) -> bytes:
        tail = bytes.fromhex("0a00614a0000000f") if self.flags & VERSION else b""
        self.first = SIGNATURE + struct.pack("<II", 1, self.flags) + bytes(16) + tail
        return self.first

    def authenticate(self, challenge: bytes) -> bytes:
        pairs, nonce, flags = self._read(challenge)
        agreed = self.flags & flags
        response_key = _md5(self.nt_hash, (self.user.upper() + self.domain).encode("utf-16-le"))
        if self.mic:
            pairs[FLAGS] = struct.pack("<I", MIC_PROVIDED)
        info = b"".join(struct.pack("<HH", *(kind, len(value))) + value for kind, value in pairs.items())
        blob = b"\1\1" + bytes(6) + pairs.get(TIMESTAMP, bytes(8)) + b"C" * 8 + bytes(4) + info + bytes(8)
        proof = _md5(response_key, nonce + blob)
        self.session_key = base_key = _md5(response_key, proof)
        sealed = b""
        if agreed & KEY_EXCHANGE:
            self.session_key = b"K" * 16
            sealed = Cipher(ARC4(base_key), mode=None).encryptor().update(self.session_key)
        coding = "utf-16-le" if agreed & UNICODE else "cp1252"
        start = 64 + 8 * self.version + 16 * self.mic
        head, payload = SIGNATURE + struct.pack("<I", 3), b""
        names = (bytes(24), proof + blob, self.domain.encode(coding), self.user.encode(coding), b"", sealed)
        for part in names:
            head += struct.pack("<HHI", len(part), len(part), start + len(payload))
            payload += part
        head += struct.pack("<I", agreed) + bytes(8 * self.version)
        if not self.mic:
            return head + payload
        whole = self.first + challenge + head + bytes(16) + payload
        return head + _md5(self.session_key, whole) + payload

    def _read(self, challenge: bytes) -> tuple[dict[int, bytes], bytes, int]:
        """AV_PAIRs, server challenge and flags of a CHALLENGE_MESSAGE (2.2.1.2)."""
        assert challenge[:12] == SIGNATURE + struct.pack("<I", 2)
        size, _, name_at, flags, nonce, reserved, info_size, _, info_at = struct.unpack_from(
            "<HHII8s8sHHI", challenge, 12
        )
        assert reserved == bytes(8)
        assert min(name_at, info_at) >= 56, "the Version field is missing"
        assert any(challenge[48:56]) == bool(flags & VERSION)
        assert not flags & ~self.flags & ~(REQUEST_TARGET | NTLM | TARGET_INFO | 0x20000), (
            "nobody asked for it"
        )
        assert flags & TARGET_INFO
        assert bool(flags & UNICODE) != bool(flags & OEM)
        assert challenge[name_at : name_at + size].decode("utf-16-le" if flags & UNICODE else "cp1252")
        pairs, at = {}, info_at
        while (kind_size := struct.unpack_from("<HH", challenge, at))[0]:
            pairs[kind_size[0]] = challenge[at + 4 : at + 4 + kind_size[1]]
            at += 4 + kind_size[1]
        assert at + 4 == info_at + info_size
        assert {1, 2} <= pairs.keys(), "the names of the computer and its domain"
        return pairs, nonce, flags
