"""Good files of every kind: what tests hold the reader against, and what mutations start from."""

from __future__ import annotations

import argparse
import base64
import io
import pathlib
import warnings
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

_DILL = {
    "dill of 2021": (
        "eNp1VGt71EQUTne5RtBCQUFQLopmtW6Ltl7RbctFZaHqVCWKGGeT6U4kt3cyKV20PvTDduFf+Fvkh8GZyS59eNQkc57kzHnPe+Y9M3nQ2ILj+d"
        "OO44jNQqg4FZkOSs21wFQYxUnSDox1g1AJcgYZT0WkqyIRLhr+McIFK4M8ufoMvGaxTc8/THN5lsSZCAqueFpij/VprvpCT3x7/UO7cTXvPusa"
        "h9Wu/f5BE1VMvg9oHLTkPeJuGxPslg93hBcYDnmh5PHdqh2UKmxHXHMCqyrUlRKley3h+iYvijjruzi8hRf9E5SOZoJM6MX5ub/m4izWMU+CMM"
        "828JKkmGnPn6KgezjynDKmTK61cnH0OX+cFrnSQZpHlVFrxj9N4KxKi0E7zJVoB2mVEINSfBBUKdcSx4Y4zvCyXX+gBDHXFeOVHZxgOBlatJtF"
        "FuTi1a4zxCl5VM74+w0kzCMRljg9xGsMr/v7TFcz48SZHZxlOGfr7+G8nSIF4uwi3tjBmwwXRniL4W2vO0VPt0F3U8MbE0Z6UNAKWn6DYOsLeO"
        "fRwxHeZZj1uk2b8hLeW11dvf6ELmu6jka790ie8xedyfXPgw7ZJXqWzIcxf5N5bN4emzdn2XGmaZylMb+MOUmVzTNc1Hi/Z1k28IE8Ke2iFyQV"
        "vMjwYV1tcwcfydmHxHfqGV9N0xlzOTUfPjZZP2H4VOOzXjXEJYbPyyG+YOjIjmnyku/9z0bocR3KLFcp+VLBs0CkHMsGs+JZ/fmGULwvcHlS5R"
        "VT5VWGa2NZzd3Q+FLOGmncXVnI4CtT2dcM1zW6PZsvzKtMC4Ubk3w3Tb5Vhm8oWUvW7YgX8K1px3cMjNoh/92INduIPRRrkuJ7w/MDw48at4wC"
        "PsNPpMDPDLfl7Tv4xZMNf8Z0I4puibgv9RUR8kF9rO+0/OOTU1fpOCnbdCbjNL4vVIlfRwgYfmttg1MK80tZC3kiVgY3uCprfM+WnFYIh4gkAQ"
        "TDuuwM0d+GJJA7AdXhccsecuLgm/Ux1opn5Tr1AL+PcJchIbZUaGTbyO0SSy0KFN29ftN0MesDE/GUEa9k0HbLDFGNBawWsGEEvMew+d8CDqyA"
        "ByjW7EKDwX0j4h8Mf2ps9ar2U2hyrSs="
    ),
    "dill of 2021 with an array of JAX": (
        "eNp1VAt71EQUTXeRxwJaKSgIKvjMat0WbX2i21ZAZaHqVCWKGGeT6U5oXmcyabtoodVvu/Rf+Fvkh+mdyS6VT83jfsnNPffcOTd3tmtbcFxv0n"
        "EcsZkLFSUi1X6huRaYCMIojlu+sQ0/UIKcfsoTEeoyj0UDNe8k4fylfhZfeQResdi66x2nb1kaR6nwc654UuCA9WmuekKPfU94x/bjKt6D1jUK"
        "q1yHvCMmKh+/H9Y4Ysm7xN0yxt8vH40hjjIccwPJo7Wy5RcqaIVccwKrMtClEkXjasz1DZ7nUdpr4PgWnvROUzr64qdCz8/O3JuJ0khHPPaDLF"
        "3HU5JiJl1vgoI28PRjypgyudaqgROP+aMkz5T2kywsjVpT3jkCp2WS91tBpkTLT8qYGJTifb9MuJY4OcAphmfs+n0liLmqGM/u4jTDmcCiG2lo"
        "QQ0813EGOCtPyCnvkIEEWSiCAucGeJ7hBe+g6WpqnHhxF+cZLtj6u3jJfiIFovQiXt7FKwyvDvEaw+tuZ4KuTo3OuoY7Igx1P6cVNL0awVbn8M"
        "begyHeZJh2O3Wb8hLeWl5evvYXHdZ0HI1Wd09e8Oad8fHndpvsAl0L5sWYP8g8NE8PzZOz6DiTdJ+ne3YRM5Iqm2W4qPF217Ks4x15RtpFz0kq"
        "eJ7h3ara+i7ek9MPiO/sI76Kpj3icio+vG+yfsDwocZH3XKASwwfFwN8wtCWbdPkBc/9nx+hy3Ug00wl5EsET32RcCwazJJr9efrQvGewKfjKi"
        "+bKq8wXB3Jas6axmdy2kjT2JeFDD43lX3BcE2j07X5gqxMtVC4Ps53w+RbZviSkjVl1Y5oDl+ZdnzNwKgd8t+NWLGNOECxJim+MTzfMnyncdMo"
        "4DF8Twr8wHBL3rqNH11Z86ZMN8Lwpoh6Ul8WAe9XY3276Z0aT12po7ho0UxGSXRXqAI/DeEz/NzcAacUZktZCXgslvrXuSoqfNeWnJQIBgglAQ"
        "TDqmwP0NuBJFBjDKrCo6YdcuLgm9UYa8XTYpV6gDtDrDHExJYIjXQHmV1ioUWOvDPh1U0X0x4Q3BmDq6n552D5o0FS7ljiwkis7V81QDnSuJzD"
        "utF4g2HzvzXuW40PU6z5UQ0Gd43OvzD8qrG1hXuu3cI2BF/zzTTh/p531OwHZj/1C8nJtb2FnVLjN4bfy9bf763LoQ=="
    ),
    "dill of a class of the script": (
        "eNp1U2131EQUzu4iLxG0UkAUlaKoWZW0aFvfkLYIKCxddYoyykucJtOdaDKbZzKprOfgoR+WhX/hb5EfpneSrXAOmpebyc19nufOvbn32/fgBX"
        "zG8zx5t5AmzaW2UWmFlWjFSZplYeSsH8VGkjPSIpeJrYpM+mjzPYRbF6lGJ+CHaD3UWaplVAgj8hJ7ap8VZiDtru85fvBJXKOzt3ZNwxrXPn7A"
        "RRW77/stDvD95IqinOSiCP4EzzMcDGIl0l+rMCpNHCbCCgKYKraVkaV/ORN2XRRFqgc+Dt3DC/w4UdCXSEu7tDD/x3yqU5uKLIqHehsvKoqZCX"
        "iLgn7DS/+1e2GMGPk4HMS6yotRSEAjw7zKiKX+FBlJXE0OPmabMF8nU+CRnjfG0ZhgiYxLX2q38HGs1tzEy3wvPSnrVJ/F8Qd4heHVCU4EvRZd"
        "vTadHYvXpqSJHRWEfZ23CbO1iDcePZzgJMNc0OvUfOdwqt/vX/2bjtr0PIs3Nx+pY3zJ2z3+ur9CdpWuVffizJ9kHrvVY7fy1jxvhu45uhfW8J"
        "aitE4zvG3xTt/iXYamXtvoqsOBmlX1Dt9TlPb7Tc6dB/hAzT0k1RP/qjZiK1NFr1HFGccdMsxbLBD3WYYPqzE+Ylgsx1hiWFbLrkMf8+B/urgp"
        "bKz00OTky6XQkcwFPnGYTwO+j0BiWxoxkPjsqVw/d7mem5bYnW2LL9ScK5P/pERkcN7lt8KwarFG+V1g+LJmjYeVttLg4lOslxzrZaLsqqZB6S"
        "K+cg36muEKNUg925qrdWvcRDlS9JzaNYZ1iz6pfcPwLVXjOwZG1dhguK6u38b3gWrzWdelJLkh04GyF2UsRhv10PzQ5UfdbzUaZmFl06wMaaDS"
        "PP1dmhI3JuAMP3Z38BNRuPnfiEUmL4yuCVM2+Jt14nmFW2PcVgS4wxCp5TF+3oEgkL8LasI3u/xIM7TibjOP1ghdblE/EE+QMEhS25IWgx2oeq"
        "OllQXSXot3XEf1AL/0WlX4DzK+a/Q="
    ),
    "dill of protocol 5": (
        "eNqFUsFu00AQtZ2EhJJILRSIihBISMW5uDmA1ANSSAMcCOTQCnFC1sbeZlfYG2u9LjVSUTikbaS9sdz5FD6FP4Hx2g49WGB7RvbuvjdvnmfR+O"
        "7UDX2dKVtu4tMIcxpiJtxYIIGV3PBpEDhulpW86Xocw7LLUIh9kUQBVt+U3HYP0nnwco090lBbduYsoAy7EeIojJXsCMRnWKy/28V+UapdbBef"
        "1+dR+S6gxhRKOFly/4pUF+oQ6uwQRD8mjhtzz/GRQIDiiScSjqHIjVcBEm9RFFE2A7FnSnZh3WVYPO3vfdmjjAqKAtebsxNFtjIXzE+KWLJT9o"
        "o4RykgbXmHJWGUOnCWYydMAgDqPdl2OQaCvGzmSEOfVLLJ/BI+NpZqZE5Bsj024RlbcNeEIvdkwxdppJ20jp+o1aXualyT5jM1mUxe/4ZLp7Eh"
        "1HQ16uc/bDGA9BweiAXED4ifEL8gjKFhbEI8hOgPwb+JAE5pQot3bbJD7mdqyAOtJZNxrsju5aibE2vCQU5qaOKSIFlCirNE9jOvpF1l5RQJj7"
        "A5D2EtxIi5OESFtU10gjma4QoZmZLstsCS3dWoVWgYrMU3vXnCBOYV2B55JC16xTryuMq4ehMaqujl8IOySV3eGvr+e0xnRLzAHkrzKe7J23ry"
        "EkGD2IGRpCH9jHmsR6/3VQFu88hDAT5I3yAe5yBphYkCde8utFVLpc9t6HMl7TZwodN8aAVHLD4Gx0pWLAAi67HAkSJdeS0GJOIwIbrR/X83Om"
        "o18h9pqPPMuBqHya/670tNl/zXt5YJXNZV75w/4lyUwA=="
    ),
}
"""Written by dill 0.3.3 under NumPy 1.26 (2021) and by dill 0.4.1 under NumPy 2.4, in modules that stood in for BYOL's,
Haiku's, optax's and JAX's: ``{experiment_state, step, rng}``, where ``experiment_state`` is a ``_ByolExperimentState``
of ``FlatMapping({module: FlatMapping({name: array})})``. The arrays are those of :func:`haiku_arrays`.
"""

