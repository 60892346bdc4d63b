"""A page on this machine to play with a trained model: `brojepa demo`.

`scene` answers what the page asks, `kinds` knows the worlds, `actor` a model; `page` is what a browser sees.
"""

from brojepa.demo.kinds import scene
from brojepa.demo.page import serve
from brojepa.demo.staging import stage

__all__ = ["scene", "serve", "stage"]
