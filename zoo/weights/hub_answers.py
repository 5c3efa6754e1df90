"""What the Hugging Face Hub answers to a HEAD request about one file of a repository."""

from __future__ import annotations

import re

from ..optional import requires_extra
from .answers import Answer
from .hub_connection import FAILURES, in_one_line
from .places import Source

with requires_extra("models", needed_for="Weights on Hugging Face"):
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

_TIMEOUT_S = 10.0


def head(resolved: Source, name: str, revision: str, *, token: str) -> Answer | None:
    """What the Hub says of a file at a revision, or in the latest one; None if the repository has no such file."""
    assert resolved.repository is not None  # of a place on the Hub
    address = hf_hub_url(resolved.repository, name, revision=revision or None)
    try:
        about = get_hf_file_metadata(address, token=token or False, timeout=_TIMEOUT_S, library_name="ssl-zoo")
    except GatedRepoError:
        return Answer(access="gated")
    except RepositoryNotFoundError:
        return Answer(access="gone", detail=f"no repository {resolved.repository}, or it is private")
    except RevisionNotFoundError:
        return Answer(access="gone", detail=f"{resolved.repository} has no revision {revision}")
    except EntryNotFoundError:
        return None
    except FAILURES as error:
        if isinstance(error, HfHubHTTPError) and error.response is not None and error.response.status_code == 403:
            return Answer(access="gated")
        return Answer(access="unreachable", detail=in_one_line(error))
    digest = about.etag if about.etag and re.fullmatch("[0-9a-f]{64}", about.etag) else ""
    return Answer(access="open", revision=about.commit_hash or "", sha256=digest, size_bytes=about.size)
