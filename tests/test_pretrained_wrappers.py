"""A user's own checkpoint is found in whatever a training script has wrapped it in, and what was done is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import zoo
from tests.cli_runner import document, run
from tests.each import for_each
from tests.encoder_checks import random_images, relative_difference
from tests.encoders.layouts.test_convolutional import regnet_encoder, regnet_trunk
from tests.sources.clip_checkpoints import clip_text_shapes, clip_vit_shapes, rate_file
from tests.sources.own_checkpoints import (
    State,
    classifier,
    deit_main,
    lightning,
    lightning_averaged,
    mlp,
    stand_in,
    timm_train,
    under,
)
from tests.sources.resnet_forward import SHAPES, Draw, resnet_tensors
from tests.sources.vit_dialects import as_dinov2
from tests.sources.vit_names import REDUCED, filled
from tests.tiny import state, write_card
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert_own, hash_parameters
from zoo.errors import QueryError, UnknownName, WeightsRefused
from zoo.loading import get_registered_store
from zoo.weights import store
from zoo.weights.locations import get_weights_folder

WIDTH = 32
OBJECTIVES = {"tiny": "dino", "tiny_byol": "byol", "tiny_simclr": "simclr"}


@pytest.fixture(autouse=True)
def own_card(own_folders: Path) -> None:
    for name, objective in OBJECTIVES.items():
        path = write_card(name, f"https://nowhere.invalid/{name}.pth")
        path.write_text(f'{path.read_text()}objective.name = "{objective}"\n')


def net(seed: int = 1) -> State:
    """The small transformer that all cards here are of."""
    return state("tiny", seed=seed)


def saved(content: Any, name: str = "mine.pth") -> str:
    torch.save(content, name)
    return name


def loaded(content: Any, encoder: str = "tiny_simclr", **options: Any) -> tuple[Encoder, store.FileReading]:
    """The encoder that a file gives, and what is said of it."""
    found, _ = zoo.load(encoder, weights=saved(content), **options)
    assert isinstance(found, Encoder)
    assert found.reading is not None
    return found, found.reading


def holds(encoder: Encoder, expected: State) -> bool:
    found = {name.removeprefix("backbone."): tensor for name, tensor in encoder.state_dict().items()}
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def wrapped(prefix: str) -> Callable[[State], State]:
    return lambda state: under(prefix, state)


def inside(state: State) -> State:
    """Prefixes of FSDP, activation checkpointing and ``torch.compile`` in the middle of names."""
    return {
        re.sub(r"^(blocks\.\d+)\.", r"_fsdp_wrapped_module.\1._checkpoint_wrapped_module._orig_mod.", name): tensor
        for name, tensor in state.items()
    }


PLAIN: dict[str, tuple[Callable[[State], Any], str, tuple[str, ...], tuple[str, ...]]] = {
    # how a file is made, where in it the encoder is, what was taken off, and what was left out
    "state dict": (lambda s: s, "", (), ()),
    "model": (lambda s: {"model": s, "epoch": 3}, "model", (), ()),
    "state_dict": (lambda s: {"state_dict": s}, "state_dict", (), ()),
    "another key": (lambda s: {"net": {"weights": s}}, "net/weights", (), ()),
    "DistributedDataParallel": (wrapped("module."), "", ("module.",), ()),
    "torch.compile": (wrapped("_orig_mod."), "", ("_orig_mod.",), ()),
    "both": (lambda s: {"model": under("module._orig_mod.", s)}, "model", ("_orig_mod.", "module."), ()),
    "the other way": (lambda s: {"model": under("_orig_mod.module.", s)}, "model", ("_orig_mod.", "module."), ()),
    "FSDP": (inside, "", ("_checkpoint_wrapped_module.", "_fsdp_wrapped_module.", "_orig_mod."), ()),
    "timm": (lambda s: timm_train(s | classifier("head", WIDTH)), "state_dict", (), ("head",)),
    "lightly": (
        lambda s: lightning(
            under("backbone.vit.", s) | {"backbone.mask_token": torch.ones(1)} | mlp("projection_head")
        ),
        "state_dict/backbone.vit",
        (),
        ("backbone.mask_token", "projection_head"),
    ),
    "lightly's MAE": (
        lambda s: lightning(under("backbone.", s) | mlp("decoder") | {"mask_token": torch.ones(3)}),
        "state_dict/backbone",
        (),
        ("decoder", "mask_token"),
    ),
    "solo-learn": (
        lambda s: lightning(under("backbone.", s) | classifier("classifier", WIDTH) | {"queue": torch.ones(4, 2)}),
        "state_dict/backbone",
        (),
        ("classifier", "queue"),
    ),
    "a model in a module": (
        lambda s: lightning(under("model.backbone.", s) | classifier("model.head", WIDTH) | mlp("criterion")),
        "state_dict/model.backbone",
        (),
        ("model.head", "criterion"),
    ),
    "a compiled part": (
        lambda s: lightning(under("backbone._orig_mod.", s) | mlp("projector")),
        "state_dict/backbone",
        ("_orig_mod.",),
        ("projector",),
    ),
    "an encoder of the zoo in a module": (
        lambda s: lightning(under("encoder.backbone.", s) | classifier("probe", WIDTH)),
        "state_dict/encoder.backbone",
        (),
        ("probe",),
    ),
    "AveragedModel": (
        lambda s: under("module.", s) | {"n_averaged": torch.tensor(3)},
        "",
        ("module.",),
        ("n_averaged",),
    ),
}


@for_each(PLAIN)
def test_a_checkpoint_in_a_common_wrapper_is_loaded_and_what_was_done_is_said(wrapper: str) -> None:
    make, key, unwrapped, left_out = PLAIN[wrapper]
    encoder, reading = loaded(make(net()))
    assert holds(encoder, net())
    assert (reading.checkpoint_key, reading.unwrapped, reading.left_out) == (key, unwrapped, left_out)
    assert (reading.others, reading.widened_from) == ((), ())


@for_each([(torch.float16, False), (torch.bfloat16, True)], arguments=2)
def test_half_precision_is_widened(kind: torch.dtype, is_safe: bool) -> None:
    halves = {name: tensor.to(kind) for name, tensor in net().items()}
    (save_file if is_safe else torch.save)(halves, "half")
    encoder, _ = zoo.load("tiny", weights="half")
    assert holds(encoder, {name: tensor.float() for name, tensor in halves.items()})
    assert encoder.reading.widened_from == (str(kind).removeprefix("torch."),)
    assert "widened to float32" in str(encoder.reading)


AVERAGED: dict[str, tuple[Callable[[State, State], Any], str, str]] = {
    "timm": (timm_train, "state_dict_ema", "state_dict"),
    "DeiT": (deit_main, "model_ema", "model"),
    "Lightning": (lambda now, average: lightning_averaged(now, average), "state_dict", "current_model_state"),
}


@for_each(AVERAGED)
def test_the_average_of_a_training_is_taken_and_the_other_can_be_chosen(script: str) -> None:
    make, taken, other = AVERAGED[script]
    content = make(net(1), net(2))
    encoder, reading = loaded(content)
    assert holds(encoder, net(2))
    assert (reading.checkpoint_key, reading.others) == (taken, (other,))
    assert f"checkpoint_key={other!r} takes the other" in str(reading)
    chosen, reading = loaded(content, checkpoint_key=other)
    assert holds(chosen, net(1))  # and not what the cache has of the same file
    assert (reading.checkpoint_key, reading.others) == (other, (taken,))
    assert holds(loaded(content)[0], net(2))


TWO = {  # the student's module, the teacher's, and what their heads are called
    "lightly's examples": ("student_backbone.", "teacher_backbone.", ("student_head", "teacher_head", "criterion")),
    "lightly's DINO": ("student_backbone.", "backbone.", ("student_projection_head", "projection_head")),
    "lightly's BYOL": ("backbone.", "teacher_backbone.", ("projection_head", "prediction_head")),
    "lightly's MoCo": ("backbone.", "key_backbone.", ("projection_head", "key_projection_head", "online_classifier")),
    "lightly's BYOL, example": ("backbone.", "backbone_momentum.", ("projection_head", "projection_head_momentum")),
    "lightly's MSN": ("anchor_backbone.", "backbone.", ("projection_head", "anchor_projection_head", "prototypes")),
    "solo-learn": ("backbone.", "momentum_backbone.", ("projector", "momentum_projector", "predictor", "classifier")),
}


def pair(script: str) -> dict[str, Any]:
    """A student of seed 1 and a teacher of seed 2."""
    student, teacher, heads = TWO[script]
    beside: State = {}
    for head in heads:
        beside |= mlp(head)
    return lightning(under(student, net(1)) | under(teacher, net(2)) | beside)


@for_each(TWO)
def test_of_student_and_teacher_the_one_is_taken_that_the_method_publishes(script: str) -> None:
    student, teacher, _ = TWO[script]
    for method, seed, prefix in (("tiny", 2, teacher), ("tiny_byol", 1, student)):
        encoder, reading = loaded(pair(script), method)
        assert holds(encoder, net(seed))
        assert reading.checkpoint_key == f"state_dict/{prefix.removesuffix('.')}"


@for_each(TWO)
def test_of_student_and_teacher_of_no_known_method_neither_is_taken_unless_chosen(script: str) -> None:
    student, teacher, _ = TWO[script]
    with pytest.raises(WeightsRefused, match=r"holds 2 encoders that fit, .*checkpoint_key=") as caught:
        loaded(pair(script))
    for seed, prefix in ((1, student), (2, teacher)):
        key = f"state_dict/{prefix.removesuffix('.')}"
        assert repr(key) in str(caught.value)
        for way in (key, prefix.removesuffix(".")):
            assert holds(loaded(pair(script), checkpoint_key=way)[0], net(seed))


def test_a_key_that_names_nothing_lists_what_there_is() -> None:
    with pytest.raises(WeightsRefused, match=r"has nothing that fits at 'teacher', expected 'model'"):
        loaded({"model": net()}, checkpoint_key="teacher")
    with pytest.raises(QueryError, match="concerns a file of your own"):
        zoo.load("tiny", checkpoint_key="teacher")


DAMAGE: dict[str, tuple[Callable[[State, str], Any], str]] = {
    "missing": (lambda state, name: state.pop(name), "is missing"),
    "left over": (lambda state, name: state.update({f"{name}_g": torch.ones(1)}), "is left over"),
    "another shape": (
        lambda state, name: state.update({name: state[name][:-1]}),
        r"has shape \(63,\), expected \(64,\)",
    ),
    "not finite": (lambda state, name: state[name].fill_(torch.nan), "64 numbers of 64 that are not finite"),
    "untrained": (lambda state, name: state[name].fill_(1.0), "is as it was before training"),
}


@for_each([("state dict", "missing"), *(("lightly", damage) for damage in DAMAGE)], arguments=2)
def test_what_is_unwrapped_must_be_the_encoder_exactly(wrapper: str, damage: str) -> None:
    spoil, words = DAMAGE[damage]
    wanted = {name: tensor.clone() for name, tensor in net().items()}
    (name,) = [name for name, tensor in wanted.items() if name == "norm.weight"]
    wanted |= {"blocks.1.norm1.weight": wanted["blocks.1.norm1.weight"]}
    expected = words.replace("63", str(WIDTH - 1)).replace("64", str(WIDTH))
    spoil(wanted, name)
    with pytest.raises(WeightsRefused, match=f"do not fit the encoder.*{name}.*{expected}"):
        loaded(PLAIN[wrapper][0](wanted))
    assert not [path for path in get_weights_folder().rglob("*") if path.is_file()]


def test_where_nothing_fits_the_closest_layout_and_three_keys_are_named() -> None:
    content = timm_train(net() | classifier("head", WIDTH))
    for name in ("norm.bias", "blocks.1.norm2.weight", "blocks.0.norm1.bias", "cls_token"):
        del content["state_dict"][name]
    content["state_dict"]["blocks.0.ls1.gamma"] = torch.ones(WIDTH)
    with pytest.raises(WeightsRefused) as caught:
        loaded(content)
    message = str(caught.value)
    assert "closest is the layout 'timm' at 'state_dict', where 5 tensors differ from the 30 expected" in message
    assert (
        "'cls_token' is missing; 'blocks.0.norm1.bias' is missing; 'blocks.1.norm2.weight' is missing; ..." in message
    )
    assert "\n" not in message


def test_a_layout_that_was_not_tried_is_named_if_it_fits() -> None:
    moco = {
        "state_dict": under("module.encoder_q.", net(1))
        | under("module.encoder_k.", net(2))
        | {"queue": net()["norm.bias"]}
    }
    moco["state_dict"] = {name.replace("module.queue", "queue"): tensor for name, tensor in moco["state_dict"].items()}
    encoder, reading = loaded(moco, layout="moco")
    assert holds(encoder, net(1))
    assert reading.layout == "moco"
    with pytest.raises(WeightsRefused, match=r"it fits as a file of the layout 'moco'.*--layout"):
        loaded(moco, layout="simsiam")
    with pytest.raises(UnknownName, match=r"Layouts are .*openclip.*zoo"):
        loaded(moco, layout="mocov2")


def test_of_the_encoders_of_moco_the_query_is_taken_whatever_the_method_of_the_card() -> None:
    for query, key in (("encoder_q", "encoder_k"), ("base_encoder", "momentum_encoder")):
        content = {"state_dict": under(f"module.{query}.", net(1)) | under(f"module.{key}.", net(2))}
        assert holds(loaded(content)[0], net(1))


def dinov2_teacher(state: State, prefix: str = "") -> dict[str, Any]:
    """``teacher_checkpoint.pth`` of DINOv2's training, whose blocks are in chunks."""
    backbone = under("backbone.", as_dinov2(state, chunk=1, is_gated=False))
    return {"teacher": under(prefix, backbone | mlp("dino_head") | mlp("ibot_head"))}


