"""alignunformeval: alignment and uniformity of sentence embeddings."""

from alignunformeval.eval import eval_alignment, eval_uniform

REQUIREMENTS = ("alignunformeval==0.0.1.1", "numpy==1.26.4")


def alignment(z):
    rows = {(view, i): z[i, view] for view in (0, 1) for i in range(len(z))}
    return eval_alignment(rows.get, [(0, i) for i in range(len(z))], [(1, i) for i in range(len(z))])


QUANTITIES = {"uniformity": lambda z: eval_uniform(z.__getitem__, range(len(z))), "alignment": alignment}
