"""Messages by their numbers: spans do what a dictionary would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from msmq.transfer.numbered import _FULL, Numbered

HIGHEST = 60
bounds = st.tuples(st.integers(0, HIGHEST), st.integers(0, HIGHEST)).map(sorted)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 9)),
    st.tuples(st.sampled_from(["store", "unstore", "take", "take stored"]), bounds),
)


class Model:
    """The same with a dictionary and a set."""

    def __init__(self) -> None:
        self.entries: dict[int, str] = {}
        self.stored: set[int] = set()
        self.last = 0

    def between(self, low: int, high: int) -> list[int]:
        return [number for number in self.entries if low <= number <= high]

    def take(self, low: int, high: int, *, stored: bool) -> list[tuple[int, str]]:
        numbers = [each for each in self.between(low, high) if each in self.stored or not stored]
        self.stored.difference_update(numbers)
        return [(number, self.entries.pop(number)) for number in numbers]


@given(st.lists(steps, max_size=25), bounds)
def test_spans_are_a_dictionary_in_short(drawn: list[tuple[str, ...]], asked: list[int]) -> None:
    model, numbered = Model(), Numbered[str]()
    for step in drawn:
        match step:
            case ("append", int(gap), int(count)):
                first = model.last + 1 + gap
                tokens = [f"m{number}" for number in range(first, first + count)]
                numbered.append(first, tokens)
                model.entries.update(enumerate(tokens, first))
                model.last = first + count - 1
            case ("store", [low, high]):
                numbered.store(low, high)
                model.stored.update(model.between(low, high))
            case ("unstore", [low, high]):
                numbered.unstore(low, high)
                model.stored.difference_update(model.between(low, high))
            case (name, [low, high]):
                only_stored = name == "take stored"
                rows = numbered.take(low, high, stored=only_stored)
                taken = [pair for first, tokens in rows for pair in enumerate(tokens, first)]
                assert taken == model.take(low, high, stored=only_stored)
        assert len(numbered) == len(model.entries)
    low, high = asked
    assert list(numbered.items()) == list(model.entries.items())
    assert [number for number, _ in numbered.items(low, high)] == model.between(low, high)
    assert numbered.count(low, high) == len(model.between(low, high))
    assert numbered.get(low) == model.entries.get(low)
    assert numbered.before(low) == max(model.between(0, low - 1), default=0)
    meant = [f"m{number}" for number in range(low, high + 1)]
    expected = [number in model.entries for number in range(low, high + 1)]
    assert list(map(bool, numbered.standing(low, meant))) == expected


def test_another_message_has_the_number_now() -> None:
    numbered = Numbered[str]()
    numbered.append(4, ["a", "b", "c"])
    assert list(map(bool, numbered.standing(3, ["x", "a", "y", "c", "d"]))) == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert list(numbered.standing(9, ["a", "b"])) == [0, 0]
    assert not numbered.standing(9, [])


def test_many_single_messages_make_few_spans() -> None:
    numbered = Numbered[int]()
    for number in range(1, 3 * _FULL + 1):
        numbered.append(number, (number,))
    assert len(numbered._spans) == 3
    numbered.store(1, 3 * _FULL)
    assert [len(tokens) for _, tokens in numbered.take(2, 3 * _FULL, stored=True)] == [
        _FULL - 1,
        _FULL,
        _FULL,
    ]
    assert len(numbered._spans) == 1
    assert list(numbered.items()) == [(1, 1)]


def test_what_is_gone_is_not_kept() -> None:
    """A span stays as long as one of its messages does; the others may be large."""
    numbered = Numbered[str]()
    numbered.append(1, ["a", "b", "c"])
    numbered.take(1, 2)
    (span,) = numbered._spans
    assert span.tokens == [None, None, "c"]
