"""The model card of a run: description, how to load it, results, licence and citation."""

from __future__ import annotations

from brojepa.runs import Run, hub
from brojepa.text import fraction, listed

TITLE = "BRo-JEPA: Learning Modular Transformations in Latent Space"
PAPER = "2606.01372"
CITATION = f"""\
@article{{jha2026brojepa,
  title   = {{{TITLE}}},
  author  = {{Jha, Divyansh and Xie, Yuanfang and Yu, Brennen and Mehra, Varan}},
  journal = {{arXiv preprint arXiv:{PAPER}}},
  year    = {{2026}}
}}"""
MEANING = {
    "train": "training images, training actions",
    "seen": "test images, training actions",
    "zero_shot": "test images, held-out actions",
    "rollout": "the same by repeating a training action",
    "knn": "the same read by 20 nearest neighbours",
}


def card(run: Run, repo: str, licence: str) -> str:
    """The text of README.md on the hub, with the numbers also as a model-index."""
    header, config, result = run.header, run.config, run.result
    world, name = header["world"]["name"], header.get("preset") or f"{header['world']['name']}/{config.hash}"
    metrics = {key: value for key, value in result["metrics"].items() if value is not None}
    actions = listed(config.train_actions)
    lines = [
        "---",
        _front_matter(repo, world, metrics, licence),
        "---",
        "",
        f"# {repo.partition('/')[2]}",
        "",
        f"A world model of `{world}`: images become latents, and an action moves a latent to that of the next state. "
        f"It is `{name}`, seed {header['seed']}, trained by brojepa with the method of *{TITLE}* "
        f"([arXiv {PAPER}](https://arxiv.org/abs/{PAPER})): {config.method}, encoder {config.encoder}, latent action "
        f"{config.action}, {result.get('parameters', 0):,} parameters, trained on the actions {actions} only.",
        "",
        "```python",
        "import brojepa  # pip install 'brojepa[hub]'",
        "",
        f'model = brojepa.load("{hub.SCHEME}{repo}"{", trust=True" if run.own_parts else ""})',
        "z = model.encode(images)  # uint8 [count, channels, height, width]",
        "z = model.act(z, k)" + ("" if not result.get("by_state") else "\nprint(model.classify(z))"),
        "```",
        "",
        "| number | accuracy | measured on |",
        "|---|---|---|",
        *(
            f"| {key.replace('_', '-')} | {fraction(value)} | {MEANING.get(key, '')} |"
            for key, value in metrics.items()
        ),
        "",
        f"Chance is {result.get('chance', 0):.4f}; zero-shot is {result.get('zero_shot_kind', 'unknown')}. `brojepa "
        f"eval {hub.SCHEME}{repo}` measures it again. config.json, env.json and result.json say how it was made.",
        *_own_code(run),
        "",
        f"Licence: {licence}.",
        "",
        "```bibtex",
        CITATION,
        "```",
    ]
    return "\n".join(lines) + "\n"


def _own_code(run: Run) -> list[str]:
    if not run.own_parts:
        return []
    named = listed(f"{kind} `{path}`" for kind, path in run.own_parts.items())
    return ["", f"It runs code of its own, which is not here: {named}. Loading it needs that code and `trust=True`."]


def _front_matter(repo: str, world: str, metrics: dict[str, float], licence: str) -> str:
    """What the hub reads: tags, licence, and the numbers as model-index."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="image-feature-extraction",
            task_name="predict the state after an action",
            dataset_type=world,
            dataset_name=world,
            metric_type="accuracy",
            metric_name=key.replace("_", "-"),
            metric_value=value,
        )
        for key, value in metrics.items()
    ]
    data = ModelCardData(
        license=licence,
        library_name="brojepa",
        tags=["brojepa", "jepa", "world-model", f"arxiv:{PAPER}"],
        model_name=repo.partition("/")[2],
        eval_results=results,
    )
    return data.to_yaml()
