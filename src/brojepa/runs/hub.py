"""Runs on the Hugging Face hub, hf://user/name or hf://user/name@revision. Needs the extra `[hub]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brojepa.errors import BrojepaError, RequestError, RunError

SCHEME = "hf://"
FILES = ("config.json", "env.json", "result.json", "model.safetensors")
"""What a run needs to be loaded and measured"""
DECODER = ("decoder.safetensors", "decoder.json")
"""What a run has that shows its latents; nothing but these and `FILES` is downloaded."""
_CLIENTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")  # whose errors huggingface_hub lets through
_NAME = re.compile(r"(?!.*(?:--|\.\.))\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)


def download(name: str) -> Path:
    """The run directory of hf://user/name, from the hub or, if that does not answer, from the cache."""
    repo, _, revision = name.removeprefix(SCHEME).partition("@")
    check_name(repo, name)
    hub = library()
    with errors(repo):
        found = Path(hub.snapshot_download(repo, revision=revision or None, allow_patterns=[*FILES, *DECODER]))
    missing = [file for file in ("config.json", "model.safetensors") if not (found / file).is_file()]
    if missing:
        raise RequestError(f"{name} is not a run of brojepa: it has no {missing[0]}")
    return found


def check_name(repo: str, given: str) -> None:
    if not _NAME.fullmatch(repo):
        raise RequestError(f"{given!r}: expected a model on the hub as user/name, as in {SCHEME}user/name")


def library() -> Any:
    """huggingface_hub, or an error that says how to install it."""
    try:
        import huggingface_hub
    except ImportError:
        raise RequestError("the hub needs huggingface_hub: pip install 'brojepa[hub]'") from None
    return huggingface_hub


@contextmanager
def errors(repo: str) -> Iterator[None]:
    """Turn errors of the hub into one line each."""
    from huggingface_hub import errors as known

    try:
        yield
    except BrojepaError:
        raise
    except known.GatedRepoError:
        raise RequestError(f"{repo} is gated: ask for access on its page, then log in with 'hf auth login'") from None
    except known.RepositoryNotFoundError:
        raise RequestError(
            f"there is no {repo} on the hub, or it is private: check the name, or log in with 'hf auth login'"
        ) from None
    except known.RevisionNotFoundError:
        raise RequestError(f"{repo} has no such revision: name a branch, a tag or a commit after the @") from None
    except known.LocalEntryNotFoundError:
        raise RunError(f"the hub does not answer and {repo} is not in the cache: check the network") from None
    except known.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise RequestError(f"the hub refuses {repo} ({status}): log in with 'hf auth login'") from None
        raise RunError(f"the hub failed on {repo} ({' '.join(str(error).split()):.200}): try again later") from None
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RunError(f"the hub cannot be reached for {repo} ({why}): check the network, then try again") from None
