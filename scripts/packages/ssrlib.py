"""ssrlib: analysis of self-supervised representations; spectral quantities and neural collapse."""

from ssrlib.processing import (
    AlphaReQProcessor,
    EffectiveRankProcessor,
    NESumProcessor,
    NeuralCollapseProcessor,
    ParticipationRatioProcessor,
    RankMeProcessor,
    StableRankProcessor,
)

REQUIREMENTS = ("ssrlib==0.2.0", "torch==2.15.0", "numpy==2.4.6")

QUANTITIES = {
    "rankme": lambda z: RankMeProcessor().process(z)[0],
    "effective_rank": lambda z: EffectiveRankProcessor().process(z)[0],
    "alpha_req": lambda z: AlphaReQProcessor().process(z)[0],
    "nesum": lambda z: NESumProcessor().process(z)[0],
    "stable_rank": lambda z: StableRankProcessor().process(z)[0],
    "participation_ratio": lambda z: ParticipationRatioProcessor().process(z)[0],
    "neural_collapse": lambda z, y, **_: NeuralCollapseProcessor().process(z, labels=y)[0],
}
