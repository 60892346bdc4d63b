"""Poses and recordings that a user brings: what is read, what is drawn, what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brojepa import PoseWorld
from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.groups import SO3, parse
from brojepa.worlds import Sampling, open_world
from brojepa.worlds.facts import chooser
from brojepa.worlds.pairs import components, connecting
from brojepa.worlds.rows import Rows

DRAWN = Sampling(views=4, with_targets=False)
ONE = Config(train_actions=(-1, 1))


def turntable(things: int = 3, n: int = 12, missing: float = 0.0, seed: int = 0) -> dict:
    """Views whose first pixel is the thing and whose second is the pose."""
    which, pose = np.repeat(np.arange(things), n), np.tile(np.arange(n), things)
    images = np.zeros((len(which), 8, 8), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = which, pose
    kept = np.random.default_rng(seed).random(len(which)) >= missing
    return {"images": images[kept], "things": which[kept], "poses": pose[kept], "group": f"Z{n}"}


def walk(group: str, actions: np.ndarray, episodes: int = 4, frames: int = 6, seed: int = 0) -> dict:
    """Episodes of random steps; the image holds the pose that the group's law leads to."""
    law, rng = parse(group), np.random.default_rng(seed)
    taken = actions[rng.integers(len(actions), size=episodes * frames)]
    images = np.zeros((len(taken), 8, 8), np.uint8)
    pose = torch.as_tensor(law.identity)
    for i in range(len(taken)):
        if i % frames == 0:
            pose = torch.as_tensor(law.identity)
        images[i, 0, : max(1, len(law.shape) and law.shape[0])] = np.atleast_1d(pose.numpy())
        pose = law.compose(torch.as_tensor(taken[i]), pose)
    return {"images": images, "actions": taken, "episode": np.repeat(np.arange(episodes), frames), "group": group}


def saved(path, data: dict) -> str:
    np.savez(path, **data)
    return str(path)


@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
def test_views_in_a_file_are_resized_by_averaging(tmp_path, channels):
    """A ramp shrinks to the ramp through the middles of its blocks, in every form that images may have."""
    row, c, y, x = np.ogrid[:36, : math.prod(channels), :16, :20]
    ramp = (row + 10 * c + 8 * y + 2 * x).astype(np.uint8)
    row, c, y, x = np.ogrid[:36, : math.prod(channels), 1:3, 1:4]
    wanted = row + 10 * c + 8 * (4 * y + 1.5) + 2 * (4 * x + 1.5)
    last = np.moveaxis(ramp, 1, 3) if channels else ramp[:, 0]
    for images in (last, last / 255.0, ramp):
        path = saved(tmp_path / "table.npz", {**turntable(), "images": images})
        world = open_world(path, size="4x5")
        assert world.shape == (math.prod(channels), 4, 5)
        assert (world.train.images[:].numpy()[..., 1:3, 1:4] == wanted).all()
        assert (open_world(path, size="16x20").train.images[:].numpy() == ramp).all()
        assert len(world.train.states.unique()) == 3


def test_a_turntable_is_read_from_a_file_and_from_arrays_alike(tmp_path):
    data = turntable()
    read = open_world(saved(tmp_path / "table.npz", data))
    made = PoseWorld.from_arrays("table", **data)
    assert str(read.group) == "Z12"
    assert read.n == 0
    assert len(read.train) == 36
    for one, other in zip(read.train.parts, made.train.parts, strict=True):
        assert torch.equal(one[:], other[:])
    assert made.train is made.test
    assert made.facts["held_out_things"] == 0


@pytest.mark.parametrize("name", [["Z12"], b"Z12", np.array([[b"Z12"]])])
def test_the_group_may_be_text_or_bytes_also_in_an_array(tmp_path, name):
    assert str(open_world(saved(tmp_path / "table.npz", turntable() | {"group": name})).group) == "Z12"


