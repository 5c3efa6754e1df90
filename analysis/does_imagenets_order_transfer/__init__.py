"""Does the order of encoders on ImageNet transfer to other data sets?

Claim: encoders are chosen by ImageNet-1K as if their order were the same elsewhere. Kornblith, Shlens and Le 2019 find
r = .99 between ImageNet and transfer accuracy, Fang, Kornblith and Schmidt 2023 no consistent gain on real tasks. Six
of the ten claims, what a pick loses, are no paper's but of an earlier analysis of our own, of nearly the same numbers.

Expected: of 25 encoders (21 language-supervised, 4 DINOv2), with 16 labels per class, Kendall's tau of ImageNet's order
with that on 21 other data sets is .53 on average (.34 to .68), from .82 (UCF101) to .28 (EuroSAT) and .18 (MNIST); up
to 100 M parameters .44; without DINOv2 .65, within OpenCLIP or SigLIP .75. Up to 100 M, ImageNet's best loses 1.7
points on average (.3 to 6.0) and 10.0 at worst (CIFAR-100), a random pick 5.3; the best of its first five .40 and 2.7,
of a random five .96. Up to 450 M its best loses 1.0 and 8.1 (Birdsnap). In both limits the largest and the best
zero-shot are the same encoder. At like size DINOv2 is .27 log odds below language-supervised encoders (-.60 to .03): 25
to 32 points on GTSRB, 8 to 13 on MNIST, but 9 to 19 above on Birdsnap, 3 to 9 on CIFAR-100. SUN397 alone orders
encoders as the mean of 22 data sets does with tau .90, four chosen ones with .94; for a family without which they were
chosen four reach .82, and .9 takes eleven, as it does of random ones. Zero-shot and few-shot orders have tau .74, on
PatchCamelyon 0. Not told: other self-supervised methods, other protocols, domains apart from their few data sets.

Command: zoo study does_imagenets_order_transfer
"""

from __future__ import annotations

from pathlib import Path

