"""Checkpoints as people have them: in shards, with LoRA, for another size, of networks that shapes do not tell."""

from __future__ import annotations

import argparse
import decimal
import enum
import hashlib
import json
import os
import re
import sys
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision.models import resnet18

import zoo
from tests.cli_runner import run
from tests.tiny import write_card
from zoo.encoders.layouts.lora import merge_lora, parse_lora
from zoo.errors import QueryError, WeightsRefused, WeightsUnavailable
from zoo.weights.parts import hash_parts, list_parts

State = dict[str, Tensor]
SMALL = {"depth": 2, "embed_dim": 32, "num_heads": 2}


@pytest.fixture(autouse=True)
def own_card(own_folders: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")


def network(seed: int = 1, name: str = "vit_small_patch16_224", **options: Any) -> Any:
    """The small transformer of the card as timm has it, trained a little."""
    net = timm.create_model(name, num_classes=0, **(SMALL | options))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return net.eval()


def images(px: int = 224, seed: int = 0) -> Tensor:
    return torch.rand(2, 3, px, px, generator=torch.Generator().manual_seed(seed))


def registered(content: Any, name: str = "mine", *, like: str = "tiny", **options: Any) -> zoo.EncoderCard:
    """The card that a file becomes; a path is one already."""
    if not isinstance(content, str | Path):
        torch.save(content, "own.pth")
        content = "own.pth"
    return zoo.register(content, like=like, name=name, **options)


def same(expected: Tensor, name: str = "mine", px: int = 224) -> bool:
    """Whether a registered encoder gives these features of the images."""
    encoder, _ = zoo.load(name)
    return torch.allclose(encoder(images(px)), expected, rtol=1e-5, atol=1e-5)


def reading(name: str = "mine") -> str:
    encoder, _ = zoo.load(name)
    return str(encoder.reading)


@torch.inference_mode()
def class_token(net: Any, px: int = 224) -> Tensor:
    return net.forward_features(images(px))[:, 0]


def sharded(state: State, folder: Path, *, ending: str = "safetensors") -> Path:
    """A checkpoint of two shards with their index, as transformers saves it."""
    folder.mkdir()
    stem = "model" if ending == "safetensors" else "pytorch_model"
    names = sorted(state)
    weight_map = {}
    for number, some in enumerate((names[::2], names[1::2]), start=1):
        file = f"{stem}-0000{number}-of-00002.{ending}"
        tensors = {name: state[name].contiguous() for name in some}
        save_file(tensors, folder / file) if ending == "safetensors" else torch.save(tensors, folder / file)
        weight_map |= dict.fromkeys(some, file)
    index = folder / f"{stem}.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


class TestShards:
    @pytest.mark.parametrize("ending", ["safetensors", "bin"])
    def test_an_index_or_its_folder_is_read_like_the_whole(self, tmp_path: Path, ending: str) -> None:
        net = network()
        index = sharded(net.state_dict(), tmp_path / "sharded", ending=ending)
        registered(index, "by_index")
        registered(index.parent, "by_folder")
        expected = class_token(net)
        assert same(expected, "by_index") and same(expected, "by_folder")
        encoder, _ = zoo.load("tiny", weights=index.parent)
        assert torch.allclose(encoder(images()), expected, rtol=1e-5, atol=1e-5)

    def test_their_hash_is_that_of_the_list_of_their_hashes(self, tmp_path: Path) -> None:
        files = list_parts(sharded(network().state_dict(), tmp_path / "sharded"))
        listing = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
        assert hash_parts(files) == (
            hashlib.sha256(listing.encode()).hexdigest(),
            sum(file.stat().st_size for file in files),
        )
        alone = files[1]
        assert hash_parts([alone])[0] == hashlib.sha256(alone.read_bytes()).hexdigest()

    def test_a_changed_shard_is_another_checkpoint(self, tmp_path: Path) -> None:
        index = sharded(network().state_dict(), tmp_path / "sharded")
        before = hash_parts(list_parts(index))
        other = sharded(network(seed=2).state_dict(), tmp_path / "other")
        second = "model-00002-of-00002.safetensors"
        (index.parent / second).write_bytes((other.parent / second).read_bytes())
        assert hash_parts(list_parts(index)) != before

    def test_a_missing_shard_is_named(self, tmp_path: Path) -> None:
        index = sharded(network().state_dict(), tmp_path / "sharded")
        (index.parent / "model-00002-of-00002.safetensors").unlink()
        with pytest.raises(WeightsUnavailable, match=r"'model-00002-of-00002\.safetensors' is missing"):
            registered(index.parent)

    def test_a_shard_without_a_tensor_that_the_index_has_is_refused(self, tmp_path: Path) -> None:
        state = network().state_dict()
        index = sharded(state, tmp_path / "sharded")
        names = sorted(state)[::2]
        save_file({name: state[name] for name in names[1:]}, index.parent / "model-00001-of-00002.safetensors")
        with pytest.raises(WeightsRefused, match=f"lack the tensor {names[0]!r}"):
            registered(index)

    @pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", 3])
    def test_an_index_names_files_in_its_own_folder_alone(self, tmp_path: Path, name: object) -> None:
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(WeightsRefused, match="expected files in its own folder"):
            registered(index)

    @pytest.mark.parametrize("text", ["", "{}", "[1]", '{"weight_map": 3}', '{"weight_map": {"a": {}}', "[" * 10_000])
    def test_what_is_no_index_is_one_sentence(self, tmp_path: Path, text: str) -> None:
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(text)
        with pytest.raises(WeightsRefused, match="is no index of shards"):
            registered(index)

    def test_a_folder_of_one_file_of_transformers_is_that_file(self, tmp_path: Path) -> None:
        net = network()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "config.json").write_text("{}")
        torch.save(net.state_dict(), tmp_path / "folder" / "pytorch_model.bin")
        registered(tmp_path / "folder")
        assert same(class_token(net))

    @pytest.mark.parametrize(
        "name, words",
        [
            ("model-00001-of-00002.safetensors", "give their index"),
            ("pytorch_model-00002-of-00003.bin", "give their index"),
            (".metadata", "format_utils dcp_to_torch"),
            ("__0_0.distcp", "format_utils dcp_to_torch"),
            ("zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_to_fp32.py"),
            ("bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt", "zero_to_fp32.py"),
            ("model.ckpt.index", "TensorFlow"),
            ("model.ckpt.data-00000-of-00001", "TensorFlow"),
            ("adapter_config.json", "--merge-lora"),
        ],
    )
    def test_what_only_others_join_is_refused_with_what_helps(self, tmp_path: Path, name: str, words: str) -> None:
        (tmp_path / "run").mkdir()
        file = tmp_path / "run" / name
        file.write_bytes(b"\0\0\0")
        for given in (file, file.parent) if "-of-0000" not in name or "data" in name else (file,):
            with pytest.raises(WeightsRefused, match=re.escape(words)) as refused:
                registered(given)
            assert str(refused.value).count("\n") == 0

    def test_flat_parameters_of_fsdp_are_refused_with_the_line_that_saves_the_whole(self, tmp_path: Path) -> None:
        flat = {"_fsdp_wrapped_module._flat_param": torch.ones(9), "_fsdp_wrapped_module.x._flat_param": torch.ones(9)}
        with pytest.raises(WeightsRefused, match="full_state_dict=True"):
            registered({"model": flat})

    def test_an_index_that_is_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "model.safetensors.index.json")
        with pytest.raises(WeightsUnavailable, match="is not a file"):
            registered(tmp_path / "model.safetensors.index.json")

    def test_a_checkpoint_may_be_called_latest(self, tmp_path: Path) -> None:
        net = network()
        torch.save(net.state_dict(), tmp_path / "latest")
        registered(tmp_path / "latest")
        assert same(class_token(net))

    def test_a_folder_without_weights_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(WeightsUnavailable, match="is not a file"):
            registered(tmp_path / "empty")

    @pytest.mark.parametrize("names", [("cls_token", "pos_embed", "norm.weight"), ("a.b", "c")])
    def test_the_empty_tensors_of_zero_3_are_named_with_the_command_that_joins_them(
        self, names: tuple[str, ...]
    ) -> None:
        with pytest.raises(WeightsRefused, match=r"3 empty|2 empty") as refused:
            registered({"module": {name: torch.zeros(0) for name in names}})
        assert "zero_to_fp32.py" in str(refused.value)

    def test_tensors_of_any_shape_under_any_name_are_refused_in_a_sentence(self) -> None:
        names = list(network().state_dict())
        for shape in ((), (1,), (0,), (3, 3), (1, 1, 1, 1)):
            with pytest.raises(WeightsRefused):
                registered({name: torch.ones(shape) for name in names})

    def test_a_part_of_a_network_on_many_processes_is_named(self) -> None:
        module = ModuleType("torch.distributed.tensor")
        part = type("DTensor", (), {"__module__": "torch.distributed.tensor"})
        module.DTensor = part  # type: ignore[attr-defined]
        before = sys.modules.get(module.__name__)
        sys.modules[module.__name__] = module
        try:
            torch.save({"a": part()}, "own.pth")
        finally:
            sys.modules.pop(module.__name__)
            if before is not None:
                sys.modules[module.__name__] = before
        with pytest.raises(WeightsRefused, match="full_state_dict=True"):
            registered("own.pth")


