"""repsim: CKA with several kernels and estimators of HSIC."""

import repsim

REQUIREMENTS = ("repsim==0.1.5", "numpy==2.4.6")

QUANTITIES = {
    "linear_cka": lambda a, b: repsim.cka([a, b], kernel_type="linear")[0, 1],
    "rbf_cka": lambda a, b: repsim.cka([a, b])[0, 1],
    "unbiased_cka": lambda a, b: repsim.cka([a, b], kernel_type="linear", estimator="song")[0, 1],
}
