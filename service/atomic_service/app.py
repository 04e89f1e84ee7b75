"""Puts the application together: routes, resources, error answers. The only place that knows all parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ControllerRouterHandler

from atomic_service.accounts.routes import member_routes, open_routes
from atomic_service.blobs.folder import FolderBlobs
from atomic_service.blobs.port import Blobs
from atomic_service.blobs.routes import blob_routes
from atomic_service.blobs.signing import UrlSigner
from atomic_service.bodies import PackedRequest
from atomic_service.clock import Clock, now_ms
from atomic_service.db import open_database
from atomic_service.edge import Edge, answer_error
from atomic_service.live.hub import Hub
from atomic_service.live.routes import live_routes
from atomic_service.log.routes import log_routes
from atomic_service.mailbox.routes import mailbox_routes
from atomic_service.metrics import Metrics
from atomic_service.operation import operation_routes
from atomic_service.replica import Replica, make_replica, replica_of
from atomic_service.settings import Settings
from atomic_service.shares.public import public_routes
from atomic_service.shares.routes import share_routes
from atomic_service.sweep import sweeping
from atomic_service.uploads.routes import upload_routes
from atomic_sessions.wire import MAX_BODY_BYTES


class Application:
    """The ASGI application of one replica, with its resources once it has started."""

    def __init__(self, settings: Settings, clock: Clock = now_ms) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = Metrics()
        self._blobs = open_blobs(settings, clock)
        self.litestar = Litestar(
            route_handlers=self._routes(),
            dependencies={"replica": Provide(replica_of)},
            exception_handlers={Exception: answer_error},
            request_class=PackedRequest,
            request_max_body_size=MAX_BODY_BYTES,
            lifespan=[self._lifespan],
            openapi_config=OpenAPIConfig(
                title="Atomic Sessions",
                version="1",
                path="/schema",
                render_plugins=[JsonRenderPlugin()],
                use_handler_docstrings=True,
            ),
            logging_config=None,
        )
        self.asgi = Edge(self.litestar, self._metrics)

    def end_streams(self) -> None:
        """Called when a shutdown begins: open live streams would hold it up."""
        replica: Replica | None = getattr(self.litestar.state, "replica", None)
        if replica is not None:
            replica.hub.close()

    def _routes(self) -> list[ControllerRouterHandler]:
        routes: list[ControllerRouterHandler] = [
            open_routes,
            member_routes,
            mailbox_routes,
            log_routes,
            upload_routes,
            share_routes,
            public_routes,
            live_routes,
            operation_routes,
        ]
        if isinstance(self._blobs, FolderBlobs):
            routes.append(blob_routes(self._blobs, self._clock))
        return routes

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        settings = self._settings
        async with open_database(settings.database_url, settings.pool_size) as db:
            hub = Hub(settings.database_url, db)
            async with hub.running(), sweeping(db, self._blobs, self._clock):
                app.state.replica = make_replica(settings, db, self._blobs, hub, self._metrics, self._clock)
                yield
        self._blobs.close()


def open_blobs(settings: Settings, clock: Clock) -> Blobs:
    """The store the settings name."""
    if settings.s3 is not None:
        from atomic_service.blobs.s3 import S3Blobs

        return S3Blobs(settings.s3)
    assert settings.blob_dir is not None
    return FolderBlobs(settings.blob_dir, UrlSigner(settings.server_secret, settings.public_url), clock)
