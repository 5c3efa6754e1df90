"""A small valid card file, for tests that break one thing at a time."""

from __future__ import annotations

VALID = """
[defaults]
released = "2021-04"
objective = { name = "dino", mode = "clustering", version = 1, n_negatives = "not applicable", n_classes = 65536, \
stop_gradient = true, ema = true, variant = "not applicable" }
projector = { first_arch = "mlp", second_arch = "mlp", same = true, output_dim = 256, hidden_width = 2048, \
hidden_depth = 2, n_parameters = 23000000 }
preprocess = { resize_px = 256, crop_px = 224, interpolation = "bicubic", \
mean = [0.5, 0.5, 0.5], std = [0.2, 0.2, 0.2] }
licence = { code = "Apache-2.0", weights = "Apache-2.0", published = "Apache License 2.0" }
paper = { title = "A paper", url = "https://arxiv.org/abs/2104.14294" }
reported = { top1_percent = "not published", top1_percent_with_1_percent_labels = "not published", \
top1_percent_with_5_shot = "not published" }
provenance = { url = "https://example.org/models", official = true, industry = false, extracted = false }

[defaults.architecture]
family = "vit"
name = "vits"
exact = "vits16 cls"
patch_size_px = 16
n_parameters = 21665664
backbone = "timm:vit_small_patch16_224"
options = {}

[defaults.representation]
dim = 384
layer = "cls"
order = "not applicable"

[defaults.pretraining]
dataset = "ImageNet-1K"
finetuning_dataset = "not applicable"
views = "2x224+10x96"
augmentations = ["crop", "flip"]
augmentation_invariant = true
epochs = 800
batch_size = 1024
optimizer = "adamw"
learning_rate = 5e-4
weight_decay = 0.04
scheduler = "cosine"
n_processors = "not published"
processor = "not published"
duration_hours = "not published"

[defaults.weights]
availability = "open"
url = "https://example.org/default.pth"
mirrors = []
companions = []
same_file_as = "not applicable"
sha256 = "not published"
size_bytes = "not published"
format = "torch pickle"
converter = "dino"
note = "not applicable"

[encoders.tiny_vitS16]
weights.url = "https://example.org/tiny.pth"

[encoders.tiny_vitS16_twin]
like = "tiny_vitS16"
representation = { dim = 1536, layer = "4xcls", order = "not applicable" }
weights.same_file_as = "tiny_vitS16"

[[encoders.tiny_vitS16_twin.errata]]
field = "representation.dim"
published = 384
reason = "The published metadata repeats the width of one layer."
"""
