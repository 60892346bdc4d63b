"""Own parts: what is right trains, and what is wrong is refused in one line before anything is written."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch
from helpers import batch, blobs, config, model

import brojepa
from brojepa import parts
from brojepa.errors import RequestError
from brojepa.models import Task
from brojepa.models.actions import LatentAction
from brojepa.models.build import build
from brojepa.runs import checkpoint
from brojepa.training import train
from brojepa.worlds import Split, World

HEAD = "import torch\nfrom torch import nn\nimport brojepa\n"
SMALL = {"latent": 8, "epochs": 2, "batch_size": 16, "precision": "float32", "device": "cpu"}


def trained(out, world=None, **values):
    """A run of a second."""
    return train(brojepa.Config(), world=world or blobs(), out=out, **{**SMALL, **values})


def refused(out, kind: str, path: str, **values) -> str:
    """The line with which training refuses a part; nothing is on disk."""
    with pytest.raises(RequestError) as caught:
        trained(out / "out", **{kind: path, **values})
    said = str(caught.value)
    assert "\n" not in said
    for word in (kind, path, parts.EXPECTED[kind]):
        assert word in said
    assert not (out / "out").exists()
    return said


# Encoders

ENCODERS = {
    "a class": """
        class Mine(nn.Module):
            def __init__(self, shape, dim):
                super().__init__()
                self.net = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], dim))
            def forward(self, x):
                return self.net(x)
        """,
    "a function": """
        def Mine(shape, dim):
            return nn.Sequential(nn.Flatten(), nn.LazyLinear(dim))
        """,
    "batch norm and dropout": """
        def Mine(shape, dim):
            return nn.Sequential(nn.Conv2d(shape[0], 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
                                 nn.LazyLinear(dim), nn.BatchNorm1d(dim))
        """,
    "views of convolutions": """
        class Mine(nn.Module):
            def __init__(self, shape, dim):
                super().__init__()
                self.a, self.b, self.c = nn.Conv2d(shape[0], 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(128, dim)
            def forward(self, x):
                return self.c(self.b(self.a(x)).view(len(x), -1))
        """,
    "tied weights": """
        class Mine(nn.Module):
            def __init__(self, shape, dim):
                super().__init__()
                self.first, self.layer = nn.Linear(shape[0] * shape[1] * shape[2], dim), nn.Linear(dim, dim)
                self.again = self.layer
            def forward(self, x):
                return self.again(self.layer(self.first(x.flatten(1)).relu()).relu())
        """,
    "five dimensions": """
        class Mine(nn.Module):
            def __init__(self, shape, dim):
                super().__init__()
                self.conv, self.out = nn.Conv3d(1, 2, (1, 8, 8)), nn.Linear(2, dim)
            def forward(self, x):
                return self.out(self.conv(x[:, None, :1]).flatten(1))
        """,
    "frozen": """
        def Mine(shape, dim):
            net = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], dim))
            return net.requires_grad_(False)
        """,
    "nothing to learn": """
        class Mine(nn.Module):
            def __init__(self, shape, dim):
                super().__init__()
                self.dim = dim
            def forward(self, x):
                return x.flatten(1)[:, :self.dim] + 0.1 * torch.randn(len(x), self.dim)
        """,
    "a module made before": """
        made = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
        Mine = lambda shape, dim: made
        """,
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_own_encoders_train_load_and_give_their_result_again(kind, module, tmp_path):
    path = f"{module(HEAD + dedent(ENCODERS[kind]))}:Mine"
    before = torch.get_rng_state()
    run = trained(tmp_path / "one", encoder=path)
    assert torch.equal(torch.get_rng_state(), before)
    assert run.result["metrics"]["seen"] is not None
    assert list(run.header["own_code"]) == [path]
    with pytest.raises(RequestError, match="trust"):
        brojepa.load(run.path)
    loaded = brojepa.load(run.path, trust=True)
    kept, _ = checkpoint.load(run.model_file)
    assert all(torch.equal(loaded.state_dict()[name], t) for name, t in kept.items())
    if kind == "nothing to learn":  # it draws, also when it is measured: only within a run is that seeded
        assert trained(tmp_path / "two", encoder=path).result["per_action"] == run.result["per_action"]
        return
    again = brojepa.evaluate_run(run.path, world=blobs(), trust=True)
    assert again["metrics"] == run.result["metrics"]
    assert again["same_images"]


def test_three_channels_reach_an_own_encoder_as_it_expects_them(module, tmp_path):
    world = blobs()
    split = [Split(s.images.repeat(1, 3, 1, 1), s.states) for s in (world.train, world.test)]
    coloured = World("coloured", 5, *split, world.mean * 3, world.std * 3)
    path = f"{module(HEAD + dedent(ENCODERS['views of convolutions']))}:Mine"
    assert trained(tmp_path, coloured, encoder=path).done


def test_standardise_ends_an_own_encoder_and_its_trial_leaves_no_trace(module):
    path = f"{module(HEAD + dedent(ENCODERS['batch norm and dropout']))}:Mine"
    for on in (True, False):
        m = model(encoder=path, standardise=on)
        assert sum(isinstance(part, torch.nn.BatchNorm1d) for part in m.encoder.modules()) == 1 + on
        assert m.encoder.training
        assert all(part.training for part in m.encoder.modules())
        counts = [t for name, t in m.state_dict().items() if name.endswith("num_batches_tracked")]
        assert counts
        assert not any(counts), "no batch was seen"


def test_an_own_encoder_that_is_a_built_in_one_is_the_same_run(module, tmp_path):
    name = module("from brojepa.models.encoders import MLP\ndef Mine(shape, dim): return MLP(shape, dim)")
    mine, theirs = (trained(tmp_path / e[:3], encoder=e) for e in (f"{name}:Mine", "mlp"))
    assert mine.result["per_action"] == theirs.result["per_action"]
    assert [r["loss"] for r in mine.metrics] == [r["loss"] for r in theirs.metrics]


def test_own_weights_are_drawn_from_the_seed(module):
    path = f"{module(HEAD + dedent(ENCODERS['a class']))}:Mine"
    torch.manual_seed(5)
    one = model(encoder=path, seed=3).state_dict()
    torch.manual_seed(6)
    two, other = model(encoder=path, seed=3).state_dict(), model(encoder=path, seed=4).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["encoder.net.net.1.weight"], other["encoder.net.net.1.weight"])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("def Mine(shape, dim): return nn.Flatten()", "[2, 64]"),
        ("def Mine(shape, dim): return nn.Sequential(nn.Flatten(), nn.Linear(64, dim + 1))", "[2, 9]"),
        ("def Mine(shape, dim): return nn.Linear(7, dim)", "RuntimeError"),
        ("def Mine(shape, dim): return lambda x: x", "function"),
        ("def Mine(shape, dim): return None", "NoneType"),
        ("def Mine(shape, dim): raise OSError('no\\nweights')", "OSError: no weights"),
        ("def Mine(shape): return nn.Flatten()", "cannot be called"),
        ("class Mine(nn.Module):\n  def __init__(self, a, b): super().__init__()", "NotImplementedError"),
        ("class Mine(nn.Module):\n  def __init__(self, a, b): super().__init__()\n  def forward(self, x): return x, x",
         "tuple"),
        ("class Mine(nn.Module):\n  def __init__(self, a, b): pass\n  def forward(self, x): return x",
         "AttributeError"),
        ("Mine = 3", "cannot be called"),
        ("", "has no Mine"),
    ],
)  # fmt: skip
def test_wrong_encoders(text, word, module, tmp_path):
    assert word in refused(tmp_path, "encoder", f"{module(HEAD + text)}:Mine")


# Latent actions

ACTION = """
class Mine(brojepa.LatentAction):
    def __init__(self, dim, group):
        super().__init__()
        self.dim, self.out_dim = dim, {out_dim}
        self.net = nn.Linear(dim + 1, {out_dim})
    def act(self, z, k):
        k = torch.as_tensor(k, dtype=z.dtype)
        k = k.expand(torch.broadcast_shapes(k.shape, z.shape[:-1]))[..., None]
        return {made}
