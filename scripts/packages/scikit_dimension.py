"""scikit-dimension: TwoNN, the maximum likelihood of Levina and Bickel, and other estimators of intrinsic dimension."""

from skdim.id import MLE, MOM, TLE, CorrInt, FisherS, TwoNN, lPCA

REQUIREMENTS = ("scikit-dimension==0.5.0", "scikit-learn==1.9.1", "numpy==2.4.6")

QUANTITIES = {
    "participation_ratio": lambda z: lPCA(ver="participation_ratio").fit(z).dimension_,
    "twonn": lambda z: TwoNN().fit_transform(z),
    "twonn:maximum likelihood": lambda z: TwoNN(method="mle", discard_fraction=0).fit_transform(z),
    "dimension_by_neighbours": lambda z: MLE().fit(z).dimension_,
    "dimension_by_neighbours:fit_transform": lambda z: MLE().fit_transform(z),
    "dimension_by_neighbours:unbiased": lambda z: MLE(unbiased=True).fit(z).dimension_,
    "other_dimensions:lPCA": lambda z: lPCA().fit(z).dimension_,
    "other_dimensions:CorrInt": lambda z: CorrInt().fit(z).dimension_,
    "other_dimensions:MOM": lambda z: MOM().fit(z).dimension_,
    "other_dimensions:TLE": lambda z: TLE().fit(z).dimension_,
    "other_dimensions:FisherS": lambda z: FisherS().fit(z).dimension_,
}
