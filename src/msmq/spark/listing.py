"""The servers that a source reads: those that its options name, or those that the directory lists.

``serversDirectory`` is the configuration of a queue manager, whose table ``[directory]`` says where the directory is: a
domain or the file of a workgroup. Public queues are listed there, so a named public queue leads to the servers that
have it. Private queues are not listed, and a pattern may match some: then all queue managers are asked, and those
without such a queue have no rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmq.errors import MsmqError
from msmq.spark.options import Access, OptionError, SourceOptions, public_name

if TYPE_CHECKING:
    from msmq.directory.active_directory import ActiveDirectory
    from msmq.manager.directory import Directory, DirectoryObject, Filter, ObjectClass

_ASK_EVERY_S: Final = 60.0
"""The source asks for the servers before each batch; the directory need not be asked that often."""


def listing_of(options: SourceOptions) -> Callable[[], dict[str, Access]]:
    """Return a function that lists the servers; it may be called again and again."""
    return options.accesses if options.directory is None else DirectoryListing(options)


class DirectoryListing:
    """The servers that a directory lists, by their addresses."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._known: list[str] = []
        self._asked_at = float("-inf")

    def __call__(self) -> dict[str, Access]:
        """
        Raises:
            OptionError: the directory cannot be asked, or lists nobody.
        """
        if self._clock() - self._asked_at > _ASK_EVERY_S:
            self._known = self._ask()
            self._asked_at = self._clock()
        return {name: self._options.access_to(name) for name in self._known}

    def _ask(self) -> list[str]:
        options = self._options
        assert options.directory is not None
        try:
            with _reached(Path(options.directory)) as directory:
                found = managers(directory, _public(options), options.site)
        except (MsmqError, OSError) as error:
            raise OptionError(f"serversDirectory: {error}") from error
        if not found:
            where = f" of the site {options.site}" if options.site else ""
            raise OptionError(
                f"serversDirectory: the directory lists no queue manager{where} with such a queue."
            )
        return [options.address.format(computer=computer, host=host) for computer, host in found]


def _public(options: SourceOptions) -> set[str] | None:
    """Return the names of the wanted public queues; None if other queues are wanted too."""
    names = {public_name(queue) for queue in options.queues}
    return None if options.pattern is not None or None in names else {name for name in names if name}


@contextmanager
def _reached(configuration: Path) -> Iterator[Directory]:
    from msmq.directory.troubles import explain
    from msmq.server.config import ConfigError, load

    settings = load(configuration).directory
    held: AbstractContextManager[None] = nullcontext()
    directory: Directory
    domain: ActiveDirectory | None = None
    if settings.wanted == "ldap":
        from msmq.server.membership import reach

        domain = directory = reach(settings)
        held = domain.held()
    elif settings.wanted == "file":
        from msmq.directory.local import LocalDirectory

        directory = LocalDirectory.load(Path(settings.file))
    else:
        raise ConfigError(f"{configuration} names no directory: its table [directory] says where that is.")
    with held:
        if domain is not None and not domain.initialize():
            raise OptionError(f"serversDirectory: {explain(domain)}")
        yield directory


def managers(directory: Directory, queues: Collection[str] | None, site: str | None) -> list[tuple[str, str]]:
    """Return the names of queue managers, as computers and as network hosts: of those with a public queue of one of the
    names, or of all; in one site, or in all.

    Raises:
        OptionError: the directory does not answer, or there is no such site.
    """
    from msmq.manager.directory import Expression, ObjectClass, Relation

    within: bytes | None = None
    if site is not None:
        named = (Expression("name", Relation.EQUALS, site),)
        sites = _all(directory, ObjectClass.SITE, named, ("identifier", "name"))
        if not sites:
            raise OptionError(f"The directory has no site {site}.")
        within = sites[0].identifier
    owners: set[str] | None = None
    if queues is not None:
        paths = _all(directory, ObjectClass.QUEUE, (), ("pathname",))
        split = [str(item.attributes["pathname"]).partition("\\") for item in paths]
        owners = {computer.lower() for computer, _, name in split if name.lower() in queues}
    wanted = ("computer_name", "qualified_computer_name", "site_identifier_list")
    found: list[tuple[str, str]] = []
    for item in _all(directory, ObjectClass.QUEUE_MANAGER, (), wanted):
        computer = str(item.attributes["computer_name"])
        host = str(item.attributes.get("qualified_computer_name") or computer)
        if within is not None and within not in item.attributes.get("site_identifier_list", ()):
            continue
        if owners is None or computer.lower() in owners:
            found.append((computer, host))
    return sorted(found)


def _all(
    directory: Directory, kind: ObjectClass, conditions: Filter, attributes: tuple[str, ...]
) -> list[DirectoryObject]:
    from msmq.directory.query import find_all
    from msmq.manager.directory import DirectoryResult

    result, found = find_all(directory, kind, conditions, attributes)
    if result is not DirectoryResult.SUCCESS:
        raise OptionError(f"The directory does not answer: {result.name.lower().replace('_', ' ')}.")
    return found
