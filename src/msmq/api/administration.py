"""Calls that manage queues, outgoing queues and the queue manager."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.names import path_of
from msmq.api.retry import retry_of
from msmq.errors import AccessDeniedError, InvalidParameterError, QueueNotFoundError
from msmq.manager.differences import Choice
from msmq.manager.mailbox.retries import NO_RETRY
from msmq.manager.model import UNLIMITED, OutgoingState, QueuePrivacyLevel, QueueType
from msmq.manager.queues.management import MSMQ_TYPE
from msmq.manager.queues.management import format_name as format_name_of
from msmq.manager.queues.properties import QUEUE
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import QueueManagerOperation, QueueOperation, Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sddl import format_sddl, parse_sddl
from msmq.security.sid import Sid, well_known_name
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.guid import NULL_GUID, guid_from_text, guid_text
from msmq.wire.names import ConnectorName, DirectName, parse_format_name
from msmq.wire.properties import ObjectType, lookup
from msmq.wire.variant import Value, Variant

_PRODUCT: Final = f"{MSMQ_TYPE}, version {version('msmq')}"
"""Looked up once, since the lookup opens a file and must not fail when file descriptors run out."""
_LISTED_AT_ONCE: Final = 256
"""After so many queues of a list others have a turn: ten thousand take a fifth of a second."""
_PROPIDS: Final = {
    "type": 102,
    "journaling": 104,
    "quota_kb": 105,
    "base_priority": 106,
    "journal_quota_kb": 107,
    "label": 108,
    "authenticated_only": 111,
    "privacy_level": 112,
    "multicast_address": 125,
}
"""The fields of QueueSettings and their PROPID_Q_*."""
_MANAGER_PROPIDS: Final = {"quota_kb": 214, "journal_quota_kb": 215}

_KINDS: Final = {
    QueueType.PRIVATE: pb.PRIVATE,
    QueueType.PUBLIC: pb.PUBLIC,
    QueueType.SYSTEM: pb.SYSTEM,
    QueueType.CONNECTOR: pb.CONNECTOR,
}
_STATES: Final = {
    OutgoingState.CONNECTED: "A session is open, messages are being sent.",
    OutgoingState.DISCONNECTED: "The session was closed; it is opened again when there is something to send.",
    OutgoingState.DISCONNECTING: "The session is being closed.",
    OutgoingState.INACTIVE: "There is nothing to send.",
    OutgoingState.LOCKED: "The queue manager may send by HTTP only (hardened security).",
    OutgoingState.NEED_VALIDATION: "The destination has yet to be found.",
    OutgoingState.WAITING: "The host could not be reached; it is tried again after a while.",
    OutgoingState.ON_HOLD: "An administrator has paused it.",
}


class AdministrationCalls:
    """The calls about queues and the queue manager."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._manager = desk.manager

    # --- queues -------------------------------------------------------------------------------------------------

    async def create_queue(self, request: pb.CreateQueueRequest, caller: Token) -> pb.QueueInfo:
        """Create a queue by its path. ``CONNECTOR=`` and a GUID creates the two queues of a foreign system, which have
        no settings."""
        if request.path.upper().startswith("CONNECTOR="):
            name = parse_format_name(request.path)
            assert isinstance(name, ConnectorName)
            create = partial(self._manager.queues.create_connector, name.guid, caller)
            queue, _ = await self._desk.host.change(create)
            await self._desk.durable()
            return self._info(queue)
        settings = request.settings
        wanted = QueueRequest(
            pathname=request.path,
            label=settings.label,
            type=_guid(settings.type),
            journaling=settings.journaling,
            quota_kb=settings.quota_kb if settings.HasField("quota_kb") else UNLIMITED,
            journal_quota_kb=settings.journal_quota_kb
            if settings.HasField("journal_quota_kb")
            else UNLIMITED,
            authentication=settings.authenticated_only,
            privacy_level=_privacy_level(settings),
            transactional=request.transactional,
            multicast_address=_multicast(settings.multicast_address) or None,
            base_priority=settings.base_priority,
            security=parse_sddl(request.sddl).encode() if request.sddl else None,
        )
        retry = retry_of(settings, NO_RETRY).check()

        path = path_of(request.path)
        if path is not None and self._manager.elsewhere.is_elsewhere(path):
            elsewhere = self._manager.elsewhere
            return self._info(await self._desk.host.change(lambda: elsewhere.create(path, wanted, caller)))

        def make() -> Queue:
            queue = self._manager.queues.create(wanted, caller)
            if retry != NO_RETRY:
                self._manager.administration.set_retry(queue, retry)
            return queue

        queue = await self._desk.host.change(make)
        await self._desk.durable()
        return self._info(queue)

    async def delete_queue(self, request: pb.QueueName, caller: Token) -> pb.Done:
        queue = self._desk.names.local(request.queue)
        chore = await self._desk.host.change(lambda: self._manager.queues.delete(queue, caller))
        await self._desk.finished(chore)
        await self._desk.durable()
        return pb.Done()

    async def list_queues(self, request: pb.ListQueuesRequest, caller: Token) -> pb.ListQueuesReply:
        self._manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        found: list[pb.QueueInfo] = []
        for at, queue in enumerate(list(self._manager.core.by_path.values()), 1):
            if at % _LISTED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if queue.queue_type is QueueType.SYSTEM and not request.system:
                continue
            members = [queue]
            if request.subqueues:
                members += queue.subqueue_collection.values()
            if request.journals and queue.journal is not None:
                members.append(queue.journal)
            if self._may_look(queue, caller):
                found += map(self._info, members)
        found.sort(key=lambda info: (info.kind == pb.SYSTEM, info.path.lower()))
        return pb.ListQueuesReply(queues=found)

    def _may_look(self, queue: Queue, caller: Token) -> bool:
        try:
            self._manager.guard.check_queue(caller, queue, QueueOperation.GET_PROPERTIES)
        except AccessDeniedError:
            return False
        return True

    async def get_queue(self, request: pb.QueueName, caller: Token) -> pb.QueueInfo:
        public = self._desk.names.published(request.queue)
        if public is not None:
            look = self._manager.elsewhere.look
            return self._info(await self._desk.host.ask(lambda: look(public, caller)))
        queue = self._desk.names.local(request.queue)
        self._manager.guard.check_queue(caller, queue, QueueOperation.GET_PROPERTIES)
        return self._info(queue)

    async def locate_queue(self, request: pb.QueueName, caller: Token) -> pb.QueuePlace:
        """Where a queue is. Says nothing about queues of this host that the caller could not learn by opening them."""
        name = self._desk.names.format_name(request.queue)
        naming, parsed = self._manager.naming, parse_format_name(name)
        known = naming.find(parsed)
        is_own = known is not None and not isinstance(known, OutgoingQueue)
        if is_own or (isinstance(parsed, DirectName) and naming.is_local(parsed)):
            return pb.QueuePlace(here=True)
        path = path_of(request.queue)
        found = await self._desk.host.ask(lambda: naming.published(path)) if path is not None else None
        if found is not None:
            return pb.QueuePlace(format_name=found[0], host=found[1])
        if isinstance(parsed, DirectName):
            return pb.QueuePlace(host=parsed.host, format_name=name)
        _, host = await self._desk.host.ask(lambda: naming.queue_path(name))
        return pb.QueuePlace(host=host, format_name=name)

    async def set_queue(self, request: pb.SetQueueRequest, caller: Token) -> pb.QueueInfo:
        public = self._desk.names.published(request.queue)
        if public is not None:
            wanted = _attributes(request.settings)
            change_there = self._manager.elsewhere.change
            return self._info(await self._desk.host.change(lambda: change_there(public, wanted, caller)))
        queue = self._desk.names.local(request.queue)
        propids, values = [], []
        for name, propid in _PROPIDS.items():
            if request.settings.HasField(name):
                propids.append(propid)
                value = getattr(request.settings, name)
                value = _multicast(value) if name == "multicast_address" else value
                values.append(_variant(ObjectType.QUEUE, propid, value))
        administration, retry = self._manager.administration, retry_of(request.settings, queue.retry).check()

        def change() -> None:
            if propids or retry == queue.retry:
                administration.set_properties(queue, propids, values, caller)
            if retry != queue.retry:
                administration.set_retry(queue, retry, caller)

        await self._desk.host.change(change)
        await self._desk.durable()
        return self._info(queue)

    async def check_directory(
        self, request: pb.CheckDirectoryRequest, caller: Token
    ) -> pb.CheckDirectoryReply:
        self._manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        found = await self._desk.host.ask(self._manager.mending.differences, anew=True)
        return pb.CheckDirectoryReply(
            differences=[
                pb.DirectoryDifference(
                    kind=each.kind, queue=each.queue, detail=each.detail, choices=list(each.choices)
                )
                for each in found
            ]
        )

    async def repair_queue(self, request: pb.RepairQueueRequest, caller: Token) -> pb.Done:
        try:
            choice = Choice(request.choice)
        except ValueError:
            raise InvalidParameterError(f"{request.choice} is none of {', '.join(Choice)}.") from None
        mend = self._manager.mending.mend
        chore = await self._desk.host.change(
            lambda: mend(request.queue, choice, caller, discard=request.discard_messages), anew=True
        )
        if chore is not None:
            await self._desk.finished(chore)
        await self._desk.durable()
        return pb.Done()

    def _info(self, queue: Queue) -> pb.QueueInfo:
        root, journal = queue.root, queue.journal
        kind = _KINDS[queue.queue_type]
        if queue is root.journal:
            kind = pb.JOURNAL
        elif queue is not root:
            kind = pb.SUBQUEUE
        return pb.QueueInfo(
            path=queue.pathname,
            format_name=format_name_of(self._manager.core, queue),
            kind=kind,
            transactional=queue.transactional,
            settings=pb.QueueSettings(
                label=queue.label,
                type=guid_text(queue.type),
                journaling=queue.journaling,
                quota_kb=queue.quota_kb,
                journal_quota_kb=queue.journal_quota_kb,
                authenticated_only=queue.authentication,
                privacy_level=int(queue.privacy_level),
                base_priority=queue.base_priority,
                multicast_address=queue.multicast_address or "",
                retry_delay_ms=queue.retry.delay_ms,
                max_deliveries=queue.retry.max_deliveries,
                poison_subqueue=queue.retry.poison_subqueue,
            ),
            identifier=guid_text(queue.identifier),
            created_time=queue.create_time,
            modified_time=queue.modify_time,
            messages=len(queue.positions),
            bytes=queue.total_bytes,
            journal_messages=len(journal.positions) if journal else 0,
            journal_bytes=journal.total_bytes if journal else 0,
            subqueues=[member.pathname.rpartition(";")[2] for member in queue.subqueue_collection.values()],
            open_handles=len(queue.open_descriptors),
            paused_messages=len(queue.paused),
            poisoned_total=queue.poisoned_total,
        )

    # --- security -----------------------------------------------------------------------------------------------

    async def get_security(self, request: pb.QueueName, caller: Token) -> pb.Security:
        return self._security(request.queue, caller)

    async def set_security(self, request: pb.SetSecurityRequest, caller: Token) -> pb.Security:
        parts, descriptor = _wanted_security(request)
        encoded = descriptor.encode()
        administration = self._manager.administration
        if request.queue:
            queue = self._desk.names.local(request.queue)
            change = partial(administration.set_security, queue, parts, encoded, caller)
        else:
            change = partial(administration.set_manager_security, parts, encoded, caller)
        await self._desk.host.change(change)
        await self._desk.durable()
        return self._security(request.queue, None)  # who may change it need not be allowed to read it

    def _security(self, queue: str, caller: Token | None) -> pb.Security:
        administration = self._manager.administration
        if queue:
            encoded = administration.get_security(self._desk.names.local(queue), caller=caller)
        else:
            encoded = administration.get_manager_security(caller=caller)
        descriptor = SecurityDescriptor.decode(encoded)
        entries = [
            pb.AccessEntry(
                allow=ace.type is AceType.ACCESS_ALLOWED,
                sid=str(ace.sid),
                name=well_known_name(ace.sid) or "",
                rights=ace.mask,
            )
            for ace in (descriptor.dacl.aces if descriptor.dacl else ())
        ]
        owner = str(descriptor.owner) if descriptor.owner else ""
        return pb.Security(owner=owner, entries=entries, sddl=format_sddl(descriptor))

    # --- outgoing queues ----------------------------------------------------------------------------------------

    async def list_outgoing(self, request: pb.ListOutgoingRequest, caller: Token) -> pb.ListOutgoingReply:
        self._manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        queues = sorted(self._manager.core.outgoing.items())
        return pb.ListOutgoingReply(queues=[outgoing_info(queue) for _, queue in queues])

    async def pause_outgoing(self, request: pb.QueueName, caller: Token) -> pb.OutgoingInfo:
        queue = self._outgoing(request.queue, caller)
        self._manager.pause_queue(queue)
        await self._desk.durable()
        return outgoing_info(queue)

    async def resume_outgoing(self, request: pb.QueueName, caller: Token) -> pb.OutgoingInfo:
        queue = self._outgoing(request.queue, caller)
        if queue.state is OutgoingState.ON_HOLD:
            self._manager.resume_queue(queue)
        await self._desk.durable()
        return outgoing_info(queue)

    async def purge_outgoing(self, request: pb.QueueName, caller: Token) -> pb.PurgeReply:
        queue = self._desk.names.outgoing(request.queue)
        count = len(queue.positions)
        chore = self._manager.queues.purge(queue, caller)
        await self._desk.finished(chore)
        await self._desk.durable()
        return pb.PurgeReply(messages=count)

    def _outgoing(self, name: str, caller: Token) -> OutgoingQueue:
        queue = self._desk.names.outgoing(name)
        self._manager.guard.check_queue(caller, queue, QueueOperation.SET_PROPERTIES)
        return queue

    # --- the queue manager --------------------------------------------------------------------------------------

    async def get_manager(self, request: pb.GetManagerRequest, caller: Token) -> pb.ManagerInfo:
        self._manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        return self._manager_info(caller)

    async def set_manager(self, request: pb.SetManagerRequest, caller: Token) -> pb.ManagerInfo:
        propids, values = [], []
        for name, propid in _MANAGER_PROPIDS.items():
            if request.HasField(name):
                propids.append(propid)
                values.append(_variant(ObjectType.MACHINE, propid, getattr(request, name)))
        administration = self._manager.administration
        await self._desk.host.change(lambda: administration.set_manager_properties(propids, values, caller))
        await self._desk.durable()
        return self._manager_info(caller)

    async def set_online(self, request: pb.SetOnlineRequest, caller: Token) -> pb.ManagerInfo:
        self._manager.guard.check_manager(caller, QueueManagerOperation.SET_PROPERTIES)
        if request.online:
            self._manager.bring_online()
        else:
            self._manager.take_offline()
        await self._desk.durable()
        return self._manager_info(caller)

    def _manager_info(self, caller: Token) -> pb.ManagerInfo:
        core = self._manager.core
        record = core.record
        return pb.ManagerInfo(
            computer_name=record.computer_name,
            identifier=guid_text(record.identifier),
            product=_PRODUCT,
            online=core.connection_active,
            directory_integrated=core.directory_integrated,
            quota_kb=record.queue_manager_quota_kb,
            journal_quota_kb=record.journal_quota_kb,
            bytes=core.total_bytes,
            messages=sum(len(queue.positions) for queue in core.queues.values()),
            dead_letter_queue=self._system_name(core.dead_letter_queue),
            transactional_dead_letter_queue=self._system_name(core.transactional_dead_letter_queue),
            journal_queue=self._system_name(core.journal_queue),
            caller=str(caller.user),
            caller_groups=sorted(map(str, caller.groups)),
            losses=self._desk.host.troubles(),
            resources=pb.Resources(**self._desk.host.resources()._asdict()),
        )

    def _system_name(self, queue: Queue | None) -> str:
        if queue is None:
            raise QueueNotFoundError("The queue manager has not made its own queues yet.")
        return format_name_of(self._manager.core, queue)


