"""Export models: as graphs that other programs run, and to the Hugging Face hub."""

from brojepa.exporting.directory import export
from brojepa.exporting.upload import push

__all__ = ["export", "push"]