"""
NET = "self.net(torch.cat((z.expand(*k.shape[:-1], -1), k), -1))"


def action_text(out_dim: str = "dim", made: str = NET) -> str:
    return HEAD + ACTION.format(out_dim=out_dim, made=made)


@pytest.mark.parametrize("method", ["jepa", "supervised"])
def test_an_own_action_trains_and_is_inspected(method, module, tmp_path):
    path = f"{module(action_text())}:Mine"
    run = trained(tmp_path, action=path, method=method)
    assert run.header["own_code"].keys() == {path}
    assert run.result["angles"] is None
    again = brojepa.evaluate_run(run.path, world=blobs(), trust=True)
    assert again["metrics"] == run.result["metrics"]
    if method == "jepa":
        assert brojepa.inspect_run(run.path, world=blobs(), trust=True)["rotation"] is None


def test_an_own_action_may_change_the_dimension_where_nothing_is_regressed(module, tmp_path):
    path = f"{module(action_text('2 * dim'))}:Mine"
    assert trained(tmp_path, action=path, method="supervised").done


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (action_text(made="z"), "[2, 1, 8]"),
        (action_text(made=NET + "[..., :3]"), "[2, 3, 3]"),
        (action_text(made="{}[k]"), "failed on [2, 1, 8]"),
        (action_text("2 * dim"), "16 dimensions"),
        (action_text().replace("self.dim, self.out_dim = dim,", "self.dim, self.out_dim = dim + 1,"), "dim to the 8"),
        (action_text().replace("self.dim, self.out_dim = dim, dim", "pass"), "out_dim"),
        (HEAD + "class Mine(nn.Module):\n  def __init__(self, a, b): super().__init__()", "gave a Mine"),
        (HEAD + "class Mine(brojepa.LatentAction):\n  dim = out_dim = 8\n"
         "  def __init__(self, a, b):\n    super().__init__()",
         "NotImplementedError"),
        (HEAD + "def Mine(dim): pass", "cannot be called"),
    ],
)  # fmt: skip
def test_wrong_actions(text, word, module, tmp_path):
    assert word in refused(tmp_path, "action", f"{module(text)}:Mine")


def test_an_own_action_takes_the_elements_of_its_group(module):
    group = brojepa.Product((brojepa.Cyclic(3), brojepa.Cyclic(4)))
    name = module("""
        import torch, brojepa
        class Mine(brojepa.LatentAction):
            def __init__(self, dim, group):
                super().__init__()
                self.dim = self.out_dim = dim
                self.shape = group.shape
            def act(self, z, k):
                k = torch.as_tensor(k)
                assert k.shape[-1:] == self.shape
                return z + k.sum(-1)[..., None]
        """)
    task = Task(12, (1, 8, 8), (0.1,), (0.2,), group)
    built = build(config(action=f"{name}:Mine", train_actions=("1:0", "0:1")), task, torch.Generator())
    assert isinstance(built.action, LatentAction)


# Regularisers


def regulariser_text(made: str) -> str:
    return f"{HEAD}class Mine(nn.Module):\n  def forward(self, z):\n    return {made}"


def test_an_own_regulariser_is_in_the_loss_and_in_the_metrics(module, tmp_path):
    text = regulariser_text("{'far': (2.0, z.square().mean()), 'near': (0.5, (1 - z.std(0)).relu().mean())}")
    path = f"{module(text)}:Mine"
    run = trained(tmp_path, regulariser=path)
    assert all({"far", "near"} <= row.keys() and "variance" not in row for row in run.metrics)
    terms = model(regulariser=path).objective(batch())
    weighted = 25 * terms["invariance"] + 2.0 * terms["far"] + 0.5 * terms["near"]
    assert torch.allclose(terms["loss"], weighted)
    assert not any(name.startswith("regulariser") for name in checkpoint.load(run.model_file)[0])
    assert brojepa.evaluate_run(run.path, world=blobs(), trust=True)["metrics"] == run.result["metrics"]


def test_a_regulariser_that_remembers_starts_with_nothing_and_is_trained(module, tmp_path):
    name = module(
        HEAD + "class Mine(nn.Module):\n"
        "  def __init__(self):\n    super().__init__()\n    self.seen = nn.Buffer(torch.zeros(()))\n"
        "    self.scale = nn.Parameter(torch.ones(()))\n"
        "  def forward(self, z):\n    self.seen += 1\n    return {'far': (1.0, (self.scale * z).square().mean())}"
    )
    assert model(regulariser=f"{name}:Mine").regulariser.seen == 0
    run = trained(tmp_path, regulariser=f"{name}:Mine")
    tensors, _ = checkpoint.load(run.state_file)
    assert tensors["model.regulariser.seen"] > 0
    assert tensors["model.regulariser.scale"] != 1


@pytest.mark.parametrize(
    ("made", "word"),
    [
        ("z.mean()", "returned tensor"),
        ("{'far': z.mean()}", "returned {'far'"),
        ("{'far': (1.0, z)}", "returned"),
        ("{'far': (1.0, 2.0)}", "returned"),
        ("{'far': ('1', z.mean())}", "returned"),
        ("{7: (1.0, z.mean())}", "returned"),
        ("None", "returned None"),
        ("{'loss': (1.0, z.mean())}", "calls a term loss"),
        ("{'invariance': (1.0, z.mean())}", "calls a term invariance"),
        ("{'epoch': (1.0, z.mean()), 'far': (1.0, z.mean())}", "calls a term epoch"),
        ("{}[0]", "KeyError"),
    ],
)
def test_wrong_regularisers(made, word, module, tmp_path):
    assert word in refused(tmp_path, "regulariser", f"{module(regulariser_text(made))}:Mine")


def test_regularisers_that_are_none(module, tmp_path):
    forgot = "class Mine(nn.Module):\n  def __init__(self): pass\n  def forward(self, z): return {}"
    for text in (forgot, "def Mine(): return lambda z: {}", "def Mine(weight): return nn.Identity()"):
        refused(tmp_path, "regulariser", f"{module(HEAD + text)}:Mine")


# Targets


def target_text(made: str, of_next: bool = True) -> str:
    return (
        f"{HEAD}class Mine(brojepa.Target):\n  of_next_state = {of_next}\n"
        "  def __init__(self, task, dim):\n    super().__init__()\n    self.n, self.dim = task.n, dim\n"
        f"  def forward(self, z, batch, action):\n    return {made}"
    )


def test_an_own_target_that_is_a_built_in_one_is_the_same_run(module, tmp_path):
    mine = trained(tmp_path / "mine", target=f"{module(target_text('(z, None)'))}:Mine")
    theirs = trained(tmp_path / "theirs", target="sampled")
    one, two = (checkpoint.load(r.model_file)[0] for r in (mine, theirs))
    assert all(torch.equal(one[name], two[name]) for name in two)
    assert mine.result["target"] == f"{mine.config.target}"


def test_an_own_target_may_read_the_contexts_and_weigh(module, tmp_path):
    text = target_text("(action.act(z[:, None], batch.k), torch.ones(batch.k.shape[:2]))", of_next=False)
    assert trained(tmp_path, target=f"{module(text)}:Mine").done


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (target_text("z"), "Tensor"),
        (target_text("(z[:, :1], None)"), "[2, 1, 8]"),
        (target_text("(z, z)"), "[2, 3, 8]"),
        (target_text("(z, None)", of_next=False), "of [2, 8]"),
        (target_text("(None, None)"), "NoneType"),
        (target_text("1 / 0"), "ZeroDivisionError"),
        (HEAD + "class Mine(brojepa.Target):\n  def __init__(self, task, dim): super().__init__()", "NotImplemented"),
        (HEAD + "class Mine(nn.Module):\n  def __init__(self, task, dim): super().__init__()", "gave a Mine"),
        (HEAD + "class Mine(brojepa.Target): pass", "TypeError"),
    ],
)
def test_wrong_targets(text, word, module, tmp_path):
    assert word in refused(tmp_path, "target", f"{module(text)}:Mine")


# Worlds


@pytest.mark.parametrize(
    ("text", "word"),
    [("def Mine(): return 3", "gave a int"), ("def Mine(): raise OSError('gone')", "OSError: gone"),
     ("def Mine(n): pass", "cannot be called")],
)  # fmt: skip
def test_wrong_worlds(text, word, module, tmp_path):
    path = f"{module(text)}:Mine"
    with pytest.raises(RequestError, match="world") as caught:
        train(brojepa.Config(), world=path, out=tmp_path / "out", **SMALL)
    assert word in str(caught.value)
    assert not (tmp_path / "out").exists()
