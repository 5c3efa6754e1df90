"""Estimates what to expect of every encoder: writes results/expected.toml and results/expected.tsv.

python scripts/expect_errors.py          # conditions on all observations, with the effects that expected.toml has
python scripts/expect_errors.py --fit    # goes on estimating the effects from those first: half an hour, and 8 GB

expected.toml has the sizes of effects, noises and scales of protocols, and difficulties; expected.tsv a line an
encoder: what it adds to log odds and the standard deviation of that, in hundredths, overall, by domain and by data set
on which probes were measured. Estimates are from all observations; the fit leaves out most zero-shot numbers of
encoders that have no few-shot ones, and the published setting of 12,811 labels, to be quicker.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from scripts.error_model import (
    ANCHOR,
    EFFECTS,
    FEW_SHOT,
    LINEAR,
    MEASURED,
    ZERO_SHOT,
    Effects,
    Model,
    Observation,
    Target,
    label_place,
    observations,
    shipped_effects,
)
from zoo.analysis.covariates import find_covariates
from zoo.cards.catalogue import load_catalogue
from zoo.cards.gated_access import get_image_domains
from zoo.choosing.expectations import BASIS_CODES
from zoo.results.evidence import list_datasets
from zoo.results.values import IMAGENET

RESULTS = Path(__file__).resolve().parent.parent / "results"
CARDS = {name: card for name, card in load_catalogue().items() if not card.is_untrained}
SHARE_OF_ZERO_SHOT = 0.2  # of encoders without few-shot numbers, in the fit


def fitted(known: list[Observation]) -> Effects:
    """The effects, estimated."""
    drawn = np.random.default_rng(0)
    few = {one.encoder for one in known if one.protocol == FEW_SHOT}

    def keeps(one: Observation) -> bool:
        if one.protocol == ZERO_SHOT and one.dataset != IMAGENET and one.encoder not in few:
            return bool(drawn.random() < SHARE_OF_ZERO_SHOT)
        return not (one.protocol == MEASURED and abs(one.labels - label_place(12.811)) < 0.01)

    model = Model(CARDS, [one for one in known if keeps(one)], shipped_effects())
    print(f"Fits {len(EFFECTS)} effects to {len(model.known)} observations", file=sys.stderr)
    model.fit(say=lambda text: print(text, end=" ", file=sys.stderr, flush=True))
    return model.effects


def difficulties(model: Model) -> tuple[dict[str, dict[str, Any]], float]:
    """Of data sets, domains and overall, with 16 labels per class; and how they change with labels."""
    tasks, scales = model.difficulties(), model.effects.scale
    own = sorted((labels, odds) for (name, protocol, labels), odds in tasks.items() if protocol == MEASURED)
    slope = float(np.polyfit(*zip(*own, strict=True), 1)[0])
    at = round(label_place(16), 2)
    exact = {name: odds for (name, protocol, labels), odds in tasks.items() if (protocol, labels) == (FEW_SHOT, at)}
    others: dict[str, list[float]] = defaultdict(list)
    for (name, protocol, labels), odds in tasks.items():
        if protocol in (LINEAR, FEW_SHOT) and name not in exact and not is_of_imagenet(name):
            others[name].append(odds + slope * (at - labels))
    found: dict[str, dict[str, Any]] = {
        name: {"odds": odds, "sd": 0.1, "n": 1, "scale": scales[name, LINEAR]} for name, odds in exact.items()
    }
    for name, some in others.items():
        found[name] = {"odds": float(np.mean(some)), "sd": 0.3, "n": 1, "scale": scales[name, LINEAR]}
    logarithms = [math.log(one["scale"]) for name, one in found.items() if name != IMAGENET]
    usual = float(np.exp(np.mean(logarithms)))
    by_domain: dict[str, list[float]] = defaultdict(list)
    for name, one in found.items():
        by_domain[list_datasets()[name].domain].append(one["odds"])
    everything = [odds for some in by_domain.values() for odds in some]
    apart = float(np.std(everything, ddof=1))
    for domain, some in by_domain.items():
        sd = float(np.std(some, ddof=1)) if len(some) > 3 else apart
        found[domain] = {"odds": float(np.mean(some)), "sd": sd, "n": len(some), "scale": usual}
    found["overall"] = {"odds": float(np.mean(everything)), "sd": apart, "n": len(everything), "scale": usual}
    found[IMAGENET]["by_labels"] = [[round(place, 4), round(odds, 3)] for place, odds in own]
    return found, slope


def is_of_imagenet(dataset: str) -> bool:
    """Whether it has ImageNet's classes and images like its, of which ImageNet-1K stands for all."""
    return dataset.startswith("imagenet-")