def test_things_that_are_held_out_are_in_no_training_image(tmp_path):
    world = open_world(saved(tmp_path / "table.npz", turntable(things=5)), held_out_things=2)
    train, test = (set(split.states.tolist()) for split in (world.train, world.test))
    assert len(test) == 2
    assert train | test == set(range(5))
    assert not train & test
    assert world.facts["held_out_things"] == 2
    with pytest.raises(RequestError, match=r"--held-out-things 5.*5 things"):
        open_world(str(tmp_path / "table.npz"), held_out_things=5)


def test_all_things_are_trained_on_where_the_test_is_on_them():
    """Many things: some are set apart for validation only where the test is on things that were set apart too."""
    every = PoseWorld.from_arrays("table", **turntable(things=25))
    train, held = every.hold_out(5000, torch.Generator().manual_seed(0))
    assert len(train.states.unique()) == len(held.states.unique()) == 25
    some = PoseWorld.from_arrays("table", **turntable(things=25), held_out_things=5)
    train, held = some.hold_out(5000, torch.Generator().manual_seed(0))
    assert (len(train.states.unique()), len(held.states.unique())) == (16, 4)
    assert not {*train.states.tolist()} & {*held.states.tolist()}


@settings(max_examples=20, deadline=None)
@given(missing=st.floats(0, 0.6), seed=st.integers(0, 100), step=st.sampled_from([1, 2, 5]))
def test_training_sees_pairs_that_are_a_training_action_apart_and_no_others(missing, seed, step):
    data = turntable(missing=missing, seed=seed)
    counts = np.unique(data["things"], return_counts=True)[1]
    if len(counts) < 3 or counts.min() < 2:
        return
    world = PoseWorld.from_arrays("table", **data)
    actions, unseen = world.action_sets(Config(train_actions=(-step, step)))
    place = {(t, p) for t, p in zip(data["things"].tolist(), data["poses"].tolist(), strict=True)}
    expected = sum((t, (p + k) % 12) in place for t, p in place for k in actions)
    assert set(actions) == {-step, step}
    assert not set(unseen) & set(actions)
    if not expected:
        with pytest.raises(RequestError, match=r"no two views.*--train-actions"):
            world.transitions(world.train, actions, Sampling())
        return
    edges = world.edges(world.train, actions)
    assert len(edges.start) == expected
    batch_of = world.transitions(world.train, actions, Sampling())
    batch = batch_of.batch(batch_of.draw(torch.Generator().manual_seed(0)), 0, 64)
    assert torch.equal(batch.images[:, 0, 0, 0], batch.targets[:, 0, 0, 0])  # the same thing
    before, after = (x[:, 0, 0, 1].long() for x in (batch.images, batch.targets))
    assert torch.equal((before + batch.k[:, 0]) % 12, after)


def test_orbits_follow_training_actions_through_missing_views_and_no_further():
    world = PoseWorld.from_arrays("table", **turntable(things=2, missing=0.25, seed=3))
    for step, orbits in ((1, 2), (2, 4), (3, 6)):
        actions, _ = world.action_sets(Config(train_actions=(-step, step)))
        found = world.orbits(world.train, actions, world.edges(world.train, actions))
        expected = world.train.states * step + world.train.poses % step
        same = found[:, None] == found
        assert torch.equal(same, expected[:, None] == expected)
        assert len(found.unique()) == orbits


def test_views_of_an_orbit_stand_together_and_their_poses_lead_from_one_to_another():
    world = PoseWorld.from_arrays("table", **turntable(things=5))
    actions, _ = world.action_sets(ONE)
    transitions = world.transitions(world.train, actions, DRAWN)
    draw = transitions.draw(torch.Generator().manual_seed(0))
    once = draw.context[: len(world.train)]
    assert torch.equal(once.sort().values, torch.arange(len(world.train)))  # every view once before any twice
    batch = transitions.batch(draw, 0, 40)
    assert batch.targets is None
    for orbit in batch.orbit.unique():
        rows = (batch.orbit == orbit).nonzero()[:, 0]
        shown = batch.images[rows][:, 0, 0]
        assert len(rows) % 4 == 0
        assert len(shown[:, 0].unique()) == 1
        assert torch.equal((shown[0, 1] + batch.pose[rows]) % 12, shown[:, 1].long())
    again = transitions.draw(torch.Generator().manual_seed(0))
    assert torch.equal(draw.context, again.context)
    assert torch.equal(draw.edge, again.edge)