DILL_FUNCTION = (
    "eNptkM1OwlAQhW9BEKqIgP9/a+uiDc/RhEXddDe5vS22sdxy7CUBYxM2NC5x5fv0ybytKxMzyeQkZ+Y7k9m2CjDfYIxxGCJM0tSmupsk3iKuIp"
    "qvpFBJJk20Hv/zRRZGJtp/vTTjIanNUjsHfkfDg42KcnR26Ho4tDz0XMNlugy35bZFAxG5GclfWt8f6J3qm32w0HjX8pnB9LtapFwlcoqjEsce"
    "BjPXKHFiNeevMdzh1J9o6ajF0tHXhYl8cRavgb3cYNQMzTGOx64d9/1hHbBl1X5U7afV16T6fMIk1twzD+dxz7IULjxcCqJglaQ6lMgkWvBGxO"
    "PZTOHKw3WBmwK3DY2IS5kpXj8rJ8Jdgfu8xEOQ2z/3d2qV"
)
"""dill 0.4.1 of ``{"a": f}``, where ``f`` is a function of a script."""


def unpacked(packed: str) -> bytes:
    """The bytes of a file that stands above."""
    return zlib.decompress(base64.b64decode(packed))


def haiku_arrays() -> dict[str, Tensor]:
    """What the files of dill hold: parameters of a convolution, and a moving average."""
    return {
        "w": torch.arange(12, dtype=torch.float32).reshape(1, 2, 2, 3),
        "v": torch.arange(6, dtype=torch.float32).reshape(2, 3),  # stored in Fortran's order
        "average": torch.ones(1, 1, 1, 2),
        "counter": torch.tensor(7, dtype=torch.int32),
    }


