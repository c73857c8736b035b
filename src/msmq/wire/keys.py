"""Public keys and wrapped session keys as CryptoAPI blobs (MS-MQMQ 2.2.1, 2.2.2, 2.2.20.6; MS-MQQB 2.4).

This module has only numbers and bytes: `msmq.security.keys` turns them into usable keys.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from msmq.errors import DecodeError, EncodeError
from msmq.wire.algorithms import EncryptionAlgorithm

_PUBLIC_BLOB = struct.Struct("<4sI4sII")
_PUBLIC_BLOB_HEADER = bytes.fromhex("06020000")  # bType PUBLICKEYBLOB, bVersion 2, wReserved
_RSA1 = b"RSA1"

_SIMPLE_BLOB = struct.Struct("<4sII")
_SIMPLE_BLOB_HEADER = bytes.fromhex("01020000")  # bType SIMPLEBLOB, bVersion 2, wReserved

_KEY_HEAD = struct.Struct("<III")
_KEYS_HEAD = struct.Struct("<II")

_MIN_KEY_SIZE = _KEY_HEAD.size + 2 + _PUBLIC_BLOB.size + 1


class KeyType(IntEnum):
    """The purpose of an RSA key: BLOBHEADER.aiKeyAlg, the Key Type of MS-MQMQ 2.2.20.6."""

    SIGN = 0x00002400
    EXCHANGE = 0x0000A400


class ProviderType(IntEnum):
    """MQDSPUBLICKEY.ulProviderType."""

    RSA_FULL = 0x00000001
    RSA_AES = 0x00000018


@dataclass(frozen=True, slots=True)
class PublicKeyBlob:
    """PUBLICKEYBLOB (MS-MQQB 2.4.1): 20 bytes, then the modulus, least significant byte first."""

    public_exponent: int
    modulus: int
    key_type: KeyType = KeyType.EXCHANGE

    @property
    def modulus_size(self) -> int:
        return (self.modulus.bit_length() + 7) // 8

    @property
    def bit_length(self) -> int:
        """bitLen: always whole bytes, so a modulus is padded with zero bits at its high end."""
        return 8 * self.modulus_size

    def encode(self) -> bytes:
        if self.modulus <= 0:
            raise EncodeError("an RSA modulus is a positive number")
        if not 0 < self.public_exponent < 1 << 32:
            raise EncodeError("the public exponent of a PUBLICKEYBLOB takes 32 bits")
        head = _PUBLIC_BLOB.pack(
            _PUBLIC_BLOB_HEADER, self.key_type, _RSA1, self.bit_length, self.public_exponent
        )
        return head + self.modulus.to_bytes(self.modulus_size, "little")

    @classmethod
    def decode(cls, data: bytes) -> PublicKeyBlob:
        """Decode a blob. Bytes after the modulus are ignored, because the buffer in a directory may have some."""
        if len(data) < _PUBLIC_BLOB.size:
            raise DecodeError("PUBLICKEYBLOB ends inside its 20 fixed bytes", 0)
        header, key_type, magic, bit_length, exponent = _PUBLIC_BLOB.unpack_from(data)
        if header != _PUBLIC_BLOB_HEADER:
            raise DecodeError("PUBLICKEYBLOB does not begin with type 6, version 2", 0)
        if key_type not in (KeyType.SIGN, KeyType.EXCHANGE):
            raise DecodeError(f"PUBLICKEYBLOB has the unknown key type 0x{key_type:08X}", 4)
        if magic != _RSA1:
            raise DecodeError("PUBLICKEYBLOB holds no RSA1 key", 8)
        if bit_length == 0 or bit_length % 8:
            raise DecodeError(f"PUBLICKEYBLOB.bitLen {bit_length} is not a whole number of bytes", 12)
        size = bit_length // 8
        if size > len(data) - _PUBLIC_BLOB.size:
            raise DecodeError("PUBLICKEYBLOB.bitLen reaches past the end", 12)
        modulus = data[_PUBLIC_BLOB.size : _PUBLIC_BLOB.size + size]
        if modulus[-1] == 0 or exponent == 0:
            raise DecodeError("PUBLICKEYBLOB holds no RSA key of the stated length", 12)
        return cls(exponent, int.from_bytes(modulus, "little"), KeyType(key_type))


@dataclass(frozen=True, slots=True)
class SimpleBlob:
    """SIMPLEBLOB (MS-MQQB 2.4.2): 12 bytes, then the session key encrypted with the receiver's RSA key.

    The encrypted key is as long as the modulus, whatever the table says; its least significant byte comes first.
    """

    session_key_algorithm: EncryptionAlgorithm
    encrypted_key: bytes

    def encode(self) -> bytes:
        if not self.encrypted_key:
            raise EncodeError("SIMPLEBLOB needs an encrypted key")
        head = _SIMPLE_BLOB.pack(_SIMPLE_BLOB_HEADER, self.session_key_algorithm, KeyType.EXCHANGE)
        return head + self.encrypted_key

    @classmethod
    def decode(cls, data: bytes) -> SimpleBlob:
        if len(data) <= _SIMPLE_BLOB.size:
            raise DecodeError("SIMPLEBLOB ends before its encrypted key", 0)
        header, algorithm, key_type = _SIMPLE_BLOB.unpack_from(data)
        if header != _SIMPLE_BLOB_HEADER:
            raise DecodeError("SIMPLEBLOB does not begin with type 1, version 2", 0)
        try:
            session_key_algorithm = EncryptionAlgorithm(algorithm)
        except ValueError:
            raise DecodeError(f"SIMPLEBLOB has the unknown algorithm 0x{algorithm:08X}", 4) from None
        if key_type != KeyType.EXCHANGE:
            raise DecodeError("the session key of a SIMPLEBLOB is not encrypted with RSA key exchange", 8)
        return cls(session_key_algorithm, bytes(data[_SIMPLE_BLOB.size :]))


@dataclass(frozen=True, slots=True)
class DSPublicKey:
    """MQDSPUBLICKEY (MS-MQMQ 2.2.1): 12 bytes, the provider's name, then the key as a PUBLICKEYBLOB.

    ``key_blob`` is aBuf as the directory has it, so that a list is written back unchanged; ``key`` decodes it.
    """

    provider_type: ProviderType
    provider_name: str
    key_blob: bytes

    @property
    def key(self) -> PublicKeyBlob:
        return PublicKeyBlob.decode(self.key_blob)

    @property
    def size(self) -> int:
        return _KEY_HEAD.size + len(self._encoded_name()) + len(self.key_blob)

    def _encoded_name(self) -> bytes:
        if "\0" in self.provider_name:
            raise EncodeError("a provider name holds no null character")
        try:
            return (self.provider_name + "\0").encode("utf-16-le")
        except UnicodeEncodeError:
            raise EncodeError("a provider name is valid UTF-16") from None

    def encode(self) -> bytes:
        name = self._encoded_name()
        return _KEY_HEAD.pack(len(self.key_blob), len(name), self.provider_type) + name + self.key_blob

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> DSPublicKey:
        if len(data) - offset < _KEY_HEAD.size:
            raise DecodeError("MQDSPUBLICKEY ends inside its 12 fixed bytes", offset)
        key_size, name_size, type_number = _KEY_HEAD.unpack_from(data, offset)
        if type_number not in (ProviderType.RSA_FULL, ProviderType.RSA_AES):
            raise DecodeError(f"MQDSPUBLICKEY has the unknown provider type {type_number}", offset + 8)
        if name_size < 2 or name_size % 2:
            raise DecodeError(f"MQDSPUBLICKEY.ulProviderLen cannot be {name_size}", offset + 4)
        start = offset + _KEY_HEAD.size
        if name_size + key_size > len(data) - start:
            raise DecodeError("MQDSPUBLICKEY reaches past the end", offset)
        name = _provider_name(data[start : start + name_size], start)
        key_blob = bytes(data[start + name_size : start + name_size + key_size])
        try:
            PublicKeyBlob.decode(key_blob)
        except DecodeError as error:
            raise DecodeError(error.reason, start + name_size + (error.offset or 0)) from None
        return cls(ProviderType(type_number), name, key_blob)


def _provider_name(data: bytes, offset: int) -> str:
    if data[-2:] != b"\0\0":
        raise DecodeError("MQDSPUBLICKEY.sProviderName does not end with a null", offset)
    try:
        name = bytes(data[:-2]).decode("utf-16-le")
    except UnicodeDecodeError:
        raise DecodeError("MQDSPUBLICKEY.sProviderName is not UTF-16", offset) from None
    if "\0" in name:
        raise DecodeError("MQDSPUBLICKEY.sProviderName has a null inside", offset)
    return name


@dataclass(frozen=True, slots=True)
class DSPublicKeys:
    """MQDSPUBLICKEYS (MS-MQMQ 2.2.2): 8 bytes, then the keys back to back."""

    keys: tuple[DSPublicKey, ...] = ()

    def find(self, provider_name: str) -> DSPublicKey | None:
        """Return the key of a provider, or None. A list has one key for each provider that its machine knows."""
        return next((key for key in self.keys if key.provider_name == provider_name), None)

    def encode(self) -> bytes:
        body = b"".join(key.encode() for key in self.keys)
        return _KEYS_HEAD.pack(_KEYS_HEAD.size + len(body), len(self.keys)) + body

    @classmethod
    def decode(cls, data: bytes) -> DSPublicKeys:
        if len(data) < _KEYS_HEAD.size:
            raise DecodeError("MQDSPUBLICKEYS ends inside its 8 fixed bytes", 0)
        length, count = _KEYS_HEAD.unpack_from(data)
        if length != len(data):
            raise DecodeError(f"MQDSPUBLICKEYS.ulLen says {length} bytes, there are {len(data)}", 0)
        # Checked before the loop, so that a false count costs nothing.
        if count * _MIN_KEY_SIZE > len(data) - _KEYS_HEAD.size:
            raise DecodeError("MQDSPUBLICKEYS.cNumofKeys is more than the structure can hold", 4)
        keys = []
        offset = _KEYS_HEAD.size
        for _ in range(count):
            key = DSPublicKey.decode(data, offset)
            keys.append(key)
            offset += key.size
        if offset != len(data):
            raise DecodeError("bytes follow the last key of MQDSPUBLICKEYS", offset)
        return cls(tuple(keys))