def outgoing_info(queue: OutgoingQueue) -> pb.OutgoingInfo:
    """Describe an outgoing queue and the results of its connections."""
    return pb.OutgoingInfo(
        format_name=queue.destination_format_name,
        state=queue.state.value,
        explanation=_STATES[queue.state],
        next_hops=queue.next_hops or (),
        messages=len(queue.positions),
        bytes=queue.total_bytes,
        unacknowledged=queue.transfer_info.eod_no_ack_count,
        unreceived=queue.transfer_info.eod_no_read_count,
        attempts=[
            pb.Attempt(
                time=entry.connection_history_time,
                status=entry.status.value,
                error=entry.error & 0xFFFFFFFF,
                addresses=entry.address_list,
            )
            for entry in queue.connection_history
        ],
    )


def _wanted_security(request: pb.SetSecurityRequest) -> tuple[SecurityInformation, SecurityDescriptor]:
    """The parts of a security descriptor to change, and their new values."""
    parts = SecurityInformation(0)
    given = parse_sddl(request.sddl) if request.sddl else SecurityDescriptor()
    owner, dacl = given.owner, given.dacl
    if request.owner:
        owner = Sid.parse(request.owner)
    if request.HasField("entries"):
        dacl = Acl.of(*map(_ace, request.entries.entries))
    if owner is not None:
        parts |= SecurityInformation.OWNER
    if dacl is not None:
        parts |= SecurityInformation.DACL
    if given.group is not None:
        parts |= SecurityInformation.GROUP
    if not parts:
        raise InvalidParameterError("Neither an owner nor an access list is given.")
    return parts, SecurityDescriptor(owner, given.group, dacl)