class TestSizes:
    @pytest.mark.parametrize("px", [96, 384])
    def test_positions_of_another_size_make_a_card_of_that_size(self, px: int) -> None:
        net = network(img_size=px)
        card = registered(net.state_dict())
        assert card.preprocess.crop_px == px
        assert card.architecture.options == SMALL | {"img_size": px}
        assert card.architecture.n_parameters == sum(parameter.numel() for parameter in net.parameters())
        assert same(class_token(net, px), px=px)
        assert f"{px // 16} x {px // 16} patches, so that images are of {px} px" in reading()

    def test_so_do_those_of_a_teacher_of_dinov2_with_blocks_in_chunks(self) -> None:
        net = network(img_size=448)
        chunked = {re.sub(r"^blocks\.(\d)", r"blocks.0.\1", name): tensor for name, tensor in net.state_dict().items()}
        teacher = {f"backbone.{name}": tensor for name, tensor in chunked.items()}
        card = registered({"teacher": teacher | {"dino_head.mlp.0.weight": torch.ones(2, 2)}})
        assert card.preprocess.crop_px == 448
        assert same(class_token(net, 448), px=448)

    def test_a_file_of_the_own_size_changes_nothing_of_the_card(self) -> None:
        card = registered(network().state_dict())
        assert card.preprocess == zoo.card("tiny").preprocess
        assert card.architecture == zoo.card("tiny").architecture

    def test_a_load_without_a_card_of_its_own_says_how_it_gets_one(self) -> None:
        torch.save(network(img_size=384).state_dict(), "own.pth")
        with pytest.raises(WeightsRefused, match=r"24 x 24 patches.*'zoo register'"):
            zoo.load("tiny", weights="own.pth")

    def test_positions_of_no_square_are_named(self) -> None:
        with pytest.raises(WeightsRefused, match=r"positions of no square of patches \('pos_embed', \(1, 129, 32\)\)"):
            registered(network(img_size=(128, 256)).state_dict())

    def test_a_card_that_takes_another_size_than_its_positions_gets_those_of_the_file(self) -> None:
        """DINOv2's own cards: positions for 518 px, images of 224 px."""
        options = {"img_size": 518, "patch_size": 14, "init_values": 1.0}
        small = "{ name = 'vit_small_patch14_dinov2', depth = 2, embed_dim = 32, num_heads = 2, img_size = 518 }"
        path = write_card("teacher", "https://nowhere.invalid/teacher.pth")
        text = re.sub(
            "options = {[^}]*}",
            f"options = {small}, backbone = 'zoo:dinov2', native_px = 518, patch_size_px = 14",
            path.read_text(),
        )
        path.write_text(text)
        whole = network(name="vit_small_patch14_dinov2", **options)
        registered(whole.state_dict(), "whole", like="teacher")
        assert zoo.card("whole").preprocess.crop_px == 224
        net = network(name="vit_small_patch14_dinov2", **(options | {"img_size": 224}))
        card = registered(net.state_dict(), like="teacher")
        assert (card.preprocess.crop_px, card.architecture.native_px) == (224, 224)
        assert same(class_token(net))

    def test_a_file_that_lacks_blocks_stays_refused_whatever_its_size(self) -> None:
        for px in (224, 384):
            state = {
                name: tensor for name, tensor in network(img_size=px).state_dict().items() if "blocks.1" not in name
            }
            with pytest.raises(WeightsRefused, match=r"'blocks\.1\.norm1\.weight' is missing"):
                registered(state)

    @pytest.mark.parametrize("px", [224, 384])
    def test_a_fine_tuned_mae_gives_the_normed_mean_of_its_patches(self, px: int) -> None:
        net = network(global_pool="avg", img_size=px)
        assert isinstance(net.norm, torch.nn.Identity)
        head = {"head.weight": torch.ones(3, 32), "head.bias": torch.ones(3)}
        card = registered({"model": net.state_dict() | head, "epoch": 3})
        assert (card.representation.layer, card.representation.dim) == ("avg", 32)
        with torch.inference_mode():
            assert same(net(images(px)), px=px)
        assert "'fc_norm' and no 'norm'" in reading()

    def test_a_file_with_both_norms_is_refused_for_that(self) -> None:
        more = {"fc_norm.weight": torch.ones(32), "fc_norm.bias": torch.ones(32)}
        with pytest.raises(WeightsRefused, match="'norm' and 'fc_norm', of which one makes the features"):
            registered(network().state_dict() | more)

    def test_double_precision_is_rounded_and_said(self) -> None:
        net = network()
        registered({name: tensor.double() for name, tensor in net.state_dict().items()})
        assert same(class_token(net))
        assert "rounded to float32 from float64" in reading()


