"""reptrix: metrics of representations by the authors of alpha-ReQ's follow-ups; RankMe, alpha-ReQ and LiDAR."""

import torch
from reptrix import alpha, lidar, rankme

REQUIREMENTS = ("reptrix==0.1.0", "torch==2.15.0", "numpy==2.4.6", "scikit-learn==1.9.1")


def lidar_of(z):
    return lidar.get_lidar(torch.from_numpy(z), num_samples=z.shape[0], num_augs=z.shape[1])


QUANTITIES = {
    "rankme": lambda z: rankme.get_rankme(torch.from_numpy(z)),
    "alpha_req": lambda z: alpha.get_alpha(torch.from_numpy(z))[0],
    "lidar": lidar_of,
}