from zoo.analysis.correlations import HIGH
from zoo.analysis.table import StudyTable
from zoo.results.evidence import list_datasets
from zoo.studies.findings import (
    WIDEST,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import build_cross_table, format_estimate, format_unsigned, read_printed

from .figures import differences_figure, losses_figure, orders_figure
from .numbers import ALL, COMMERCIAL, ENOUGH, RANDOM, RANDOM_FIVE, Found, found_in, read

PRINTED = Path(__file__).with_name("printed.tsv")

READS_TABLE = False


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Orders, what a pick loses, language, few data sets, and zero-shot; the table of encoders has no part in it."""
    found = found_in(read(), seed=options.seed)
    numbers, apart = found.numbers, found.difference
    columns = [*found.orders.values(), *found.subsets.values(), *found.zero_shot.values(), found.parts]
    estimates = [found.correlation, *(one for some in columns for one in some)]
    estimates += [one for loss in found.losses for one in (loss.mean, loss.gain, loss.worst)]
    n_zero, rows = len(numbers.zero.dropna()), []
    parts = {f"order and losses, {limit}": (len(some), f"not {limit}") for limit, some in numbers.limits().items()}
    for part, (n, why) in (parts | {"zero-shot and few-shot": (n_zero, "no zero-shot numbers")}).items():
        left_out = {why: len(numbers.few) - n} if n < len(numbers.few) else {}
        rows.append(RowsUsed(part=part, used=n, left_out=numbers.left_out | left_out))
    return Findings(
        claims=_claims(found),
        answer=answer_in_sentence(lambda: _answer(found)),
        estimates=[*estimates, *apart.by_set.values(), *apart.by_group.values()],
        tables=_tables(found),
        figures=[orders_figure(numbers, found.orders), losses_figure(found.losses), differences_figure(apart)],
        rows=rows,
        notes=_notes(found),
    )


def _answer(found: Found) -> str:
    *taus, mean = found.orders[ALL]
    low, *_, high = sorted(taus, key=require_value)
    return (
        f"{'Yes' if require_value(low) >= HIGH else 'In part'}: over {mean.n} encoders Kendall's tau with ImageNet's "
        "order "
        f"is {format_statement(mean)} on average of {len(taus)} other data sets, from {require_value(high):.2f} "
        f"({high.term}) to "
        f"{require_value(low):.2f} ({low.term})."
    )


def _claims(found: Found) -> list[Claim]:
    r, by_rule = found.correlation, {(loss.rule, loss.limit): loss for loss in found.losses}
    first = number_claim(
        "Correlation of log odds on ImageNet-1K with their mean over other data sets",
        source="Kornblith, Shlens and Le 2019 (arXiv:1805.08974), abstract",
        printed="0.99",
        ours=r.value,
        interval=(r.ci_low, r.ci_high),
        reason="theirs are networks of one kind, trained on ImageNet-1K with its labels, and probes of all labels",
    )
    others = []
    for row in read_printed(PRINTED):
        loss = by_rule.get((row["rule"], row["limit"]))
        one = None if loss is None else loss.mean if row["which"] == "on average" else loss.worst
        others.append(
            number_claim(
                f"Points lost {row['which']} by the {row['rule']}, {row['limit']}",
                source="no paper: an earlier analysis of our own",
                printed=row["points"],
                ours=None if one is None else one.value,
                interval=None if one is None else (one.ci_low, one.ci_high),
                widest=100 * WIDEST,
                reason="that had one encoder more, bge-visualized-base, which has no card",
                caveat="" if loss is None or row["which"] == "on average" else f"on {loss.worst_set}",
            )
        )
    return [first, *others, *of_papers.judged(found)]


of_papers = Claims(source="assumed where encoders are chosen by ImageNet-1K")


@of_papers("Encoders have the order on other data sets that they have on ImageNet-1K", paper="the same order")
def order_transfers(found: Found) -> ClaimAnswer:
    *taus, mean = found.orders[ALL]
    high = [one for one in taus if (one.value or 0.0) >= HIGH]
    below = [one.term for one in taus if one.ci_high is not None and one.ci_high < HIGH]
    alone = next((f", {one.term} {format_unsigned(one)}" for one in found.parts if one.term == "without dinov2"), "")
    return ClaimAnswer(
        ours=f"mean tau {format_unsigned(mean)}{alone}; high (at least {HIGH:g}) on {len(high)} of {len(taus)}",
        holds=len(high) == len(taus),
        contradicted=bool(below),
        value=mean.value,
        reason=f"it is another one on some: tau is not high on {', '.join(below) or 'all'}",
    )


@of_papers(
    "On several data sets, a higher ImageNet-1K accuracy brings no consistent gain",
    source="Fang, Kornblith and Schmidt 2023 (arXiv:2301.04644), abstract",
    paper="on multiple data sets",
)
def some_do_not_follow(found: Found) -> ClaimAnswer:
    taus = found.orders[ALL][:-1]
    loose = [one.term for one in taus if not has_interval_without_zero(one)]
    return ClaimAnswer(
        ours=f"on {len(loose)} of {len(taus)} the interval of tau holds 0{': ' * bool(loose)}{'; '.join(loose)}",
        holds=len(loose) > 1,
        value=float(len(loose)),
        reason="the order on nearly every data set goes with that on ImageNet-1K",
        caveat="none of their six data sets is among these",
    )


@of_papers("Zero-shot accuracies order encoders as few-shot ones do", paper="the same order")
def zero_shot_orders_alike(found: Found) -> ClaimAnswer:
    *taus, mean = next(iter(found.zero_shot.values()))
    low = min(taus, key=lambda one: one.value or 0.0)
    return ClaimAnswer(
        ours=f"mean tau {format_unsigned(mean)} (high: at least {HIGH:g}), lowest on {low.term}: "
        f"{format_unsigned(low)}",
        holds=(mean.value or 0.0) >= HIGH,
        value=mean.value,
        reason="they order otherwise",
        caveat=f"of {mean.n} language-supervised encoders, and not on {low.term}",
    )


def _tables(found: Found) -> list[FindingsTable]:
    apart, known, rows = found.difference, list_datasets(), []
    for name, one in apart.by_set.items():
        points, seen = (f"{value:+.1f}" for value in apart.points[name]), "yes" if name in apart.seen else ""
        rows.append([known[name].title, known[name].domain, format_estimate(one, digits=2), *points, seen])
    return [
        build_cross_table(
            "Kendall's tau of the order on ImageNet-1K with that on another data set [95 % interval]",
            "data set",
            {f"{limit}, {some[-1].n} encoders": some for limit, some in found.orders.items()},
            signed=False,
        ),
        build_cross_table(
            "Mean of these taus over data sets, of parts of the encoders [95 % interval]",
            "encoders",
            {"mean tau": found.parts},
            signed=False,
        ),
        FindingsTable(
            title="What a pick loses to the best of a data set, in percentage points",
            headers=["limit", "pick", "which", "on average [95 % interval]", "random less it", "at worst", "on"],
            rows=[
                [
                    loss.limit, loss.rule, loss.picked, format_unsigned(loss.mean),
                    "" if loss.rule in (RANDOM, RANDOM_FIVE) else format_unsigned(loss.gain),
                    format_unsigned(loss.worst, 1),
                    loss.worst_set,
                ]
                for loss in found.losses
            ],
            note="Random less it: how much more a random pick, or the best of a random five, loses on average. Of two "
            "encoders of one size, the mean of both.",
        ),
        FindingsTable(
            title="Self-supervised less language-supervised encoders of like size, by data set",
            headers=["data set", "domain", "log odds [95 % interval]", *apart.points.index, "pretrained on"],
            rows=rows,
            note="In points one encoder less the mean of so many within a factor of two of its parameters. "
            "Pretrained on: its images, or web images chosen for being like them.",
        ),
        build_cross_table(
            "The same by domain, in log odds",
            "domain",
            {"log odds [95 % interval]": [*apart.by_group.values()]},
            note=f"{len(apart.points)} self-supervised encoders of one method: the intervals are of sizes, "
            "companions and data sets, and say nothing of other methods.",
        ),
        build_cross_table(
            "How a few data sets order encoders: tau of mean log odds with those of all data sets [95 % interval]",
            "data sets",
            found.subsets,
            signed=False,
            note="With the others: with the mean of the data sets that were not chosen. Left out: data sets were "
            "chosen without the encoder, or its family, whose pairs are judged. Any: random ones, and 95 % of them.",
        ),
        build_cross_table(
            "Zero-shot and few-shot accuracies of the same weights [95 % interval]", "data set", found.zero_shot
        ),
    ]  # fmt: skip


def _notes(found: Found) -> list[str]:
    facts = found.numbers.facts
    families = ", ".join(f"{name} {n}" for name, n in facts["family"].value_counts().items())
    picks = {limit: {loss.picked for loss in found.losses if loss.limit == limit} - {""} for limit in found.orders}
    same = " and ".join(limit for limit, some in picks.items() if len(some) == 1)
    column = found.subsets["a family left out"]
    fewest = next((n for n, one in enumerate(column, start=1) if (one.value or 0.0) > ENOUGH), 0)
    return [
        "Six of the ten claims, what a pick loses, are no paper's but of an earlier analysis of our own: that they "
        "agree shows that it can be repeated, not that it is right.",
        f"The {len(facts)} encoders ({families}) are no sample of any population, and near copies are drawn as if they "
        "were independent: intervals are too narrow.",
        f"Without language there are {', '.join(facts.index[~facts['language']])}: one method, one collection of "
        "images. Nothing is said of other self-supervised methods, of which no number is free of doubt.",
        "Features of nearly all of CLIP, OpenCLIP and EVA-CLIP are projected to the space of texts, those of "
        "their cards are not; images have 224 to 512 pixels, so that like size is not like cost.",
        "One protocol: logistic regression on 16 images per class, unscaled features, nothing tuned. With all "
        "labels, "
        "nearest neighbours or fine-tuning the order may be another. Over draws of the labels an accuracy has a "
        "standard error of 0.05 to 1 point, most on PatchCamelyon and FER2013.",
        "Most domains have one data set: what is the domain's and what the data set's is not identified.",
        "A bootstrap sample lacks a third of the encoders, often the best: intervals of losses lean upwards.",
        f"Limits within which all rules that name one encoder name the same, and are not told apart: {same or 'none'}.",
        *(["All may be used commercially: that limit changes nothing."] if COMMERCIAL not in found.orders else []),
        f"Up to {len(column)} data sets were chosen; the fewest that order a new family as all do (tau above "
        f"{ENOUGH:g}): {fewest or 'none so few'}.",
    ]
