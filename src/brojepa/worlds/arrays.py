"""Images and labels in any form: NumPy, torch or Pillow, whole or one by one.

The result is always uint8 images [count, channels, height, width] and int64 labels [count].
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.worlds.pictures import fit, named, plain, quiet, read_picture, resized
from brojepa.worlds.rows import Rows, from_array

CHANNELS = (1, 3, 4)
ONE = (str, Path, Image.Image, np.ndarray, Tensor)  # what a list of images may hold
EVERY = 5  # every fifth image is for test if there is no test split


def as_arrays(where: str, images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels in that form; `where` begins an error.

    Args:
        where: which world and split.
        images: uint8 or floats from 0 to 1, [count, h, w], [count, h, w, c] or [count, c, h, w]. If the shape could
            be either of the last two, arrays have channels last and tensors first.
        labels: integers [count].
    """
    first = isinstance(images, Tensor)
    images, labels = as_numpy(images), as_numpy(labels)
    if labels.ndim != 1 or images.ndim not in (3, 4):
        hint = ": are the image and label files swapped?" if labels.ndim > images.ndim else ""
        raise RequestError(
            f"{where}: images have {images.ndim} dimensions and labels {labels.ndim}, need 3 or 4 and 1{hint}"
        )
    if len(images) and 0 in images.shape[1:]:
        raise RequestError(f"{where}: images of {' x '.join(map(str, images.shape[1:]))} have no pixels")
    if len(images) != len(labels):
        raise RequestError(f"{where}: {len(images)} images but {len(labels)} labels: are they of different splits?")
    if (images.dtype != np.uint8 and images.dtype.kind != "f") or labels.dtype.kind not in "iu":
        raise RequestError(
            f"{where}: images must be uint8, or floats from 0 to 1, and labels integers, "
            f"got {images.dtype} and {labels.dtype}"
        )
    images = images[:, None] if images.ndim == 3 else _channels_first(where, images, first)
    return scaled(where, images), labels.astype(np.int64)


def as_images(where: str, images: Any, labels: Any) -> tuple[Tensor | Rows, np.ndarray]:
    """The same for a world to keep: a copy of the images, or, where they are on disk, rows that stay there."""
    if isinstance(images, Rows):
        return images, as_arrays(where, np.broadcast_to(np.uint8(0), images.shape), labels)[1]
    pixels, labels = as_arrays(where, images, labels)
    return from_array(pixels), labels


def resized_arrays(where: str, images: Any, height: int, width: int) -> np.ndarray:
    """Images in any form, stretched or shrunk to a size: uint8 [count, height, width, c]. Shrinking averages pixels."""
    pixels, _ = as_arrays(where, images, np.zeros(len(images), np.int64))
    found = np.empty((*pixels.shape[:2], height, width), np.uint8)
    for row, image in zip(found, pixels, strict=True):
        for plane, channel in zip(row, image, strict=True):  # one by one: a fourth one need not be transparency
            plane[:] = np.asarray(resized(Image.fromarray(channel), height, width))
    return np.moveaxis(found, 1, 3)


