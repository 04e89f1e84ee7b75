"""`/healthz`, `/readyz`, `/metrics`: for whoever runs the service. The proxy keeps the last two inside."""

from litestar import MediaType, Response, Router, get
from prometheus_client import CONTENT_TYPE_LATEST

from atomic_service.migrate import is_migrated
from atomic_service.problems import Refused
from atomic_service.replica import Here
from atomic_sessions.wire import ErrorCode


@get("/healthz", media_type=MediaType.TEXT)
async def healthz() -> str:
    """The process answers."""
    return "ok\n"


@get("/readyz", media_type=MediaType.TEXT)
async def readyz(replica: Here) -> str:
    """Database and object store answer and the schema is this version's; 503 otherwise."""
    async with replica.db.connection() as connection:
        if not await is_migrated(connection):
            raise Refused(ErrorCode.UNAVAILABLE, "The database waits for its migrations.")
    await replica.blobs.check()
    return "ready\n"


@get("/metrics", media_type=CONTENT_TYPE_LATEST)
async def metrics(replica: Here) -> Response[bytes]:
    """Counts and times, without anything about persons."""
    return Response(replica.metrics.text(), media_type=CONTENT_TYPE_LATEST)


operation_routes = Router("/", route_handlers=[healthz, readyz, metrics], tags=["operation"])
