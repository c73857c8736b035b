"""The simulator's senders: messages of all kinds, and what the model expects to follow."""

from __future__ import annotations

from random import Random

from msmq.testing.manager_sim import ManagerSimulation
from msmq.testing.traffic import Delivery, Door
from msmq.wire.headers import QueueReference


def with_queues(seed: int = 1) -> ManagerSimulation:
    simulation = ManagerSimulation(Random(seed))
    while len({traits.transactional for traits in simulation.current.queues.values()}) < 2:
        simulation.perform("create_queue")
    return simulation


def test_sending_brings_acknowledgments_copies_and_dead_letters() -> None:
    simulation = with_queues()
    places: set[str] = set()
    for _ in range(400):
        simulation.perform("send")
        simulation.perform("send_batch")
        places = {item.place for item in simulation._everything().values()}
        if "host\\system$;deadxact" in places:
            break
    assert "host\\system$;journal" in places, "a copy for its sender"
    assert "host\\system$;deadxact" in places, "one that was late at once"
    assert any(place.startswith("direct=tcp:") for place in places), "an acknowledgment on its way"


def test_packets_of_other_hosts_name_queues_in_every_way() -> None:
    """Also by the number of a queue on the host that a direct name says, which no application can write."""
    simulation = with_queues()
    stranger, by_number = simulation._stranger.surroundings.source, QueueReference.PRIVATE_ON_DESTINATION
    admin, response = set[int](), set[int]()
    for _ in range(300):
        simulation.perform("arrive")
        for queue in simulation._all_queues().values():
            for entry in queue.positions:
                user = simulation.manager.mailbox.load(queue, entry.lookup_id).packet.user
                if user.source_queue_manager == stranger:
                    admin.add(user.admin_reference)
                    response.add(user.response_reference)
        simulation.perform("receive_many")
        if {by_number, QueueReference.DIRECT} <= admin & response:
            break
    assert {by_number, QueueReference.DIRECT} <= admin & response


def test_no_two_messages_expire_in_one_second() -> None:
    simulation = with_queues()
    path = next(iter(simulation.current.queues))
    lives = [
        simulation._draft(path, time_to_be_received_s=5, delivery=Delivery.EXPRESS).time_to_be_received_s
        for _ in range(5)
    ]
    assert lives == [5, 6, 7, 8, 9]


def test_bodies_are_told_apart() -> None:
    simulation = with_queues()
    path = next(iter(simulation.current.queues))
    bodies = [simulation._draft(path, Door.CLIENT).body for _ in range(30)]
    assert len(set(bodies)) == 30
    assert not any(0 in body for body in bodies)
