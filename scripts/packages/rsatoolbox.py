"""rsatoolbox: comparisons of dissimilarities, two of which are CKA."""

from rsatoolbox.data import Dataset
from rsatoolbox.rdm import calc_rdm, compare

REQUIREMENTS = ("rsatoolbox==0.3.2", "numpy==2.4.6")


def compared(a, b, method, dissimilarity="euclidean"):
    first, second = (calc_rdm(Dataset(z.astype("float64")), method=dissimilarity) for z in (a, b))
    return compare(first, second, method=method)[0, 0]


QUANTITIES = {
    "linear_cka": lambda a, b: compared(a, b, "cosine_cov"),
    "linear_cka:cosine": lambda a, b: compared(a, b, "cosine"),
    "unbiased_cka": lambda a, b: compared(a, b, "corr_cov"),
}
