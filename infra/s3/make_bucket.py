"""
Make the bucket, apply policy and lifecycle where that is asked for, and prove that the bucket is private.

Runs once before the replicas, with the administrator's key, inside the service's image. Running it again
changes nothing. It needs boto3 and nothing of ours, and never deletes an object or a bucket.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

Client = Any  # boto3 ships no types; it builds its clients from data files at run time


def setting(environment: Mapping[str, str], name: str) -> str:
    """A setting, or the content of the file its _FILE twin names."""
    if path := environment.get(name + "_FILE"):
        return Path(path).read_text().strip()
    if value := environment.get(name):
        return value
    raise SystemExit(f"make_bucket: {name} or {name}_FILE is not set")


def ensure_bucket(client: Client, bucket: str) -> bool:
    """Whether the bucket had to be made."""
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:  # 403: it is somebody else's
            raise
        client.create_bucket(Bucket=bucket)
        return True
    return False


def readable_without_key(endpoint: str, bucket: str) -> bool:
    """Whether a request without any signature gets the list of objects."""
    address = f"{endpoint.rstrip('/')}/{urllib.parse.quote(bucket)}?list-type=2"
    if not address.startswith(("http://", "https://")):
        raise SystemExit(f"make_bucket: {endpoint} is no http address")
    try:
        with urllib.request.urlopen(address, timeout=10):  # noqa: S310 - the scheme was checked above
            return True
    except urllib.error.HTTPError as error:
        if error.code in {401, 403}:
            return False
        raise


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make_bucket", description="Make the bucket and prove that it is private."
    )
    parser.add_argument("--policy", type=Path, help="a bucket policy; ${ATOMIC_S3_BUCKET} in it is filled in")
    parser.add_argument("--lifecycle", type=Path, help="a lifecycle configuration")
    options = parser.parse_args(arguments)

    endpoint = setting(environment, "ATOMIC_S3_ENDPOINT")
    bucket = setting(environment, "ATOMIC_S3_BUCKET")
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=environment.get("ATOMIC_S3_REGION", "us-east-1"),
        aws_access_key_id=setting(environment, "ATOMIC_S3_ACCESS_KEY"),
        aws_secret_access_key=setting(environment, "ATOMIC_S3_SECRET_KEY"),
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 5, "mode": "standard"}),
    )
    try:
        made = ensure_bucket(client, bucket)
        if options.policy:
            policy = options.policy.read_text().replace("${ATOMIC_S3_BUCKET}", bucket)
            client.put_bucket_policy(Bucket=bucket, Policy=policy)
        if options.lifecycle:
            client.put_bucket_lifecycle_configuration(
                Bucket=bucket, LifecycleConfiguration=json.loads(options.lifecycle.read_text())
            )
        if readable_without_key(endpoint, bucket):
            print(
                f"make_bucket: {bucket} can be listed without a key. Close it before anything is stored.",
                file=sys.stderr,
            )
            return 1
    except (BotoCoreError, ClientError, OSError) as error:
        print(f"make_bucket: {error}", file=sys.stderr)
        return 1
    print(f"{bucket}: {'made' if made else 'was there'}, private")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
