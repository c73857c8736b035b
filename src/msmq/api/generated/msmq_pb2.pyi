from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Delivery(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_DEFAULT: _ClassVar[Delivery]
    EXPRESS: _ClassVar[Delivery]
    RECOVERABLE: _ClassVar[Delivery]
    TRANSACTIONAL: _ClassVar[Delivery]

class Acknowledgements(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACKNOWLEDGE_NOTHING: _ClassVar[Acknowledgements]
    ACKNOWLEDGE_ARRIVAL: _ClassVar[Acknowledgements]
    ACKNOWLEDGE_RECEIVE: _ClassVar[Acknowledgements]
    ACKNOWLEDGE_NO_ARRIVAL: _ClassVar[Acknowledgements]
    ACKNOWLEDGE_NO_RECEIVE: _ClassVar[Acknowledgements]

class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROPERTIES: _ClassVar[Form]
    PACKET: _ClassVar[Form]

class ReceiveMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD: _ClassVar[ReceiveMode]
    TAKE: _ClassVar[ReceiveMode]
    PEEK: _ClassVar[ReceiveMode]

class Seek(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEEK_CURRENT: _ClassVar[Seek]
    SEEK_NEXT: _ClassVar[Seek]
    SEEK_PREVIOUS: _ClassVar[Seek]
    SEEK_FIRST: _ClassVar[Seek]
    SEEK_LAST: _ClassVar[Seek]

class QueueKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIVATE: _ClassVar[QueueKind]
    PUBLIC: _ClassVar[QueueKind]
    SYSTEM: _ClassVar[QueueKind]
    CONNECTOR: _ClassVar[QueueKind]
    JOURNAL: _ClassVar[QueueKind]
    SUBQUEUE: _ClassVar[QueueKind]
DELIVERY_DEFAULT: Delivery
EXPRESS: Delivery
RECOVERABLE: Delivery
TRANSACTIONAL: Delivery
ACKNOWLEDGE_NOTHING: Acknowledgements
ACKNOWLEDGE_ARRIVAL: Acknowledgements
ACKNOWLEDGE_RECEIVE: Acknowledgements
ACKNOWLEDGE_NO_ARRIVAL: Acknowledgements
ACKNOWLEDGE_NO_RECEIVE: Acknowledgements
PROPERTIES: Form
PACKET: Form
HOLD: ReceiveMode
TAKE: ReceiveMode
PEEK: ReceiveMode
SEEK_CURRENT: Seek
SEEK_NEXT: Seek
SEEK_PREVIOUS: Seek
SEEK_FIRST: Seek
SEEK_LAST: Seek
PRIVATE: QueueKind
PUBLIC: QueueKind
SYSTEM: QueueKind
CONNECTOR: QueueKind
JOURNAL: QueueKind
SUBQUEUE: QueueKind

class Error(_message.Message):
    __slots__ = ("code", "name", "description", "detail", "advice")
    CODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    code: int
    name: str
    description: str
    detail: str
    advice: str
    def __init__(self, code: _Optional[int] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., detail: _Optional[str] = ..., advice: _Optional[str] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Message(_message.Message):
    __slots__ = ("body", "body_type", "label", "extension", "application_tag", "correlation_id", "priority", "delivery", "time_to_reach_queue_s", "time_to_be_received_s", "acknowledgements", "journal", "dead_letter", "dead_letter_queue", "admin_queue", "response_queue", "trace", "message_class", "authenticate", "privacy_level", "peekable_when_locked", "sender_certificate", "connector_type")
    BODY_FIELD_NUMBER: _ClassVar[int]
    BODY_TYPE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_TAG_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_REACH_QUEUE_S_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_BE_RECEIVED_S_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    ADMIN_QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PEEKABLE_WHEN_LOCKED_FIELD_NUMBER: _ClassVar[int]
    SENDER_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    body_type: int
    label: str
    extension: bytes
    application_tag: int
    correlation_id: bytes
    priority: int
    delivery: Delivery
    time_to_reach_queue_s: int
    time_to_be_received_s: int
    acknowledgements: int
    journal: bool
    dead_letter: bool
    dead_letter_queue: str
    admin_queue: str
    response_queue: str
    trace: bool
    message_class: int
    authenticate: bool
    privacy_level: int
    peekable_when_locked: bool
    sender_certificate: bytes
    connector_type: bytes
    def __init__(self, body: _Optional[bytes] = ..., body_type: _Optional[int] = ..., label: _Optional[str] = ..., extension: _Optional[bytes] = ..., application_tag: _Optional[int] = ..., correlation_id: _Optional[bytes] = ..., priority: _Optional[int] = ..., delivery: _Optional[_Union[Delivery, str]] = ..., time_to_reach_queue_s: _Optional[int] = ..., time_to_be_received_s: _Optional[int] = ..., acknowledgements: _Optional[int] = ..., journal: _Optional[bool] = ..., dead_letter: _Optional[bool] = ..., dead_letter_queue: _Optional[str] = ..., admin_queue: _Optional[str] = ..., response_queue: _Optional[str] = ..., trace: _Optional[bool] = ..., message_class: _Optional[int] = ..., authenticate: _Optional[bool] = ..., privacy_level: _Optional[int] = ..., peekable_when_locked: _Optional[bool] = ..., sender_certificate: _Optional[bytes] = ..., connector_type: _Optional[bytes] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ("lookup_id", "arrived_time", "returned_count", "packet", "message", "message_id", "sent_time", "sender", "authenticated", "destination", "transactional", "first_in_transaction", "last_in_transaction", "dead_letter_class", "dead_letter_reason")
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_TIME_FIELD_NUMBER: _ClassVar[int]
    RETURNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PACKET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SENT_TIME_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_IN_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    LAST_IN_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_CLASS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    lookup_id: int
    arrived_time: int
    returned_count: int
    packet: bytes
    message: Message
    message_id: bytes
    sent_time: int
    sender: str
    authenticated: bool
    destination: str
    transactional: bool
    first_in_transaction: bool
    last_in_transaction: bool
    dead_letter_class: int
    dead_letter_reason: str
    def __init__(self, lookup_id: _Optional[int] = ..., arrived_time: _Optional[int] = ..., returned_count: _Optional[int] = ..., packet: _Optional[bytes] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., message_id: _Optional[bytes] = ..., sent_time: _Optional[int] = ..., sender: _Optional[str] = ..., authenticated: _Optional[bool] = ..., destination: _Optional[str] = ..., transactional: _Optional[bool] = ..., first_in_transaction: _Optional[bool] = ..., last_in_transaction: _Optional[bool] = ..., dead_letter_class: _Optional[int] = ..., dead_letter_reason: _Optional[str] = ...) -> None: ...

class QueueName(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("queue", "messages", "transaction", "columns")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    transaction: bytes
    columns: Columns
    def __init__(self, queue: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., transaction: _Optional[bytes] = ..., columns: _Optional[_Union[Columns, _Mapping]] = ...) -> None: ...

class Columns(_message.Message):
    __slots__ = ("kinds", "bodies", "body_types", "labels", "extensions", "application_tags", "correlation_ids", "kind", "priorities", "deliveries", "times_to_reach_queue_s", "times_to_be_received_s", "acknowledgements", "journals", "dead_letters")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    BODY_TYPES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_TAGS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_IDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    TIMES_TO_REACH_QUEUE_S_FIELD_NUMBER: _ClassVar[int]
    TIMES_TO_BE_RECEIVED_S_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[Message]
    bodies: _containers.RepeatedScalarFieldContainer[bytes]
    body_types: _containers.RepeatedScalarFieldContainer[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    extensions: _containers.RepeatedScalarFieldContainer[bytes]
    application_tags: _containers.RepeatedScalarFieldContainer[int]
    correlation_ids: _containers.RepeatedScalarFieldContainer[bytes]
    kind: _containers.RepeatedScalarFieldContainer[int]
    priorities: _containers.RepeatedScalarFieldContainer[int]
    deliveries: _containers.RepeatedScalarFieldContainer[Delivery]
    times_to_reach_queue_s: _containers.RepeatedScalarFieldContainer[int]
    times_to_be_received_s: _containers.RepeatedScalarFieldContainer[int]
    acknowledgements: _containers.RepeatedScalarFieldContainer[int]
    journals: _containers.RepeatedScalarFieldContainer[bool]
    dead_letters: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, kinds: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., bodies: _Optional[_Iterable[bytes]] = ..., body_types: _Optional[_Iterable[int]] = ..., labels: _Optional[_Iterable[str]] = ..., extensions: _Optional[_Iterable[bytes]] = ..., application_tags: _Optional[_Iterable[int]] = ..., correlation_ids: _Optional[_Iterable[bytes]] = ..., kind: _Optional[_Iterable[int]] = ..., priorities: _Optional[_Iterable[int]] = ..., deliveries: _Optional[_Iterable[_Union[Delivery, str]]] = ..., times_to_reach_queue_s: _Optional[_Iterable[int]] = ..., times_to_be_received_s: _Optional[_Iterable[int]] = ..., acknowledgements: _Optional[_Iterable[int]] = ..., journals: _Optional[_Iterable[bool]] = ..., dead_letters: _Optional[_Iterable[bool]] = ...) -> None: ...

class SendReply(_message.Message):
    __slots__ = ("queue_manager", "ordinals", "lookup_ids", "failures")
    QUEUE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    queue_manager: bytes
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    failures: _containers.RepeatedCompositeFieldContainer[SendFailure]
    def __init__(self, queue_manager: _Optional[bytes] = ..., ordinals: _Optional[_Iterable[int]] = ..., lookup_ids: _Optional[_Iterable[int]] = ..., failures: _Optional[_Iterable[_Union[SendFailure, _Mapping]]] = ...) -> None: ...

class SendFailure(_message.Message):
    __slots__ = ("index", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    error: Error
    def __init__(self, index: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class SendOnceRequest(_message.Message):
    __slots__ = ("queue", "messages", "row", "place")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    row: str
    place: int
    def __init__(self, queue: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., row: _Optional[str] = ..., place: _Optional[int] = ...) -> None: ...

class SendOnceReply(_message.Message):
    __slots__ = ("sent", "error")
    SENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sent: int
    error: Error
    def __init__(self, sent: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class ForgetRowRequest(_message.Message):
    __slots__ = ("row",)
    ROW_FIELD_NUMBER: _ClassVar[int]
    row: str
    def __init__(self, row: _Optional[str] = ...) -> None: ...

class SendStreamRequest(_message.Message):
    __slots__ = ("open", "batch", "leave")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    open: OpenToSend
    batch: SendBatch
    leave: Leave
    def __init__(self, open: _Optional[_Union[OpenToSend, _Mapping]] = ..., batch: _Optional[_Union[SendBatch, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenToSend(_message.Message):
    __slots__ = ("queue", "resume_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    resume_token: bytes
    def __init__(self, queue: _Optional[str] = ..., resume_token: _Optional[bytes] = ...) -> None: ...

class SendBatch(_message.Message):
    __slots__ = ("number", "messages", "transaction", "columns")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    number: int
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    transaction: bytes
    columns: Columns
    def __init__(self, number: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., transaction: _Optional[bytes] = ..., columns: _Optional[_Union[Columns, _Mapping]] = ...) -> None: ...

class SendStreamReply(_message.Message):
    __slots__ = ("opened", "confirmed")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    confirmed: BatchConfirmed
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., confirmed: _Optional[_Union[BatchConfirmed, _Mapping]] = ...) -> None: ...

class BatchConfirmed(_message.Message):
    __slots__ = ("number", "result")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    number: int
    result: SendReply
    def __init__(self, number: _Optional[int] = ..., result: _Optional[_Union[SendReply, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("format_name", "last_batch", "transactional", "incarnation")
    FORMAT_NAME_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    format_name: str
    last_batch: int
    transactional: bool
    incarnation: bytes
    def __init__(self, format_name: _Optional[str] = ..., last_batch: _Optional[int] = ..., transactional: _Optional[bool] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("open", "credit", "acknowledge", "reject")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    open: OpenToReceive
    credit: Credit
    acknowledge: Acknowledge
    reject: Reject
    def __init__(self, open: _Optional[_Union[OpenToReceive, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., acknowledge: _Optional[_Union[Acknowledge, _Mapping]] = ..., reject: _Optional[_Union[Reject, _Mapping]] = ...) -> None: ...

class OpenToReceive(_message.Message):
    __slots__ = ("queue", "mode", "form", "exclusive", "retry_delay_ms", "max_deliveries", "poison_subqueue")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    POISON_SUBQUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    mode: ReceiveMode
    form: Form
    exclusive: bool
    retry_delay_ms: int
    max_deliveries: int
    poison_subqueue: str
    def __init__(self, queue: _Optional[str] = ..., mode: _Optional[_Union[ReceiveMode, str]] = ..., form: _Optional[_Union[Form, str]] = ..., exclusive: _Optional[bool] = ..., retry_delay_ms: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., poison_subqueue: _Optional[str] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("messages", "timeout_ms", "transaction")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    messages: int
    timeout_ms: int
    transaction: bytes
    def __init__(self, messages: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., transaction: _Optional[bytes] = ...) -> None: ...

class Acknowledge(_message.Message):
    __slots__ = ("lookup_ids",)
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lookup_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Reject(_message.Message):
    __slots__ = ("lookup_ids", "subqueue")
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    SUBQUEUE_FIELD_NUMBER: _ClassVar[int]
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    subqueue: str
    def __init__(self, lookup_ids: _Optional[_Iterable[int]] = ..., subqueue: _Optional[str] = ...) -> None: ...

class ReceiveReply(_message.Message):
    __slots__ = ("opened", "deliveries", "settled", "timed_out", "packets")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    deliveries: Deliveries
    settled: Settled
    timed_out: TimedOut
    packets: Packets
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ..., timed_out: _Optional[_Union[TimedOut, _Mapping]] = ..., packets: _Optional[_Union[Packets, _Mapping]] = ...) -> None: ...

class Deliveries(_message.Message):
    __slots__ = ("messages", "packets")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Delivered]
    packets: Packets
    def __init__(self, messages: _Optional[_Iterable[_Union[Delivered, _Mapping]]] = ..., packets: _Optional[_Union[Packets, _Mapping]] = ...) -> None: ...

class Packets(_message.Message):
    __slots__ = ("lookup_ids", "arrived_times", "packets", "remarks", "sizes")
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_TIMES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    arrived_times: _containers.RepeatedScalarFieldContainer[int]
    packets: bytes
    remarks: _containers.RepeatedCompositeFieldContainer[Remark]
    sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lookup_ids: _Optional[_Iterable[int]] = ..., arrived_times: _Optional[_Iterable[int]] = ..., packets: _Optional[bytes] = ..., remarks: _Optional[_Iterable[_Union[Remark, _Mapping]]] = ..., sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class Remark(_message.Message):
    __slots__ = ("index", "returned_count", "authenticated", "dead_letter_class", "dead_letter_reason")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RETURNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_CLASS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    index: int
    returned_count: int
    authenticated: bool
    dead_letter_class: int
    dead_letter_reason: str
    def __init__(self, index: _Optional[int] = ..., returned_count: _Optional[int] = ..., authenticated: _Optional[bool] = ..., dead_letter_class: _Optional[int] = ..., dead_letter_reason: _Optional[str] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("messages", "unknown", "error")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    messages: int
    unknown: _containers.RepeatedScalarFieldContainer[int]
    error: Error
    def __init__(self, messages: _Optional[int] = ..., unknown: _Optional[_Iterable[int]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class TimedOut(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BrowseRequest(_message.Message):
    __slots__ = ("open", "step", "keep", "release")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    open: OpenToBrowse
    step: Step
    keep: Keep
    release: Release
    def __init__(self, open: _Optional[_Union[OpenToBrowse, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., keep: _Optional[_Union[Keep, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

class Keep(_message.Message):
    __slots__ = ("lookup_id",)
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    lookup_id: int
    def __init__(self, lookup_id: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("lookup_id",)
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    lookup_id: int
    def __init__(self, lookup_id: _Optional[int] = ...) -> None: ...

class OpenToBrowse(_message.Message):
    __slots__ = ("queue", "receive", "form")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    receive: bool
    form: Form
    def __init__(self, queue: _Optional[str] = ..., receive: _Optional[bool] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("action", "timeout_ms", "count", "transaction", "lookup_id", "seek", "message_id", "correlation_id")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CURRENT: _ClassVar[Step.Action]
        NEXT: _ClassVar[Step.Action]
        TAKE_CURRENT: _ClassVar[Step.Action]
        RESTART: _ClassVar[Step.Action]
        HOLD_CURRENT: _ClassVar[Step.Action]
        HOLD: _ClassVar[Step.Action]
        LOOK: _ClassVar[Step.Action]
        TAKE: _ClassVar[Step.Action]
    CURRENT: Step.Action
    NEXT: Step.Action
    TAKE_CURRENT: Step.Action
    RESTART: Step.Action
    HOLD_CURRENT: Step.Action
    HOLD: Step.Action
    LOOK: Step.Action
    TAKE: Step.Action
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    action: Step.Action
    timeout_ms: int
    count: int
    transaction: bytes
    lookup_id: int
    seek: Seek
    message_id: bytes
    correlation_id: bytes
    def __init__(self, action: _Optional[_Union[Step.Action, str]] = ..., timeout_ms: _Optional[int] = ..., count: _Optional[int] = ..., transaction: _Optional[bytes] = ..., lookup_id: _Optional[int] = ..., seek: _Optional[_Union[Seek, str]] = ..., message_id: _Optional[bytes] = ..., correlation_id: _Optional[bytes] = ...) -> None: ...

class BrowseReply(_message.Message):
    __slots__ = ("opened", "deliveries", "error")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    deliveries: Deliveries
    error: Error
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("queue", "lookup_id", "seek", "receive", "transaction", "form")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    lookup_id: int
    seek: Seek
    receive: bool
    transaction: bytes
    form: Form
    def __init__(self, queue: _Optional[str] = ..., lookup_id: _Optional[int] = ..., seek: _Optional[_Union[Seek, str]] = ..., receive: _Optional[bool] = ..., transaction: _Optional[bytes] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("after", "upto")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    after: int
    upto: int
    def __init__(self, after: _Optional[int] = ..., upto: _Optional[int] = ...) -> None: ...

class SurveyRequest(_message.Message):
    __slots__ = ("queue", "spans", "most_messages", "most_bytes", "known", "seen", "counting")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    MOST_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MOST_BYTES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    COUNTING_FIELD_NUMBER: _ClassVar[int]
    queue: str
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    most_messages: int
    most_bytes: int
    known: QueueIdentity
    seen: int
    counting: bool
    def __init__(self, queue: _Optional[str] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., most_messages: _Optional[int] = ..., most_bytes: _Optional[int] = ..., known: _Optional[_Union[QueueIdentity, _Mapping]] = ..., seen: _Optional[int] = ..., counting: _Optional[bool] = ...) -> None: ...

class SurveyReply(_message.Message):
    __slots__ = ("lookup_ids", "held", "bytes", "identity", "expiring", "restored", "messages", "oldest_time")
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EXPIRING_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    OLDEST_TIME_FIELD_NUMBER: _ClassVar[int]
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    held: _containers.RepeatedScalarFieldContainer[int]
    bytes: int
    identity: QueueIdentity
    expiring: _containers.RepeatedScalarFieldContainer[int]
    restored: bool
    messages: int
    oldest_time: int
    def __init__(self, lookup_ids: _Optional[_Iterable[int]] = ..., held: _Optional[_Iterable[int]] = ..., bytes: _Optional[int] = ..., identity: _Optional[_Union[QueueIdentity, _Mapping]] = ..., expiring: _Optional[_Iterable[int]] = ..., restored: _Optional[bool] = ..., messages: _Optional[int] = ..., oldest_time: _Optional[int] = ...) -> None: ...

class QueueIdentity(_message.Message):
    __slots__ = ("queue_manager", "queue", "incarnation")
    QUEUE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    queue_manager: str
    queue: str
    incarnation: str
    def __init__(self, queue_manager: _Optional[str] = ..., queue: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class ReadSpanRequest(_message.Message):
    __slots__ = ("queue", "span", "form")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    span: Span
    form: Form
    def __init__(self, queue: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class FindRequest(_message.Message):
    __slots__ = ("queue", "after", "skip", "most_messages", "most_looked_at", "body_bytes", "label", "message_id", "correlation_id", "classes", "arrived_from", "arrived_to", "least_bytes", "greatest_bytes", "body_contains")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    MOST_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MOST_LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FROM_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_TO_FIELD_NUMBER: _ClassVar[int]
    LEAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    GREATEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    BODY_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    after: int
    skip: int
    most_messages: int
    most_looked_at: int
    body_bytes: int
    label: str
    message_id: bytes
    correlation_id: bytes
    classes: _containers.RepeatedScalarFieldContainer[int]
    arrived_from: int
    arrived_to: int
    least_bytes: int
    greatest_bytes: int
    body_contains: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, queue: _Optional[str] = ..., after: _Optional[int] = ..., skip: _Optional[int] = ..., most_messages: _Optional[int] = ..., most_looked_at: _Optional[int] = ..., body_bytes: _Optional[int] = ..., label: _Optional[str] = ..., message_id: _Optional[bytes] = ..., correlation_id: _Optional[bytes] = ..., classes: _Optional[_Iterable[int]] = ..., arrived_from: _Optional[int] = ..., arrived_to: _Optional[int] = ..., least_bytes: _Optional[int] = ..., greatest_bytes: _Optional[int] = ..., body_contains: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FindReply(_message.Message):
    __slots__ = ("messages", "looked_at", "last", "end")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[FoundMessage]
    looked_at: int
    last: int
    end: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[FoundMessage, _Mapping]]] = ..., looked_at: _Optional[int] = ..., last: _Optional[int] = ..., end: _Optional[bool] = ...) -> None: ...

class FoundMessage(_message.Message):
    __slots__ = ("delivered", "size", "body_size")
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BODY_SIZE_FIELD_NUMBER: _ClassVar[int]
    delivered: Delivered
    size: int
    body_size: int
    def __init__(self, delivered: _Optional[_Union[Delivered, _Mapping]] = ..., size: _Optional[int] = ..., body_size: _Optional[int] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("queue", "lookup_ids", "identity")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    identity: QueueIdentity
    def __init__(self, queue: _Optional[str] = ..., lookup_ids: _Optional[_Iterable[int]] = ..., identity: _Optional[_Union[QueueIdentity, _Mapping]] = ...) -> None: ...

class RemoveReply(_message.Message):
    __slots__ = ("messages", "not_found", "held", "elsewhere")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    messages: int
    not_found: _containers.RepeatedScalarFieldContainer[int]
    held: _containers.RepeatedScalarFieldContainer[int]
    elsewhere: bool
    def __init__(self, messages: _Optional[int] = ..., not_found: _Optional[_Iterable[int]] = ..., held: _Optional[_Iterable[int]] = ..., elsewhere: _Optional[bool] = ...) -> None: ...

class PurgeReply(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class MoveRequest(_message.Message):
    __slots__ = ("queue", "target", "lookup_ids", "transaction")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_IDS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    queue: str
    target: str
    lookup_ids: _containers.RepeatedScalarFieldContainer[int]
    transaction: bytes
    def __init__(self, queue: _Optional[str] = ..., target: _Optional[str] = ..., lookup_ids: _Optional[_Iterable[int]] = ..., transaction: _Optional[bytes] = ...) -> None: ...

class MoveReply(_message.Message):
    __slots__ = ("messages", "not_found")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    messages: int
    not_found: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, messages: _Optional[int] = ..., not_found: _Optional[_Iterable[int]] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("queue", "lookup_id", "target", "message")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    lookup_id: int
    target: str
    message: Message
    def __init__(self, queue: _Optional[str] = ..., lookup_id: _Optional[int] = ..., target: _Optional[str] = ..., message: _Optional[_Union[Message, _Mapping]] = ...) -> None: ...

class TransactRequest(_message.Message):
    __slots__ = ("begin", "commit", "abort")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    begin: Begin
    commit: Commit
    abort: Abort
    def __init__(self, begin: _Optional[_Union[Begin, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Commit(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Abort(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransactReply(_message.Message):
    __slots__ = ("transaction", "committed", "aborted")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    transaction: bytes
    committed: Done
    aborted: Done
    def __init__(self, transaction: _Optional[bytes] = ..., committed: _Optional[_Union[Done, _Mapping]] = ..., aborted: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ("label", "type", "journaling", "quota_kb", "journal_quota_kb", "authenticated_only", "privacy_level", "base_priority", "multicast_address", "retry_delay_ms", "max_deliveries", "poison_subqueue")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JOURNALING_FIELD_NUMBER: _ClassVar[int]
    QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_ONLY_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    BASE_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MULTICAST_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    POISON_SUBQUEUE_FIELD_NUMBER: _ClassVar[int]
    label: str
    type: str
    journaling: bool
    quota_kb: int
    journal_quota_kb: int
    authenticated_only: bool
    privacy_level: int
    base_priority: int
    multicast_address: str
    retry_delay_ms: int
    max_deliveries: int
    poison_subqueue: str
    def __init__(self, label: _Optional[str] = ..., type: _Optional[str] = ..., journaling: _Optional[bool] = ..., quota_kb: _Optional[int] = ..., journal_quota_kb: _Optional[int] = ..., authenticated_only: _Optional[bool] = ..., privacy_level: _Optional[int] = ..., base_priority: _Optional[int] = ..., multicast_address: _Optional[str] = ..., retry_delay_ms: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., poison_subqueue: _Optional[str] = ...) -> None: ...

class CreateQueueRequest(_message.Message):
    __slots__ = ("path", "transactional", "settings", "sddl")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SDDL_FIELD_NUMBER: _ClassVar[int]
    path: str
    transactional: bool
    settings: QueueSettings
    sddl: str
    def __init__(self, path: _Optional[str] = ..., transactional: _Optional[bool] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ..., sddl: _Optional[str] = ...) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("path", "format_name", "kind", "transactional", "settings", "identifier", "created_time", "modified_time", "messages", "bytes", "journal_messages", "journal_bytes", "subqueues", "open_handles", "paused_messages", "poisoned_total")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUBQUEUES_FIELD_NUMBER: _ClassVar[int]
    OPEN_HANDLES_FIELD_NUMBER: _ClassVar[int]
    PAUSED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    POISONED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    path: str
    format_name: str
    kind: QueueKind
    transactional: bool
    settings: QueueSettings
    identifier: str
    created_time: int
    modified_time: int
    messages: int
    bytes: int
    journal_messages: int
    journal_bytes: int
    subqueues: _containers.RepeatedScalarFieldContainer[str]
    open_handles: int
    paused_messages: int
    poisoned_total: int
    def __init__(self, path: _Optional[str] = ..., format_name: _Optional[str] = ..., kind: _Optional[_Union[QueueKind, str]] = ..., transactional: _Optional[bool] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ..., identifier: _Optional[str] = ..., created_time: _Optional[int] = ..., modified_time: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., journal_messages: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., subqueues: _Optional[_Iterable[str]] = ..., open_handles: _Optional[int] = ..., paused_messages: _Optional[int] = ..., poisoned_total: _Optional[int] = ...) -> None: ...

class QueuePlace(_message.Message):
    __slots__ = ("here", "host", "format_name")
    HERE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_NAME_FIELD_NUMBER: _ClassVar[int]
    here: bool
    host: str
    format_name: str
    def __init__(self, here: _Optional[bool] = ..., host: _Optional[str] = ..., format_name: _Optional[str] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("system", "journals", "subqueues")
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_FIELD_NUMBER: _ClassVar[int]
    SUBQUEUES_FIELD_NUMBER: _ClassVar[int]
    system: bool
    journals: bool
    subqueues: bool
    def __init__(self, system: _Optional[bool] = ..., journals: _Optional[bool] = ..., subqueues: _Optional[bool] = ...) -> None: ...

class ListQueuesReply(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueInfo]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueInfo, _Mapping]]] = ...) -> None: ...

class CheckDirectoryRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DirectoryDifference(_message.Message):
    __slots__ = ("kind", "queue", "detail", "choices")
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    queue: str
    detail: str
    choices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., queue: _Optional[str] = ..., detail: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckDirectoryReply(_message.Message):
    __slots__ = ("differences",)
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    differences: _containers.RepeatedCompositeFieldContainer[DirectoryDifference]
    def __init__(self, differences: _Optional[_Iterable[_Union[DirectoryDifference, _Mapping]]] = ...) -> None: ...

class RepairQueueRequest(_message.Message):
    __slots__ = ("queue", "choice", "discard_messages")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    DISCARD_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    choice: str
    discard_messages: bool
    def __init__(self, queue: _Optional[str] = ..., choice: _Optional[str] = ..., discard_messages: _Optional[bool] = ...) -> None: ...

class SetQueueRequest(_message.Message):
    __slots__ = ("queue", "settings")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    settings: QueueSettings
    def __init__(self, queue: _Optional[str] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class AccessEntry(_message.Message):
    __slots__ = ("allow", "sid", "name", "rights")
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    allow: bool
    sid: str
    name: str
    rights: int
    def __init__(self, allow: _Optional[bool] = ..., sid: _Optional[str] = ..., name: _Optional[str] = ..., rights: _Optional[int] = ...) -> None: ...

class GetPropertiesRequest(_message.Message):
    __slots__ = ("queue", "outgoing")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OUTGOING_FIELD_NUMBER: _ClassVar[int]
    queue: str
    outgoing: bool
    def __init__(self, queue: _Optional[str] = ..., outgoing: _Optional[bool] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("id", "name", "type", "values")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    type: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Properties(_message.Message):
    __slots__ = ("properties",)
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    properties: _containers.RepeatedCompositeFieldContainer[Property]
    def __init__(self, properties: _Optional[_Iterable[_Union[Property, _Mapping]]] = ...) -> None: ...

class Security(_message.Message):
    __slots__ = ("owner", "entries", "sddl")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SDDL_FIELD_NUMBER: _ClassVar[int]
    owner: str
    entries: _containers.RepeatedCompositeFieldContainer[AccessEntry]
    sddl: str
    def __init__(self, owner: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[AccessEntry, _Mapping]]] = ..., sddl: _Optional[str] = ...) -> None: ...

class SetSecurityRequest(_message.Message):
    __slots__ = ("queue", "owner", "entries", "sddl")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SDDL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    owner: str
    entries: AccessList
    sddl: str
    def __init__(self, queue: _Optional[str] = ..., owner: _Optional[str] = ..., entries: _Optional[_Union[AccessList, _Mapping]] = ..., sddl: _Optional[str] = ...) -> None: ...

class AccessList(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AccessEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AccessEntry, _Mapping]]] = ...) -> None: ...

class ListOutgoingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListOutgoingReply(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[OutgoingInfo]
    def __init__(self, queues: _Optional[_Iterable[_Union[OutgoingInfo, _Mapping]]] = ...) -> None: ...

class OutgoingInfo(_message.Message):
    __slots__ = ("format_name", "state", "explanation", "next_hops", "messages", "bytes", "unacknowledged", "unreceived", "attempts")
    FORMAT_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_HOPS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    UNRECEIVED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    format_name: str
    state: str
    explanation: str
    next_hops: _containers.RepeatedScalarFieldContainer[str]
    messages: int
    bytes: int
    unacknowledged: int
    unreceived: int
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, format_name: _Optional[str] = ..., state: _Optional[str] = ..., explanation: _Optional[str] = ..., next_hops: _Optional[_Iterable[str]] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., unreceived: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("time", "status", "error", "addresses")
    TIME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    time: int
    status: str
    error: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[int] = ..., status: _Optional[str] = ..., error: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class GetManagerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ManagerInfo(_message.Message):
    __slots__ = ("computer_name", "identifier", "product", "online", "directory_integrated", "quota_kb", "journal_quota_kb", "bytes", "messages", "dead_letter_queue", "transactional_dead_letter_queue", "journal_queue", "caller", "caller_groups", "losses", "resources")
    COMPUTER_NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    ONLINE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_INTEGRATED_FIELD_NUMBER: _ClassVar[int]
    QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_QUEUE_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CALLER_GROUPS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    computer_name: str
    identifier: str
    product: str
    online: bool
    directory_integrated: bool
    quota_kb: int
    journal_quota_kb: int
    bytes: int
    messages: int
    dead_letter_queue: str
    transactional_dead_letter_queue: str
    journal_queue: str
    caller: str
    caller_groups: _containers.RepeatedScalarFieldContainer[str]
    losses: _containers.RepeatedScalarFieldContainer[str]
    resources: Resources
    def __init__(self, computer_name: _Optional[str] = ..., identifier: _Optional[str] = ..., product: _Optional[str] = ..., online: _Optional[bool] = ..., directory_integrated: _Optional[bool] = ..., quota_kb: _Optional[int] = ..., journal_quota_kb: _Optional[int] = ..., bytes: _Optional[int] = ..., messages: _Optional[int] = ..., dead_letter_queue: _Optional[str] = ..., transactional_dead_letter_queue: _Optional[str] = ..., journal_queue: _Optional[str] = ..., caller: _Optional[str] = ..., caller_groups: _Optional[_Iterable[str]] = ..., losses: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("descriptors", "descriptor_limit", "connections", "threads", "tasks")
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    descriptors: int
    descriptor_limit: int
    connections: int
    threads: int
    tasks: int
    def __init__(self, descriptors: _Optional[int] = ..., descriptor_limit: _Optional[int] = ..., connections: _Optional[int] = ..., threads: _Optional[int] = ..., tasks: _Optional[int] = ...) -> None: ...

class SetManagerRequest(_message.Message):
    __slots__ = ("quota_kb", "journal_quota_kb")
    QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_QUOTA_KB_FIELD_NUMBER: _ClassVar[int]
    quota_kb: int
    journal_quota_kb: int
    def __init__(self, quota_kb: _Optional[int] = ..., journal_quota_kb: _Optional[int] = ...) -> None: ...

class SetOnlineRequest(_message.Message):
    __slots__ = ("online",)
    ONLINE_FIELD_NUMBER: _ClassVar[int]
    online: bool
    def __init__(self, online: _Optional[bool] = ...) -> None: ...

class Certificate(_message.Message):
    __slots__ = ("certificate", "digest", "sid", "subject", "issuer", "expires_time", "internal")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_TIME_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    digest: bytes
    sid: str
    subject: str
    issuer: str
    expires_time: int
    internal: bool
    def __init__(self, certificate: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., sid: _Optional[str] = ..., subject: _Optional[str] = ..., issuer: _Optional[str] = ..., expires_time: _Optional[int] = ..., internal: _Optional[bool] = ...) -> None: ...

class ListCertificatesRequest(_message.Message):
    __slots__ = ("sid",)
    SID_FIELD_NUMBER: _ClassVar[int]
    sid: str
    def __init__(self, sid: _Optional[str] = ...) -> None: ...

class ListCertificatesReply(_message.Message):
    __slots__ = ("certificates",)
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[Certificate]
    def __init__(self, certificates: _Optional[_Iterable[_Union[Certificate, _Mapping]]] = ...) -> None: ...

class RegisterCertificateRequest(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    def __init__(self, certificate: _Optional[bytes] = ...) -> None: ...

class RemoveCertificateRequest(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...

class RenewInternalCertificateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InternalCertificate(_message.Message):
    __slots__ = ("certificate", "private_key")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_KEY_FIELD_NUMBER: _ClassVar[int]
    certificate: Certificate
    private_key: bytes
    def __init__(self, certificate: _Optional[_Union[Certificate, _Mapping]] = ..., private_key: _Optional[bytes] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("name", "sid", "created_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    sid: str
    created_time: int
    def __init__(self, name: _Optional[str] = ..., sid: _Optional[str] = ..., created_time: _Optional[int] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("name", "sid")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    name: str
    sid: str
    def __init__(self, name: _Optional[str] = ..., sid: _Optional[str] = ...) -> None: ...

class NewToken(_message.Message):
    __slots__ = ("token", "secret")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    token: Token
    secret: str
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., secret: _Optional[str] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTokensReply(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ...) -> None: ...

class RemoveTokenRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("name", "sid", "groups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    sid: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., sid: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class ListAccountsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAccountsReply(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[Account]
    def __init__(self, accounts: _Optional[_Iterable[_Union[Account, _Mapping]]] = ...) -> None: ...

class CreateAccountRequest(_message.Message):
    __slots__ = ("name", "groups", "password", "sid")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    password: str
    sid: str
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., password: _Optional[str] = ..., sid: _Optional[str] = ...) -> None: ...

class NewAccount(_message.Message):
    __slots__ = ("account", "password")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    account: Account
    password: str
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ..., password: _Optional[str] = ...) -> None: ...

class SetAccountPasswordRequest(_message.Message):
    __slots__ = ("name", "password")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    name: str
    password: str
    def __init__(self, name: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class RemoveAccountRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AlarmRule(_message.Message):
    __slots__ = ("name", "kind", "threshold", "queue", "for_s", "webhooks", "mail_to")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    MAIL_TO_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    threshold: float
    queue: str
    for_s: float
    webhooks: _containers.RepeatedScalarFieldContainer[str]
    mail_to: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., threshold: _Optional[float] = ..., queue: _Optional[str] = ..., for_s: _Optional[float] = ..., webhooks: _Optional[_Iterable[str]] = ..., mail_to: _Optional[_Iterable[str]] = ...) -> None: ...

class GetAlarmsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AlarmRules(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AlarmRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[AlarmRule, _Mapping]]] = ...) -> None: ...

class WatchStatisticsRequest(_message.Message):
    __slots__ = ("interval_ms", "count", "queues")
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    count: int
    queues: int
    def __init__(self, interval_ms: _Optional[int] = ..., count: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class Statistics(_message.Message):
    __slots__ = ("time_ms", "started_ms", "messages", "bytes", "express_bytes", "arrived_total", "removed_total", "sessions", "queues", "outgoing", "transactions", "work")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPRESS_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    OUTGOING_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    started_ms: int
    messages: int
    bytes: int
    express_bytes: int
    arrived_total: int
    removed_total: int
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStatistics]
    outgoing: _containers.RepeatedCompositeFieldContainer[OutgoingInfo]
    transactions: int
    work: Work
    def __init__(self, time_ms: _Optional[int] = ..., started_ms: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., express_bytes: _Optional[int] = ..., arrived_total: _Optional[int] = ..., removed_total: _Optional[int] = ..., sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[QueueStatistics, _Mapping]]] = ..., outgoing: _Optional[_Iterable[_Union[OutgoingInfo, _Mapping]]] = ..., transactions: _Optional[int] = ..., work: _Optional[_Union[Work, _Mapping]] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("commits_total", "committed_bytes_total", "commit_seconds", "commit_bytes", "loop_lag_seconds", "store_bytes", "store_live_bytes", "commit_records", "connection_attempts", "memory_bytes", "disk_free_bytes")
    class ConnectionAttemptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COMMITS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOP_LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_RECORDS_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    commits_total: int
    committed_bytes_total: int
    commit_seconds: Histogram
    commit_bytes: Histogram
    loop_lag_seconds: Histogram
    store_bytes: int
    store_live_bytes: int
    commit_records: Histogram
    connection_attempts: _containers.ScalarMap[str, int]
    memory_bytes: int
    disk_free_bytes: int
    def __init__(self, commits_total: _Optional[int] = ..., committed_bytes_total: _Optional[int] = ..., commit_seconds: _Optional[_Union[Histogram, _Mapping]] = ..., commit_bytes: _Optional[_Union[Histogram, _Mapping]] = ..., loop_lag_seconds: _Optional[_Union[Histogram, _Mapping]] = ..., store_bytes: _Optional[int] = ..., store_live_bytes: _Optional[int] = ..., commit_records: _Optional[_Union[Histogram, _Mapping]] = ..., connection_attempts: _Optional[_Mapping[str, int]] = ..., memory_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ...) -> None: ...

class Histogram(_message.Message):
    __slots__ = ("bounds", "counts", "sum")
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[float]
    counts: _containers.RepeatedScalarFieldContainer[int]
    sum: float
    def __init__(self, bounds: _Optional[_Iterable[float]] = ..., counts: _Optional[_Iterable[int]] = ..., sum: _Optional[float] = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("peer", "incoming")
    PEER_FIELD_NUMBER: _ClassVar[int]
    INCOMING_FIELD_NUMBER: _ClassVar[int]
    peer: str
    incoming: bool
    def __init__(self, peer: _Optional[str] = ..., incoming: _Optional[bool] = ...) -> None: ...

class QueueStatistics(_message.Message):
    __slots__ = ("path", "messages", "bytes", "journal_messages", "arrived_total", "removed_total", "waiting_readers", "journal_bytes", "grown")
    PATH_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_READERS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    GROWN_FIELD_NUMBER: _ClassVar[int]
    path: str
    messages: int
    bytes: int
    journal_messages: int
    arrived_total: int
    removed_total: int
    waiting_readers: int
    journal_bytes: int
    grown: int
    def __init__(self, path: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., journal_messages: _Optional[int] = ..., arrived_total: _Optional[int] = ..., removed_total: _Optional[int] = ..., waiting_readers: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., grown: _Optional[int] = ...) -> None: ...
