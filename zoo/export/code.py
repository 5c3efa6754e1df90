"""How to use the exported weights without the zoo: with torchvision or timm alone, where that gives the same features.

A backbone that neither library has, or a pooling with weights of its own, has no such code.
"""

from __future__ import annotations

from ..metadata import EncoderCard

_LONGEST = 120  # characters of a line
_POOLED = "features = network(images)"
_TOKENS = "tokens = network.forward_features(images)"
_HEAD = "network.head = torch.nn.Linear(network.num_features, {dim}, bias=False)"


def zoo_code(card: EncoderCard) -> str:
    """Python that loads the encoder through the zoo, from a repository of the Hub."""
    return f"""\
import zoo
from PIL import Image

repository = "hf:OWNER/REPO"  # the name of this one
encoder, preprocess = zoo.load({_literal(card.id)}, weights=repository)
image = preprocess(Image.open("photo.jpg"))  # (3, {card.preprocess.crop_px}, {card.preprocess.crop_px})
features = encoder(image.unsqueeze(0))  # (1, {card.representation.dim})"""


def plain_code(card: EncoderCard) -> str | None:
    """Python that gives the same features with torchvision or timm alone; None where there is none."""
    library, _, name = card.architecture.backbone.partition(":")
    features = _features(card)
    if library not in ("torchvision", "timm") or features is None:
        return None
    options = dict(card.architecture.options)
    if library == "torchvision":
        imports = "from torchvision import models, transforms"
        build = _built("models.get_model", name, {"weights": None} | options)
        build += ["network.fc = torch.nn.Identity()"]
    else:
        imports = "from torchvision import transforms"
        pooled = {} if features == [_POOLED] else {"global_pool": ""}
        build = _built("timm.create_model", name, {"num_classes": 0} | pooled | options)
        build += _projection(card)
    lines = [
        *(["import timm"] if library == "timm" else []),
        "import torch",
        "from PIL import Image",
        "from safetensors.torch import load_file",
        imports,
        "from torchvision.transforms import v2",
        "",
        *build,
        'weights = load_file("model.safetensors")',
        'network.load_state_dict({name.removeprefix("backbone."): tensor for name, tensor in weights.items()})',
        "network.eval()",
        "",
        *_preprocess(card),
        'images = preprocess(Image.open("photo.jpg")).unsqueeze(0)',
        "with torch.inference_mode():",
        *(f"    {line}" for line in features),
    ]
    return "\n".join(lines)


def _preprocess(card: EncoderCard) -> list[str]:
    how = card.preprocess
    return [
        "preprocess = transforms.Compose([",
        "    v2.RGB(),",
        f"    transforms.Resize({how.resize_px}, "
        f"interpolation=transforms.InterpolationMode.{how.interpolation.upper()}),",
        f"    transforms.CenterCrop({how.crop_px}),",
        "    transforms.ToTensor(),",
        f"    transforms.Normalize(mean={list(how.mean)}, std={list(how.std)}),",
        "])",
    ]


def _features(card: EncoderCard) -> list[str] | None:
    """From ``images`` to ``features``, a line a step; None if the network alone does not hold what that takes."""
    match card.representation.layer:
        case "avgpool" | "attnpool":
            return [_POOLED]
        case "cls":
            return [_TOKENS, "features = tokens[:, 0]"]
        case "cls+avg":
            joined = "torch.stack(both, dim=-1).flatten(1)"
            if card.representation.order != "interleaved":
                joined = "torch.cat(both, dim=-1)"
            both = "both = (tokens[:, 0], tokens[:, network.num_prefix_tokens :].mean(dim=1))"
            return [_TOKENS, both, f"features = {joined}"]
        case "4xcls":
            return [
                "blocks = network.forward_intermediates(",
                "    images, indices=4, return_prefix_tokens=True, norm=True,",
                '    output_fmt="NLC", intermediates_only=True,',
                ")",
                "features = torch.cat([prefix[:, 0] for _, prefix in blocks], dim=-1)",
            ]
        case "proj":
            return [_TOKENS, "features = network.head(tokens[:, 0])"]
        case "proj+cls":
            joined = "features = torch.cat([tokens[:, 0], network.head(tokens[:, 0])], dim=-1)"
            return [_TOKENS, joined]
        case _:
            return None


def _projection(card: EncoderCard) -> list[str]:
    if card.representation.layer == "proj":
        return [_HEAD.format(dim=card.representation.dim)]
    if card.representation.layer == "proj+cls":
        return [_HEAD.format(dim=f"{card.representation.dim} - network.num_features")]
    return []


def _built(function: str, name: str, options: dict[str, object]) -> list[str]:
    """The call that builds the network, an argument a line where one line would be too long."""
    arguments = [_literal(name), *(f"{key}={_literal(value)}" for key, value in options.items())]
    line = f"network = {function}({', '.join(arguments)})"
    if len(line) <= _LONGEST:
        return [line]
    return [f"network = {function}(", *(f"    {argument}," for argument in arguments), ")"]


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
