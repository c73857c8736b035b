"""The daemon: one process, one loop, one queue manager.

It starts from the inside out (store, queue manager, then the doors) and stops from the outside in: no more
connections, everything durable, stored messages acknowledged, then the queue manager and the store. If the disk fails
it stops at once and answers nobody.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from msmq.admission.gate import Gate
from msmq.admission.guesses import Guesses, LockOut
from msmq.api.desk import Resources
from msmq.api.desk import Session as PeerSession
from msmq.api.door import Door
from msmq.api.generated import msmq_pb2 as pb
from msmq.directory.local import LocalDirectory
from msmq.errors import MsmqError
from msmq.errors.tasks import carried_through, raise_again
from msmq.manager.core import Environment
from msmq.manager.directory import Directory, Expression, ObjectClass, Relation
from msmq.manager.initialization import Identity, Settings
from msmq.manager.ledger.retention import Cleaning
from msmq.manager.messages.coordinator import Coordinator, ResourceManager, decisions_of
from msmq.manager.queue_manager import QueueManager
from msmq.remote_read.door import RemoteReadDoor
from msmq.server import descriptors
from msmq.server.alarm import Alarm, now_ms
from msmq.server.allocator import keep_freed_memory
from msmq.server.complaints import Complaints
from msmq.server.config import Config, ConfigError
from msmq.server.group_commit import GroupCommit
from msmq.server.inbound.arrivals import Arrivals
from msmq.server.inbound.connection import Backlog, Connection, TransferEvent
from msmq.server.inbound.listener import Listener
from msmq.server.inbound.reports import Tracing
from msmq.server.long_work import LongWork
from msmq.server.membership import Membership
from msmq.server.outbound.incidental import Incidental
from msmq.server.outbound.link import Surroundings
from msmq.server.outbound.next_hop import Addressing, Resolve, check_way, resolve, resolve_with
from msmq.server.outbound.outgoing import Outgoing
from msmq.server.ping_responder import PingDoor
from msmq.server.remote_read_door import authentication, build_door, open_door
from msmq.server.troubles import Troubles
from msmq.server.work import Work
from msmq.store import Disk, FarDisk, RealDisk, Store, StoreError, StoreOptions
from msmq.transfer.events import Closed, Established, MessagesAcknowledged, MessagesReceived, WindowOpened
from msmq.transfer.ping import PingResponder
from msmq.transfer.session import SessionConfig
from msmq.transfer.states import Role

_HOUSEKEEPING_MS = 250
_ROOMS: Final = ("msmq.manager.", "msmq.store.", "msmq.server.", "msmq.admission.", "msmq.ha.writer")
"""Rooms whose uncaught errors stop the daemon, since they may have left half a change behind."""
_EDGES: Final = ("msmq.server.inbound.connection", "msmq.server.ping_responder")
"""What is met no further inside than here costs a connection or an answer, with which all that had changed is gone. A
stranger's bytes are read here, and must not be able to stop anything else."""
_FATAL: Final = frozenset({raise_again.__code__, carried_through.__code__})
"""What comes by here stops the daemon as well."""
_CLEAN_BYTES = 1 << 15
_CLEAN_PAUSE_MS = 5
"""How many bytes of the store are cleaned at once, and the pause until it goes on: everything else waits meanwhile."""
_T = TypeVar("_T")
_STORE_ID_BYTES = 16
_SWITCH_S: Final = 0.000_5
_log = logging.getLogger(__name__)
_audit = logging.getLogger("msmq.audit")
"""Logs who was refused."""


