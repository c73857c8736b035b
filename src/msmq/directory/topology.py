"""Sites and the links between them, as administrators of the domain create and change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msmq.directory.join import Joining, JoiningError, named
from msmq.directory.names import child
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass


class Topology:
    """Changes to the sites of an enterprise, with the rights of the account that ``joining`` is logged on as."""

    def __init__(self, joining: Joining) -> None:
        self.joining = joining
        self.directory = joining.directory

    def create_site(self, name: str, *, foreign: bool = False) -> bytes:
        """Create a site with the container for its servers. A foreign site stands for a system other than MSMQ.

        Raises:
            JoiningError: it cannot be created.
        """
        self.joining.reach()
        item = DirectoryObject(ObjectClass.SITE, {"name": name, "foreign_site": foreign})
        result, identifier = self.directory.create(item, None, None)
        if result is DirectoryResult.OBJECT_ALREADY_EXISTS:
            raise JoiningError(f"There is a site {name} already.")
        if result is not DirectoryResult.SUCCESS or identifier is None:
            raise self.joining.refusal(f"the site {name} could not be made")
        servers = child("Servers", self.directory.objects.names.site(name))
        self.joining.make(servers, "serversContainer", {})
        return identifier

    def set_foreign(self, name: str, *, foreign: bool) -> None:
        """Set whether a site stands for a foreign system.

        Raises:
            JoiningError: there is no such site, or it cannot be changed.
        """
        self.joining.reach()
        values = {"identifier": self.joining.site_identifier(name), "foreign_site": foreign}
        self._write(ObjectClass.SITE, values, f"the site {name}")

    def delete_site(self, name: str) -> None:
        """Delete a site that no queue manager and no link uses any more.

        Raises:
            JoiningError: it is in use, or cannot be deleted.
        """
        self.joining.reach()
        identifier = self.joining.site_identifier(name)
        hosts = self.joining.find(ObjectClass.QUEUE_MANAGER, (), ("computer_name", "site_identifier_list"))
        users = [
            item.attributes["computer_name"]
            for item in hosts
            if identifier in item.attributes["site_identifier_list"]
        ]
        if users:
            raise JoiningError(
                f"{name} is the site of {', '.join(sorted(users)[:10])}: join them elsewhere first."
            )
        if any(identifier in _ends(link) for link in self._links()):
            raise JoiningError(f"{name} has links to other sites: delete them first.")
        places = self.directory.objects.names
        servers = DirectoryObject(
            ObjectClass.SITE, {"full_path": child("Servers", places.site(name)), "name": name}
        )
        self.directory.delete(servers, None)  # if it is not empty, the deletion of the site fails and says so
        site = DirectoryObject(ObjectClass.SITE, {"name": name})
        if self.directory.delete(site, None) is not DirectoryResult.SUCCESS:
            raise self.joining.refusal(f"the site {name} could not be deleted")

    def create_link(self, first: str, second: str, cost: int, gates: Sequence[str] = ()) -> bytes:
        """Create a link between two sites; with gates, messages between the sites pass through those routing servers.

        Raises:
            JoiningError: it cannot be created.
        """
        self.joining.reach()
        ends = self._pair(first, second)
        if self._find_link(ends) is not None:
            raise JoiningError(f"There is a link between {first} and {second} already: change it with `set`.")
        values = {
            "site1_identifier": ends[0],
            "site2_identifier": ends[1],
            "actual_cost": cost,
            "description": f"{first} - {second}",
            "site_gate_identifier_list": self._gates(gates),
        }
        result, identifier = self.directory.create(
            DirectoryObject(ObjectClass.ROUTING_LINK, values), None, None
        )
        if result is not DirectoryResult.SUCCESS or identifier is None:
            raise self.joining.refusal(f"the link between {first} and {second} could not be made")
        return identifier

    def set_link(
        self, first: str, second: str, cost: int | None = None, gates: Sequence[str] | None = None
    ) -> None:
        """Change the cost of a link, its gates, or both.

        Raises:
            JoiningError: there is no such link, or it cannot be changed.
        """
        link = self._link(first, second)
        values: dict[str, Any] = {"identifier": link.identifier}
        if cost is not None:
            values["actual_cost"] = cost
        if gates is not None:
            values["site_gate_identifier_list"] = self._gates(gates)
        self._write(ObjectClass.ROUTING_LINK, values, f"the link between {first} and {second}")

    def delete_link(self, first: str, second: str) -> None:
        """Delete a link.

        Raises:
            JoiningError: there is none, or it cannot be deleted.
        """
        if self.directory.delete(self._link(first, second), None) is not DirectoryResult.SUCCESS:
            raise self.joining.refusal(f"the link between {first} and {second} could not be deleted")

    def _write(self, kind: ObjectClass, values: dict[str, Any], what: str) -> None:
        listed = tuple(name for name in values if name != "identifier")
        if self.directory.write(DirectoryObject(kind, values), listed, None) is not DirectoryResult.SUCCESS:
            raise self.joining.refusal(f"{what} could not be changed")

    def _links(self) -> list[DirectoryObject]:
        return list(self.joining.find(ObjectClass.ROUTING_LINK, (), None))

    def _link(self, first: str, second: str) -> DirectoryObject:
        self.joining.reach()
        link = self._find_link(self._pair(first, second))
        if link is None:
            raise JoiningError(f"There is no link between {first} and {second}.")
        return link

    def _pair(self, first: str, second: str) -> tuple[bytes, bytes]:
        if first.lower() == second.lower():
            raise JoiningError("A link is between two sites.")
        return self.joining.site_identifier(first), self.joining.site_identifier(second)

    def _find_link(self, ends: tuple[bytes, bytes]) -> DirectoryObject | None:
        return next((link for link in self._links() if _ends(link) == set(ends)), None)

    def _gates(self, hosts: Sequence[str]) -> tuple[bytes, ...]:
        return tuple(map(self._gate, filter(None, hosts)))

    def _gate(self, host: str) -> bytes:
        _, item = self.directory.read(
            ObjectClass.QUEUE_MANAGER, named("computer_name", host), ("identifier", "routing_server")
        )
        if item is None or not item.attributes["routing_server"]:
            raise JoiningError(
                f"{host} is no routing server; `msmq directory join --routing-server` makes it one."
            )
        return item.identifier


def _ends(link: DirectoryObject) -> set[bytes]:
    return {link.attributes["site1_identifier"], link.attributes["site2_identifier"]}
