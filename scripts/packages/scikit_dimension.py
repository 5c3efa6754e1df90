"""scikit-dimension: TwoNN, and the maximum likelihood of Levina and Bickel."""

from skdim.id import MLE, TwoNN

REQUIREMENTS = ("scikit-dimension==0.5.0", "scikit-learn==1.9.1", "numpy==2.4.6")

QUANTITIES = {
    "twonn": lambda z: TwoNN().fit_transform(z),
    "twonn:maximum likelihood": lambda z: TwoNN(method="mle", discard_fraction=0).fit_transform(z),
    "dimension_by_neighbours": lambda z: MLE().fit(z).dimension_,
    "dimension_by_neighbours:fit_transform": lambda z: MLE().fit_transform(z),
    "dimension_by_neighbours:unbiased": lambda z: MLE(unbiased=True).fit(z).dimension_,
}
