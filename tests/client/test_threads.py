"""Threads of a program that each have a connection of their own, and so event loops that run beside each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msmq
from tests.client.support import mail_to, messages_of, serving
from tests.mail import check_properties, in_order, number_of
from tests.server.support import PATIENCE_S

THREADS, MESSAGES = 4, 200


def test_each_thread_gets_what_it_sent(tmp_path: Path) -> None:
    def use(thread: int) -> None:
        path = f".\\private$\\q{thread}"
        mail = mail_to(path, everything=False, seed=thread)
        sent = [mail.numbered() for _ in range(MESSAGES)]
        with msmq.connect_sync(server) as mq:
            queue = mq.create_queue(path)
            queue.send_many(messages_of(sent))
            for draft in in_order(sent):
                message = queue.receive(timeout=PATIENCE_S)
                assert message.body == draft.body
                check_properties(sent[number_of(message)], message)

    with serving(tmp_path) as server, ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(use, range(THREADS)))
