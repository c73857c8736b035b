"""A client that knows nothing but the contract: run as a program with the directory of code generated from it.

``python stranger.py GENERATED ADDRESS`` makes a queue, sends, receives with acknowledgement and in a transaction, and
prints what it saw. Nothing of this project is imported.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc


class Requests:
    """Requests of a stream, one after the other."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def put(self, request: Any) -> None:
        self._queue.put(request)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._queue.get, None)


def main(generated: str, address: str) -> None:
    sys.path.insert(0, generated)
    pb: Any = importlib.import_module("msmq_pb2")
    stubs: Any = importlib.import_module("msmq_pb2_grpc")
    assert "msmq" not in sys.modules
    queue = ".\\private$\\stranger"
    with grpc.insecure_channel(address) as channel:
        messages, administration = stubs.MessagesStub(channel), stubs.AdministrationStub(channel)
        administration.CreateQueue(pb.CreateQueueRequest(path=queue, transactional=True))
        sending = Requests()
        replies = messages.SendStream(iter(sending))
        sending.put(pb.SendStreamRequest(open=pb.OpenToSend(queue=queue)))
        assert next(replies).opened.transactional
        for number in (1, 2):
            batch = pb.SendBatch(number=number, messages=[pb.Message(body=b"%d" % number, label="hello")])
            sending.put(pb.SendStreamRequest(batch=batch))
        confirmed = [next(replies).confirmed.number for _ in range(2)]
        sending.put(None)

        receiving = Requests()
        deliveries = messages.Receive(iter(receiving))
        receiving.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=queue)))
        next(deliveries)
        receiving.put(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
        (first,) = next(deliveries).deliveries.messages
        receiving.put(pb.ReceiveRequest(acknowledge=pb.Acknowledge(lookup_ids=[first.lookup_id])))
        settled = next(deliveries).settled.messages

        deciding = Requests()
        decisions = messages.Transact(iter(deciding))
        deciding.put(pb.TransactRequest(begin=pb.Begin()))
        transaction = next(decisions).transaction
        receiving.put(pb.ReceiveRequest(credit=pb.Credit(messages=1, transaction=transaction)))
        (second,) = next(deliveries).deliveries.messages
        answer = pb.Message(body=b"answer", correlation_id=second.message_id)
        messages.Send(pb.SendRequest(queue=queue, messages=[answer], transaction=transaction))
        deciding.put(pb.TransactRequest(commit=pb.Commit()))
        committed = next(decisions).HasField("committed")
        receiving.put(None)
        deciding.put(None)
        left = messages.Lookup(pb.LookupRequest(queue=queue, seek=pb.SEEK_FIRST))
        error = ""
        try:
            administration.GetQueue(pb.QueueName(queue=".\\private$\\none"))
        except grpc.RpcError as failure:
            told: Any = failure
            found = dict(told.trailing_metadata())["msmq-error-bin"]
            error = pb.Error.FromString(found).name
    seen = {
        "confirmed": confirmed,
        "first": [first.message.body.decode(), first.message.label],
        "settled": settled,
        "second": second.message.body.decode(),
        "committed": committed,
        "left": left.message.body.decode(),
        "answers": left.message.correlation_id == second.message_id,
        "error": error,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
