"""Where a p-value of a coefficient that is not identified comes from: what a pseudo-inverse makes of the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from statsmodels.regression.linear_model import OLS

from zoo.analysis.columns import Estimate
from zoo.analysis.linear import PROJECTOR, global_linear_effect
from zoo.analysis.ols import OlsFit
from zoo.analysis.table import StudyTable

GENERATIVE = "ssl_mode[generative]"
_NONE = {PROJECTOR: "none"}


def pseudo_inverse(fit: OlsFit, term: str, *, shifts: Mapping[str, float] | None = None) -> Estimate:
    """What a program that takes the pseudo-inverse of a design says of a term, whether it is identified or not.

    Of all coefficients that fit equally well it takes those of least length, and so shares out what columns that
    coincide do together. An identified term is the same as in any fit. Any other depends on what should not matter: on
    reference levels, and on where years are counted from (``shifts``, numbers that are subtracted from columns first).
    It is here to show where a published number comes from, never as a result.
    """
    matrix = fit.design.assign(**{name: fit.design[name] - shift for name, shift in (shifts or {}).items()})
    # within the row space, of known dimension, statsmodels' own fit has full rank: no cut at some tiny singular value
    row_space = np.linalg.svd(matrix.to_numpy(), full_matrices=False)[2][: fit.rank].T  # (n_columns, rank)
    results = OLS(fit.results.model.endog, matrix.to_numpy() @ row_space).fit()
    test = results.t_test(row_space[matrix.columns.get_loc(term)])
    low, high = test.conf_int(alpha=0.05)[0]
    known = {estimate.term: estimate for estimate in fit.estimates}
    label = known.get(term) or Estimate(term=term, value=None, n=fit.n, unit="")
    return replace(
        label,
        value=float(test.effect[0]),
        ci_low=float(low),
        ci_high=float(high),
        p=float(test.pvalue),
        ci_low_robust=None,
        ci_high_robust=None,
        p_robust=None,
        method="pseudo-inverse",
        note="an artefact: the rows do not identify it" if term in fit.not_identified else "",
    )


def generative_artefacts(table: StudyTable) -> dict[str, Estimate]:
    """What a pseudo-inverse says of generative objectives and usability, by how the model is written.

    Dubois et al. 2023 print p 1e-4 and 3e-4 for this effect. All generative encoders, and no others, lack a projector,
    so the design has one dimension less than columns and the effect is not identified; a pseudo-inverse prints a
    p-value all the same. The first two ways come near the printed ones; the others write the model of the first
    differently and fit as well. Empty if the effect is identified, or if no encoder lacks a projector.
    """
    plain = global_linear_effect(table, "ssl_mode", "usability")
    if GENERATIVE not in plain.fit.not_identified or f"{PROJECTOR}[none]" not in plain.fit.design:
        return {}
    none = global_linear_effect(table, "ssl_mode", "usability", references=_NONE)
    first = global_linear_effect(
        table, "ssl_mode", "usability", references=_NONE, projectors=("projection1_arch", "projection2_arch")
    )
    return {
        "none as reference level": pseudo_inverse(none.fit, GENERATIVE),
        "the same with first projectors": pseudo_inverse(first.fit, GENERATIVE),
        "none as reference level, years counted from 2000": pseudo_inverse(none.fit, GENERATIVE, shifts={"year": 2000}),
        "none as reference level, years counted from 2010": pseudo_inverse(none.fit, GENERATIVE, shifts={"year": 2010}),
        f"{plain.references[PROJECTOR]} as reference level": pseudo_inverse(plain.fit, GENERATIVE),
    }


def artefact_records(artefacts: Mapping[str, Estimate]) -> list[Estimate]:
    """The same as records that cannot be mistaken for the effect.

    Their terms say what they are. Like every term that is not identified they have no interval and no p-value; the note
    has what a pseudo-inverse prints as one.
    """
    return [
        one.described(
            term=f"pseudo-inverse of {one.term}, {how}",
            p=None,
            ci_low=None,
            ci_high=None,
            note=f"{one.note}; a pseudo-inverse prints p {one.p:.2g}".removeprefix("; "),
        )
        for how, one in artefacts.items()
    ]
