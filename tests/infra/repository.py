"""Where things lie in the repository, for the tests that read its files. Reads only."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "atomic_sessions": ROOT / "agent" / "atomic_sessions",
    "atomic_agent": ROOT / "agent" / "atomic_agent",
    "atomic_service": ROOT / "service" / "atomic_service",
}


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def compose() -> Any:  # YAML is what the file says it is; the tests look at it piece by piece
    return yaml.safe_load(text("compose.yaml"))


def run(
    *command: str, cwd: Path = ROOT, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command's outcome, with nothing of this process's environment but PATH."""
    return subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LC_ALL": "C.UTF-8",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
