"""What a run says of itself first."""

from s3.server import header


def pytest_report_header() -> str:
    """Which S3 server the tests talk to."""
    return header()
