"""A worker that also knows a queue of somebody else's, with RabbitMQ's own priorities."""

from __future__ import annotations

from kombu import Queue

from tests.faults.gated_app import app

_arguments = {} if app.settings.broker.url.startswith("redis") else {"x-max-priority": 10}
app.conf.task_queues.append(Queue("elsewhere", routing_key="elsewhere", durable=True, queue_arguments=_arguments))