TORUS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


@pytest.mark.parametrize(
    ("group", "actions"), [("Z7", np.array([1, -1])), ("Z5xZ4", TORUS), ("D4", np.array([[1, 0], [0, 1]]))]
)
def test_the_pose_of_a_frame_is_the_product_of_the_actions_before_it(group, actions):
    data = walk(group, actions)
    world = PoseWorld.from_recording("walk", **data, held_out_things=0)
    law = world.group
    shown = world.train.images[:, 0, 0, : max(1, len(law.shape) and law.shape[0])].long()
    shown = shown if law.shape else shown[:, 0]
    assert not law.distance(world.train.poses, shown).any()
    trained, unseen = world.action_sets(Config(train_actions=("recorded",)))
    assert not law.shared(trained, unseen)
    edges = world.edges(world.train, trained)
    assert torch.equal(edges.stop, edges.start + 1)
    assert len(edges.start) == 4 * 5  # none leads from the last frame of an episode


def test_a_fifth_of_the_episodes_is_for_test_unless_told_otherwise():
    data = walk("Z7", np.array([1, -1]), episodes=10)
    assert PoseWorld.from_recording("walk", **data).held_out == 2
    assert PoseWorld.from_recording("walk", **data, held_out_things=0).held_out == 0
    with pytest.raises(RequestError, match=r"recording.*recorded"):
        PoseWorld.from_recording("walk", **data).action_sets(ONE)


def test_a_recording_in_hdf5_is_the_same_as_in_npz(tmp_path):
    h5py = pytest.importorskip("h5py")
    data = walk("Z5xZ4", TORUS)
    given = saved(tmp_path / "walk.npz", data)
    action = data["actions"].astype(np.float32)
    action[5::6] = np.nan  # nothing follows the last frame of an episode
    with h5py.File(tmp_path / "walk.h5", "w") as file:
        file["pixels"], file["action"] = data["images"][..., None], action
        file["ep_len"], file["ep_offset"] = np.full(4, 6), np.arange(4) * 6
    with pytest.raises(RequestError, match="--group"):
        open_world(str(tmp_path / "walk.h5"))
    one, other = open_world(given), open_world(str(tmp_path / "walk.h5"), group="Z5xZ4")
    assert isinstance(other.train.images, Rows), "it lies in the file in one piece, and stays there"
    for a, b in zip(one.train.parts, other.train.parts, strict=True):
        assert torch.equal(a[:], b[:])
    small = [open_world(path, size="4", group="Z5xZ4") for path in (given, str(tmp_path / "walk.h5"))]
    assert torch.equal(*(world.train.images[:] for world in small))
    assert small[1].shape == (1, 4, 4)
    with h5py.File(tmp_path / "walk.h5", "a") as file:
        pixels = file["pixels"][:]
        del file["pixels"]
        file.create_dataset("pixels", data=pixels, compression="gzip")
    packed = open_world(str(tmp_path / "walk.h5"), group="Z5xZ4")
    assert isinstance(packed.train.images, torch.Tensor)
    assert torch.equal(packed.train.images, one.train.images)
    assert packed.facts == other.facts
    for offset, length in ((0, np.full(4, 7)), (2**63 - 6, np.full(4, 6)), (0, np.full(4, 2**64 - 6, np.uint64))):
        with h5py.File(tmp_path / "walk.h5", "a") as file:
            del file["ep_len"], file["ep_offset"]
            file["ep_len"], file["ep_offset"] = length, np.arange(4) * 6 + np.array([offset, 0, 0, 0])
        with pytest.raises(RequestError, match="ep_len"):
            open_world(str(tmp_path / "walk.h5"), group="Z5xZ4")
    with h5py.File(tmp_path / "walk.h5", "a") as file:
        del file["ep_len"]
        file["ep_len"] = h5py.SoftLink("/ep_len")
    with pytest.raises(RequestError, match="not a readable HDF5"):
        open_world(str(tmp_path / "walk.h5"), group="Z5xZ4")