def basis_of(known: list[Observation]) -> dict[str, str]:
    """What is known of each encoder: the best of its observations."""
    words = ("measured here", "probe of others", "other numbers", "kin")
    best: dict[str, int] = {}
    for one in known:
        is_linear = one.scaled_by == ANCHOR and one.labels == 0
        rank = 0 if one.protocol == MEASURED else 1 if is_linear else 2
        best[one.encoder] = min(rank, best.get(one.encoder, 3))
    return {name: words[best.get(name, 3)] for name in CARDS}


FEWEST_NETWORKS = 3  # of an objective, with probes of so few labels


def fewest_labels(known: list[Observation]) -> dict[str, float]:
    """The place of the fewest labels per class of linear probes, by objective: the third of its networks by that."""
    places: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in known:
        if one.protocol in (MEASURED, LINEAR, FEW_SHOT):
            traits = find_covariates(CARDS[one.encoder])
            of = places[str(traits["objective"])]
            of[str(traits["weights"])] = max(of[str(traits["weights"])], one.labels)
    ordered = {name: sorted(of.values(), reverse=True) for name, of in places.items()}
    return {name: some[FEWEST_NETWORKS - 1] for name, some in ordered.items() if len(some) >= FEWEST_NETWORKS}


def write_effects(effects: Effects, known: list[Observation], model: Model) -> None:
    """Writes expected.toml."""
    found, slope = difficulties(model)
    lines = ["# Written by scripts/expect_errors.py; natural log odds of errors, see scripts/error_model.py.", ""]
    lines += [f"n_observations = {len(known)}", f"n_encoders = {len({one.encoder for one in known})}"]
    mean, sd = model.home()
    lines += [f"home = [{mean:.3f}, {sd:.3f}]  # what encoders of special images add on theirs, and its deviation"]
    lines += [f"labels_slope = {slope:.4f}  # of difficulties, per hundredfold labels; that of ImageNet-1K", ""]
    probes = [math.log(one["scale"]) for name, one in found.items() if name in list_datasets() and name != IMAGENET]
    lines.insert(-1, f"scale_sd = {float(np.std(probes, ddof=1)):.3f}  # natural logarithm, of scales of data sets")
    lines += ["[fewest_labels]  # by objective, place of the fewest with which three networks were probed"]
    lines += [*(f'"{name}" = {place:.4f}' for name, place in sorted(fewest_labels(known).items())), ""]
    by_trait: dict[str, list[str]] = defaultdict(list)
    for (trait, scope), sd in effects.sd.items():
        by_trait[trait].append(f"{scope} = {sd:.4f}")
    lines += [
        "[sd]  # of effects, by trait and scope",
        *(f"{trait} = {{ {', '.join(some)} }}" for trait, some in by_trait.items()),
        "",
    ]
    lines += [
        "[noise]  # standard deviations, by protocol",
        *(f'"{name}" = {sd:.4f}' for name, sd in effects.noise.items()),
        "",
    ]
    for protocol in dict.fromkeys(protocol for _, protocol in effects.scale):
        lines.append(f'[scales."{protocol}"]  # how far encoders differ on a data set')
        lines += [f'"{name}" = {one:.4f}' for (name, of), one in effects.scale.items() if of == protocol]
        lines.append("")
    lines += ["[difficulty]  # with 16 labels per class, by data set and domain"]
    for name, one in found.items():
        more = f", by_labels = {one['by_labels']}" if "by_labels" in one else ""
        numbers = f"odds = {one['odds']:.3f}, sd = {one['sd']:.3f}, scale = {one['scale']:.3f}, n = {one['n']}"
        lines.append(f'"{name}" = {{ {numbers}{more} }}')
    (RESULTS / "expected.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


PROBES = (MEASURED, LINEAR, FEW_SHOT)
ALL_LABELS, FEW_LABELS, ELSEWHERE = "ImageNet-1K, all labels", "ImageNet-1K, few labels", "elsewhere"
FEW = 0.8  # place of labels from which on they are few
LEAST_FACTOR, MOST_FACTOR = 0.7, 1.5


def held_out(model: Model) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Family, and how many standard deviations published errors of probes are from what is expected without them.

    By what that rests on, and where. Of every network is hidden: everything (kin); its probes (other numbers); or all
    but linear probes of others on ImageNet-1K, and zero-shot numbers (probe of others).
    """
    left, known = model.left_out(), model.known
    networks: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(known):
        networks[str(find_covariates(CARDS[one.encoder])["weights"])].append(place)
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for rows in networks.values():
        linear = {i for i in rows if (known[i].scaled_by, known[i].protocol, known[i].labels) == (ANCHOR, LINEAR, 0)}
        hidden = {
            "kin": rows,
            "other numbers": [i for i in rows if known[i].protocol in PROBES],
            "probe of others": [i for i in rows if i not in linear and known[i].protocol != ZERO_SHOT and linear],
        }
        for basis, some in hidden.items():
            if not some or (basis != "kin" and len(some) == len(rows)):
                continue
            mean, covariance = left.predict(some)
            for i, off, sd in zip(some, left.y[some] - mean, np.sqrt(np.diag(covariance)), strict=True):
                if known[i].protocol in PROBES:
                    where = FEW_LABELS if known[i].labels > FEW else ALL_LABELS
                    key = basis, where if known[i].dataset == IMAGENET else ELSEWHERE
                    found[key].append((CARDS[known[i].encoder].family, float(off / sd)))
    return found


def factors(held: dict[tuple[str, str], list[tuple[str, float]]]) -> dict[tuple[str, str], float]:
    """By what standard deviations are multiplied: the root mean square of held-out errors in their own units.

    Printed is how often 90 % intervals hold them before, and after with the factor of all other families.
    """
    found = {}
    for key, pairs in sorted(held.items()):
        families, z = np.array([family for family, _ in pairs]), np.array([one for _, one in pairs])
        found[key] = factor_of(z)
        others = np.array(
            [factor_of(z[families != family]) if (families != family).any() else 1.0 for family in families]
        )
        before, after = (
            f"{np.sqrt(np.mean(one**2)):.2f}, in 90 % {100 * np.mean(np.abs(one) < NormalDist().inv_cdf(0.95)):.0f} %"
            for one in (z, z / others)
        )
        print(f"{' '.join(key)}: {len(z)} numbers, rms z {before}; rms z {after} with a factor of {found[key]:.2f}")
    return found


def factor_of(z: np.ndarray) -> float:
    """The root mean square, within limits."""
    return min(max(float(np.sqrt(np.mean(z**2))), LEAST_FACTOR), MOST_FACTOR)


def write_table(model: Model, known: list[Observation]) -> None:
    """Writes expected.tsv."""
    names = sorted(CARDS)
    wanted, _ = difficulties(model)
    domains = {name: one.domain for name, one in list_datasets().items()}
    columns = sorted(wanted, key=lambda name: (name in domains, name != "overall", name))
    targets = []
    for column in columns:
        dataset, protocol = column if column in domains else "", MEASURED if column == IMAGENET else ""
        domain = domains.get(column, "" if column == "overall" else column)
        targets += [Target(name, dataset, domain, protocol=protocol) for name in names]
    mean, sd = model.expect(targets)
    bases, factor = basis_of(known), factors(held_out(model))
    places = [ALL_LABELS if one.dataset == IMAGENET else ELSEWHERE for one in targets]
    sd *= [factor.get((bases[one.encoder], where), 1.0) for one, where in zip(targets, places, strict=True)]
    cells = [f"{round(100 * m)} {round(100 * s)}" for m, s in zip(mean, sd, strict=True)]
    cells += of_labels(model, names, bases, [factor.get((bases[name], FEW_LABELS), 1.0) for name in names])
    lines = ["\t".join(["encoder", "basis", *columns, "labels", "shared"])]
    for place, name in enumerate(names):
        lines.append("\t".join([name, BASIS_CODES[bases[name]], *cells[place :: len(names)]]))
    (RESULTS / "expected.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(names)} encoders, {len(columns)} kinds of images, {len(known)} observations")


N_SHARED = 8  # leading components, of which differences of most pairs of encoders have their standard deviations


def of_labels(model: Model, names: list[str], bases: dict[str, str], factor: list[float]) -> list[str]:
    """What a hundredth of the labels adds, and its standard deviation; and what errors of encoders share.

    Both follow from ImageNet-1K with all labels and with 5 per class. What is shared are what encoders have of the
    leading components of the covariance of those of natural images of which something is known, and standard deviations
    of what their family has in common beyond these: with all labels, and of what a hundredth adds.
    """
    few = label_place(5)
    targets = [Target(name, IMAGENET, "natural", labels, MEASURED) for labels in (0.0, few) for name in names]
    mean, _ = model.expect(targets)
    together, n = model.expect_together(targets), len(names)
    change = np.block([[np.eye(n), np.zeros((n, n))], [-np.eye(n) / few, np.eye(n) / few]])
    together = change @ together @ change.T
    some = [i for i, name in enumerate(names) if bases[name] != "kin" and not get_image_domains(CARDS[name])]
    values, vectors = np.linalg.eigh(together[np.ix_(some, some)])
    values, vectors = values[: -N_SHARED - 1 : -1], vectors[:, : -N_SHARED - 1 : -1]
    shared = together[:n, some] @ vectors / np.sqrt(values)
    shared *= np.sign(shared.sum(axis=0))
    kin = [within(part, names) for part in (together[:n, :n] - shared @ shared.T, together[n:, n:])]
    numbers = np.hstack([shared, np.sqrt(kin).T])
    sd = np.sqrt(np.diag(together)[n:]) * factor
    slopes = [f"{round(100 * a)} {round(100 * b)}" for a, b in zip((mean[n:] - mean[:n]) / few, sd, strict=True)]
    return slopes + [" ".join(str(round(100 * one)) for one in row) for row in numbers]


def within(together: np.ndarray, names: list[str]) -> np.ndarray:
    """The mean covariance of encoders of a family, for each encoder; 0 where it is alone."""
    families = np.array([find_covariates(CARDS[name])["family"] for name in names])
    found = np.zeros(len(names))
    for family in {*families}:
        of = np.flatnonzero(families == family)
        if len(of) > 1:
            block = together[np.ix_(of, of)]
            found[of] = max((block.sum() - np.trace(block)) / (len(of) * (len(of) - 1)), 0.0)
    return found


def main() -> None:
    """Estimates and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="estimate the effects, too")
    fit = parser.parse_args().fit
    known = observations(CARDS)
    effects = fitted(known) if fit else shipped_effects()
    model = Model(CARDS, known, effects)
    write_effects(effects, known, model)
    write_table(model, known)


if __name__ == "__main__":
    main()
