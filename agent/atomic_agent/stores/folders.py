"""What a project is in the stores that do not sync: the folder that a session's header names."""

import os


def project_of(folder: str) -> str:
    """The project key of a folder, by its path alone; empty for no folder."""
    return f"path:{os.path.normpath(folder)}" if folder else ""
