"""``msmq directory check`` and ``repair`` as an operator runs them, with the queue manager running and stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from msmq.directory.join import Joining
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE
from scripts.samba_dc import DomainController
from tests.cli.test_directory import configuration, run
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.server.members import members
from tests.server.support import ALICE, eventually


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


async def test_every_difference_is_listed_and_mended_as_chosen(domain: Domain, tmp_path: Path) -> None:
    name = domain.computer()
    door = f"unix:{tmp_path}/door"
    file = configuration(tmp_path, domain.controller, name, principal="Administrator@MSMQ.TEST")
    text = file.read_text(encoding="utf-8")
    top = f'data = "{tmp_path / name}"\n[api]\nlisten = ["{door}"]\n'
    file.write_text(text.replace("[directory]", f"{top}[directory]"), encoding="utf-8")

    def cli(command: str, *arguments: str) -> tuple[int, list[str]]:
        status, told = run(command, file, *arguments)
        return status, told.splitlines()

    async def call(command: str, *arguments: str) -> tuple[int, list[str]]:
        return await asyncio.to_thread(cli, command, *arguments)

    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, name, door=door, watch_s=3600)
        names = domain.directory.objects.names
        for queue in ("a", "b", "c", "d"):
            await alice.publish(queue)
        assert await call("check") == (0, ["no differences"])
        domain.remove(names.queue(f"{name}\\a"))
        domain.remove(names.queue(f"{name}\\b"))
        domain.change(names.queue(f"{name}\\c"), mSMQLabelEx="theirs")
        everybody = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20024, EVERYONE))
        machine = domain.directory.computer_sid(name)
        assert machine is not None
        keep = Ace(AceType.ACCESS_ALLOWED, 0xF0030, machine)
        security = SecurityDescriptor(dacl=Acl.of(*everybody.aces, keep)).encode()
        for queue in ("e", "f"):
            domain.queue(name, queue, security=security)
        status, told = await call("check", "--json")
        assert status == 1
        found = {
            line["what"].partition("\\")[2]: line["detail"].partition(":")[0]
            for line in map(json.loads, told)
            if not line["good"]
        }
        differing = {
            "a": "only here", "b": "only here", "c": "other values", "e": "only in the directory",
            "f": "only in the directory",
        }  # fmt: skip
        assert found == differing
        status, told = await call("status")
        assert (status, sum(line.startswith("WRONG queue") for line in told)) == (1, 5)

        # The same while it is stopped.
        await alice.stop()
        status, told = await call("check")
        assert (status, sum(line.startswith("WRONG queue") for line in told)) == (1, 5)
        status, told = await call("repair", "--choose", "publish")
        assert status == 1
        assert "msmq serve" in " ".join(told)
        await alice.start()

        status, told = await call("repair", f"{name}\\a", "--choose", "publish")
        assert (status, told) == (0, [f"publish {name}\\a: done"])
        status, told = await call("repair", ".\\b", "--choose", "delete-here")
        assert (status, told) == (0, [f"delete-here {name}\\b: done"])
        status, told = await call("repair", "--choose", "nonsense")
        assert (status, "none of publish" in told[0]) == (1, True)
        # The start takes over what the directory has, the console's queues among it.
        await eventually(lambda: alice.core.by_path[f"{name}\\c".lower()].label == "theirs")
        status, told = await call("repair", "--choose", "take-theirs", "--choose", "adopt")
        assert status == 0, told
        assert await call("check") == (0, ["no differences"])
        assert {f"{name}\\e".lower(), f"{name}\\f".lower()} <= alice.core.by_path.keys()

        # An object that the directory lost and others made again is another one.
        domain.remove(names.queue(f"{name}\\d"))
        other = domain.queue(name, "d", security=security)
        status, told = await call("check")
        assert (status, "another identifier" in told[0]) == (1, True)
        status, told = await call("repair", "--choose", "publish")
        assert (status, told) == (1, [f"left {name}\\d, another identifier: choose adopt"])
        status, told = await call("repair", "--choose", "adopt")
        assert (status, alice.core.by_path[f"{name}\\d".lower()].identifier) == (0, other.identifier)

        # The object of the whole host lost and made again.
        await alice.stop()
        joining = Joining(domain.directory, name)
        joining.leave(with_queues=True)
        status, told = await call("check")
        assert (status, "WRONG queue manager: not in the directory" in told) == (1, True)
        joining.join(DEFAULT_SITE)
        status, told = await call("check")
        assert (status, any(line.startswith("WRONG identity") for line in told)) == (1, True)
        await alice.start()
        status, told = await call("repair", "--choose", "publish")
        assert (status, len(told)) == (0, 5)
        assert await call("check") == (0, ["no differences"])
