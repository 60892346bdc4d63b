"""A run's decoder on disk: `decoder.safetensors` beside the model it belongs to, and `decoder.json` for people.

Runs in the package and on the hub are read-only: their decoders are kept in the cache, by the checksum of the model. A
decoder records that checksum, so it is never used for another model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brojepa import files
from brojepa.errors import RunError
from brojepa.files import COUNT, NONE, NUMBER, TEXT, Kinds
from brojepa.models import Model
from brojepa.models.decoder import Decoder, DecoderNet
from brojepa.runs import checkpoint
from brojepa.runs.run import Run

FILE, ABOUT = "decoder.safetensors", "decoder.json"
FACTS: Kinds = {
    "model": TEXT, "seed": COUNT, "steps": COUNT, "images": COUNT, "held_out_images": COUNT, "error": NUMBER,
    "mean_image_error": NUMBER, "state_image_error": NUMBER + NONE,
}  # fmt: skip
"""What a decoder says of itself"""


def in_cache(run: Run) -> Path:
    """The path of a decoder in the cache, for a run that is read-only."""
    return files.cache_dir() / "decoders" / checkpoint.checksum(run.model_file)[:16] / FILE


def find(run: Run) -> Path | None:
    """A run's decoder: beside its model, else in the cache; None if there is none."""
    return next((file for file in (run.path / FILE, in_cache(run)) if file.is_file()), None)


def save(file: Path, decoder: Decoder, more: dict[str, Any]) -> None:
    """Write a decoder, and beside it its description and `more`. The decoder comes last: it is complete or absent."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {file.parent}: {error.strerror}; free some space, then repeat") from None
    files.remove_leftovers(file.parent)
    files.write_json(file.with_name(ABOUT), decoder.about | more)
    checkpoint.save(file, decoder.net.state_dict(), decoder.about)


def load(run: Run, model: Model) -> Decoder | None:
    """The decoder of a run's model, or None if none was trained."""
    file = find(run)
    if file is None:
        return None
    remedy = "remove it and run 'brojepa decode' again"
    tensors, about = checkpoint.load(file, FACTS, remedy)
    if about["model"] != checkpoint.checksum(run.model_file):
        raise RunError(f"{file} was trained for another model than {run.model_file}: {remedy}")
    if not all(bool(t.isfinite().all()) for t in tensors.values()):
        raise RunError(f"{file} holds numbers that are not finite: {remedy}")
    net = DecoderNet(model.action.dim, model.task.shape)
    try:
        net.load_state_dict(tensors)
    except RuntimeError:
        raise RunError(f"{file} does not fit {run.model_file}: {remedy}") from None
    return Decoder(net, about)
