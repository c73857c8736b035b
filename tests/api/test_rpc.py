"""The table of calls."""

from __future__ import annotations

from msmq.api import rpc
from msmq.api.generated import msmq_pb2 as pb


def test_every_method_of_the_contract_is_there() -> None:
    names = {method.path for method in rpc.methods()}
    assert "/msmq.v1.Messages/SendStream" in names
    assert "/msmq.v1.Administration/ListQueues" in names
    assert len(names) == sum(len(service.methods) for service in pb.DESCRIPTOR.services_by_name.values())


def test_kinds_and_attributes() -> None:
    methods = {method.name: method for method in rpc.methods()}
    assert methods["SendStream"].kind == "stream_stream"
    assert methods["SendStream"].attribute == "send_stream"
    assert methods["WatchStatistics"].kind == "unary_stream"
    assert methods["GetQueue"].kind == "unary_unary"
    request = pb.QueueName(queue="q")
    assert methods["GetQueue"].deserialize_request(methods["GetQueue"].serialize_request(request)) == request