def _changed(**changes) -> dict:
    return {**turntable(), **changes}


def _poses(values) -> np.ndarray:
    return np.asarray(values)


BAD_POSES = {
    "a group that does not parse": (_changed(group="Q8"), "no group 'Q8'"),
    "a pose outside the group": (_changed(poses=turntable()["poses"] + 1), "row 11 is 12.*0 to 11"),
    "half a step": (_changed(poses=turntable()["poses"] / 2), "row 1 is 0.5.*whole"),
    "a pose that is none": (_changed(group="SO2", poses=np.full(36, np.nan)), "row 0 is not a finite"),
    "no unit quaternion": (_changed(group="SO3", poses=np.tile([1.0, 1, 0, 0], (36, 1))), "row 0.*unit quaternion"),
    "one pose for all": (_changed(poses=np.full(36, 5)), "one pose.*add views"),
    "one angle for all": (_changed(group="SO2", poses=np.full(36, 5.0)), "one pose.*add views"),
    "a cycle larger than memory": (_changed(group="Z99999999999"), "99,999,999,999 elements.*SO2"),
    "a torus larger than memory": (_changed(group="Z99999xZ99999", poses=np.zeros((36, 2), int)), "elements"),
    "flips larger than memory": (_changed(group="D99999999", poses=np.zeros((36, 2), int)), "elements"),
    "poses of another shape": (_changed(group="SO3"), r"SO3 needs 36 x 4"),
    "words for poses": (_changed(poses=np.array(["a"] * 36)), "needs numbers"),
    "a thing with one view": (_changed(things=np.r_[9, turntable()["things"][1:]]), "thing 9 has one view"),
    "fewer things than images": (_changed(things=turntable()["things"][:5]), "36 images but 5"),
    "nothing at all": ({k: v if k == "group" else v[:0] for k, v in turntable().items()}, "empty"),
    "things without poses": ({k: v for k, v in turntable().items() if k != "poses"}, "lacks poses"),
    "poses without a group": ({k: v for k, v in turntable().items() if k != "group"}, "--group"),
}


@pytest.mark.parametrize("case", BAD_POSES)
def test_poses_that_cannot_be_are_an_error_of_one_line(tmp_path, case):
    data, words = BAD_POSES[case]
    with pytest.raises(RequestError, match=words) as caught:
        open_world(saved(tmp_path / "bad.npz", data))
    assert "\n" not in str(caught.value)


STEPS = walk("Z7", np.array([1, -1]))
BAD_RECORDINGS = {
    "an action outside the group": ({**STEPS, "actions": STEPS["actions"] * 7}, "row 0 is .*-6 to 6"),
    "episodes out of order": ({**STEPS, "episode": np.tile(np.arange(4), 6)}, "episode 0 do not follow.*sort"),
    "an episode of one frame": ({**STEPS, "episode": np.r_[9, STEPS["episode"][1:]]}, "episode 9 has one frame"),
    "an action that is none": ({**STEPS, "actions": np.full(24, np.nan)}, "row 0 is not a finite"),
    "no action that moves": ({**STEPS, "actions": np.zeros(24, int)}, "no action leads away"),
    "too few actions": ({**STEPS, "actions": STEPS["actions"][:5]}, "24"),
}


@pytest.mark.parametrize("case", BAD_RECORDINGS)
def test_recordings_that_cannot_be_are_an_error_of_one_line(tmp_path, case):
    data, words = BAD_RECORDINGS[case]
    with pytest.raises(RequestError, match=words):
        open_world(saved(tmp_path / "bad.npz", data))


def test_flags_for_views_are_refused_elsewhere(tmp_path):
    for flags in ({"group": "Z10"}, {"held_out_things": 1}, {"tolerance": 2.0}):
        with pytest.raises(RequestError, match="poses"):
            open_world("mnist", **flags)
    labelled = {"images": np.zeros((20, 8, 8), np.uint8), "labels": np.arange(20) % 2}
    with pytest.raises(RequestError, match="labelled"):
        open_world(saved(tmp_path / "labelled.npz", labelled), held_out_things=1)