def tune_process() -> None:
    """Tune a process that only runs a daemon.

    The garbage collector runs less often: queued messages are many objects without cycles, and scanning them took a
    quarter of the time. The thread that writes to the disk gets the interpreter sooner: it needs it between writing
    and syncing and once afterwards, and beside a busy loop each would take the usual 5 ms. The limit of file
    descriptors, of which each connection needs one, is raised. Memory of large bodies is kept for reuse.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_SWITCH_S)
    descriptors.raise_limit()
    keep_freed_memory()


class Daemon:
    """A running queue manager with its doors to the network."""

    def __init__(
        self,
        config: Config,
        *,
        resolve: Resolve = resolve,
        domain: Directory | None = None,
        workgroup: LocalDirectory | None = None,
        environment: Environment | None = None,
        disk: Disk | None = None,
        store_options: StoreOptions | None = None,
        far_disk: FarDisk | None = None,
    ) -> None:
        """``domain`` is the directory of this host's domain, in which it is published when it first starts.
        ``workgroup`` is a workgroup's directory for hosts without the file.

        Without ``environment`` and ``disk`` it uses the real clock, random numbers and the directory of the
        configuration. ``far_disk`` replaces ``disk`` if syncs wait for other computers."""
        self.config = config
        self._far_disk = far_disk
        self.gate = Gate(config.crowding, asyncio.get_running_loop, _log.warning)
        lock_out = LockOut(config.lock_out_after, 60.0 * config.lock_out_minutes)
        self.guesses = Guesses(time.monotonic, _audit.warning, lock_out)
        self._domain = domain
        self.membership: Membership | None = None
        self._environment = environment or Environment(time.time, os.urandom)
        self._disk = disk or far_disk
        self._store_options = store_options
        self._resolve = resolve
        self._directory = workgroup
        self._handler_before: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self.failure: Exception | None = None
        """The reason why the daemon cannot go on, a failure of the disk or an internal error; None while it can."""
        self.stopping = asyncio.Event()
        """Set when the daemon cannot go on."""
        self._is_open = self._is_complete = False
        """Whether the store is open, and whether everything is there that may run by itself."""
        self._ping_doors: list[asyncio.DatagramTransport] = []
        self.door: Door | None = None
        """The channel of applications, if there is one."""
        self._in_session: dict[Connection, None] = {}
        self.work = Work()
        """What it did since it started."""
        self.recovered: Mapping[str, Any] = {}
        """The values of the ledger that belong to users and the channel."""
        self.remote_read: RemoteReadDoor | None = None
        """Remote read, if it is served."""

    async def start(self) -> None:
        """Open the store, start the queue manager, open the doors. A start that fails leaves nothing running."""
        try:
            await self._start()
        except BaseException as error:
            if _is_internal(error) and self._is_complete:
                self.abandon(_stopped_by(error))
            elif _is_internal(error) and self._is_open:
                self.store.abandon(_stopped_by(error))
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        if config.directory.wanted == "file":
            self._directory = LocalDirectory.load(Path(config.directory.file))
        if self._directory is not None:
            self._resolve = resolve_with(self._directory.addresses, self._resolve)
        elif config.directory.wanted == "ldap" and self._domain is None:
            self.membership = Membership(config.directory)
            self._domain = self.membership.directory
            await asyncio.to_thread(self.membership.connect)
        disk = self._disk
        if disk is None:
            config.data.mkdir(parents=True, exist_ok=True)
            disk = RealDisk(config.data / "store")
        self.store = Store.open(
            disk, self._store_options, new_id=self._environment.random_bytes(_STORE_ID_BYTES)
        )
        self._is_open = True
        await self._start_manager()
        self._is_complete = True
        await self._open_doors()
        if self.config.api.plate.listen:
            self.door = Door(self.config.api.plate, self, self.gate, self.guesses)
            await self.door.open()
        await self._open_remote_read()
        self._house_kept_ms = now_ms() + _HOUSEKEEPING_MS
        self._housekeeping.set(self._house_kept_ms)
        self.outgoing.start()

    async def _start_manager(self) -> None:
        config, membership = self.config, self.membership
        settings = Settings(
            express_limit_bytes=config.express_limit_bytes,
            local_addresses=config.own_addresses,
            send_insecure_nacks=config.send_insecure_nacks,
            directory_integrated=self._domain is not None,
            local_directory=self._domain is None and self._directory is not None,
            make_keys=True,
            crypto=config.crypto_policy,
            computer_sid=(lambda computer: None) if membership is None else membership.directory.computer_sid,
        )
        identity = Identity(config.name, config.dns_domain)
        directory = self._domain or self._directory
        self.manager = QueueManager(self.store, self._environment, lambda: identity, settings, directory)
        self.manager.credentials.tell = Complaints(_log).hear
        self.manager.queues.outgoing.check_way = check_way
        self.manager.queues.outgoing.most_incidental = config.max_incidental_queues
        # A host that listens only on one loopback address shares this computer with other queue managers.
        self.manager.naming.loopback_is_local = not config.own_addresses
        if membership is None:
            found = self.manager.start(provisioning=None)
        else:
            found = await asyncio.to_thread(membership.start, self.manager)
            membership.go_live()
        # Learn the outcome of transactions that were prepared before the last stop.
        self.coordinator = Coordinator(self.manager.core.ledger, decisions_of(found.values))
        self.resource_manager = ResourceManager(self.manager.transactions)
        self.resource_manager.reenlist(self.coordinator.outcome_of)
        self.recovered = {
            key: value
            for key, value in found.values.items()
            if key.startswith(("user/", "row/", "token/", "alarms", "lineage"))
        }
        self.store.commit()  # our identity, before anybody is told
        self.work.follow(lambda: self.store.durable)
        self._troubles = Troubles(self.manager.core, self.store, found.values)
        self.commit = GroupCommit(
            self.store, self._store_failed, self._disk_full, self.work.committed, far=self._far_disk
        )
        self.manager.core.events.failed = self._internal_error
        loop = asyncio.get_running_loop()
        self._handler_before = loop.get_exception_handler()
        loop.set_exception_handler(self._unhandled)
        own_guid = self.manager.core.record.identifier
        session_config = SessionConfig(
            own_guid,
            server_class=self.manager.core.record.operating_system_type.server_class,
            window_size=config.window_size,
            tolerate_wrong_message_count=config.tolerate_wrong_message_count,
            timers=config.timers,
        )
        backlog = Backlog(config.max_unstored_total_bytes)
        self.listener = Listener(config, session_config, self._events, backlog, self.gate)
        tracing = Tracing(self.manager) if config.enable_report_messages else None
        self.addressing = Addressing(
            self.manager.core, self.manager.directory, self._resolve, config.routing_refresh_s
        )
        self._surroundings = Surroundings(
            config,
            session_config,
            self._events,
            lambda: self.listener.connections,
            self.addressing,
            backlog,
            tracing,
        )
        self.outgoing = Outgoing(self.manager, self.commit, config.timers, self._surroundings, found.values)
        self.arrivals = Arrivals(
            self.manager,
            self.commit,
            self.outgoing,
            config.timers,
            found.values,
            self.addressing,
            tracing,
        )
        self.incidental = Incidental(self.manager.queues, self.outgoing, config.incidental_queue_idle_s)
        for subscriber in (self.outgoing, self.arrivals, self.arrivals.forwarding, self.listener):
            self.manager.subscribe(subscriber)
        if membership is not None:
            membership.take = self.arrivals.receive
            membership.commit = self.commit.request
            self.manager.acknowledging.later = membership.later
            membership.settle = self.arrivals.unclaimed.settle
            membership.unclaimed = lambda: self.arrivals.unclaimed.identifiers
            self.arrivals.unclaimed.undecided = membership.undecided
            membership.wake = self.outgoing.wake_everything
            membership.forget_ways = self.addressing.forget
            self.outgoing.may_seal = membership.may_seal
            self.addressing.ask = membership.directory.ask
        self._cleaning = Cleaning(self.manager.core, self.manager.mailbox, self.manager.transactions)
        self._housekeeping = Alarm(self._keep_house)
        self._to_clean = Alarm(self._clean)
        self._long_work = LongWork(self.manager.core.chores, self.commit, self._internal_error)

    async def _open_doors(self) -> None:
        config = self.config
        if self.manager.core.hardened_security:
            _log.warning("hardened: the binary protocol is off, nobody can connect and nothing is sent by it")
            return
        if config.port:
            await self.listener.start()
        if config.ping_port and config.enable_ping_service:
            own_guid = self.manager.core.record.identifier
            responder = PingResponder(own_guid, enabled=True, max_in_sessions=config.max_in_sessions)
            for address in config.listen:
                transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                    lambda: PingDoor(responder, lambda: self.listener.open_sessions),
                    local_addr=(address, config.ping_port),
                )
                self._ping_doors.append(transport)

    async def _open_remote_read(self) -> None:
        config = self.config
        if not config.rpc.port:
            return
        rpc = config.rpc.with_accounts_in(config.data)
        callers = await asyncio.to_thread(authentication, rpc, config.directory, config.dns_domain)
        callers = replace(callers, guesses=self.guesses)
        door = build_door(rpc, config.listen, self, self.coordinator, callers, self.gate)
        if await open_door(door):
            self.remote_read = door

    # Calls of the channel of applications and of remote read

    async def ask(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return call() if self.membership is None else await self.membership.ask(call, anew=anew)

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return call() if self.membership is None else await self.membership.change(call, anew=anew)

    def when_durable(self, action: Callable[[], None]) -> None:
        self.commit.when_durable(action)

    def sessions(self) -> list[PeerSession]:
        return [
            PeerSession(connection.peer, connection.session.role is Role.ACCEPTOR)
            for connection in self._in_session
            if connection.is_open
        ]

    def resources(self) -> Resources:
        limit = descriptors.limit()
        return Resources(
            descriptors.in_use(),
            0 if limit == sys.maxsize else limit,
            self.gate.inside,
            threading.active_count(),
            len(asyncio.all_tasks()),
        )

    def work_done(self) -> pb.Work:
        attempts = {status.value: number for status, number in self.outgoing.attempts.items()}
        return self.work.to_proto(self.store.disk_bytes, self.store.live_bytes, attempts, self.config.data)

    @property
    def account_file(self) -> Path | None:
        accounts = self.config.rpc.with_accounts_in(self.config.data).accounts
        return Path(accounts) if accounts else None

    def troubles(self) -> list[str]:
        self._troubles.look()
        return self._troubles.told

    def _shut_doors(self) -> None:
        if self._is_complete:
            self.listener.stop_accepting()
        if self.door is not None:
            self.door.stop_accepting()
        for door in self._ping_doors:
            door.close()
        self._ping_doors.clear()

    async def stop(self) -> None:
        """Stop in an orderly way; nothing that was confirmed is lost."""
        try:
            await self._wind_down()
        finally:
            loop = asyncio.get_running_loop()
            if loop.get_exception_handler() == self._unhandled:
                loop.set_exception_handler(self._handler_before)

    async def _wind_down(self) -> None:
        self._shut_doors()
        if self._is_complete:
            self._housekeeping.stop()
            self._to_clean.stop()
            self._long_work.stop()
        if self.remote_read is not None:
            await self.remote_read.close()
        if self.door is not None:
            await self.door.close()
        if self.membership is not None:
            await self.membership.stop()
        if self._is_complete:
            await self._stop_manager()
        self.gate.close()
        if self._is_open:
            self.store.close()

    async def _stop_manager(self) -> None:
        if self.failure is None:
            await self.commit.finish()
        self.outgoing.stop()
        for connection in list(self.listener.connections):
            connection.close()
        self.arrivals.stop()
        await asyncio.sleep(0)  # let the transports close
        if self.failure is None:
            await self.commit.drain()
            self.manager.stop()
        await self.commit.stop()

    def reload(self, wanted: Config) -> list[str]:
        """Take over the options that can change while running. Returns those that need a restart.

        Raises:
            MsmqError: the directory of the workgroup or a certificate cannot be used; nothing has changed.
        """
        fresh = self._read_workgroup()
        config, left = self.config.reloaded(wanted)
        if self.door is not None:
            self.door.follow(config.api.plate)
        self.config = config
        self.listener.config = self._surroundings.config = self.config
        self.gate.crowding = self.config.crowding
        self.manager.acknowledging.send_insecure_nacks = self.config.send_insecure_nacks
        if self.membership is not None:
            self.membership.look_again()
        if fresh is not None and self._directory is not None:
            self._directory.take_over(fresh)
            self.manager.read_directory_again()
            self.addressing.forget()
            self.outgoing.wake_everything()
        return left

    def _read_workgroup(self) -> LocalDirectory | None:
        """Read the directory file of the workgroup again, if there is one."""
        if self.config.directory.wanted != "file":
            return None
        fresh = LocalDirectory.load(Path(self.config.directory.file))
        record = self.manager.core.record
        named = (Expression("computer_name", Relation.EQUALS, record.computer_name),)
        own = fresh.read(ObjectClass.QUEUE_MANAGER, named, ("identifier",))[1]
        if own is not None and own.identifier != record.identifier:
            raise ConfigError(f"{self.config.directory.file} gives {record.computer_name} another GUID.")
        return fresh

    def _internal_error(self, error: BaseException) -> None:
        """Stop after an internal error, which may have left half an event behind: nothing more is written, and nobody
        is answered. What was acknowledged is in the log."""
        _log.critical(
            "an internal error; the queue manager stops and has to be started again", exc_info=error
        )
        self.abandon(_stopped_by(error))

    def abandon(self, failure: StoreError) -> None:
        """Write nothing more and answer nobody from now on."""
        self.store.abandon(failure)
        self.commit.give_up(failure)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Treat an uncaught error of our rooms as an internal error too, whether a callback, a transport or the channel
        of applications met it: much is done outside of events. Tasks report their errors by callbacks
        (:mod:`msmq.errors.tasks`). When the loop tells of a task that nobody looked at, it may be long over."""
        error = context.get("exception")
        if error is not None and "future" not in context and _is_internal(error):
            frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
            if self.failure is None and any(map(_is_inside, frames)):
                self._internal_error(error)
        if self._handler_before is not None:
            self._handler_before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _disk_full(self, full: bool) -> None:
        """Stop taking messages while the disk is full: they could only wait in memory."""
        if full:
            self.manager.begin_flow_control()
        else:
            self.manager.end_flow_control()

    def _store_failed(self, error: Exception) -> None:
        """Stop after a failure of the disk or an internal error: only a restart tells what is on the disk."""
        _log.critical("%s", error, exc_info=None if isinstance(error, MsmqError) else error)
        self.failure = error
        self.stopping.set()

    # Events of all sessions

    def _events(self, connection: Connection, events: list[TransferEvent]) -> None:
        if not events:
            self._room_again(connection)
        for event in events:
            if isinstance(event, MessagesReceived):
                if self.membership is None or not self.membership.holds_up(connection, event):
                    self.arrivals.receive(connection, event)
            elif isinstance(event, MessagesAcknowledged):
                self.outgoing.acknowledged(connection, event.tokens)
                self._room_again(connection)
            elif isinstance(event, WindowOpened):
                self._room_again(connection)
            elif isinstance(event, Established):
                connection.was_open = True
                self._in_session[connection] = None
                _log.info("session with %s open", connection.peer)
                self.outgoing.established(connection)
            elif isinstance(event, Closed):
                # Otherwise strangers who never get a session could fill the log.
                level = logging.INFO if connection.was_open else logging.DEBUG
                _log.log(
                    level, "session with %s closed: %s %s", connection.peer, event.reason.value, event.detail
                )
                self._in_session.pop(connection, None)
                self.arrivals.answers.closed(connection)
                self.outgoing.closed(connection, event.returned)

    def _room_again(self, connection: Connection) -> None:
        self.outgoing.room_again(connection)
        self.arrivals.answers.room_again(connection)

    # Time

    def _keep_house(self) -> None:
        """Periodic work: timers of the queue manager, commits nobody waits for, statistics, cleaning. The next time is
        set first, whatever happens in between."""
        self.work.late((now_ms() - self._house_kept_ms) / 1000)
        self._house_kept_ms = now_ms() + _HOUSEKEEPING_MS
        self._housekeeping.set(self._house_kept_ms)
        self.manager.run_timers()
        self._troubles.look()
        self.outgoing.follow_clock()
        self.outgoing.try_again()
        self.outgoing.refresh()
        self.arrivals.keep_house(self.manager.core.now_s)
        self.incidental.keep_house(self.manager.core.now_s)
        self.commit.request()
        self._clean()

    def _clean(self) -> None:
        """Free some space of the store, and continue soon if there is more. Messages take precedence."""
        if self.failure is not None:
            return
        more = self.commit.busy or self.store.clean_step(self._cleaning, _CLEAN_BYTES)
        self._to_clean.set(now_ms() + _CLEAN_PAUSE_MS if more else None)
        self.commit.request()


def _is_internal(error: BaseException) -> bool:
    """True for an error that only the program itself can cause."""
    return isinstance(error, Exception) and not isinstance(error, MsmqError | OSError)


def _is_inside(frame: FrameType) -> bool:
    """True if an error that came by here stops the daemon."""
    room = frame.f_globals.get("__name__", "")
    return frame.f_code in _FATAL or (room.startswith(_ROOMS) and room not in _EDGES)


def _stopped_by(error: BaseException) -> StoreError:
    failure = StoreError(f"The queue manager stopped after an internal error ({error!r}); start it again.")
    failure.__cause__ = error
    return failure
