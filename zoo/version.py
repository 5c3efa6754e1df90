"""The version, and the address of the repository, in the one place that the build, the hub and the command read."""

__version__ = "0.1.0"
REPOSITORY = "https://github.com/OWNER/ssl-zoo"
"""OWNER stands for the account that hosts it; ``python scripts/release.py URL`` puts it here and everywhere else."""


def find_repository() -> str | None:
    """The address of the repository; None as long as nobody has said who hosts it."""
    return None if "OWNER" in REPOSITORY else REPOSITORY


def find_library_version(distribution: str) -> str | None:
    """The version of what is installed; None if it is not, or is a source tree on the path."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
