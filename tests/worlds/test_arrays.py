"""Images in memory, however they are brought, are the same world and the same latents; what is no image is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import TASK, images_of, model, random_arrays
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from brojepa.errors import RequestError
from brojepa.models import Task
from brojepa.worlds import World

GREY = random_arrays(3, (6, 5))
RGB = random_arrays(3, (6, 5, 3))
COLOURS = Task(n=5, shape=(3, 8, 8), mean=(0.3,) * 3, std=(0.4,) * 3)


class Pairs(Dataset):
    """A map-style dataset as users write it."""

    def __init__(self, images: Any, labels: Any, change: Any = lambda image: image) -> None:
        self.images, self.labels, self.change = images, labels, change

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.change(self.images[i]), self.labels[i]


def world(images: Any = lambda x: x, labels: Any = lambda y: y, arrays: tuple[np.ndarray, ...] = GREY) -> World:
    a, b, c, d = arrays
    return World.from_arrays("mine", (images(a), labels(b)), (images(c), labels(d)))


def one_line(wrong: Any, *words: str) -> None:
    with pytest.raises(RequestError) as caught:
        wrong()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


# World.from_arrays


@pytest.mark.parametrize(
    "images",
    [
        torch.from_numpy,
        lambda x: x / 255,
        lambda x: (x / 255).astype(np.float32),
        lambda x: torch.from_numpy(x) / 255,
        lambda x: x[..., None],
        lambda x: x[:, None],
        lambda x: torch.from_numpy(x)[:, None] / 255,
        lambda x: torch.from_numpy(x)[..., None],
    ],
)
def test_grey_images_in_any_form_are_one_world(images: Any) -> None:
    assert world(images).source == world().source


@pytest.mark.parametrize(
    "images",
    [
        lambda x: np.moveaxis(x, 3, 1),
        lambda x: np.moveaxis(x, 3, 1) / 255,
        torch.from_numpy,
        lambda x: torch.from_numpy(x).movedim(3, 1),
        lambda x: torch.from_numpy(x).movedim(3, 1) / 255,
    ],
)
def test_colours_in_any_form_are_one_world(images: Any) -> None:
    made = world(images, arrays=RGB)
    assert made.shape == (3, 6, 5)
    assert made.source == world(arrays=RGB).source


@pytest.mark.parametrize("labels", [np.int8, np.uint16, np.int64, np.uint64])
def test_labels_of_any_integer_type(labels: Any) -> None:
    assert world(labels=lambda y: y.astype(labels)).source == world().source
    assert world(labels=lambda y: torch.from_numpy(y).int()).source == world().source


def test_what_could_be_either_has_channels_last_as_an_array_and_first_as_a_tensor() -> None:
    images, labels = np.zeros((8, 3, 5, 3), np.uint8), np.arange(8) % 2
    pair, tensors = (images, labels), (torch.from_numpy(images), labels)
    assert World.from_arrays("a", pair, pair).shape == (3, 3, 5)
    assert World.from_arrays("a", tensors, tensors).shape == (3, 5, 3)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (lambda x: x / 128, ("float64", "0 to 1")),
        (lambda x: x.astype(float), ("0 to 1",)),
        (lambda x: x / 255 - 0.5, ("normalisation",)),
        (lambda x: torch.from_numpy(x / 255 * np.nan), ("nan",)),
        (lambda x: x.astype(np.int32), ("uint8", "int32")),
        (lambda x: x > 7, ("bool",)),
        (lambda x: x[..., None, None], ("dimensions",)),
        (lambda x: np.repeat(x[..., None], 2, 3), ("channels",)),
    ],
)
def test_other_numbers_are_refused_in_a_line(images: Any, words: tuple[str, ...]) -> None:
    one_line(lambda: world(images), *words)


def test_what_is_given_is_not_changed_nor_shared() -> None:
    images = GREY[0].copy()
    made = World.from_arrays("mine", (images, GREY[1]), GREY[2:])
    images[:] = 0
    assert made.source == world().source
    assert int(made.train.images.max()) > 0


def test_states_may_have_names() -> None:
    a, b, c, d = GREY
    made = World.from_arrays("mine", (a, b), (c, d), names=["x", "y", "z"])
    assert made.facts["names"] == ["x", "y", "z"]
    for wrong in (["x", "y"], ["x", "y", "y"]):
        one_line(lambda names=wrong: World.from_arrays("mine", (a, b), (c, d), names=names), "names")


# World.from_dataset


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        Image.fromarray,
        torch.from_numpy,
        lambda x: torch.from_numpy(x)[None] / 255,
        lambda x: x[..., None],
        lambda x: Image.fromarray(x).convert("RGB"),
        lambda x: x / 255,
    ],
)
@pytest.mark.parametrize("label", [int, np.uint8, torch.tensor])
def test_a_dataset_is_the_world_of_its_items(change: Any, label: Any) -> None:
    a, b, c, d = GREY
    sets = [Pairs(x, [label(int(k)) for k in y], change) for x, y in ((a, b), (c, d))]
    assert World.from_dataset("mine", *sets).source == world().source


def test_datasets_of_tensors_lists_and_rows() -> None:
    a, b, c, d = GREY
    tensors = [TensorDataset(torch.from_numpy(x), torch.from_numpy(y)) for x, y in ((a, b), (c, d))]
    rows = [
        [{"image": Image.fromarray(i), "label": int(k)} for i, k in zip(x, y, strict=True)] for x, y in ((a, b), (c, d))
    ]
    for train, test in (tensors, rows):
        assert World.from_dataset("mine", train, test).source == world().source


def test_colours_and_grey_in_one_dataset_are_rgb() -> None:
    a, b, c, d = GREY
    sets = [Pairs(a, b, Image.fromarray), Pairs(c, d, Image.fromarray)]
    sets[0].images = [Image.fromarray(RGB[0][0]), *a[1:]]
    sets[0].change = lambda x: x if isinstance(x, Image.Image) else Image.fromarray(x)
    sets[1].change = lambda x: torch.from_numpy(x).expand(3, -1, -1)
    made = World.from_dataset("mine", *sets)
    assert made.shape == (3, 6, 5)
    assert np.array_equal(made.train.images[0], np.moveaxis(RGB[0][0], 2, 0))


def test_without_a_test_set_every_fifth_is_kept_for_it() -> None:
    images, labels = np.arange(20, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2), np.arange(20) % 2
    made = World.from_dataset("mine", Pairs(images, labels))
    assert made.test.images[:, 0, 0, 0].tolist() == [8, 9, 18, 19]
    assert len(made.train) == 16


def test_classes_are_the_names() -> None:
    train, test = Pairs(*GREY[:2]), Pairs(*GREY[2:])
    train.classes = ["0 - zero", "1 - one", "2 - two"]  # pyright: ignore[reportAttributeAccessIssue]
    assert World.from_dataset("mine", train, test).source["names"] == train.classes  # pyright: ignore[reportAttributeAccessIssue]
    train.classes = ["one for all"]  # pyright: ignore[reportAttributeAccessIssue]
    assert "names" not in World.from_dataset("mine", train, test).source


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (iter([]), ("length",)),
        ([3], ("item 0", "(image, label)")),
        ([("a.png", 3)], ("item 0", "str")),
        ([(np.zeros((2, 2), np.uint8), 0.5)], ("item 0", "integer")),
        ([(np.zeros((2, 2), np.uint8), None)], ("item 0", "integer")),
        ([{"img": 3, "label": 0}], ("img", "expected image and label")),
        ([(np.zeros((2, 2), np.uint8), 0), (np.zeros((2, 3), np.uint8), 0)], ("items 0 and 1", "2x3")),
        ([(torch.randn(1, 4, 4) - 5, 0)], ("item 0", "normalisation")),
        ([(np.zeros((2, 7, 9), np.uint8), 0)], ("item 0", "channels")),
        ([], ("at least 2 states",)),
    ],
)
def test_bad_datasets_are_refused_in_a_line(train: Any, words: tuple[str, ...]) -> None:
    one_line(lambda: World.from_dataset("mine", train, []), *words)


# Model.encode


@torch.no_grad()
@pytest.mark.parametrize("task", [TASK, COLOURS])
def test_encode_takes_images_in_any_form(task: Task, tmp_path: Path) -> None:
    m = model(task).eval()
    images = images_of(task, 3, torch.Generator().manual_seed(0))
    z = m.encode(images)
    pictures = [Image.fromarray(i.movedim(0, 2).squeeze(2).numpy()) for i in images]
    files = [tmp_path / f"{i}.png" for i in range(3)]
    for picture, file in zip(pictures, files, strict=True):
        picture.save(file)
    forms = [
        images.numpy(),
        images.int(),
        images.float(),
        images / 255,
        images.numpy() / 255,
        list(images),
        list(images.numpy()),
        images.numpy().astype(np.uint16),
        images.double() / 255,
        pictures,
        files,
        [str(f) for f in files],
        tuple(pictures),
        [images[0], pictures[1], files[2]],
        [images[0], images[1] / 255, images[2].numpy()],
        images.flip(0).numpy()[::-1],
        images.tolist(),
    ]
    for form in forms:
        assert torch.allclose(m.encode(form), z, atol=1e-5)
    for single in (images[0], images[0].numpy(), images[0] / 255, pictures[0], files[0], str(files[0]), images[:1]):
        assert torch.allclose(m.encode(single), z[:1], atol=1e-5)
    if task is TASK:
        assert torch.allclose(m.encode(images[0, 0]), z[:1], atol=1e-5)
        assert torch.equal(m.encode(images > 99), m.encode((images > 99) * 255))


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (torch.rand(3, 8, 8) * 255, ("whole numbers", "0 to 1")),
        (torch.randn(3, 8, 8), ("normalisation",)),
        (torch.rand(3, 8, 8) * torch.nan, ("nan",)),
        (torch.full((3, 8, 8), 256), ("256",)),
        (torch.full((3, 8, 8), -1), ("-1",)),
        (np.full((3, 8, 8), 70000, np.uint32), ("7e+04",)),
        (np.full((3, 8, 8), "a"), ("numbers",)),
        ({"image": 3}, ("numbers",)),
        (Image.new("L", (9, 8)), ("8x9x1", "8x8x1")),
        ("nowhere.png", ("nowhere.png", "No such file")),
        ([Image.new("L", (8, 8)), torch.zeros(9, 9)], ("9x9", "1x8x8")),
        (torch.zeros(8, 9, dtype=torch.uint8), ("8x9", "1x8x8")),
    ],
)
def test_encode_refuses_what_is_no_image_in_a_line(images: Any, words: tuple[str, ...]) -> None:
    one_line(lambda: model().encode(images), *words)


def test_training_does_not_look_at_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warped images are floats from 0 to 255 that are not whole; checks would refuse them and take time."""
    m = model()
    monkeypatch.setattr("brojepa.models.model.as_batch", lambda *_: pytest.fail("checked"))
    assert m.embed(m.encoder, torch.rand(3, 1, 8, 8) * 255).shape == (3, 8)
