"""Images and labels in whatever form they are brought: NumPy, torch or Pillow, whole or one by one.

What comes out is one form: uint8 images [count, channels, height, width] and int64 labels [count].
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.worlds.pictures import plain

CHANNELS = (1, 3, 4)
EVERY = 5  # one image in so many is for test where nothing is set apart


def as_arrays(where: str, images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels in the one form; `where` begins an error.

    Args:
        where: which world and split.
        images: uint8 or floats from 0 to 1, [count, h, w], [count, h, w, c] or [count, c, h, w]. Where the shape could
            be either of the last two, an array has its channels last and a tensor first.
        labels: integers [count].
    """
    first = isinstance(images, Tensor)
    images, labels = as_numpy(images), as_numpy(labels)
    if labels.ndim != 1 or images.ndim not in (3, 4):
        hint = ": are the image and label files swapped?" if labels.ndim > images.ndim else ""
        raise RequestError(
            f"{where}: images have {images.ndim} dimensions and labels {labels.ndim}, need 3 or 4 and 1{hint}"
        )
    if 0 in images.shape[1:]:
        raise RequestError(f"{where}: images of {' x '.join(map(str, images.shape[1:]))} have no pixels")
    if len(images) != len(labels):
        raise RequestError(f"{where}: {len(images)} images but {len(labels)} labels, files of different splits?")
    if (images.dtype != np.uint8 and images.dtype.kind != "f") or labels.dtype.kind not in "iu":
        raise RequestError(
            f"{where}: images must be uint8, or floats from 0 to 1, and labels integers, "
            f"got {images.dtype} and {labels.dtype}"
        )
    images = images[:, None] if images.ndim == 3 else _channels_first(where, images, first)
    return scaled(where, images), labels.astype(np.int64)


def as_numpy(values: Any) -> np.ndarray:
    """An array or a tensor from any device as an array."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype is torch.bfloat16 else values).numpy()


def scaled(where: str, images: np.ndarray) -> np.ndarray:
    """uint8 as it is, floats from 0 to 1 times 255 and rounded; anything else is an error."""
    if images.dtype == np.uint8:
        return images
    low, high = float(images.min(initial=0)), float(images.max(initial=0))
    if images.dtype.kind != "f" or not 0 <= low <= high <= 1:
        hint = ", and leave out a normalisation: the model has its own" if low < 0 else ""
        raise RequestError(
            f"{where}: images are {images.dtype} from {low:.4g} to {high:.4g}: give uint8 from 0 to 255 or floats from "
            f"0 to 1{hint}"
        )
    return np.rint(images * 255).astype(np.uint8)


def _channels_first(where: str, images: np.ndarray, first: bool) -> np.ndarray:
    """[count, h, w, c] or [count, c, h, w] as the latter; `first` decides where it could be either."""
    if images.shape[1] in CHANNELS and (first or images.shape[3] not in CHANNELS):
        return images
    if images.shape[3] not in CHANNELS:
        raise RequestError(
            f"{where}: images of shape {images.shape[1:]} must be height x width x 1, 3 or 4 channels, or these first"
        )
    return np.moveaxis(images, 3, 1)


def from_items(where: str, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a map-style dataset holds, item by item: images uint8 [count, c, h, w] and labels [count]."""
    try:
        count = len(dataset)
    except TypeError:
        raise RequestError(f"{where}: {type(dataset).__name__} has no length, give a map-style dataset") from None
    images, labels = [], []
    for i in range(count):
        image, label = _item(f"{where}, item {i}", dataset[i])
        if images and image.shape[1:] != images[0].shape[1:]:
            sizes = " and ".join("x".join(map(str, one.shape[1:])) for one in (images[0], image))
            raise RequestError(f"{where}: items 0 and {i} differ in size ({sizes}), resize them alike")
        images.append(image)
        labels.append(label)
    channels = max((len(image) for image in images), default=1)
    odd = [i for i, image in enumerate(images) if len(image) not in (1, channels)]
    if odd:
        raise RequestError(f"{where}: item {odd[0]} has {len(images[odd[0]])} channels, others have {channels}")
    shape = (count, channels, *(images[0].shape[1:] if images else (0, 0)))
    whole = np.empty(shape, np.uint8)
    for i, image in enumerate(images):
        whole[i] = image  # a grey one among colours has all channels alike
    return whole, np.array(labels, np.int64)


def _item(where: str, item: Any) -> tuple[np.ndarray, int]:
    """One image, uint8 [c, h, w], and its label."""
    if isinstance(item, Mapping):
        if not {"image", "label"} <= item.keys():
            raise RequestError(f"{where} holds {', '.join(map(str, item))}: expected image and label")
        item = (item["image"], item["label"])
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise RequestError(f"{where} is a {type(item).__name__}: expected (image, label)")
    image, label = item
    try:
        label = operator.index(label)
    except TypeError:
        raise RequestError(f"{where} has the label {label!r}: expected an integer") from None
    if isinstance(image, Image.Image):
        image = np.asarray(plain(image).image)
        return (image[None] if image.ndim == 2 else np.moveaxis(image, 2, 0)), label
    if not isinstance(image, (Tensor, np.ndarray)) or image.ndim not in (2, 3):
        shape = getattr(image, "shape", "")
        raise RequestError(f"{where} has a {type(image).__name__} {tuple(shape)} for an image: expected [h, w] or "
                           "[c, h, w], an array, a tensor or a Pillow image")  # fmt: skip
    pixels = as_numpy(image)
    pixels = pixels[None] if pixels.ndim == 2 else _channels_first(where, pixels[None], isinstance(image, Tensor))[0]
    return scaled(where, pixels), label


def every_fifth(labels: np.ndarray) -> np.ndarray:
    """Whether each image is kept for test where nothing is set apart: every fifth of its state."""
    order = labels.argsort(kind="stable")
    rank = np.empty(len(labels), np.int64)
    _, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    rank[order] = np.arange(len(labels)) - np.repeat(starts, sizes)
    return rank % EVERY == EVERY - 1
