"""A finished run to the Hugging Face hub, with a model card."""

from __future__ import annotations

import tempfile
from pathlib import Path

from brojepa.config import world_code
from brojepa.exporting.card import card
from brojepa.files import write_atomically, write_json
from brojepa.runs import Run, hub
from brojepa.runs.find import find


def push(run: str | Path, name: str, *, licence: str = "mit", private: bool = False) -> str:
    """Upload a finished run to the Hugging Face hub, where `load("hf://user/name")` finds it.

    Log in first: `hf auth login`.

    Args:
        run: a run directory, or a preset whose weights are in the package.
        name: the repository, "user/name"; it is created if necessary.
        licence: as the hub names them.
        private: make a new repository private.

    Returns:
        The address of the commit.

    Raises:
        RequestError: not a run, a name of another form, no login, or huggingface_hub is not installed.

    Examples:
        >>> import brojepa
        >>> brojepa.push("mnist/fast", "me/brojepa-mnist")  # doctest: +SKIP
        'https://huggingface.co/me/brojepa-mnist/commit/...'
    """
    source, repo = find(run), name.removeprefix(hub.SCHEME)
    hub.check_name(repo, name)
    api = hub.library().HfApi()
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), source, repo, licence)
        with hub.errors(repo):
            api.create_repo(repo, private=private, exist_ok=True)
            done = api.upload_folder(
                repo_id=repo,
                folder_path=folder,
                commit_message=f"Add {source.header.get('preset') or source.config.hash}",
            )
    return str(done.commit_url)


def _fill(folder: Path, run: Run, repo: str, licence: str) -> None:
    """Collect what goes to the hub: the card and the files of a run, without the path of own images."""
    write_atomically(folder / "README.md", card(run, repo, licence).encode())
    for name in (*hub.FILES, *hub.DECODER):
        if (run.path / name).is_file():
            write_atomically(folder / name, (run.path / name).read_bytes())
    header = run.header
    if not world_code(header.get("world_path", "")):
        header.pop("world_path", None)
    write_json(folder / "config.json", header)
