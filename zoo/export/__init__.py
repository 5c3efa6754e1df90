"""Encoders as folders for the Hugging Face Hub: weights, facts and a model card, all generated.

    model.safetensors    the converted weights, byte for byte
    config.json          what is needed to build and to use the encoder, and where the weights come from
    README.md            the model card, with the measured results as a model-index

===============  ================================================================================
``folder``       writes the folder, whole or not at all
``earlier``      earlier exports: untouched ones, and those that a crash has left aside
``modelcard``    the model card: its front matter through huggingface_hub, its text
``results``      what was measured, as the model-index and the text need it
``code``         how to load the weights with torchvision or timm alone
``licences``     identifiers of the Hub, and what a licence says about publishing
``addresses``    addresses without what may be somebody's key
===============  ================================================================================
"""

from __future__ import annotations

from .folder import export_to_hub_folder, require_exportable
from .licences import redistribution_note

__all__ = ["export_to_hub_folder", "redistribution_note", "require_exportable"]