def training() -> dict[str, Any]:
    """What a training script saves: state dicts, an optimizer, its arguments, and numbers of NumPy."""
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for parameter in network.parameters():
        nn.init.normal_(parameter, generator=generator)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    network(torch.randn(5, 3, generator=generator)).sum().backward()
    optimizer.step()
    whole = torch.randn(6, 4, generator=generator)
    marked = nn.Parameter(torch.ones(2))
    marked.is_frozen = True  # type: ignore[attr-defined]
    plain = torch.zeros(3)
    plain.note = "an attribute"  # type: ignore[attr-defined]
    return {
        "state_dict": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "tensors": OrderedDict(
            half=whole.half(),
            bfloat16=whole.bfloat16(),
            double=whole.double(),
            row=whole[2],
            transposed=whole.T,
            every_second=whole[::2, 1:],
            expanded=whole[:1, :1].expand(2, 3),
            scalar=torch.tensor(5),
            empty=torch.empty(0, 7),
            truth=torch.tensor([True, False]),
            bytes=torch.arange(256, dtype=torch.uint8),
            int8=torch.tensor([-1], dtype=torch.int8),
            int16=torch.tensor([-300], dtype=torch.int16),
            int32=torch.tensor([-70_000], dtype=torch.int32),
            parameter=nn.Parameter(torch.ones(1)),
            marked=marked,
            noted=plain,
        ),
        "args": argparse.Namespace(lr=0.1, folder=pathlib.PurePosixPath("/data"), nested=argparse.Namespace(a=[1])),
        "best": np.float64(0.75),
        "count": np.int64(3),
        "curve": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "nothing": np.zeros((0, 3), np.float32),
        "by_epoch": defaultdict(list, {1: [0.5], 2: [0.25]}),
        "shape": whole.shape,
        "device": torch.device("cuda", 0),
        "dtype": torch.float16,
        "names": {"a", "b"},
        "raw": b"\x00\xff",
        "epoch": 800,
        "large": 2**70,
        "loss": -0.5,
        "pair": (None, True),
    }


