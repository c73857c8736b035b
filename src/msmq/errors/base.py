"""The root of the error tree, and the exceptions for statuses of MS-MQMQ 2.4."""

from __future__ import annotations

from typing import ClassVar

CUSTOMER_BIT = 0x20000000
"""Set in every HRESULT that a vendor defines, clear in every one of Microsoft (MS-MQMQ 1.7)."""

_SEVERITY_BIT = 0x80000000
_FACILITY_MASK = 0x1FFF0000
_FACILITY_MSMQ = 0x000E0000

STATUS: dict[str, int] = {}
"""All error statuses that the project knows, name to HRESULT; filled by the declarations of the classes."""

_CLASSES: dict[int, type[MQError]] = {}


class MsmqError(Exception):
    """The root of the tree."""


class DecodeError(MsmqError):
    """Received bytes break the specification.

    ``reason`` is one plain sentence without the bytes themselves, so that it can be logged; ``offset`` is the position
    of the error in the packet or blob, if known.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason if offset is None else f"{reason} (at offset {offset})")
        self.reason = reason
        self.offset = offset


class EncodeError(MsmqError, ValueError):
    """A value cannot be written in the form that the specification demands."""


class MQError(MsmqError):
    """A status of MS-MQMQ 2.4.

    ``code`` is its HRESULT and ``name`` its name in the specification; ``advice`` is one sentence on what
    to do next, which an error may have of its own where that of its code would mislead. ``last_version`` is
    the last MSMQ version that uses the code, when that is not every one.
    A subclass without a name is a group of codes and is caught, never raised.
    """

    code: ClassVar[int] = 0xC00E0001
    name: ClassVar[str] = "MQ_ERROR"
    advice: str = ""
    last_version: ClassVar[int | None] = None

    def __init_subclass__(
        cls, *, name: str | None = None, code: int | None = None, last_version: int | None = None
    ) -> None:
        super().__init_subclass__()
        if name is None or code is None:
            return
        cls._check_code(name, code)
        cls.name, cls.code, cls.last_version = name, code, last_version
        STATUS[name] = code
        _CLASSES[code] = cls

    @classmethod
    def _check_code(cls, name: str, code: int) -> None:
        if code in _CLASSES or name in STATUS:
            raise ValueError(f"{name} 0x{code:08X} is declared already")
        if code & CUSTOMER_BIT or not code & _SEVERITY_BIT or code & _FACILITY_MASK != _FACILITY_MSMQ:
            raise ValueError(f"{name} 0x{code:08X} is no error code of MS-MQMQ 2.4")

    def __init__(self, detail: str | None = None, *, advice: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if advice is not None:
            self.advice = advice

    @property
    def description(self) -> str:
        """What the status means, in one sentence."""
        return type(self).__doc__ or self.name

    def __str__(self) -> str:
        text = f"{self.name} (0x{self.code:08X}): {self.description}"
        return f"{text} {self.detail}" if self.detail else text

    @property
    def answer_code(self) -> int:
        """The HRESULT that peers are answered with.

        A code that only MSMQ 1.0 and 2.0, or no version at all, return becomes MQ_ERROR, as in later versions.
        """
        return self.code if self.last_version is None else MQError.code


class VendorError(MQError):
    """A status of our own. MS-MQMQ 1.7 wants the customer bit in its code, and so do we."""

    @classmethod
    def _check_code(cls, name: str, code: int) -> None:
        if code in _CLASSES or name in STATUS:
            raise ValueError(f"{name} 0x{code:08X} is declared already")
        if not code & CUSTOMER_BIT or not code & _SEVERITY_BIT:
            raise ValueError(f"{name} 0x{code:08X} is our own and so must carry 0x{CUSTOMER_BIT:08X}")


class OtherStatusError(MQError):
    """A failure HRESULT that is not in the table of MS-MQMQ 2.4; MS-ERREF 2.1 has the common ones."""

    advice = "Look the code up in the list of Windows errors."

    def __init__(self, code: int, detail: str | None = None) -> None:
        super().__init__(detail)
        self.args = (code, detail)
        self.code = code  # type: ignore[misc]  # the one class whose code is each instance's own
        self.name = f"HRESULT_{code:08X}"  # type: ignore[misc]


def failed(code: int) -> bool:
    """Whether an HRESULT is a failure; MQ_OK and the informational codes are not."""
    return bool(code & _SEVERITY_BIT)


def error_for(code: int, detail: str | None = None) -> MQError:
    """The exception for a failure HRESULT. Raises ValueError for the code of a success."""
    if not failed(code):
        raise ValueError(f"0x{code:08X} is no failure")
    known = _CLASSES.get(code)
    return OtherStatusError(code, detail) if known is None else known(detail)
