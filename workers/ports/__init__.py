"""What the drain needs of the world, in our own words. Each port has one contract suite, run on every adapter."""

from workers.ports.engine import Completed, DeviceLost, Engine, Failed, Load, StepFailed, Work
from workers.ports.ledger import Committed, Ledger, Monitor, Results, Settlement, Start, Started
from workers.ports.transport import Clock, Delivery, Loop, Orders, Transport

__all__ = [
    "Clock",
    "Committed",
    "Completed",
    "Delivery",
    "DeviceLost",
    "Engine",
    "Failed",
    "Ledger",
    "Load",
    "Loop",
    "Monitor",
    "Orders",
    "Results",
    "Settlement",
    "Start",
    "Started",
    "StepFailed",
    "Transport",
    "Work",
]