def saved(content: Any, *, protocol: int = 2, is_zip: bool = True) -> bytes:
    """A file of ``torch.save``."""
    file = io.BytesIO()
    torch.save(content, file, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
    return file.getvalue()


class Towers(nn.Module):
    """A small module as CLIP's are: half precision, buffers, parameters of its own, modules in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
        self.norm = nn.BatchNorm1d(4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4, bias=False)])
        self.logit_scale = nn.Parameter(torch.tensor(4.6))
        self.register_buffer("input_resolution", torch.tensor(224))
        self.sizes = [1, 2]
        self.names = {"a": 1.0}

    def forward(self, images: Tensor) -> Tensor:
        features = self.norm(self.visual(images))
        for block in self.blocks:
            features = block(features)
        return features * self.logit_scale


def scripted(*, traced: bool = False) -> tuple[bytes, dict[str, Tensor]]:
    """A TorchScript archive in half precision, and its state dict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated; its files stay
        module = Towers().eval()
        made = torch.jit.trace(module, torch.ones(2, 3)) if traced else torch.jit.script(module)
        made = made.half()
        file = io.BytesIO()
        torch.jit.save(made, file)
    return file.getvalue(), dict(made.state_dict())


def dill_files() -> dict[str, bytes]:
    """Checkpoints of BYOL."""
    return {label: unpacked(packed) for label, packed in _DILL.items()}


def good_files() -> dict[str, bytes]:
    """Small good files by name; every kind that the reader knows."""
    content = training()
    files = {f"torch, protocol {p}": saved(content, protocol=p) for p in (2, 3, 4, 5)}
    files |= {f"torch before 1.6, protocol {p}": saved(content, protocol=p, is_zip=False) for p in (2, 3, 4, 5)}
    files |= {"scripted": scripted()[0], "traced": scripted(traced=True)[0]}
    files["safetensors"] = safetensors.torch.save({"a": torch.ones(2, 3), "b": torch.zeros(4).half()}, {"format": "pt"})
    files |= {"npz": npz(np.savez), "npz, compressed": npz(np.savez_compressed)}
    return files | dill_files()


def npz_arrays() -> dict[str, Any]:
    """Arrays of every kind that an archive may hold: strided as Fortran's, without dimensions, without elements."""
    numbers = np.arange(60, dtype=np.float32)
    return {
        "blocks.0.weight": numbers.reshape(3, 4, 5),
        "folder/turned": np.asfortranarray(numbers.astype(np.float64).reshape(4, 15)),
        "half": np.array(0.5, np.float16),
        "none": np.zeros((0, 3), np.int64),
        "truths": np.array([True, False]),
    }


def npz(save: Callable[..., None]) -> bytes:
    """What NumPy writes of them."""
    file = io.BytesIO()
    save(file, **npz_arrays())
    return file.getvalue()
