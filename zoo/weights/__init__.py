"""Trained weights: fetched, checked, read without running anything, kept by content.

The only package that touches the network, and the only one that reads pickles. No module of it knows an encoder: what
a file must hold is decided by :mod:`zoo.encoders.layouts`, and :mod:`zoo.pretrained` brings the two together.

===============  =====================================================================================================
``environment``  what the user's environment says: offline or not, which folders, which mirror
``places``       what a card's ``weights.url`` names: an address, a file of a Hub repository, an enum of torchvision
``download``     one place -> one checked file: addresses streamed, resumed, retried
``hosts``        which hosts cannot be reached, each asked once per command; ``reach`` asks
``huggingface``  files of Hugging Face repositories, through huggingface_hub
``progress``     how far a download is
``checkpoints``  one file -> tensors in plain containers, whatever wrote it, without executing any of it; ``pickles``
                 reads its pickles, ``pickle_names`` has every name that these may ask for
``tensors``      the converted files: safetensors, written whole and checked at every reading, by their ``sums``
``store``        folders of converted weights and their provenance
``care``         listing, verifying and tidying such folders
``lock``         ``zoo.lock``: hash and size of every file at its first download
``mirror``       a folder or address that holds converted files for machines without a network
===============  =====================================================================================================
"""
