"""``make sim``: all simulators in turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from msmq.testing.campaign import SIMULATORS, main


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_all_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--seeds", "2", "--steps", "20"]) == 0
    assert "seed 4: 2 network, 2 manager, 2 store" in capsys.readouterr().err


def test_a_failure_can_be_replayed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seed: int, steps: int) -> None:
        raise AssertionError("on purpose")

    monkeypatch.setitem(SIMULATORS, "store", fail)
    with pytest.raises(AssertionError):
        main(["--sim", "store", "--seed", "7", "--seeds", "1", "--steps", "5"])
    assert "make sim SIM=store SEED=7 SEEDS=1 STEPS=5" in capsys.readouterr().err


@pytest.mark.parametrize(("seeds", "logged"), [("2", False), ("1", True)])
def test_only_the_replay_of_one_seed_shows_what_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, seeds: str, logged: bool
) -> None:
    def complain(seed: int, steps: int) -> None:
        logging.getLogger("msmq.store").error("the simulated disk failed")

    logging.disable(logging.NOTSET)
    monkeypatch.setitem(SIMULATORS, "store", complain)
    main(["--sim", "store", "--seeds", seeds])
    assert ("the simulated disk failed" in caplog.text) is logged
