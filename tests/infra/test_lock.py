"""requirements.lock: what is installed is what was chosen, from wherever the machine gets its packages."""

import re
import tomllib

from infra.repository import text


def test_every_line_is_pinned_and_hashed() -> None:
    """Each requirement has one exact version and at least one SHA-256."""
    blocks = re.split(r"\n(?=\S)", text("requirements.lock").rstrip())
    assert len(blocks) > 50
    for block in blocks:
        assert re.match(r"[a-z0-9-]+==[^ ]+( ; .+)? \\\n", block), block.splitlines()[0]
        hashes = block.splitlines()[1:]
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)


def test_no_address_host_or_path() -> None:
    """The lock names no index, host, URL or path: it holds on a machine with an index of its own."""
    lock = text("requirements.lock")
    assert "://" not in lock
    assert not re.search(r"--(index|extra-index|find-links|trusted-host)", lock)
    assert not re.search(r"(^|\s)[~/]\S*", lock.replace("\\\n", ""))
    assert "#" not in lock


def test_every_declared_dependency_is_locked() -> None:
    """All of the agent's, the service's and the developers' packages are in the lock."""
    project = tomllib.loads(text("pyproject.toml"))
    declared = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["service"],
        *project["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in declared}
    locked = set(re.findall(r"^([a-z0-9-]+)==", text("requirements.lock"), re.MULTILINE))
    assert names <= locked
