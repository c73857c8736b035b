import pytest

from msmq.errors import NoDsError
from msmq.wire.names import (
    QueueTarget,
    check_without_directory,
    is_read_only,
    needs_directory,
    parse_format_name,
    target_of,
)

TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"

# text, target, needs the directory
NAMES = [
    (r"DIRECT=OS:a\q", QueueTarget.QUEUE, False),
    (r"DIRECT=TCP:10.0.0.1\PRIVATE$\q", QueueTarget.QUEUE, False),
    (r"DIRECT=OS:a\q;sub", QueueTarget.SUBQUEUE, False),
    (r"DIRECT=OS:a\q;JOURNAL", QueueTarget.QUEUE_JOURNAL, False),
    (r"DIRECT=OS:a\q;sub;JOURNAL", QueueTarget.QUEUE_JOURNAL, False),
    (r"DIRECT=OS:a\SYSTEM$;JOURNAL", QueueTarget.MACHINE_JOURNAL, False),
    (r"DIRECT=OS:a\SYSTEM$;DEADLETTER", QueueTarget.DEAD_LETTER, False),
    (r"DIRECT=OS:a\SYSTEM$;DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER, False),
    (f"PUBLIC={TEXT}", QueueTarget.QUEUE, True),
    (f"PUBLIC={TEXT};JOURNAL", QueueTarget.QUEUE_JOURNAL, True),
    (f"PRIVATE={TEXT}\\1", QueueTarget.QUEUE, True),
    (f"PRIVATE={TEXT}\\1;JOURNAL", QueueTarget.QUEUE_JOURNAL, True),
    (f"DL={TEXT}", QueueTarget.MANY, True),
    (f"MACHINE={TEXT}", QueueTarget.MACHINE, True),
    (f"MACHINE={TEXT};JOURNAL", QueueTarget.MACHINE_JOURNAL, True),
    (f"MACHINE={TEXT};DEADLETTER", QueueTarget.DEAD_LETTER, True),
    (f"MACHINE={TEXT};DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER, True),
    (f"CONNECTOR={TEXT}", QueueTarget.CONNECTOR, True),
    (f"CONNECTOR={TEXT};XACTONLY", QueueTarget.TRANSACTIONAL_CONNECTOR, True),
    ("MULTICAST=234.1.1.1:8001", QueueTarget.MANY, False),
    (r"DIRECT=OS:a\q,MULTICAST=234.1.1.1:8001", QueueTarget.MANY, False),
]


@pytest.mark.parametrize(("text", "target", "directory"), NAMES)
def test_answers(text, target, directory):
    name = parse_format_name(text)
    assert target_of(name) is target
    assert needs_directory(name) is directory
    assert is_read_only(name) is any(word in text for word in ("JOURNAL", "DEAD"))


@pytest.mark.spec("MQMQ-2.1.7-d")
def test_lists_without_a_directory():
    direct = r"DIRECT=OS:a\q,DIRECT=TCP:10.0.0.1\PRIVATE$\q"
    check_without_directory(parse_format_name(direct))
    for element in (f"PUBLIC={TEXT}", f"PRIVATE={TEXT}\\1", f"DL={TEXT}@corp.example"):
        for text in (f"{direct},{element}", f"{element},{direct}"):
            with pytest.raises(NoDsError) as caught:
                check_without_directory(parse_format_name(text))
            assert caught.value.code == 0xC00E0013