FOUND: dict[str, tuple[Any, str, str]] = {  # a file, the layout of it that nobody named, and where it fits
    "DINOv2's teacher": (lambda s: dinov2_teacher(s), "dinov2", "teacher/backbone"),
    "the same, wrapped": (lambda s: dinov2_teacher(s, "module."), "dinov2", "teacher/backbone"),
    "its backbone alone": (lambda s: as_dinov2(s, chunk=1, is_gated=False), "dinov2", ""),
    "its student too": (
        lambda s: {"model": under("teacher.backbone.", as_dinov2(s, chunk=1, is_gated=False))},
        "dinov2",
        "model/teacher.backbone",
    ),
}


@for_each(FOUND)
def test_the_one_layout_that_fits_is_taken_and_said_unless_another_is_named(kind: str) -> None:
    write, layout, key = FOUND[kind]
    encoder, reading = loaded(write(net()))
    assert holds(encoder, net())
    assert (reading.layout, reading.checkpoint_key, reading.is_found) == (layout, key, True)
    assert f"was read under the names of the layout {layout!r}, the one that fits" in str(reading)
    for other in ("timm", "dino"):
        with pytest.raises(WeightsRefused, match=rf"it fits as a file of the layout '{layout}'.*--layout"):
            loaded(write(net()), layout=other)
    reading = loaded(write(net()), layout=layout)[1]
    assert (reading.layout, reading.is_found) == (layout, False)