def test_the_recipe_trains_on_the_smallest_steps_that_there_are(tmp_path):
    data = turntable()
    even = {k: v if k == "group" else v[data["poses"] % 2 == 0] for k, v in data.items()}
    config, why = chooser(PoseWorld.from_arrays("even", **even))({})
    assert set(config.train_actions) == {"+2", "-2"}
    assert config.target == "relaxed"
    assert "train-actions" in why
    config, _ = chooser(PoseWorld.from_arrays("all", **data))({"epochs": 3})
    assert set(config.train_actions) == {"+1", "-1"}
    assert config.epochs == 3
    degrees = PoseWorld.from_arrays("degrees", **{**data, "poses": data["poses"] * 30.0, "group": "SO2"})
    config, why = chooser(degrees)({})
    assert config.train_actions == ("0",)
    assert "degrees" in why
    trained, unseen = degrees.action_sets(config)
    assert not degrees.trained(degrees.group.tensor(unseen), trained).any()
    assert degrees.reach == pytest.approx(45, abs=0.1)
    config, _ = chooser(PoseWorld.from_recording("walk", **STEPS))({})
    assert config.train_actions == ("recorded",)


def test_views_of_space_are_neighbours_within_reach():
    group = SO3()
    poses = group.grid(60).numpy()
    images = np.random.default_rng(0).integers(0, 255, (120, 8, 8), dtype=np.uint8)
    data = {"images": images, "things": np.repeat([0, 1], 60), "poses": np.concatenate((poses, poses)), "group": "SO3"}
    world = PoseWorld.from_arrays("space", **data)
    config, _ = chooser(world)({})
    trained, unseen = world.action_sets(config)
    edges = world.edges(world.train, trained)
    far = group.angle(edges.k)
    assert float(far.min()) > 0
    assert float(far.max()) <= world.reach + 1e-2 < 90
    assert len(world.orbits(world.train, trained, edges).unique()) == 2  # all views of a thing hang together
    assert unseen


def test_views_at_irregular_degrees_hang_together_but_a_thing_with_few_does_not_stretch_the_reach():
    """Views of a thing that no step connects would each have an orientation of their own."""
    rng = np.random.default_rng(0)
    things = np.repeat(np.arange(12), 30)
    data = {"images": rng.integers(0, 255, (360, 4, 4), dtype=np.uint8), "things": things, "group": "SO2"}
    poses = rng.uniform(0, 360, 360)
    world = PoseWorld.from_arrays("irregular", poses=poses, **data)
    trained, unseen = world.action_sets(chooser(world)({})[0])
    edges = world.edges(world.train, trained)
    assert len(world.orbits(world.train, trained, edges).unique()) == 12
    gaps = np.diff(np.sort(poses.reshape(12, 30)), append=np.sort(poses.reshape(12, 30))[:, :1] + 360)
    assert world.reach == pytest.approx(np.sort(gaps)[:, -2].max(), abs=0.1), "a circle stays whole without one gap"
    assert unseen
    poses[-30:] = np.repeat([0.0, 180.0], 15)
    sparse = PoseWorld.from_arrays("sparse", poses=poses, **data)
    assert sparse.reach < 90


def test_components_and_the_reach_that_connects_are_those_of_plain_code():
    rng = np.random.default_rng(0)
    for _ in range(20):
        count = 12
        points = rng.random((count, 2))
        apart = torch.from_numpy(np.hypot(*(points[:, None] - points).transpose(2, 0, 1)))
        apart.fill_diagonal_(math.inf)
        reach = connecting(count, apart.__getitem__)
        for scale, whole in ((1 + 1e-9, True), (1 - 1e-9, False)):
            start, stop = (apart <= reach * scale).nonzero().unbind(1)
            label = components(count, start, stop)
            parts = {i: {i} for i in range(count)}
            for i, j in zip(start.tolist(), stop.tolist(), strict=True):
                merged = parts[i] | parts[j]
                parts |= dict.fromkeys(merged, merged)
            assert label.tolist() == [min(parts[i]) for i in range(count)]
            assert (len(label.unique()) == 1) == whole
