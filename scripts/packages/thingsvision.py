"""thingsvision: CKA of features, in NumPy and in PyTorch."""

from thingsvision.core.cka import get_cka

REQUIREMENTS = ("thingsvision==2.7.3", "setuptools==80.10.2")


def compared(a, b, **options):
    return get_cka(backend="numpy", m=len(a), **options).compare(X=a, Y=b)


QUANTITIES = {
    "linear_cka": compared,
    "rbf_cka": lambda a, b: compared(a, b, kernel="rbf"),
    "rbf_cka:sigma=None": lambda a, b: compared(a, b, kernel="rbf", sigma=None),
    "unbiased_cka": lambda a, b: compared(a, b, unbiased=True),
}