class TestWhatAFileSays:
    @pytest.mark.parametrize(
        "said",
        [
            {"args": argparse.Namespace(num_heads=4)},
            {"hyper_parameters": {"model": {"num_heads": 4}}},
            {"config": {"vision_config": {"num_attention_heads": 4}}},
            {"args": {"act_layer": "quick_gelu"}},
            {"args": argparse.Namespace(hidden_act="relu")},
            {"cfg": {"backbone": {"layer_norm_eps": 1e-5}}},
            {"arch": "vit_base_patch16_224"},  # of 12 heads
        ],
    )
    def test_another_network_than_that_of_the_card_is_refused(self, said: dict[str, Any]) -> None:
        content = {"state_dict": network().state_dict(), **said}
        with pytest.raises(WeightsRefused, match=r"architecture\.options"):
            registered(content)
        torch.save(content, "own.pth")
        with pytest.raises(WeightsRefused, match=r"architecture\.options"):
            zoo.load("tiny", weights="own.pth")

    @pytest.mark.parametrize(
        "said",
        [
            {"args": argparse.Namespace(num_heads=2, img_size=224, mean=None, decoder={"num_heads": 16})},
            {"hyper_parameters": {"hidden_act": "gelu", "layer_norm_eps": 1e-6, "num_heads": [2, 2]}},
            {"args": {"act_layer": torch.nn.GELU, "num_heads": "many", "arch": "vit_small"}},
        ],
    )
    def test_what_agrees_or_is_of_no_use_keeps_nobody_from_the_weights(self, said: dict[str, Any]) -> None:
        net = network()
        registered({"state_dict": net.state_dict(), **said})
        assert same(class_token(net))

    def test_heads_that_are_said_are_not_noted_and_others_are(self) -> None:
        state = network().state_dict()
        registered({"state_dict": state, "args": {"num_heads": 2}}, "said")
        assert "heads" not in reading("said")
        registered(network(seed=2).state_dict(), "silent")
        assert "the number of heads cannot be read from shapes: 2 taken from 'tiny'" in reading("silent")

    def test_the_user_overrules_the_file(self) -> None:
        net = network(num_heads=4)
        registered(
            {"state_dict": net.state_dict(), "args": {"num_heads": 8}},
            facts={"architecture.options": SMALL | {"num_heads": 4}},
        )
        assert same(class_token(net))

    def test_size_and_colours_of_the_images_are_noted_where_they_differ(self) -> None:
        said = argparse.Namespace(img_size=[256, 256], mean=(127.5, 127.5, 127.5), std=[0.229, 0.224, 0.225])
        registered({"model": network().state_dict(), "args": said})
        assert "args.img_size is 256, the card has 224" in reading()
        assert "args.mean is (0.5, 0.5, 0.5)" in reading()
        assert "args.std" not in reading()

    def test_the_small_transformer_of_moco_v3_is_not_that_of_dino(self) -> None:
        query, key = (network(seed, embed_dim=384, num_heads=12, depth=1).state_dict() for seed in (1, 2))
        names = {f"module.base_encoder.{name}": tensor for name, tensor in query.items()}
        names |= {f"module.momentum_encoder.{name}": tensor for name, tensor in key.items()}
        content = {"arch": "vit_small", "state_dict": names | {"module.predictor.0.weight": torch.ones(2, 2)}}
        path = write_card("small", "https://nowhere.invalid/small.pth")
        text = (
            path.read_text()
            .replace("depth = 2, embed_dim = 32, num_heads = 2", "depth = 1")
            .replace("dim = 32", "dim = 384")
        )
        path.write_text(text)
        with pytest.raises(WeightsRefused, match=r"heads 12 \(as ViT-S of MoCo v3.*'small' 6"):
            registered(content, like="small")
        path.write_text(text.replace("depth = 1", "depth = 1, num_heads = 12"))
        registered(content, like="small", checkpoint_key="base_encoder")
        assert same(class_token(network(1, embed_dim=384, num_heads=12, depth=1)))

    def test_hyperparameters_of_any_class_are_left_out_and_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        package = ModuleType("somebodys")
        mode = enum.Enum("Mode", "A B", module="somebodys")
        settings = type("Settings", (dict,), {"__module__": "somebodys"})
        package.Mode, package.Settings = mode, settings  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "somebodys", package)
        net = network()
        odd = {
            "a": 1j,
            "b": range(3),
            "c": slice(1, 2),
            "d": frozenset("xy"),
            "e": deque([1, 2]),
            "f": decimal.Decimal(1),
        }
        for protocol in (2, 4):
            about = odd | {"g": mode.A, "h": settings(lr=1)}  # type: ignore[attr-defined]
            torch.save({"state_dict": net.state_dict(), "hyper_parameters": about}, "own.pth", pickle_protocol=protocol)
            registered("own.pth", f"mine_{protocol}")
            assert same(class_token(net), f"mine_{protocol}")
        assert "not read along with the weights: 'builtins.complex'" in reading("mine_4")

    def test_a_configuration_that_holds_itself_many_times_is_walked_through_once(self) -> None:
        about = argparse.Namespace(num_heads=2)
        for name in ("model", "backbone", "encoder", "vit", "network", "net", "_val", "_content"):
            setattr(about, name, about)
        about.others = [about] * 1000
        net = network()
        registered({"state_dict": net.state_dict(), "args": about})
        assert same(class_token(net))


