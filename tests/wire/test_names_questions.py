import pytest

from msmq.wire.names import (
    QueueTarget,
    is_read_only,
    parse_format_name,
    target_of,
)

TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"

NAMES = [
    (r"DIRECT=OS:a\q", QueueTarget.QUEUE),
    (r"DIRECT=TCP:10.0.0.1\PRIVATE$\q", QueueTarget.QUEUE),
    (r"DIRECT=OS:a\q;sub", QueueTarget.SUBQUEUE),
    (r"DIRECT=OS:a\q;JOURNAL", QueueTarget.QUEUE_JOURNAL),
    (r"DIRECT=OS:a\q;sub;JOURNAL", QueueTarget.QUEUE_JOURNAL),
    (r"DIRECT=OS:a\SYSTEM$;JOURNAL", QueueTarget.MACHINE_JOURNAL),
    (r"DIRECT=OS:a\SYSTEM$;DEADLETTER", QueueTarget.DEAD_LETTER),
    (r"DIRECT=OS:a\SYSTEM$;DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER),
    (f"PUBLIC={TEXT}", QueueTarget.QUEUE),
    (f"PUBLIC={TEXT};JOURNAL", QueueTarget.QUEUE_JOURNAL),
    (f"PRIVATE={TEXT}\\1", QueueTarget.QUEUE),
    (f"PRIVATE={TEXT}\\1;JOURNAL", QueueTarget.QUEUE_JOURNAL),
    (f"DL={TEXT}", QueueTarget.MANY),
    (f"MACHINE={TEXT}", QueueTarget.MACHINE),
    (f"MACHINE={TEXT};JOURNAL", QueueTarget.MACHINE_JOURNAL),
    (f"MACHINE={TEXT};DEADLETTER", QueueTarget.DEAD_LETTER),
    (f"MACHINE={TEXT};DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER),
    (f"CONNECTOR={TEXT}", QueueTarget.CONNECTOR),
    (f"CONNECTOR={TEXT};XACTONLY", QueueTarget.TRANSACTIONAL_CONNECTOR),
    ("MULTICAST=234.1.1.1:8001", QueueTarget.MANY),
    (r"DIRECT=OS:a\q,MULTICAST=234.1.1.1:8001", QueueTarget.MANY),
]


@pytest.mark.parametrize(("text", "target"), NAMES)
def test_answers(text, target):
    name = parse_format_name(text)
    assert target_of(name) is target
    assert is_read_only(name) is any(word in text for word in ("JOURNAL", "DEAD"))