def as_numpy(values: Any) -> np.ndarray:
    """An array or a tensor from any device as an array."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype is torch.bfloat16 else values).numpy()


def scaled(where: str, images: np.ndarray) -> np.ndarray:
    """uint8 unchanged, floats from 0 to 1 times 255 and rounded; anything else is an error."""
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
    """Images with channels first; `first` decides if the shape could be either."""
    if images.shape[1] in CHANNELS and (first or images.shape[3] not in CHANNELS):
        return images
    if images.shape[3] not in CHANNELS:
        raise RequestError(
            f"{where}: images of shape {images.shape[1:]} must be height x width x 1, 3 or 4 channels, or these first"
        )
    return np.moveaxis(images, 3, 1)


def from_items(where: str, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """The items of a map-style dataset: images uint8 [count, c, h, w] and labels [count]."""
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
        whole[i] = image  # a grey image among colour images gets equal channels
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
        with quiet(), named(where):
            image = np.asarray(plain(image).image)
        return (image[None] if image.ndim == 2 else np.moveaxis(image, 2, 0)), label
    if not isinstance(image, (Tensor, np.ndarray)) or image.ndim not in (2, 3):
        shape = getattr(image, "shape", "")
        raise RequestError(f"{where} has a {type(image).__name__} {tuple(shape)} for an image: expected [h, w] or "
                           "[c, h, w], an array, a tensor or a Pillow image")  # fmt: skip
    pixels = as_numpy(image)
    pixels = pixels[None] if pixels.ndim == 2 else _channels_first(where, pixels[None], isinstance(image, Tensor))[0]
    return scaled(where, pixels), label


def as_batch(images: Any, shape: tuple[int, int, int]) -> Tensor | Rows:
    """Images for a model that reads a shape [c, h, w], as a tensor [count, c, h, w] of numbers from 0 to 255.

    Args:
        images: one image or several, as arrays, tensors, Pillow images or paths; see `Model.encode`.
        shape: channels, height and width that the model reads.
    """
    if isinstance(images, Rows) and tuple(images.shape[1:]) == shape:
        return images  # read as they are encoded
    if isinstance(images, (str, Path, Image.Image)):
        images = [images]
    if isinstance(images, (list, tuple)) and any(isinstance(i, ONE) for i in images):
        arrays = [i for i in images if isinstance(i, (np.ndarray, Tensor))]
        if len(arrays) < len(images) or len({(type(i), i.dtype, tuple(i.shape)) for i in arrays}) > 1:
            return torch.cat([_one(image, i, shape) for i, image in enumerate(images)])
        images = torch.stack(arrays) if isinstance(arrays[0], Tensor) else np.stack(arrays)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if isinstance(images, np.ndarray):
        if images.dtype.kind not in "biuf":
            raise RequestError(f"images are {images.dtype}, expected numbers from 0 to 255 or floats from 0 to 1")
        if images.dtype.kind == "u" and images.dtype != np.uint8:
            images = images.astype(np.int64)  # torch lacks most of these types
        if not images.flags.writeable or min(images.strides, default=0) < 0:
            images = images.copy()  # torch warns about read-only arrays, and cannot read negative strides
    try:
        images = torch.as_tensor(images)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RequestError(f"images cannot be read as numbers ({' '.join(str(error).split())})") from None
    if tuple(images.shape) in (shape, shape[1:]):
        images = images.reshape(1, *shape) if images.ndim == 3 or shape[0] == 1 else images
    elif images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or tuple(images.shape[1:]) != shape:
        given, wanted = ("x".join(map(str, s)) for s in (images.shape[1 if images.ndim == 4 else 0 :], shape))
        raise RequestError(f"images are {given}, this model reads {wanted} (channels x height x width)")
    return images if images.dtype is torch.uint8 else _to_255(images)


def _one(image: Any, i: int, shape: tuple[int, int, int]) -> Tensor:
    """One of a list, [1, c, h, w]."""
    if isinstance(image, (str, Path)):
        image = torch.from_numpy(read_picture(image, shape).copy())
    elif isinstance(image, Image.Image):
        with quiet(), named(f"image {i}"):
            image = torch.from_numpy(fit(image, shape, f"image {i}").copy())
    return as_batch(image, shape)[:].float()


def _to_255(images: Tensor) -> Tensor:
    """Numbers from 0 to 255 unchanged, floats from 0 to 1 times 255; anything else is an error."""
    if images.dtype is torch.bool:
        return images.to(torch.uint8) * 255
    low, high = (float(end) for end in images.aminmax()) if images.numel() else (0.0, 0.0)
    if images.is_floating_point() and 0 <= low <= high <= 1:
        return images * 255
    if 0 <= low <= high <= 255 and bool((images == images.round()).all() if images.is_floating_point() else True):
        return images
    hint = ", and leave out a normalisation: the model has its own" if low < 0 else ""
    kind = str(images.dtype).removeprefix("torch.")
    raise RequestError(
        f"images are {kind} from {low:.4g} to {high:.4g}: give whole numbers from 0 to 255 or floats from 0 to 1{hint}"
    )


def every_fifth(labels: np.ndarray) -> np.ndarray:
    """Which images are kept for test if there is no test split: every fifth of each state."""
    order = labels.argsort(kind="stable")
    rank = np.empty(len(labels), np.int64)
    _, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    rank[order] = np.arange(len(labels)) - np.repeat(starts, sizes)
    return rank % EVERY == EVERY - 1