def with_lora(state: State, *, rank: int = 3) -> tuple[State, State]:
    """Matrices of peft for the layers of the first block, and the change that each makes of a weight."""
    generator = torch.Generator().manual_seed(9)
    matrices, changes = {}, {}
    for layer in ("blocks.0.attn.qkv", "blocks.0.mlp.fc1"):
        n_out, n_in = state[f"{layer}.weight"].shape
        a, b = (torch.randn(shape, generator=generator) for shape in ((rank, n_in), (n_out, rank)))
        matrices |= {f"{layer}.lora_A": a, f"{layer}.lora_B": b}
        changes[f"{layer}.weight"] = b @ a
    return matrices, changes


def changed(changes: State, scale: float, **scales: float) -> Tensor:
    """Features of the network with these changes; ``scales`` are of layers by their last name."""
    net = network()
    with torch.no_grad():
        for name, change in changes.items():
            net.get_parameter(name).add_(scales.get(name.split(".")[-2], scale) * change)
    return class_token(net)


def adapter(matrices: State, folder: Path, **config: Any) -> Path:
    """A folder as peft saves it."""
    folder.mkdir()
    names = {
        f"base_model.model.{name}.weight" if "lora_" in name else f"base_model.model.{name}": tensor
        for name, tensor in matrices.items()
    }
    save_file(names, folder / "adapter_model.safetensors")
    facts = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "init_lora_weights": True} | config
    (folder / "adapter_config.json").write_text(json.dumps(facts))
    return folder


