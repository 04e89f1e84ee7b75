"""The S3 server of the tests: radosgw where Ceph is installed, else moto, which checks no signature and says so.

One for each process that asks, in 2 s; nothing of it outlives that process.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import boto3

from atomic_service.settings import S3Settings
from s3.radosgw import ACCESS, SECRET, Cluster, is_installed

BUCKET, REGION = "atomic", "us-east-1"
HAS_RADOSGW = is_installed()
NO_RADOSGW = "radosgw is not installed here (Debian: radosgw ceph-mon ceph-osd)"
MOTO = """
import socket, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


def bucket_keys(settings: S3Settings) -> list[str]:
    """Every key in the bucket."""
    client = _client(settings)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=settings.bucket)
    keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
    client.close()
    return keys


def _client(settings: S3Settings) -> Any:  # boto3 ships no types
    return boto3.client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
    )


def header() -> str:
    """One line for the head of a test run."""
    if HAS_RADOSGW:
        return "s3: radosgw, which checks signatures"
    return f"s3: MOTO; SIGNATURES ARE NOT CHECKED, and the tests of them are skipped: {NO_RADOSGW}"


class Restartable(Protocol):
    """An S3 endpoint that can be killed and comes back with its objects."""

    def start(self) -> None:
        """Returns when it answers."""

    def kill(self) -> None:
        """kill -9."""


class S3Server:
    """A running server with an empty bucket. `gateway` is set where it can be killed alone."""

    def __init__(self, settings: S3Settings, gateway: Restartable | None = None) -> None:
        self.settings = settings
        self.gateway = gateway
        client = _client(settings)
        client.create_bucket(Bucket=settings.bucket)
        client.close()


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """A server for as long as the block runs; `folder` is empty and stays the caller's."""
    if not HAS_RADOSGW:
        with _moto() as server:
            yield server
        return
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield S3Server(_settings(cluster.gateway.endpoint), cluster.gateway)
    finally:
        cluster.stop()


@contextmanager
def _moto() -> Iterator[S3Server]:
    with subprocess.Popen(
        [sys.executable, "-c", MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield S3Server(_settings(f"http://127.0.0.1:{int(process.stdout.readline())}"))
        process.communicate("")


def _settings(endpoint: str) -> S3Settings:
    return S3Settings(endpoint, endpoint, BUCKET, REGION, ACCESS, SECRET)