def test_of_layouts_that_read_a_file_differently_none_is_taken() -> None:
    content, encoder = {"weights": regnet_trunk()}, regnet_encoder()
    options: dict[str, Any] = {"checkpoint_key": "", "role": "", "what": "a file", "is_only": False}
    with pytest.raises(
        WeightsRefused,
        match=r"The file of a file fits at 'weights' as a file of the layouts 'vissl_regnet' and 'vissl_regnet_bgr', "
        r"which read it differently; say which: layout='vissl_regnet' \(--layout\); nothing was loaded\.$",
    ):
        convert_own([content], encoder, layout="timm", untrained=dict, **options)
    options["is_only"] = True
    reading = convert_own([content], encoder, layout="vissl_regnet_bgr", untrained=dict, **options)[1]
    assert reading.layout == "vissl_regnet_bgr"


def test_the_file_of_a_card_is_not_searched() -> None:
    write_card("tiny", str(Path(saved({"model": net()})).absolute()))
    with pytest.raises(WeightsRefused, match="as files of the layout 'dino' do"):
        zoo.load("tiny")
    Path("mine.pth").unlink()
    saved(net())
    encoder, _ = zoo.load("tiny")
    assert holds(encoder, net())  # type: ignore[arg-type]
    assert encoder.reading is None


