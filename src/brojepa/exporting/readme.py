"""The README beside exported graphs: what they are and how to run them without brojepa."""

from __future__ import annotations

import textwrap
from typing import Any

from brojepa.text import fraction, listed

OPEN = {
    "onnx": """\
import json
import numpy as np
import onnxruntime

about = json.load(open("metadata.json"))
graphs = {{name: onnxruntime.InferenceSession(f"{{name}}.onnx") for name in about["graphs"]}}
images = np.zeros((2, {shape}), np.uint8)  # yours: {shape_words}, 0 to 255
(z,) = graphs["encode"].run(None, {{"images": images}})
k = np.array([about["actions"]["{word}"]] * len(z), np.{dtype})
(z,) = graphs["act"].run(None, {{"latents": z, "action": k}})
""",
    "pt2": """\
import json
import torch

about = json.load(open("metadata.json"))
graphs = {{name: torch.export.load(f"{{name}}.pt2").module() for name in about["graphs"]}}
images = torch.zeros(2, {shape}, dtype=torch.uint8)  # yours: {shape_words}, 0 to 255
z = graphs["encode"](images)
k = torch.tensor([about["actions"]["{word}"]] * len(z), dtype=torch.{dtype})
z = graphs["act"](z, k)
""",
}
READ = {
    "onnx": """\
(logits,) = graphs["classify"].run(None, {"latents": z})
print([about["names"][y] for y in logits.argmax(1)])
""",
    "pt2": """\
print([about["names"][y] for y in graphs["classify"](z).argmax(1)])
""",
}
NEEDS = {"onnx": "numpy and onnxruntime", "pt2": "torch"}


def readme(about: dict[str, Any]) -> str:
    """The text for what metadata.json says."""
    form, graphs = about["format"], about["graphs"]
    channels, height, width = about["image"]["shape"]
    action = graphs["act"]["inputs"]["action"]
    code = OPEN[form].format(
        shape=f"{channels}, {height}, {width}",
        shape_words=f"{height} x {width} pixels",
        word=about["trained_actions"][0],
        dtype=action["dtype"],
    )
    code += READ[form] if "classify" in graphs else "print(z.shape)\n"
    name = about["preset"] or about["config_hash"]
    metrics = {key: value for key, value in (about["metrics"] or {}).items() if value is not None}
    reached = f"Accuracy: {listed(f'{key} {fraction(value)}' for key, value in metrics.items())}." if metrics else ""
    lines = [
        f"# {name}, seed {about['seed']}",
        "",
        f"A model of the world {about['world']}, exported by brojepa {about['brojepa']}. "
        f"It needs {NEEDS[form]}, not brojepa.",
        *([reached] if reached else []),
        "",
        "```python",
        code.rstrip(),
        "```",
        "",
        *textwrap.wrap(
            f"Actions are elements of {about['group']}. {about['elements']} metadata.json has words for them, and the "
            "inputs and outputs of each graph. The batch size is free; images are normalised inside the graph.",
            120,
        ),
    ]
    return "\n".join(lines) + "\n"
