"""Print the values of properties for people."""

from __future__ import annotations

from msmq.wire.guid import guid_text
from msmq.wire.properties.model import Property
from msmq.wire.variant import VT, Variant


def value_texts(variant: Variant, row: Property | None = None) -> tuple[str, ...]:
    """Return one text for a single value, one for each element of a vector, and none if there is no value.

    ``row`` is the property to which the value belongs; named values are printed with their names.
    """
    if isinstance(variant.value, tuple):
        return tuple(_text(variant.vt & ~VT.VECTOR, element) for element in variant.value)
    if variant.value is None:
        return ()
    choices = row.rule.choices if row is not None and row.rule is not None else None
    if choices is not None and isinstance(variant.value, int):
        named = [member.name for member in choices if member.value == variant.value]
        return tuple(f"{name} ({int(variant.value)})" for name in named) or (str(variant.value),)
    return (_text(variant.vt, variant.value),)


def _text(vt: int, value: bool | int | str | bytes | Variant) -> str:
    if isinstance(value, Variant):  # an element of a VT_VARIANT vector
        return _joined(value)
    if isinstance(value, bytes):
        return guid_text(value) if vt == VT.CLSID else value.hex()
    return str(value)


def _joined(variant: Variant) -> str:
    texts = value_texts(variant)
    return f"[{', '.join(texts)}]" if isinstance(variant.value, tuple) else "".join(texts)
