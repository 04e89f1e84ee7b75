"""infra/s3: the bucket is made once, and is private."""

import importlib.util
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import ModuleType

import boto3
import pytest
from moto.server import ThreadedMotoServer

from infra.repository import ROOT, text


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """make_bucket.py, which is no part of a package: the image runs it by its path."""
    spec = importlib.util.spec_from_file_location("make_bucket", ROOT / "infra/s3/make_bucket.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Settings of a new, empty S3 server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "ATOMIC_S3_ENDPOINT": f"http://{host}:{port}",
        "ATOMIC_S3_BUCKET": "atomic-blobs",
        "ATOMIC_S3_ACCESS_KEY": "access",
        "ATOMIC_S3_SECRET_KEY": "secret",
    }
    server.stop()


class Closed(BaseHTTPRequestHandler):
    """An S3 server as far as an unsigned request sees it."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *arguments: object) -> None:
        del arguments


def test_makes_the_bucket_once(script: ModuleType, environment: dict[str, str]) -> None:
    """The first run makes it, the second finds it."""
    client = boto3.client(
        "s3",
        endpoint_url=environment["ATOMIC_S3_ENDPOINT"],
        region_name="us-east-1",
        aws_access_key_id="access",
        aws_secret_access_key="secret",
    )
    assert script.ensure_bucket(client, "atomic-blobs")
    assert not script.ensure_bucket(client, "atomic-blobs")


def test_a_bucket_that_anybody_lists_stops_the_start(
    script: ModuleType, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a server that asks for no key the one-shot fails, so no replica starts."""
    assert script.main([], environment) == 1
    assert "without a key" in capsys.readouterr().err


def test_a_closed_bucket_is_private(script: ModuleType) -> None:
    """An unsigned request that is refused is what the check wants."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Closed)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert not script.readable_without_key(f"http://127.0.0.1:{server.server_port}", "atomic-blobs")
    finally:
        server.shutdown()
        server.server_close()


def test_an_unreachable_server_is_an_error_in_one_line(
    script: ModuleType, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing listens: one line and exit code 1, no traceback."""
    assert script.main([], {**environment, "ATOMIC_S3_ENDPOINT": "http://127.0.0.1:9"}) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_policy_and_lifecycle_are_accepted(
    script: ModuleType, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Both files are what the S3 API takes."""
    folder = ROOT / "infra/s3"
    script.main(
        ["--policy", str(folder / "bucket-policy.json"), "--lifecycle", str(folder / "lifecycle.json")],
        environment,
    )
    assert "without a key" in capsys.readouterr().err
    client = boto3.client(
        "s3",
        endpoint_url=environment["ATOMIC_S3_ENDPOINT"],
        region_name="us-east-1",
        aws_access_key_id="access",
        aws_secret_access_key="secret",
    )
    policy = json.loads(client.get_bucket_policy(Bucket="atomic-blobs")["Policy"])
    assert "${" not in json.dumps(policy)
    rules = client.get_bucket_lifecycle_configuration(Bucket="atomic-blobs")["Rules"]
    assert {rule["Filter"]["Prefix"] for rule in rules} == {"up/", "share/"}


def test_policy_only_forbids() -> None:
    """Access comes from identities; the policy opens nothing to anybody."""
    policy = json.loads(text("infra/s3/bucket-policy.json"))
    assert {statement["Effect"] for statement in policy["Statement"]} == {"Deny"}


def test_no_lifecycle_rule_expires_an_object() -> None:
    """An acknowledged record may lie under up/ for years: only what no reader can name ends by itself."""
    for rule in json.loads(text("infra/s3/lifecycle.json"))["Rules"]:
        assert "Expiration" not in rule
        assert "Transitions" not in rule