HYPERPARAMETERS = (
    "omegaconf.dictconfig.DictConfig",
    "lightning.pytorch.callbacks.early_stopping.EarlyStopping",
    "pytorch_lightning.utilities.parsing.AttributeDict",
    "torch.optim.lr_scheduler.OneCycleLR",
    "__main__.Config",
    "solo.methods.base.BaseMethod",
)


@for_each(HYPERPARAMETERS)
def test_hyperparameters_of_any_class_are_no_obstacle(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class_ = stand_in(monkeypatch, name)
    config = class_()
    if "AttributeDict" not in name:
        config.learning_rate, config.parts = 0.1, [1, {"a": None}]
    content = lightning(
        under("backbone.", net()), {"config": config, "kind": class_, "function": torch.nn.functional.relu}
    )
    assert holds(loaded(content)[0], net())


def test_what_was_done_is_in_the_commands_output_the_card_and_the_record() -> None:
    saved({"state_dict": {name: tensor.half() for name, tensor in (net() | classifier("head", WIDTH)).items()}})
    arguments = ("register", "mine.pth", "--like", "tiny", "--id", "mine")
    done = run(*arguments).stdout.splitlines()
    line = (
        "'state_dict' was read under the names of the layout 'timm'; left out: head; widened to float32 from float16; "
        "the number of heads cannot be read from shapes: 2 taken from 'tiny'."
    )
    assert done[1] == line
    reading = document(*arguments)["reading"]
    assert reading.pop("sentence") == line
    assert store.FileReading(**{k: tuple(v) if isinstance(v, list) else v for k, v in reading.items()}) == record_of(
        "mine"
    )
    assert line in str(zoo.card("mine").weights.note)
    assert (
        line in run("show", "mine", "--all").stdout.replace("\n", " ")
        or "widened" in run("show", "mine", "--all").stdout
    )
    encoder, _ = zoo.load("mine")
    assert str(encoder.reading) == line


def record_of(name: str) -> store.FileReading | None:
    sha256 = zoo.card(name).weights.sha256
    (record,) = [
        record
        for _, record in store.iterate_weights_records(get_registered_store())
        if record and record.sha256 == sha256
    ]
    return record.reading


@for_each([8, 9, 10])
def test_lightlys_sequence_of_a_resnets_children_is_that_resnet(n_children: int) -> None:
    weights = resnet_tensors(SHAPES["resnet50 thin"], Draw()) | Draw(seed=1).linear("fc", 2048, 10)
    names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc")[:n_children]
    numbered = {
        f"backbone.{names.index(name.partition('.')[0])}.{name.partition('.')[2]}": tensor
        for name, tensor in weights.items()
        if name.partition(".")[0] in names
    }
    card = load_catalogue()["simclr_rn50"]
    encoder = build_encoder(replace(card, architecture=replace(card.architecture, options={"width_per_group": 1})))
    found, reading = convert_own(
        [lightning(numbered | mlp("projection_head"))],
        encoder,
        layout="vissl",
        is_only=False,
        checkpoint_key="",
        role="",
        what="a file",
        untrained=lambda: hash_parameters(encoder),
    )
    assert reading.layout == "torchvision_children"
    assert all(torch.equal(found[f"backbone.{n}"], t) for n, t in weights.items() if not n.startswith("fc."))


@torch.no_grad()
def test_torchvisions_transformer_gives_the_same_features_here() -> None:
    import torchvision

    theirs = torchvision.models.VisionTransformer(
        image_size=224, patch_size=16, num_layers=2, num_heads=2, hidden_dim=WIDTH, mlp_dim=4 * WIDTH
    ).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in theirs.parameters():
        parameter.normal_(0, 0.2, generator=generator)
    encoder, reading = loaded(lightning(under("backbone.vit.", theirs.state_dict())))
    assert (reading.layout, reading.left_out) == ("torchvision_vit", ("backbone.vit.heads",))
    images = random_images(2, 224)
    theirs.heads = torch.nn.Identity()
    assert relative_difference(encoder(images), theirs(images)) < 1e-4  # float32, two blocks: some 1e-6


def lossless_card() -> dict[str, Any]:
    """A small transformer of CLIP's with a compressor behind it; its card names two files."""
    options = {
        "embed_dim": REDUCED.width,
        "depth": REDUCED.depth,
        "num_heads": REDUCED.n_heads,
        "patch_size": REDUCED.patch_px,
    }
    listed = ", ".join(f"{name} = {value}" for name, value in options.items())
    Path("zoo_home", "metadata", "lossless.toml").write_text(
        "[encoders.lossless]\n"
        'like = "lossyless_vitb32_b001"\n'
        f"architecture = {{ options = {{ {listed} }}, n_parameters = 1 }}\n"
        "representation = { dim = 48 }\n"
        'weights.url = "https://nowhere.invalid/rate.pt"\n'
        "weights.mirrors = []\n"
        'weights.companions = ["https://nowhere.invalid/clip.pt"]\n'
    )
    shapes = clip_vit_shapes(REDUCED, projection=48) | clip_text_shapes(projection=48)
    return filled(shapes, seed=1)


def test_a_companion_is_taken_from_a_path_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    clip = lossless_card()
    torch.save({"state_dict": under("module.", clip)}, "clip.pt")
    torch.save({"model": rate_file(48, seed=1)}, "rate.pt")
    encoder, _ = zoo.load("lossless", weights=["rate.pt", Path("clip.pt")])
    kept = encoder.state_dict()
    assert torch.equal(kept["backbone.cls_token"].flatten(), clip["visual.class_embedding"])
    assert torch.equal(kept["pooling.scaling"], rate_file(48, seed=1)["scaling"])
    other = dict(clip) | {"visual.class_embedding": clip["visual.class_embedding"] + 1}
    torch.save(other, "clip.pt")  # another companion is another encoder
    again = zoo.load("lossless", weights=["rate.pt", "clip.pt"])[0].state_dict()
    assert torch.equal(again["backbone.cls_token"].flatten(), other["visual.class_embedding"])
    done = run("register", "rate.pt", "--companion", "clip.pt", "--like", "lossless", "--id", "mine").stdout
    assert "Registered mine" in done
    with pytest.raises(QueryError, match=r"Found 3 files .* expected 1 or 2"):
        zoo.load("lossless", weights=["rate.pt", "clip.pt", "clip.pt"])
    with pytest.raises(QueryError, match=r"Found 2 files .* expected 1 "):
        zoo.load("tiny", weights=["rate.pt", "clip.pt"])


def test_the_state_dict_of_an_encoder_of_two_files_needs_no_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = lossless_card()
    torch.save(clip, "clip.pt")
    torch.save(rate_file(48, seed=1), "rate.pt")
    encoder, _ = zoo.load("lossless", weights=["rate.pt", "clip.pt"])
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    saved({"state_dict": encoder.state_dict()}, "whole.pth")
    for _ in range(2):  # converted, and found in the cache
        again, _ = zoo.load("lossless", weights="whole.pth")
        assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in encoder.state_dict().items())