def unmerged(state: State, matrices: State) -> State:
    """A state dict of peft with the matrices next to the weights."""
    layers = {name.partition(".lora_")[0] for name in matrices}
    names = {
        (
            f"{stem}.base_layer.{end}"
            if (stem := name.rpartition(".")[0]) in layers and (end := name.rpartition(".")[2])
            else name
        ): tensor
        for name, tensor in state.items()
    }
    return {f"base_model.model.{name}": tensor for name, tensor in names.items()} | {
        f"base_model.model.{name}.default.weight": tensor for name, tensor in matrices.items()
    }


class TestLora:
    def test_matrices_next_to_the_weights_are_refused_until_they_are_to_be_merged(self, tmp_path: Path) -> None:
        state = network().state_dict()
        matrices, changes = with_lora(state)
        contents = (
            unmerged(state, matrices),
            state | matrices,
            {"state_dict": {f"backbone.{name}": tensor for name, tensor in (state | matrices).items()}},
        )
        for number, content in enumerate(contents):
            with pytest.raises(WeightsRefused, match="4 LoRA tensors that are not merged"):
                registered(content)
            registered(content, f"mine_{number}", merge_lora="2.0")
            assert same(changed(changes, 2.0), f"mine_{number}")
            assert "LoRA of 2 layers is merged with the scale 2" in reading(f"mine_{number}")

    @pytest.mark.parametrize(
        "config, scale",
        [
            ({}, 2.0),
            ({"use_rslora": True}, 6 / 3**0.5),
            ({"lora_alpha": 3}, 1.0),
            ({"init_lora_weights": "gaussian"}, 2.0),
        ],
    )
    def test_an_adapter_is_merged_into_the_network_by_its_configuration(
        self, tmp_path: Path, config: dict[str, Any], scale: float
    ) -> None:
        state = network().state_dict()
        matrices, changes = with_lora(state)
        folder = adapter(matrices, tmp_path / "adapter", **config)
        expected = changed(changes, scale)
        registered(
            {"teacher": {f"backbone.{name}": tensor for name, tensor in state.items()}}, "apart", merge_lora=str(folder)
        )
        registered(unmerged(state, matrices), "in_one", merge_lora=str(folder / "adapter_config.json"))
        names = {f"base_model.model.{name}.weight": tensor for name, tensor in matrices.items()}
        torch.save(names, folder / "adapter_model.bin")  # as peft saved them earlier
        (folder / "adapter_model.safetensors").unlink()
        registered(state, "earlier", merge_lora=str(folder))
        assert same(expected, "earlier")
        assert same(expected, "apart") and same(expected, "in_one")

    def test_patterns_of_layers_count_and_transposed_matrices_too(self, tmp_path: Path) -> None:
        state = network().state_dict()
        matrices, changes = with_lora(state)
        folder = adapter(
            matrices, tmp_path / "patterns", r=8, rank_pattern={"qkv": 3, "mlp.fc1": 3}, alpha_pattern={r"fc\d": 12}
        )
        registered(state, "patterns", merge_lora=str(folder))
        assert same(changed(changes, 2.0, fc1=4.0), "patterns")
        flipped = {
            name.replace("_A", "_C").replace("_B", "_A").replace("_C", "_B"): tensor.T.contiguous()
            for name, tensor in matrices.items()
        }
        folder = adapter(flipped, tmp_path / "flipped", fan_in_fan_out=True)
        registered(state, "flipped", merge_lora=str(folder))
        assert same(changed(changes, 2.0), "flipped")

    def test_matrices_that_training_did_not_reach_are_said(self, tmp_path: Path) -> None:
        state = network().state_dict()
        matrices, changes = with_lora(state)
        name = "blocks.0.attn.qkv"  # peft's matrices of a network that reads this weight and does not call its layer
        matrices[f"{name}.lora_B"] = torch.zeros_like(matrices[f"{name}.lora_B"])
        said = f"the matrices of 1 of 2 layers, such as {name!r}, are 0, so that training did not reach them"
        registered(state, "apart", merge_lora=str(adapter(matrices, tmp_path / "adapter")))
        registered(unmerged(state, matrices), "in_one", merge_lora="2")
        assert said in reading("apart") and said in reading("in_one")
        del changes[f"{name}.weight"]
        assert same(changed(changes, 2.0), "apart") and same(changed(changes, 2.0), "in_one")

    def test_an_adapter_of_a_network_with_batch_norm_is_said_to_lack_its_statistics(self, tmp_path: Path) -> None:
        def said_of(adapter_folder: Path) -> str:
            return merge_lora(state, parse_lora(str(adapter_folder)), what="mine")[1]

        state = dict(resnet18(weights=None).state_dict())
        a, b = torch.ones(3, 64, 3, 3), torch.ones(64, 3, 1, 1)
        matrices = {"layer1.0.conv1.lora_A": a, "layer1.0.conv1.lora_B": b}
        assert "running statistics of batch norm are those of the network's file" in said_of(
            adapter(matrices, tmp_path / "matrices")
        )
        saved_whole = {name: tensor for name, tensor in state.items() if ".bn" in name or ".downsample.1" in name}
        saved_whole |= {name: tensor for name, tensor in state.items() if name.startswith("bn1")}
        assert "running statistics" not in said_of(adapter(matrices | saved_whole, tmp_path / "with_norms"))

    def test_what_was_trained_as_a_whole_replaces_what_was_there(self, tmp_path: Path) -> None:
        net = network()
        state = net.state_dict()
        matrices, changes = with_lora(state)
        whole = {"norm.weight": torch.full((32,), 0.5)}
        registered(state, "apart", merge_lora=str(adapter(matrices | whole, tmp_path / "adapter")))
        saved = unmerged(state, matrices)
        saved["base_model.model.norm.modules_to_save.default.weight"] = whole["norm.weight"]
        saved["base_model.model.norm.modules_to_save.default.bias"] = state["norm.bias"]
        for end in ("weight", "bias"):
            saved[f"base_model.model.norm.original_module.{end}"] = saved.pop(f"base_model.model.norm.{end}")
        registered(saved, "in_one", merge_lora="2")
        with torch.no_grad():
            for name, change in changes.items():
                net.get_parameter(name).add_(2 * change)
            net.norm.weight.fill_(0.5)
        assert same(class_token(net), "apart") and same(class_token(net), "in_one")

    def test_groups_of_loralib_are_queries_keys_and_values_or_the_first_and_the_last(self) -> None:
        state = network().state_dict()
        generator = torch.Generator().manual_seed(4)
        for places in ((0, 1, 2), (0, 2)):
            a = torch.randn(4 * len(places), 32, generator=generator)
            b = torch.randn(32 * len(places), 4, generator=generator)
            change = torch.zeros(96, 32)
            for number, place in enumerate(places):
                change[32 * place : 32 * place + 32] = (
                    b[32 * number : 32 * number + 32] @ a[4 * number : 4 * number + 4]
                )
            content = state | {"blocks.1.attn.qkv.lora_A": a, "blocks.1.attn.qkv.lora_B": b}
            registered(content, f"mine_{len(places)}", merge_lora="0.5")
            assert same(changed({"blocks.1.attn.qkv.weight": change}, 0.5), f"mine_{len(places)}")
        assert "taken as queries and values" in reading("mine_2")

    @pytest.mark.parametrize(
        "config, words",
        [
            ({"use_dora": True}, "use_dora = True"),
            ({"peft_type": "LOHA"}, "LOHA"),
            ({"init_lora_weights": "pissa"}, "pissa"),
            ({"lora_bias": True}, "lora_bias"),
            ({"r": 4}, "of rank 3, but adapter_config.json says 4"),
        ],
    )
    def test_what_is_not_merged_right_is_refused_by_name(
        self, tmp_path: Path, config: dict[str, Any], words: str
    ) -> None:
        state = network().state_dict()
        folder = adapter(with_lora(state)[0], tmp_path / "adapter", **config)
        with pytest.raises(WeightsRefused, match=words):
            registered(state, merge_lora=str(folder))

    @pytest.mark.parametrize(
        "more",
        [
            "blocks.0.mlp.fc1.lora_magnitude_vector.default.weight",
            "blocks.0.mlp.fc1.lora_A.second.weight",
            "blocks.0.mlp.fc1.lora_B.bias",
        ],
    )
    def test_tensors_that_belong_to_lora_and_are_not_merged_are_never_dropped(self, more: str) -> None:
        state = network().state_dict()
        matrices, _ = with_lora(state)
        with pytest.raises(WeightsRefused, match="LoRA of 'mine'"):
            registered(unmerged(state, matrices) | {f"base_model.model.{more}": torch.ones(128)}, merge_lora="2")

    def test_an_adapter_of_another_network_and_a_scale_that_is_none_are_refused(self, tmp_path: Path) -> None:
        state = network().state_dict()
        matrices, _ = with_lora(state)
        renamed = {f"encoder.{name}": tensor for name, tensor in matrices.items()}
        with pytest.raises(WeightsRefused, match="no weights that LoRA matrices"):
            registered(state, merge_lora=str(adapter(renamed, tmp_path / "adapter")))
        with pytest.raises(WeightsRefused, match="no weights that LoRA matrices"):
            registered(state, merge_lora="2")
        for how in ("nan", "twice", "absent/adapter_config.json"):
            with pytest.raises(QueryError, match="to merge LoRA by"):
                registered(state, merge_lora=how)

    def test_another_scale_is_another_encoder(self) -> None:
        state = network().state_dict()
        content = state | with_lora(state)[0]
        registered(content, merge_lora="2")
        assert registered(content, merge_lora="2.0").id == "mine"
        with pytest.raises(QueryError, match="read otherwise"):
            registered(content, merge_lora="1")

    def test_the_command_merges_and_says_so(self) -> None:
        state = network().state_dict()
        torch.save(state | with_lora(state)[0], "own.pth")
        result = run("register", "own.pth", "--like", "tiny", "--id", "mine", "--merge-lora", "0.5")
        assert "LoRA of 2 layers is merged with the scale 0.5" in result.stdout
