"""Draw drafts at random."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from random import Random
from typing import Any, Final

from msmq.testing.traffic.draft import Delivery, Door, Draft, Surroundings
from msmq.testing.traffic.menus import MENUS, Menu

_UNASKED: Final = 0.9
"""The share of messages without an administration queue among those that ask for no acknowledgment."""


class Traffic:
    """Draws messages for one door."""

    def __init__(
        self,
        rng: Random,
        surroundings: Surroundings,
        door: Door = Door.MANAGER,
        *,
        everything: bool = False,
        without: Collection[tuple[str, str]] = (),
    ) -> None:
        """With ``everything`` each option of a menu is equally likely. ``without`` names options to exclude, as menu
        and option."""
        self.rng = rng
        self.surroundings = surroundings
        self.door = door
        self.everything = everything
        self._without = frozenset(without)
        self._offers = cache(self._offer)

    def options(self, name: str) -> list[str]:
        """Return the options of a menu that may be drawn here."""
        return list(self._offers(name)[0])

    def _offer(self, name: str) -> tuple[list[str], list[float]]:
        menu: Menu = MENUS[name]
        world = self.surroundings
        offered = [
            (each, option)
            for each, option in menu.items()
            if self.door in option.doors and (name, each) not in self._without and option.offered(world)
        ]
        return [each for each, _ in offered], [
            1 if self.everything else option.weight for _, option in offered
        ]

    def draft(self, **given: Any) -> Draft:
        """Draw a message. Attributes that are ``given`` are not drawn."""
        values: dict[str, Any] = {}
        chosen: dict[str, str] = {}
        for name, menu in MENUS.items():
            if name in given:
                continue
            options, weights = self._offers(name)
            option = self.rng.choices(options, weights)[0]
            values[name] = menu[option].make(self.rng, self.surroundings)
            chosen[name] = option
        values |= given
        self._settle(values, chosen)
        return Draft(**values, chosen=chosen)

    def _settle(self, values: dict[str, Any], chosen: dict[str, str]) -> None:
        """Adjust attributes that depend on others."""
        unasked = "admin_queue" in chosen and not values["acknowledgements"]
        if unasked and not self.everything and self.rng.random() < _UNASKED:
            values["admin_queue"], chosen["admin_queue"] = "", "none"
        response, admin = chosen.get("response_queue"), values["admin_queue"]
        if response == "the admin queue":
            values["response_queue"] = admin
        elif response == "on the host of the admin queue" and admin.startswith("PRIVATE="):
            host = admin.partition("\\")[0]
            values["response_queue"] = f"{host}\\{self.rng.randint(0x100, 0xFFFF):08X}"
        if any(values.get("numbers", ())) and not self._settle_numbers(values, chosen):
            values["numbers"], chosen["numbers"] = (0, 0), "none"
        if values["delivery"] is not Delivery.TRANSACTIONAL:
            for name in ("final_ack_required", "connector_queue_manager"):
                values.pop(name, None)
                chosen.pop(name, None)

    @staticmethod
    def _settle_numbers(values: dict[str, Any], chosen: dict[str, str]) -> bool:
        """Put numbers in place of names, if that is possible. Returns whether it is; signatures would cover the
        names.
        """
        places = ("admin_queue", "response_queue")
        wanted = [name for name, number in zip(places, values["numbers"], strict=True) if number]
        drawn = all(name in chosen for name in wanted)
        if not drawn or values["security"].signed or not values["destination"].startswith("DIRECT="):
            return False
        for name in wanted:
            values[name], chosen[name] = "", "none"
        return True

    def transaction(self, **given: Any) -> list[Draft]:
        """Draw the messages of one transaction: one, or many."""
        count = self.rng.choices((1, 2, 3, self.rng.randint(4, 20)), (60, 15, 10, 15))[0]
        return [self.draft(**(given | {"delivery": Delivery.TRANSACTIONAL})) for _ in range(count)]
