"""isoscore: isotropy of embeddings."""

from IsoScore.IsoScore import IsoScore

REQUIREMENTS = ("IsoScore==2.0.1", "torch==2.15.0", "numpy==2.4.6")

QUANTITIES = {"participation_ratio:isotropy": lambda z: IsoScore(z)}
