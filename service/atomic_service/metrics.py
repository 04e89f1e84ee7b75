"""Counts for the operator, in Prometheus' text form. No label names a person, account, device or object."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """One registry for each application, so that two in one process do not share counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "atomic_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "atomic_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self._registry
        )
        self.events = Counter("atomic_events", "Events stored in logs.", registry=self._registry)
        self.event_bytes = Counter(
            "atomic_event_bytes", "Bytes of events stored in logs.", registry=self._registry
        )
        self.replays = Counter("atomic_replayed_events", "Events pushed again.", registry=self._registry)
        self.live = Gauge("atomic_live_streams", "Open live connections.", registry=self._registry)
        self.pokes = Counter("atomic_pokes", "Pokes announced by this replica.", registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)
