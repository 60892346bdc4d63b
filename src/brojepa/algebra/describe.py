"""The text of `algebra.inspect`: did the model learn a cycle, of what length, does it tell states apart, does it
compose? Then the numbers.
"""

from __future__ import annotations

from typing import Any

OBEYS = 0.01  # errors of the law below this share of the spread count as small
CYCLE = {
    "equivariance": "act(z, k) against the prototype of y + k, all images and actions",
    "composition": "act(act(z, a), b) against act(z, a + b)",
    "inverse": "act(act(z, k), -k) against z",
    "identity": "act(z, 0) against z",
    "commutation": "act(act(z, a), b) against act(act(z, b), a)",
    "return": "n times +1 against z",
}
LAWS = {
    "equivariance": "act(z, k) against the latent of what k leads to",
    "composition": "act(act(z, b), a) against act(z, ab)",
    "inverse": "act(z, k), undone, against z",
    "identity": "act(z, 1) against z",
    "commutation": "act(act(z, a), b) against act(act(z, b), a)",
    "return": "each generator, as often as its order, against z",
}


def describe(found: dict[str, Any]) -> list[str]:
    """A page of lines."""
    shown = f"{found['images']:,} test images of {found['states']} states"
    if not found["states"]:
        shown = f"{found['images']:,} views of {found['things']:,} test things, moved by {found['group']}"
    others = "" if found.get("same_images", True) else ", other images than it was trained on"
    lines = [f"{found['run']} on {found['world']}: {shown}{others}", "", *verdict(found), ""]
    if found.get("rotation"):
        lines += [*_frequencies(found), ""]
    if found.get("parts"):
        lines += [*_parts(found["parts"]), ""]
    lines += [*_law(found), ""]
    if "drift" in found:
        step = "+1" if _is_cycle(found) else "the first generator"
        lines += [f"a rollout of {step} ({found['law']['images']:,} images)"]
        lines += [f"  {'steps':>6}  accuracy  squared distance to the prototype"]
        lines += [f"  {r['steps']:>6,}  {r['accuracy']:>8.4f}  {_number(r['distance'])}" for r in found["drift"]]
        lines += [""]
    return [*lines, *(_uses(found) if found["states"] else _pose_uses(found))]


def verdict(found: dict[str, Any]) -> list[str]:
    """The short answers."""
    if found["states"]:
        return [*_cycles(found), _composes(found)]
    if found["parts"] is None:
        return ["The latent action has no representation to read.", _composes(found)]
    sums = " + ".join(f"{part['copies']}x{part['irrep']}" for part in found["parts"])
    return [f"The latent is {sums} of {found['group']}.", _composes(found)]


def _is_cycle(found: dict[str, Any]) -> bool:
    return found["states"] > 0 and "x" not in found["group"]


def _cycles(found: dict[str, Any]) -> list[str]:
    rotation, n, cycle = found["rotation"], found["states"], _is_cycle(found)
    if rotation is None:
        return ["The latent action has no angles to read a cycle from."]
    how = "learned" if rotation["learned"] else "fixed"
    count = 1 if len({str(plane["angle"]) for plane in rotation["planes"]}) == 1 else len(rotation["planes"])
    angles_read = f"{count} {how} angle{'' if count == 1 else 's'} alone"
    if cycle:
        parts = (rotation["modulus"], rotation["confidence"], rotation.get("reason"))
        lines = [_cycle(*parts, f"the world has {n} states", angles_read)]
    else:
        names = found["group"].split("x")
        reasons = rotation.get("reason") or [None] * len(names)
        factors = zip(rotation["modulus"], rotation["confidence"], reasons, names, strict=True)
        lines = [
            f"Factor {i}: {_cycle(modulus, confidence, reason, f'it is {factor}', angles_read)}"
            for i, (modulus, confidence, reason, factor) in enumerate(factors, 1)
        ]
    alike = rotation["alike"]
    if alike > 1:
        step = n // alike
        twins = f"{alike} at a time" if not cycle else f"y and y + {step}" if alike == 2 else f"states {step} apart"
        return [*lines, f"It cannot tell all states apart: {twins} look alike, {step} of {n} are distinguishable."]
    if rotation["settled"] < len(rotation["planes"]):
        off = len(rotation["planes"]) - rotation["settled"]
        multiple = f"a multiple of 2π/{n}" if cycle else f"a frequency of {found['group']}"
        return [*lines, f"{off} of {len(rotation['planes'])} angles are not near {multiple}."]
    return [*lines, f"Its frequencies tell all {n} states apart."]


