"""Who has to go when answers are not read."""

from __future__ import annotations

from msmq.admission.unread import Unread


class Reader:
    idle_since_s = None

    def __init__(self) -> None:
        self.gone = False

    def show_out(self, reason: str) -> None:
        self.gone = True


def test_one_address() -> None:
    unread, readers = Unread(100, 1_000), [Reader() for _ in range(4)]
    for reader, size in zip(readers, (30, 40, 20, 5), strict=True):
        unread.owe(reader, "one", size)
    unread.owe(other := Reader(), "two", 100)
    assert (unread.total, other.gone) == (195, False)
    unread.owe(readers[2], "one", 30)
    assert [reader.gone for reader in readers] == [False, True, False, False], "the one that owes most"
    assert unread.total == 165
    for reader in readers:
        unread.owe(reader, "one", 0)
    unread.owe(other, "two", 0)
    assert unread.total == 0


def test_all_together() -> None:
    unread, readers = Unread(100, 250), [Reader() for _ in range(3)]
    for number, reader in enumerate(readers):
        unread.owe(reader, f"address {number}", 80 + number)
    assert not any(reader.gone for reader in readers)
    unread.owe(Reader(), "new", 10)
    assert [reader.gone for reader in readers] == [False, False, True]
    assert unread.total == 171