def _ace(entry: pb.AccessEntry) -> Ace:
    kind = AceType.ACCESS_ALLOWED if entry.allow else AceType.ACCESS_DENIED
    return Ace(kind, entry.rights, Sid.parse(entry.sid))


def _attributes(settings: pb.QueueSettings) -> dict[str, Any]:
    """The given settings as attributes of a queue in the directory. Settings of a retry can only be set on the queue's
    host."""
    for name in ("retry_delay_ms", "max_deliveries", "poison_subqueue"):
        if settings.HasField(name):
            raise InvalidParameterError(f"{name} of a queue is set on its own host.")
    wanted: dict[str, Any] = {}
    for name, propid in _PROPIDS.items():
        if settings.HasField(name):
            value = getattr(settings, name)
            if name == "type":
                value = _guid(value)
            elif name == "multicast_address":
                value = _multicast(value)
            elif name == "privacy_level":
                value = _privacy_level(settings)
            wanted[QUEUE[propid].attribute] = value
    return wanted


def _guid(text: str) -> bytes:
    return guid_from_text(text) if text else NULL_GUID


def _multicast(text: str) -> str:
    """Check that a text is the address and port of a multicast group, or empty."""
    host, _, port = text.rpartition(":")
    try:
        good = not text or (ip_address(host).is_multicast and 0 <= int(port) <= 0xFFFF)
    except ValueError:
        good = False
    if not good:
        raise InvalidParameterError(f"{text!r} is no multicast address, which looks like 234.1.1.1:8001.")
    return text


def _privacy_level(settings: pb.QueueSettings) -> QueuePrivacyLevel:
    if not settings.HasField("privacy_level"):
        return QueuePrivacyLevel.OPTIONAL
    try:
        return QueuePrivacyLevel(settings.privacy_level)
    except ValueError:
        raise InvalidParameterError("privacy_level is 0, 1 or 2.") from None


def _variant(object_type: ObjectType, propid: int, value: object) -> Variant:
    row = lookup(object_type, propid)
    given: Value
    if row.name.endswith("_TYPE") and isinstance(value, str):
        given = _guid(value)
    elif isinstance(value, bool | int):
        given = int(value)
    else:
        given = str(value)
    return Variant(row.vt, given)
