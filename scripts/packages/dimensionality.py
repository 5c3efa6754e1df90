"""dimensionality: participation ratio of neural responses, corrected for the numbers of rows and features."""

from dimensionality import participation_ratio

REQUIREMENTS = ("dimensionality==0.1.4", "numpy==2.4.6")

QUANTITIES = {
    "participation_ratio": lambda z: participation_ratio(z),
    "participation_ratio:naive": lambda z: participation_ratio(z, return_all=True)["naive"],
}
