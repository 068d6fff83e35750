"""A stock Celery worker understands our messages: they can be drained by any Celery program, and Flower reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from schemas.queues import QUEUES
from schemas.ticket import Priority
from tests.contract.post import Post, stub
from tests.ground.brokers import Broker
from tests.ground.process import Process
from tests.ground.waiting import wait_until

STOCK_APP = """
import json, sys
from celery import Celery

app = Celery(broker={url!r})

@app.task(name="ticketmill.ticket", bind=True)
def ticket(self, *args, **kwargs):
    with open("done.jsonl", "a") as done:
        queue, mark = self.request.delivery_info["routing_key"], self.request.headers["ticketmill"]
        print(json.dumps([self.request.id, list(args), queue, mark]), file=done)
"""


def test_a_stock_worker_runs_our_messages(broker: Broker, process: Callable[..., Process], tmp_path: Path) -> None:
    sent = [stub(priority) for priority in Priority for _ in range(3)]
    Post(broker.url).send(*sent)
    (tmp_path / "stock_app.py").write_text(STOCK_APP.format(url=broker.url))
    arguments = ["-A", "stock_app", "worker", "-P", "solo", "-Q", ",".join(QUEUES), "--without-gossip"]
    worker = process("celery", *arguments)
    done = tmp_path / "done.jsonl"
    wait_until(lambda: done.exists() and done.read_text().count("\n") == len(sent), 60, why=lambda: worker.output(3000))
    ran = {each[0]: each[1:] for each in map(json.loads, done.read_text().splitlines())}
    for each in sent:
        args, routing_key, mark = ran[each.id]
        assert args == [each.id]
        assert routing_key == f"ticketmill.{each.priority}"
        assert (mark["delivery"], mark["tenant"], mark["job"]) == (each.delivery, each.tenant, each.job)