def _cycle(modulus: int | None, confidence: float, reason: str | None, truth: str, angles_read: str) -> str:
    if modulus is None and reason == "many":
        asked = f"the best guess has confidence {min(confidence, 0.9989):.4f}, 0.999 is asked"
        return f"The length of the cycle is more than {angles_read} can tell ({truth}): {asked}."
    if modulus is None:
        none = "they are near the multiples of 2π/n for no n that is tried"
        return f"No finite cycle can be read off {angles_read}: {none}."
    sure = "above 0.9999" if confidence > 0.9999 else f"{confidence:.4f}"
    return f"A cycle of length {modulus} ({truth}), read off {angles_read}; confidence {sure}."


def _composes(found: dict[str, Any]) -> str:
    asked = [name for name in _laws(found) if name != "equivariance" and (found["abelian"] or name != "commutation")]
    broken = [name for name in asked if (error := found["law"][name]) is None or error >= OBEYS]
    if not broken:
        return f"It composes: every error of the group law is below {OBEYS:g} of the spread."
    return f"It does not compose: {', '.join(broken)} off by {OBEYS:g} of the spread or more."


def _laws(found: dict[str, Any]) -> dict[str, str]:
    """The laws that were measured, and what each compares."""
    laws = CYCLE if _is_cycle(found) else LAWS
    return {name: meaning for name, meaning in laws.items() if name in found["law"]}


def _law(found: dict[str, Any]) -> list[str]:
    law, what = found["law"], "images" if found["states"] else "views"
    on = f"{law['images']:,} {what}" + (f", {law['pairs']} pairs of elements" if "pairs" in law else "")
    lines = [f"the law: squared error over the spread, 0 is exact (from composition on, {on})"]
    for name, meaning in _laws(found).items():
        if name == "commutation" and not found["abelian"]:
            meaning += f"; must differ, {found['group']} does not commute"
        lines.append(f"  {name:<13}{_number(law[name]):>9}  {meaning}")
    return lines


def _frequencies(found: dict[str, Any]) -> list[str]:
    unit = f", in turns of 2π/{found['states']} a step" if _is_cycle(found) else f" of {found['group']}"
    lines = [f"frequencies{unit}; energy is the share of the prototypes' variance"]
    lines += [f"  {'frequency':>9}  {'planes':>6}  {'energy':>6}  farthest angle"]
    lines += [
        f"  {f['frequency']:>9}  {f['planes']:>6}  {f['energy']:.4f}  {_number(f['residual'])}"
        for f in found["rotation"]["frequencies"]
    ]
    return lines


def _parts(parts: list[dict[str, Any]]) -> list[str]:
    lines = ["irreducible representations; energy is the share of the latents' variance"]
    lines += ["  irrep  dim  copies  energy  latent dimensions"]
    lines += [
        f"  {p['irrep']:>5}  {p['dim']:>3}  {p['copies']:>6}  {p['energy']:.4f}  {p['dimensions']}" for p in parts
    ]
    return lines


def _uses(found: dict[str, Any]) -> list[str]:
    ranked = found["retrieval"]
    hits = ", ".join(f"{name} {value:.4f}" for name, value in ranked.items() if name != "mrr")
    return [
        f"the next state's prototype, ranked by distance: MRR {ranked['mrr']:.4f}, {hits}",
        f"the action between two images: {_inferred(found['inference'])}",
        f"prototypes' cosines: {found['geometry']['circulant']:.2%} circulant",
    ]


def _pose_uses(found: dict[str, Any]) -> list[str]:
    ranked, inferred = found["retrieval"], found["inference"]
    by_error = sorted((a for a in found["actions"] if a["equivariance"] is not None), key=lambda a: a["equivariance"])
    off = f", median error {ranked['median_error']:.1f} degrees" if "spacing" in inferred else ""
    within = ""
    if "spacing" in inferred:
        within = f" within {inferred['spacing']:.1f} degrees, median error {inferred['median_error']:.1f}"
    ends = [f"{_number(a['equivariance'])} for {_action(a)}" for a in by_error[:1] + by_error[-1:]]
    return [
        *([f"equivariance by action, of {len(found['actions'])}: from {ends[0]} to {ends[1]}"] if ends else []),
        f"the next view, ranked among {ranked['candidates']:,} ({ranked['things']} things): "
        f"MRR {ranked['mrr']:.4f}, hit@1 {ranked['hit1']:.4f}{off}",
        f"the action between two views: {_inferred(inferred)}{within}",
    ]


def _action(row: dict[str, Any]) -> str:
    return row["action"] if row["degrees"] is None else f"a turn by {row['degrees']:.0f} degrees"


def _inferred(inferred: dict[str, Any]) -> str:
    return f"{inferred['right']:,} of {inferred['pairs']:,} pairs right ({inferred['accuracy']:.4f})"


def _number(value: float | None) -> str:
    if value is None:
        return "infinite"
    return f"{value:.4f}" if value == 0 or 1e-3 <= value < 1e3 else f"{value:.1e}"
