"""deep-reps: similarity of representations after the survey of Klabunde et al."""

import torch
from deep_reps.neighbors_measures import knn_jaccard_similarity
from deep_reps.rsm_measures import centered_kernel_alignment

REQUIREMENTS = ("deep-reps==0.0.6", "open_clip_torch==3.3.0", "transformers==5.23.0", "torch==2.15.0", "numpy==2.4.6")

QUANTITIES = {
    "linear_cka": lambda a, b: centered_kernel_alignment(torch.from_numpy(a), torch.from_numpy(b)),
    "mutual_neighbours": lambda a, b: knn_jaccard_similarity(torch.from_numpy(a), torch.from_numpy(b), 10),
}
